"""Outlines of random graphs: the few choices that shape a graph, and the strategy for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from random import Random
from typing import TypeVar

from hypothesis import strategies as st

T = TypeVar("T")

#: Number of steps of a share. Hypothesis draws uniformly from so few, and never one of the numbers
#: that it collects from the files of the project it runs in.
_STEPS = 60
#: The options of a choice; one that occurs several times is as much more likely.
_RANKS = (None,) * 6 + (4, 2, 3, 1, 0, 5)
_SHARING = ((5, 1, 2),) * 4 + ((0, 0, 0), (8, 3, 6))
_OFFLOADED = (7,) * 6 + (None,) * 2 + (10, 3)
_PATTERNS = (3,) * 3 + (7,)


@dataclass(frozen=True)
class Outline:
    """The choices that shape a random graph; random numbers decide the rest.

    Each choice is a share, a number below 60 that stands for one of the options: the first of them
    for 0, the last for 59.
    size: of the allowed numbers of operators. place: of the positions for the operator or fragment
    that the graph must hold. dtype: of the dtypes of the first value. anchor: of the fragments, for
    the one that the graph must hold. patterns, rank, sharing, host: see the properties."""

    size: int
    place: int
    dtype: int
    anchor: int
    patterns: int
    rank: int
    sharing: int
    host: int

    @property
    def fragments(self) -> int:
        """Returns in how many cases of ten the next step is a whole fragment of a pattern."""
        return at(self.patterns, _PATTERNS)

    @property
    def wanted_rank(self) -> int | None:
        """Returns the rank of new first operands, where the operator accepts it; None: any."""
        return at(self.rank, _RANKS)

    @property
    def recurring(self) -> tuple[int, int, int]:
        """Returns in how many cases of ten an operand is an existing value, a node is repeated with
        other constants, and a weight is an existing constant."""
        return at(self.sharing, _SHARING)

    @property
    def preferred(self) -> int | None:
        """Returns in how many cases of ten an operator is one of the preferred, which the target
        offloads; the host runs most others. None: the preferred and the others alternate."""
        return at(self.host, _OFFLOADED)


def at(share: int, options: Sequence[T]) -> T:
    """Returns the option that a share stands for."""
    return options[share * len(options) // _STEPS]


def drawn(rng: Random) -> Outline:
    """Returns an outline; the one of first options if the generator returns its least numbers."""
    return Outline(*(rng.randrange(_STEPS) for _ in fields(Outline)))


def spread(rng: Random, number: int) -> list[Outline]:
    """Returns that number of outlines, of which each choice takes shares that lie evenly."""
    columns = []
    for _ in fields(Outline):
        shares = [int((k + rng.random()) * _STEPS / number) for k in range(number)]
        rng.shuffle(shares)
        columns.append(shares)
    return [Outline(*shares) for shares in zip(*columns)]


def outlines() -> st.SearchStrategy[Outline]:
    """Returns the strategy of outlines: a draw for each choice. Last options are the simplest, so
    that sizes are large: Hypothesis completes many of its first examples with the simplest choices,
    and does not shrink these graphs."""
    numbers = st.tuples(*[st.integers(0, _STEPS - 1)] * len(fields(Outline)))
    return numbers.map(lambda drawn: Outline(*(_STEPS - 1 - number for number in drawn)))
