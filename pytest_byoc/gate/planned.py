"""Keeps which cases a session planned and ran, so that nothing is judged by cases that were not
run.

Each test stands for the cases that it examines: by their ids, or, if these are known only when the
test runs, by a prefix of the ids. A prefix ends in an opening bracket; an id does not. """

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ..config.plan import SPEED, speed_case, thorough_case
from .waivers import matches, may_start_with

#: The parameters of the suite's tests; they determine the cases of a test.
PARAMETERS = ("byoc_entry", "byoc_case", "byoc_operator", "byoc_pattern", "byoc_onnx", "structure")
#: The parameter of the tests of whole models, which run alone.
MODEL = "byoc_model"
#: The file of the tests that measure.
SPEED_FILE = "test_speed"
#: The first word of case ids for an operator among others, by the file of the test.
AMONG_OTHERS = {
    "test_random": "random", "test_regions": "region", "test_followed": "followed", "test_forms": "forms",
    SPEED_FILE: SPEED,
}


def case_of(parameter: str, value: Any, file: str = "test_random") -> str:
    """Returns the id of the case that a test examines, or the prefix of the ids of its cases. file:
    the stem of the test's file; it decides where several files have the parameter."""
    if parameter == "byoc_case":
        return str(value.id)
    if parameter == "byoc_entry":
        return str(value.case)
    if parameter == "byoc_operator":
        return f"{AMONG_OTHERS.get(file, 'random')}[{value}]"
    if parameter == "byoc_pattern":
        return speed_case(value) if file == SPEED_FILE else f"{value}["
    if parameter == MODEL:
        return f"model[{value}]"
    if parameter == "structure" and file == "test_thorough":
        return thorough_case(value)
    return str(value)


@dataclass
class Selection:
    """The tests of a session on one target. parameters: the parameters of the suite's collected
    tests. planned: the cases of these tests, selected to run or not. finished: the cases of tests
    that ran to their end. left_out: cases that were not generated because of the command line."""

    parameters: set[str] = field(default_factory=set)
    planned: set[str] = field(default_factory=set)
    finished: set[str] = field(default_factory=set)
    left_out: set[str] = field(default_factory=set)

    def plan(self, parameter: str, values: Iterable[Any], file: str = "test_random") -> None:
        self.parameters.add(parameter)
        self.planned.update(case_of(parameter, v, file) for v in values)

    def leave_out(self, operators: Iterable[str], patterns: Iterable[str]) -> None:
        """Adds the cases of operators and patterns that --byoc-operators leaves out."""
        for operator in operators:
            self.left_out |= {f"{operator}[", *(f"{kind}[{operator}]" for kind in AMONG_OTHERS.values())}
        for pattern in patterns:
            self.left_out |= {f"{pattern}[", speed_case(pattern)}

    def not_run(self) -> NotRun:
        return NotRun(self)

    def as_dict(self) -> dict[str, list[str]]:
        return {name: sorted(value) for name, value in vars(self).items()}

    def merge(self, other: dict[str, list[str]]) -> None:
        """Adds the selection of another process (its `as_dict`)."""
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
        """Returns whether a pattern (or id) may fit one of these cases."""
        path, separator, _ = pattern.partition("::")
        if separator:
            # A vendor's own tests are known only if their file was collected.
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
