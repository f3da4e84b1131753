"""Combines the classes of any two parameters of an operator, with many pairs in each graph; for
operators with a window also the classes of any three."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Any

from ..core.graph import TensorType
from ..operators.record import Operator
from .single import NoSuchClass, OneNodeGraph, class_names, one_node, rich, with_class

#: Parameters that act in one loop: together they determine which elements of a window are padding.
_WINDOW = frozenset(("strides", "padding", "dilation"))
#: Ending of the labels of `alone`.
ALONE = "alone"
#: The largest number of graphs for three parameters; that is nearly all, except for quantised
#: convolutions.
_MOST = 64
#: Sets of (parameter, class) that occurred together in a graph.
Met = set[frozenset[tuple[str, str]]]


def pairs(op: Operator, dtype: str) -> Iterator[tuple[str, OneNodeGraph]]:
    """Yields (label, graph) until any two classes of any two parameters occur together; each graph
    holds as many new pairs as fit."""
    met: Met = set()
    yielded: list[OneNodeGraph] = []
    several = rich(op)
    names = [p.name for p in op.parameters]
    classes = [class_names(op, i, dtype) for i in range(len(names))]
    for i, j in combinations(range(len(names)), 2):
        for a in classes[i]:
            for b in classes[j]:
                if frozenset({(names[i], a), (names[j], b)}) in met:
                    continue
                forced = {names[i]: a, names[j]: b}
                attempts = (_with_classes(op, TensorType(s, dtype), forced, met) for s in several)
                graph = next((g for g in attempts if g is not None), None)
                if graph is not None:
                    yielded.append(graph)
                    yield f"{names[i]}_{a}-{names[j]}_{b}", graph
    yield from _conditional_pairs(op, dtype, yielded, met)


def alone(op: Operator, dtype: str) -> Iterator[tuple[str, OneNodeGraph]]:
    """Yields (label, graph) for each two parameters of a window, both off their defaults and
    everything else at its default; only for operators with a window.

    The graphs of `pairs` hold as much as fits, and so the forms that a target does not take.
    """
    names = [p.name for p in op.parameters]
    if not set(names) >= _WINDOW:
        return
    window = [(i, name) for i, name in enumerate(names) if name in _WINDOW or name == "output_padding"]
    ways = [(name, label) for i, name in window for label in class_names(op, i, dtype)[1:2]]
    for (p, a), (q, b) in combinations(ways, 2):
        graph = with_class(op, dtype, rich(op), {p: a, q: b})
        if graph is not None:
            yield f"{p}_{a}-{q}_{b}-{ALONE}", graph


def threes(op: Operator, dtype: str, known: Iterable[OneNodeGraph]) -> Iterator[tuple[str, OneNodeGraph]]:
    """Yields (label, graph) for three classes of three parameters that occur together in none of
    the known graphs; only for operators with a window, at most _MOST."""
    if not {p.name for p in op.parameters} >= _WINDOW:
        return
    met: Met = {frozenset(three) for made in known for three in combinations(made.classes, 3)}
    labelled = [
        [(p.name, label) for label in class_names(op, i, dtype)] for i, p in enumerate(op.parameters)
    ]
    several, count = rich(op), 0
    first = sorted(combinations(labelled, 3), key=lambda some: -sum(one[0][0] in _WINDOW for one in some))
    for three in (three for some in first for three in product(*some)):
        if frozenset(three) in met or count == _MOST:
            continue
        made = (_with_classes(op, TensorType(s, dtype), dict(three), met, 3) for s in several)
        graph = next((g for g in made if g is not None), None)
        if graph is not None:
            count += 1
            yield "-".join(f"{name}_{label}" for name, label in three), graph


def _conditional_pairs(
    op: Operator, dtype: str, found: Sequence[OneNodeGraph], met: Met
) -> Iterator[tuple[str, OneNodeGraph]]:
    """Yields pairs of classes that exist only if other parameters are off their defaults: for
    example the weight layout of depthwise convolutions with several results for each channel."""
    usual = {(p.name, label) for i, p in enumerate(op.parameters) for label in class_names(op, i, dtype)}
    labels = {one for made in found for one in made.classes} - usual
    ordered = [(p.name, label) for p in op.parameters for name, label in sorted(labels) if name == p.name]
    for (p, a), (q, b) in combinations(ordered, 2):
        if p == q or frozenset({(p, a), (q, b)}) in met:
            continue
        # The other parameters are as in a graph that has one of the two classes.
        bases = [dict(made.classes) for made in found if made.classes & {(p, a), (q, b)}]
        made = (
            _with_classes(op, TensorType(s, dtype), {**base, p: a, q: b}, met)
            for base in bases for s in rich(op)
        )
        graph = next((g for g in made if g is not None), None)
        if graph is not None:
            yield f"{p}_{a}-{q}_{b}", graph


def _with_classes(
    op: Operator, x: TensorType, forced: Mapping[str, str], met: Met, together: int = 2
) -> OneNodeGraph | None:
    """Returns the graph with the forced classes; the others are selected so that they form as many
    new sets of `together` classes as possible. None if there is no such graph."""
    labels: list[tuple[str, str]] = []

    def new(name: str, label: str) -> int:
        return sum(frozenset({(name, label), *o}) not in met for o in combinations(labels, together - 1))

    def pick(name: str, classes: Mapping[str, Sequence[Any]]) -> Any:
        if name in forced and forced[name] not in classes:
            raise NoSuchClass
        label = forced.get(name) or max(classes, key=lambda c: new(name, c))
        labels.append((name, label))
        return classes[label][0]

    graph = one_node(op, x, pick, "weights")
    if graph is not None:
        met.update(frozenset(some) for some in combinations(labels, together))
    return graph
