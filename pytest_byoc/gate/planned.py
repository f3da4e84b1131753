"""What of the suite a session ran: nothing is judged by what was not run.

Each test stands for the cases it examines: their ids, or, where they are known only once it runs, what
their ids start with (such texts end in an opening bracket, which no id does).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ..config.plan import thorough_case
from .waivers import matches, may_start_with

#: The parameters of the suite's tests, by which their cases are told.
PARAMETERS = ("byoc_entry", "byoc_case", "byoc_operator", "byoc_pattern", "byoc_onnx", "structure")
#: What the ids of cases of an operator among others begin with, by the file of the test.
AMONG_OTHERS = {
    "test_random": "random", "test_regions": "region", "test_followed": "followed", "test_forms": "forms",
}


def case_of(parameter: str, value: Any, file: str = "test_random") -> str:
    """The id of the case a test examines, or what the ids of its cases start with. file: the stem of the
    test's file, where several have the parameter."""
    if parameter == "byoc_case":
        return str(value.id)
    if parameter == "byoc_entry":
        return str(value.case)
    if parameter == "byoc_operator":
        return f"{AMONG_OTHERS.get(file, 'random')}[{value}]"
    if parameter == "byoc_pattern":
        return f"{value}["
    if parameter == "structure" and file == "test_thorough":
        return thorough_case(value)
    return str(value)


@dataclass
class Selection:
    """Of one target. parameters: those of the suite's tests that were collected. planned: the cases of
    those tests, whether or not they were selected to run. finished: the cases of tests that ran to their
    end. left_out: cases that the command line kept from being generated."""

    parameters: set[str] = field(default_factory=set)
    planned: set[str] = field(default_factory=set)
    finished: set[str] = field(default_factory=set)
    left_out: set[str] = field(default_factory=set)

    def plan(self, parameter: str, values: Iterable[Any], file: str = "test_random") -> None:
        self.parameters.add(parameter)
        self.planned.update(case_of(parameter, v, file) for v in values)

    def leave_out(self, operators: Iterable[str], patterns: Iterable[str]) -> None:
        """What --byoc-operators kept from being generated."""
        for operator in operators:
            self.left_out |= {f"{operator}[", *(f"{kind}[{operator}]" for kind in AMONG_OTHERS.values())}
        self.left_out |= {f"{pattern}[" for pattern in patterns}

    def not_run(self) -> NotRun:
        return NotRun(self)

    def as_dict(self) -> dict[str, list[str]]:
        return {name: sorted(value) for name, value in vars(self).items()}

    def merge(self, other: dict[str, list[str]]) -> None:
        """Adds what another process saw (its `as_dict`)."""
        for name, values in other.items():
            getattr(self, name).update(values)


class NotRun:
    """The cases that were not run, as far as they are known."""

    def __init__(self, selection: Selection) -> None:
        self._whole_suite = selection.parameters.issuperset(PARAMETERS)
        self._own = [c for c in selection.planned if "::" in c]
        pending = (selection.planned - selection.finished) | selection.left_out
        self._prefixes = tuple(c for c in pending if c.endswith("["))
        self._ids = pending.difference(self._prefixes)

    def may_hold(self, pattern: str) -> bool:
        """Whether a case that a pattern (or id) fits may be among them."""
        path, separator, _ = pattern.partition("::")
        if separator:
            # Tests of the vendor's own: of those, only what was collected is known.
            if not any(matches(f"{path}::*", c) for c in self._own):
                return True
        elif not self._whole_suite:
            return True
        if pattern in self._ids or pattern.startswith(self._prefixes):
            return True
        if not set("*?") & set(pattern):
            return False
        return any(matches(pattern, c) for c in self._ids) or any(
            may_start_with(pattern, p) for p in self._prefixes
        )
