"""The problems that fail a session beside its tests."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Problem:
    """A reason why the session fails. text: one line, with the remedy. items: what the problem is
    about."""

    text: str
    items: tuple[str, ...] = ()


@dataclass
class Gate:
    """The judgement on a session. notes: remarks that do not fail the session, and entries not
    judged."""

    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def fail(self, text: str, items: Iterable[str] = ()) -> None:
        self.problems.append(Problem(text, tuple(items)))

    def note(self, text: str) -> None:
        self.notes.append(text)

    def as_dict(self) -> dict[str, Any]:
        return {"problems": [asdict(p) for p in self.problems], "notes": self.notes}


def shown(items: Iterable[str], limit: int) -> list[str]:
    """Returns the first `limit` items, and the number of the others as a last item."""
    listed = list(items)
    more = len(listed) - limit
    return [*listed[:limit], f"and {more} more"] if more > 0 else listed
