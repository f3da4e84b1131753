"""What one pattern of a table makes of a graph, were it the only one, and how far its check gets."""

from __future__ import annotations

import os
import re
import sys
from typing import Any, Callable

from ..ir.interface import IR


def alone(ir: IR, module: Any, entry: Any) -> dict[str, Any]:
    """matched: whether the pattern takes something of the module, were it the only one of its table.
    structure: whether something has its structure, whatever its check says. progress: how much of the
    check was executed. words: strings and numbers in what was executed, which it may compare with.
    raised: what the check raised. arguments: how many arguments the calls have, by operator, where no
    structure is met."""
    watched = _Watched()
    raised = ""
    try:
        matched = ir.match_alone(module, entry, watched.check)
    except Exception as e:
        if not watched.called:
            raise
        matched, raised = False, watched.raised or "%s: %s" % (type(e).__name__, e)
    structure = matched or watched.called or ir.match_alone(module, entry, None)
    return {
        "matched": matched, "structure": structure, "progress": watched.progress, "raised": raised,
        "words": watched.words(), "arguments": {} if structure else ir.arguments(module),
    }


_DTYPE = re.compile("(u?int|b?float)[0-9]+$")
#: Where the standard library and packages are: what a check calls there says little.
_INSTALLED = (os.path.dirname(os.__file__), sys.prefix, "<")


def _importing(frame: Any) -> bool:
    """Whether the frame is a module's, or called while a check imports one."""
    while frame is not None and frame.f_code.co_name != "watched":
        if frame.f_code.co_name == "<module>":
            return True
        frame = frame.f_back
    return False


class _Watched:
    """Runs a check and counts the instructions that were executed of it, and of what it calls beside it or
    outside the installation: a graph that gets further into a check is nearer to being taken."""

    def __init__(self) -> None:
        self.called = False
        self.raised = ""
        self._executed: set[tuple[Any, int]] = set()

    @property
    def progress(self) -> int:
        return len(self._executed)

    def words(self) -> list[Any]:
        codes = {code for code, _ in self._executed}
        # numpy.int8 is a name there.
        found: list[Any] = [name for code in codes for name in code.co_names if _DTYPE.match(name)]
        left = [constant for code in codes for constant in code.co_consts]
        while left:
            constant = left.pop()
            if isinstance(constant, (tuple, frozenset)):
                left += constant
            elif isinstance(constant, (float, int)) and not isinstance(constant, bool):
                found.append(constant)
            elif isinstance(constant, str) and " " not in constant:
                # One of several words is a message.
                found.append(constant)
        return found

    def check(self, check: Callable[..., Any]) -> Callable[..., Any]:
        folders: list[str] = []

        def trace(frame: Any, event: str, _: Any) -> Any:
            path = frame.f_code.co_filename
            if not folders:
                folders.append(os.path.dirname(path))
            if os.path.dirname(path) != folders[0] and path.startswith(_INSTALLED):
                return None
            if _importing(frame):
                return None
            frame.f_trace_opcodes = True
            return step

        def step(frame: Any, event: str, _: Any) -> Any:
            # Lines too: Python 3.12 sends no instructions of the first function it is asked to.
            self._executed.add((frame.f_code, frame.f_lasti))
            return step

        def watched(*args: Any) -> Any:
            self.called = True
            before = sys.gettrace()
            sys.settrace(trace)
            try:
                return check(*args)
            except Exception as e:
                self.raised = "%s: %s" % (type(e).__name__, e)
                raise
            finally:
                sys.settrace(before)

        return watched
