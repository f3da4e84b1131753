"""The failures of a target as its record lists them: those that fail the session, and excused ones."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ..examination.signature import Signature

#: Number of cases that a failure lists.
CASES = 100


def failure_id(signature: Signature, operators: Iterable[str], traits: Iterable[str] = ()) -> str:
    """Returns a short and stable id, by the signature, the operators of the graph and its
    traits."""
    text = "|".join((signature.text, ",".join(sorted(operators)), ",".join(sorted(traits))))
    return hashlib.sha256(text.encode()).hexdigest()[:10]


@dataclass
class Failure:
    """A failure, listed once however many graphs show it. report.schema.json describes each
    field."""

    id: str
    check: str
    stage: str
    outcome: str
    operators: list[str]
    message: str
    case: str
    graph: str
    command: str
    count: int = 1
    #: Ids of the first CASES cases that showed it; their names tell the classes of the parameters.
    cases: list[str] = field(default_factory=list)
    #: Other checks that the original graph fails and the shrunk graph does not.
    besides: list[str] = field(default_factory=list)
    #: True if the graph does not fail in this way without any one of its operators; False if there
    #: was no time to try that; None if the graph was not shrunk.
    each_needed: bool | None = None
    #: Folder of its bundle, relative to report.json.
    bundle: str = ""
    #: The numbers of the finding, and the shrunk graph as it is drawn (record/failure.py).
    details: dict[str, Any] = field(default_factory=dict)
    shown: dict[str, Any] = field(default_factory=dict)
    #: Texts that the target made of the graph (examination/description.py), and the behaviour of
    #: reproduce.py when it was tried, if it did not show the failure.
    texts: list[dict[str, str]] = field(default_factory=list)
    tried: str = ""
    #: Texts without numbers and names: the message of an exception (`Signature.says`), and the
    #: whole message, which waivers may name.
    says: str = ""
    normalised: str = ""
    #: Differences of the shrunk graph from the simplest case of its operators (`signature.traits`).
    traits: list[str] = field(default_factory=list)
    #: Number of elements of all values of the shrunk graph.
    elements: int = 0
    #: Operators and dtypes of the graphs of one operator that showed it.
    seen_operators: list[str] = field(default_factory=list)
    seen_dtypes: list[str] = field(default_factory=list)

    @property
    def signature(self) -> Signature:
        return Signature(self.check, self.outcome, self.stage, str(self.details.get("kind", "")), self.says)

    @property
    def size(self) -> tuple[int, int, str]:
        """Returns the key that orders the graphs of failures by size."""
        return int(self.shown.get("operators", 0)), self.elements, self.id

    def seen(self, operators: Iterable[str], dtypes: Iterable[str]) -> None:
        """Adds operators and dtypes that showed the failure."""
        self.seen_operators = sorted({*self.seen_operators, *operators})
        self.seen_dtypes = sorted({*self.seen_dtypes, *dtypes})

    @property
    def is_saved(self) -> bool:
        """True if this entry describes the saved graph. One of several processes saves the graph in
        which it met the failure first; the entries of the others name that graph's case."""
        return self.cases[:1] == [self.case]

    def shown_in(self, cases: Iterable[str]) -> None:
        new = (case for case in cases if case and case not in self.cases)
        self.cases = [*self.cases, *new][:CASES]

    def as_dict(self) -> dict[str, Any]:
        return dict(self.__dict__)


@dataclass
class Excused:
    """A failure that does not fail the session, listed once for each check and case.

    kind: "waived" or "known" (from the baseline). A waived failure has the line of its entry in the
    file of waivers, with the entry's reason, issue and expiry date; line 0: --byoc-update-waivers
    has yet to write the entry. count: the number of graphs that showed the failure."""

    kind: str
    case: str
    check: str
    outcome: str
    message: str
    reason: str = ""
    issue: str = ""
    expires: str = ""
    line: int = 0
    count: int = 1
    #: The message without numbers and names.
    normalised: str = ""

    def as_dict(self) -> dict[str, Any]:
        return dict(self.__dict__)
