"""Checks two declarations of a target: `prepare` and `without_checks` (see `core/target.py`).

The worker reads them (`resolve.py`), as it does `declared_precision.py`'s.
"""

from __future__ import annotations

import difflib
from typing import Any, Mapping

from ..checks import CHECKS

#: The checks that can't be switched off: of crashes, hangs and exceptions (`process`), of what is
#: offloaded, of the results with and without the target's code, and of the exported artifact.
BASIC = ("process", *(check.id for check in CHECKS if check.basic))


class ProcedureError(ValueError):
    """Raised for an invalid declaration; the message says what is valid."""


def preparation(given: Any) -> dict[str, Any] | str | None:
    """Returns the declared call before the first run, checked. Raises ProcedureError."""
    if given is None or (isinstance(given, str) and ":" in given):
        return given
    if isinstance(given, Mapping) and isinstance(given.get("function"), str):
        arguments = given.get("arguments", [])
        plain = isinstance(arguments, (list, tuple)) and all(
            isinstance(a, (bool, int, float, str)) for a in arguments
        )
        if plain and set(given) <= {"function", "arguments"}:
            return {"function": given["function"], "arguments": list(arguments)}
    hint = "; a method cannot be used: the process that loads the artifact does not import the target"
    raise ProcedureError(
        'prepare must be { function = "name", arguments = [numbers and strings] }, a function of the loaded '
        'module, or "module:attribute", a function that is given the executor; found %r%s'
        % (given, hint if callable(given) else "")
    )


def reasons(given: Any) -> dict[str, str]:
    """Returns the checks that are switched off, each with its reason. Raises ProcedureError."""
    if given is not None and not isinstance(given, Mapping):
        raise ProcedureError(
            "without_checks must give a reason for each check, as in "
            '{ views = "the driver copies its inputs" }; found %r' % (given,)
        )
    ids = [check.id for check in CHECKS]
    checked = {}
    for check, reason in (given or {}).items():
        if check in BASIC:
            raise ProcedureError(
                "without_checks contains %r, on which every verdict rests; waive known failures instead "
                "(--byoc-waivers)" % check
            )
        if check not in ids:
            near = difflib.get_close_matches(str(check), ids, 3)
            meant = " (%s?)" % " or ".join(near) if near else "; known are %s" % ", ".join(ids)
            raise ProcedureError("without_checks contains %r, which is not a check%s" % (check, meant))
        if not isinstance(reason, str) or not reason.strip():
            raise ProcedureError(
                "without_checks must give a reason for %r, which reports repeat; found %r" % (check, reason)
            )
        checked[check] = " ".join(reason.split())
    return checked
