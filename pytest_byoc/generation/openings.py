"""Finds the extents of a graph's inputs that may be left open when it is compiled.

The type rules decide: the graph is made again for larger extents of an axis, and for those axes of
other inputs that have to grow with it. Axes that only grow together have one variable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from ..core.graph import Graph
from ..core.openings import OpenExtent, Opening
from ..operators.record import TypeRuleError
from .resizing import Axis, resized

#: The largest number of elements of all values of a graph with larger extents.
MOST = 1 << 18
#: The number of other axes that are tried one by one.
MANY = 16
#: Names of the variables.
VARIABLES = ("n", "m", "k", "l", "p", "q", "r", "s")


@dataclass(frozen=True)
class Growing:
    """Axes that grow together.

    size: their extent in the graph. step: their extent may grow by multiples of it: 1, or `size`
    where an operator divides the axis.
    """

    axes: tuple[Axis, ...]
    size: int
    step: int

    def at_least(self, size: int) -> int:
        """Returns the least possible extent that is not below `size`."""
        return self.size - (self.size - size) // self.step * self.step


def openings(graph: Graph, variables: bool = True) -> list[Opening]:
    """Returns the openings of a graph, the most telling first.

    They are: all axes that can be open together, each with a variable of its own; two variables
    replaced by one, for inputs of unequal lengths (n and n+1) and of equal ones; the second axis of
    the first input, its first and its last one, each alone, with the axes that grow with it.
    variables: whether the IR can express that extents are equal; if not, only the choice of axes
    makes a difference.
    """
    classes = _classes(graph, _can_be_open)
    found = dict[frozenset[object], Opening]()
    for choice in _choices(graph, classes):
        opening = _opening(graph, choice)
        if opening is not None:
            same = opening.extents if variables else [e[:2] for e in opening.extents]
            found.setdefault(frozenset(same), opening)
    return list(found.values())


def growing(graph: Graph) -> list[Growing]:
    """Returns the axes of the inputs that can all grow at the same time, whatever attributes follow."""
    return _together(graph, _classes(graph, _can_grow), _can_grow)


#: Axes that grow together, with the variable of each and what is added to it.
Choice = Sequence[tuple[Growing, str, int]]
#: Decides whether a choice of axes of a graph is possible.
Possible = Callable[[Graph, Choice], bool]


def _choices(graph: Graph, classes: Sequence[Growing]) -> Iterator[Choice]:
    if not classes:
        return
    yield _apart(_together(graph, classes, _can_be_open))
    yield from _shared(classes)
    lead = graph.inputs[0]
    axes = [(lead.name, axis) for axis in (1, 0, lead.type.rank - 1)]
    alone = dict.fromkeys([*(c for axis in axes for c in classes if axis in c.axes), *classes])
    yield from (_apart([one]) for one in list(alone)[:3])


def _apart(classes: Iterable[Growing]) -> Choice:
    return [(one, variable, 0) for one, variable in zip(classes, VARIABLES)]


def _shared(classes: Sequence[Growing]) -> Iterator[Choice]:
    """Yields choices of two classes of different inputs with one variable: of the nearest unequal
    extents, and of equal ones."""
    pairs = [
        sorted(pair, key=lambda one: one.size)
        for pair in combinations(classes, 2)
        if not {name for name, _ in pair[0].axes} & {name for name, _ in pair[1].axes}
        and pair[0].step == pair[1].step == 1
    ]
    distances = {larger.size - smaller.size: (smaller, larger) for smaller, larger in reversed(pairs)}
    unequal = sorted(d for d in distances if d)[:1]
    for smaller, larger in (distances[d] for d in (*unequal, 0) if d in distances):
        yield [(smaller, VARIABLES[0], 0), (larger, VARIABLES[0], larger.size - smaller.size)]


def _together(graph: Graph, classes: Sequence[Growing], possible: Possible) -> list[Growing]:
    """Returns classes that are possible at the same time."""
    if possible(graph, _apart(classes)):
        return list(classes)
    kept: list[Growing] = []
    for one in classes:
        if possible(graph, _apart([*kept, one])):
            kept.append(one)
    return kept


def _classes(graph: Graph, possible: Possible) -> list[Growing]:
    """Returns the axes of inputs that can grow, each with those that have to grow with it.

    There are at most as many as `VARIABLES`.
    """
    sizes = {
        (s.name, axis): size
        for s in graph.inputs if s.data is None
        for axis, size in enumerate(s.type.shape) if size
    }
    found: list[Growing] = []
    for axis, size in sizes.items():
        if len(found) == len(VARIABLES) or any(axis in one.axes for one in found):
            continue
        equal = [other for other in sizes if sizes[other] == size]
        alike = [other for other in equal if other[1] == axis[1]]
        groups = [[axis], *([axis, o] for o in equal[:MANY] if o != axis), equal, alike]
        for axes, step in [(group, step) for step in (1, size) for group in groups]:
            one = Growing(tuple(axes), size, step)
            if possible(graph, _apart([one])):
                found.append(_least(graph, axis, one, possible))
                break
    return found


def _least(graph: Graph, axis: Axis, one: Growing, possible: Possible) -> Growing:
    """Returns the class without the axes that do not have to grow with `axis`."""
    for other in one.axes:
        rest = replace(one, axes=tuple(a for a in one.axes if a != other))
        if other != axis and possible(graph, _apart([rest])):
            one = rest
    return one


def _can_be_open(graph: Graph, choice: Choice) -> bool:
    return _opening(graph, choice) is not None


def _can_grow(graph: Graph, choice: Choice) -> bool:
    """Returns whether the type rules accept larger extents: two, since extents may be equal by chance."""
    try:
        larger = [resized(graph, _extents(choice, times), by_value=True) for times in (1, 2)]
    except TypeRuleError:
        return False
    return all(other.elements <= MOST for other in larger)


def _opening(graph: Graph, choice: Choice) -> Opening | None:
    """Returns the opening for a choice of axes; None if the type rules reject larger extents.

    Two sizes are tried, since extents may be equal by chance.
    """
    try:
        larger = resized(graph, _extents(choice, 1))
        opened = _with_attrs(graph, larger)
        if resized(opened, {}).nodes != opened.nodes or larger.elements > MOST:
            return None
        if _with_attrs(graph, resized(opened, _extents(choice, 2))).nodes != opened.nodes:
            return None
    except TypeRuleError:
        return None
    extents = [OpenExtent(*axis, variable, plus) for one, variable, plus in choice for axis in one.axes]
    return Opening(tuple(extents), opened, larger)


def _with_attrs(graph: Graph, other: Graph) -> Graph:
    """Returns the graph with the attributes of another one that has the same nodes."""
    nodes = tuple(replace(own, attrs=its.attrs) for own, its in zip(graph.nodes, other.nodes))
    return replace(graph, nodes=nodes)


def _extents(choice: Choice, times: int) -> dict[Axis, int]:
    """Returns extents more than `times` times as large as the graph's, different for each variable."""
    values: dict[str, int] = {}
    for one, variable, plus in choice:
        size = one.at_least((times + 1) * one.size + times)
        while variable not in values and size - plus in values.values():
            size = one.at_least(size + 1)
        values.setdefault(variable, size - plus)
    return {axis: values[variable] + plus for one, variable, plus in choice for axis in one.axes}
