"""Plans of random graphs, as the suite's test of random graphs has them for its examples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from hypothesis import strategies as st

from ..core.graph import Graph
from .outlines import Outline, outlines, spread
from .random_graphs import grown

#: The length of a seed in bytes. Hypothesis has no favourite values of this length.
_SEED = 7


@dataclass(frozen=True)
class Plan:
    """The outlines of a few graphs that are examined in one module, and a seed for all else.

    The seed's numbers depend on every outline. So another plan means other graphs throughout, even
    if Hypothesis has changed a single choice: known graphs would leave little to examine together."""

    outlines: tuple[Outline, ...]
    seed: bytes

    def graphs(self, variants: int = 1, parts: Sequence[Graph] = (), **options: Any) -> list[list[Graph]]:
        """Returns the variants of each graph, made by `grown(**options)`: graphs with one outline
        and other random numbers.

        parts: fragments of which each graph holds one, the first graph the first."""
        start, found = str(self), []
        for number, outline in enumerate(self.outlines):
            part = parts[number % len(parts)] if parts else None
            made = (Random(f"{start} {number} {variant}") for variant in range(variants))
            found.append([grown(rng, outline=outline, fragment=part, **options) for rng in made])
        return found


def fixed(start: str, number: int, at_once: int) -> list[Plan]:
    """Returns plans with that number of graphs in all, of which one plan has `at_once`. They depend
    on the arguments alone: not on the version of Hypothesis either."""
    rng = Random(start)
    every = spread(rng, number)
    parts = [tuple(every[first : first + at_once]) for first in range(0, number, at_once)]
    return [Plan(part, rng.randbytes(_SEED)) for part in parts]


def plans(at_once: int) -> st.SearchStrategy[Plan]:
    """Returns the strategy of plans of `at_once` graphs."""
    return st.builds(
        Plan, st.tuples(*[outlines()] * at_once), st.binary(min_size=_SEED, max_size=_SEED)
    )
