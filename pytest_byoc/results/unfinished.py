"""What a session has not done: tests that did not begin, and graphs that were taken over."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from ..report.words import counted


@dataclass
class Unfinished:
    """out_of_time: number of tests that did not begin because the time budget was used up. left_out:
    number of tests that did not begin because enough causes were known, by the reason."""

    out_of_time: int = 0
    left_out: Counter[str] = field(default_factory=Counter)

    def why_left_out(self) -> str:
        """Returns the reason why tests did not begin though there was time, with a remedy."""
        number, why = counted(self.left_out.total(), "test"), "; ".join(self.left_out)
        more = "or raise the limit with --byoc-max-causes=N"
        return f"{number} did not begin ({why}); repair some of these, {more}"

    def not_checked(self) -> list[str]:
        """Returns what a report says of the tests for which there was no time."""
        return [f"{self.out_of_time} tests: the time budget was used up"] if self.out_of_time else []


def taken_over(graphs: int) -> list[str]:
    """Returns what a report says of graphs whose passes were taken over from an earlier session."""
    if not graphs:
        return []
    return [
        f"{counted(graphs, 'graph')} beyond partition and codegen: they passed in the session that "
        "--byoc-changed-since names, and the target makes the same code of them now"
    ]
