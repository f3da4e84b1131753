"""What a target may declare of how it is put to work: a call before its first run, checks that are not made.

Read and checked in the worker, by `target.py`, as `precision.py` is.
"""

from __future__ import annotations

import difflib
from typing import Any, Mapping

from ..checks import CHECKS

#: Checks that can't be switched off: what is offloaded, whether it and what partitioning leaves is right,
#: whether it can be deployed. `process` stands for crashes, hangs and exceptions.
BASIC = ("process", "offload", "numerics", "roundtrip", "inline-back")


class ProcedureError(ValueError):
    """Raised for a declaration that can't be used; the message says what would be."""


def preparation(given: Any) -> dict[str, Any] | str | None:
    """The call that is declared to be made before the first run. Raises ProcedureError."""
    if given is None or (isinstance(given, str) and ":" in given):
        return given
    if isinstance(given, Mapping) and isinstance(given.get("function"), str):
        arguments = given.get("arguments", [])
        plain = isinstance(arguments, (list, tuple)) and all(
            isinstance(a, (bool, int, float, str)) for a in arguments
        )
        if plain and set(given) <= {"function", "arguments"}:
            return {"function": given["function"], "arguments": list(arguments)}
    hint = "; a method won't do: the process that loads what was built does not import the target"
    raise ProcedureError(
        'prepare must be { function = "name", arguments = [numbers and strings] }, a function of the loaded '
        'module, or "module:attribute", a function that is given the executor; found %r%s'
        % (given, hint if callable(given) else "")
    )


def reasons(given: Any) -> dict[str, str]:
    """Checks that are switched off, each with the reason. Raises ProcedureError."""
    if given is not None and not isinstance(given, Mapping):
        raise ProcedureError(
            "without_checks must give a reason for each check, as in "
            '{ views = "the driver copies its inputs" }; found %r' % (given,)
        )
    ids = [check.id for check in CHECKS]
    found = {}
    for check, reason in (given or {}).items():
        if check in BASIC:
            raise ProcedureError(
                "without_checks holds %r, on which every verdict rests; what is known to fail can be waived "
                "(--byoc-waivers)" % check
            )
        if check not in ids:
            near = difflib.get_close_matches(str(check), ids, 3)
            meant = " (%s?)" % " or ".join(near) if near else "; known are %s" % ", ".join(ids)
            raise ProcedureError("without_checks holds %r, which is no check%s" % (check, meant))
        if not isinstance(reason, str) or not reason.strip():
            raise ProcedureError(
                "without_checks must give a reason for %r, which reports repeat; found %r" % (check, reason)
            )
        found[check] = " ".join(reason.split())
    return found
