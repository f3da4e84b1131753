"""Tries one pattern of a table alone on a graph, and measures how far its check gets."""

from __future__ import annotations

import os
import re
import sys
from typing import Any, Callable

from ..ir.interface import IR


def alone(ir: IR, module: Any, entry: Any) -> dict[str, Any]:
    """Returns the result of matching one entry of a pattern table alone in a module, as a dict.

    matched: whether the pattern and its check match in the module. structure: whether the pattern
    matches without its check. progress: the number of different instructions of the check that were
    executed, more for each condition that was seen to hold, and a fraction for repetitions.
    words: strings and numbers in the executed code, in its order, and those that it was called with,
    with which the check may compare.
    raised: the exception of the check as text. arguments: the numbers of arguments of the module's
    calls by operator, where the structure does not match.
    """
    tracer = _Tracer()
    raised = ""
    try:
        matched = ir.match_alone(module, entry, tracer.check)
    except Exception as e:
        if not tracer.called:
            raise
        matched, raised = False, tracer.raised or "%s: %s" % (type(e).__name__, e)
    structure = matched or tracer.called or ir.match_alone(module, entry, None)
    return {
        "matched": matched, "structure": structure, "progress": tracer.progress, "raised": raised,
        "words": tracer.words(), "arguments": {} if structure else ir.arguments(module),
    }


_DTYPE = re.compile("(u?int|b?float)[0-9]+$")
#: The types of values that are noted, and the number of items that are read of a collection.
_PLAIN, _MANY = (int, float, str, tuple, list, set, frozenset, dict), 100
#: The instructions that one condition that holds counts for. A check that gathers all its conditions
#: executes the same instructions whatever holds.
_HELD = 3
#: The beginnings of paths of the standard library and of packages, whose code is not counted.
_INSTALLED = (os.path.dirname(os.__file__), sys.prefix, "<")


def _importing(frame: Any) -> bool:
    """Returns whether a frame runs a module's top-level code, or is called by such code."""
    while frame is not None and frame.f_code.co_name != "traced":
        if frame.f_code.co_name == "<module>":
            return True
        frame = frame.f_back
    return False


def _holds(value: Any) -> bool:
    """Returns whether a value is True, in Python or in NumPy."""
    return type(value).__name__ in ("bool", "bool_") and bool(value)


class _Tracer:
    """A tracer of a pattern's check that records which instructions are executed, and which
    conditions hold.

    It counts code in the check's own folder, and code outside of the installation. The more
    instructions a graph reaches, and the more conditions hold, the closer it is to a match.
    """

    def __init__(self) -> None:
        self.called = False
        self.raised = ""
        #: Instructions, as keys in the order of their execution.
        self._executed: dict[tuple[Any, int], None] = {}
        #: Conditions that hold: calls that returned True, and local values that are True.
        self._held: set[tuple[Any, Any, int]] = set()
        self._steps = 0
        self._known: list[Any] = []

    @property
    def progress(self) -> float:
        """The number of different instructions, and `_HELD` for each condition that holds; a fraction
        of one grows with the repetitions of instructions."""
        return len(self._executed) + _HELD * len(self._held) + self._steps / (self._steps + 1000.0)

    def words(self) -> list[Any]:
        """Returns the numbers and words in the code that was executed: its constants in the order of
        the code, and the values that it got as arguments, by default, from enclosing functions and
        from its module."""
        codes = list(dict.fromkeys(code for code, _ in self._executed))
        # A dtype may be written as an attribute, such as numpy.int8, which is a name in the code.
        words: list[Any] = [name for code in codes for name in code.co_names if _DTYPE.match(name)]
        left = [constant for code in codes for constant in code.co_consts] + self._known
        # A collection may contain itself.
        read: set[int] = set()
        # Items of collections are appended, and read behind all others.
        for value in left:
            if isinstance(value, (tuple, list, set, frozenset, dict)):
                if id(value) in read:
                    continue
                read.add(id(value))
            if isinstance(value, (tuple, list, set, frozenset)):
                left += list(value)[:_MANY]
            elif isinstance(value, dict):
                left += list(value.values())[:_MANY]
            elif isinstance(value, (float, int)) and not isinstance(value, bool):
                words.append(value)
            elif isinstance(value, str) and " " not in value:
                # A string of several words is assumed to be a message, and is left out.
                words.append(value)
        return list(dict.fromkeys(words))

    def _note(self, frame: Any) -> None:
        """Notes the values that a function has when it is called."""
        names = frame.f_code.co_names
        values = [*frame.f_locals.values(), *(frame.f_globals[n] for n in names if n in frame.f_globals)]
        self._known += [v for v in values if isinstance(v, _PLAIN)]

    def _conclude(self, frame: Any, result: Any) -> None:
        """Notes the conditions that hold when a function returns."""
        if _holds(result) and frame.f_back is not None:
            self._held.add((frame.f_back.f_code, None, frame.f_back.f_lasti))
        for name, value in frame.f_locals.items():
            values = value[:_MANY] if type(value) in (list, tuple) else (value,)
            self._held.update((frame.f_code, name, i) for i, each in enumerate(values) if _holds(each))

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
            self._note(frame)
            return step

        def step(frame: Any, event: str, value: Any) -> Any:
            if event == "return":
                self._conclude(frame, value)
            # Line events count too: Python 3.12 sends no opcode events for the first traced
            # function.
            self._executed[frame.f_code, frame.f_lasti] = None
            self._steps += 1
            return step

        def traced(*args: Any) -> Any:
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

        return traced
