"""Makes graphs that a pattern matches, each with the choices that led to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...core.graph import Graph
from .alternatives import NoInstance
from .draws import Draws
from .pattern_graph import NoFit, PatternGraph
from .tree import Pattern, Way

#: Attempts at a whole graph: the operator drawn for one call may leave none that fits a later call.
_ATTEMPTS = 12


@dataclass(frozen=True)
class Instance:
    """A graph and the choices that led to it, some of which may be changed to make another one.

    draws: the choices by name, each with the numbers that together lead to all that can be chosen
    (`Draws.points`). numbers: those that were drawn, from 0 to 1, by name of the choice. changed: those
    that replaced drawn ones. words: values of attributes and dtypes that were preferred."""

    way: Way
    seed: int
    attempt: int
    changed: Mapping[str, float]
    graph: Graph
    draws: Mapping[str, Sequence[float]]
    numbers: Mapping[str, float]
    words: Sequence[Any] = ()


def instance(
    pattern: Pattern, way: Way, ir: str, seed: int, words: Sequence[Any] = ()
) -> Instance:
    """Returns one graph. With seed 0 every choice is the default if that gives a graph; with other
    seeds the choices are drawn. words: values of attributes and dtypes that are more likely. Raises
    NoInstance.
    """
    for attempt in range(_ATTEMPTS):
        try:
            return varied(pattern, way, ir, seed, attempt, {}, words)
        except NoFit as e:
            why = e
    raise NoInstance(str(why))


def varied(
    pattern: Pattern, way: Way, ir: str, seed: int, attempt: int, changed: Mapping[str, float],
    words: Sequence[Any],
) -> Instance:
    """Returns the graph that `instance` makes of this seed at this attempt, with some choices
    changed. Raises NoInstance."""
    draws = Draws(f"{pattern.label} {sorted(way.items())} {seed} {attempt}", changed)
    plain = seed == 0 and attempt == 0 and not changed
    graph = PatternGraph(pattern, way, ir, seed, plain, draws, words).graph()
    points = {name: draws.points[name] for name in draws.used}
    numbers = {name: draws.numbers[name] for name in draws.used}
    return Instance(way, seed, attempt, changed, graph, points, numbers, words)
