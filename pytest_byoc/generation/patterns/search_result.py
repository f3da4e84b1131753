"""The questions that the search for a pattern asks the target, and its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...core.graph import Graph
from .tree import Pattern

#: Returns the names of the composites that partitioning makes of each graph; None where it fails.
Matches = Callable[[Sequence[Graph]], "list[frozenset[str] | None]"]


@dataclass(frozen=True)
class Alone:
    """The match of a pattern in a graph, were it the only pattern of its table.

    matched: True if it matches. structure: True if a part has its structure, whatever its check
    says. progress: how far the check got: the number of its instructions that were executed, and
    more for each condition that held. raised: the exception of the check. arguments: if no part has
    the structure, the numbers of arguments that the graph's calls have, by the operator's name in
    the IR. words: strings and numbers in the check's code, and among the values that it was called
    with.
    """

    matched: bool
    structure: bool = True
    progress: float = 0
    raised: str = ""
    arguments: Mapping[str, Sequence[int]] = field(default_factory=dict)
    words: Sequence[Any] = ()

    @staticmethod
    def of(said: Mapping[str, Any]) -> Alone:
        """Returns the instance for a worker's answer."""
        return Alone(**{name: said[name] for name in said if name != "number"})


#: Returns the match of the pattern alone in each graph; None where it is not known.
AskAlone = Callable[[Pattern, Sequence[Graph]], "list[Alone | None]"]


@dataclass(frozen=True)
class Fragment:
    """A graph that a pattern matches. pattern: the pattern's label. way: its branches there."""

    pattern: str
    way: str
    graph: Graph


@dataclass
class SearchResult:
    """The result of the search for one pattern. fragments: graphs that match, at most one for each
    way. shadowed: graphs that would match were the pattern alone, but that other patterns of the
    table match first. reason: why there is no fragment, in words. raising: if there is no fragment,
    a graph for which the check or partitioning raises. failed: the exception of the search
    itself."""

    pattern: str
    fragments: list[Fragment] = field(default_factory=list)
    shadowed: list[Fragment] = field(default_factory=list)
    reason: str = ""
    raising: Graph | None = None
    failed: Exception | None = None

    @property
    def fate(self) -> str:
        """Returns "matched", "shadowed" or "never"."""
        return "matched" if self.fragments else "shadowed" if self.shadowed else "never"
