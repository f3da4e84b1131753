"""Any two parameters of an operator in any two of their classes together, as many pairs in a graph as fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from ..graph import TensorType
from ..operators.record import Operator
from .single import Made, Unavailable, class_names, one_node, rich


def pairs(op: Operator, dtype: str) -> Iterator[tuple[str, Made]]:
    """Any two parameters in any two of their classes together, as many pairs in a graph as fit."""
    met: set[frozenset[tuple[str, str]]] = set()
    found: list[Made] = []
    several = rich(op)
    names = [p.name for p in op.parameters]
    for i, j in combinations(range(len(names)), 2):
        for a in class_names(op, i, dtype):
            for b in class_names(op, j, dtype):
                if frozenset({(names[i], a), (names[j], b)}) in met:
                    continue
                forced = {names[i]: a, names[j]: b}
                made = (_pair(op, TensorType(s, dtype), forced, met) for s in several)
                graph = next((g for g in made if g is not None), None)
                if graph is not None:
                    found.append(graph)
                    yield f"{names[i]}_{a}-{names[j]}_{b}", graph
    yield from _conditional_pairs(op, dtype, found, met)


def _conditional_pairs(
    op: Operator, dtype: str, found: Sequence[Made], met: set[frozenset[tuple[str, str]]]
) -> Iterator[tuple[str, Made]]:
    """Pairs of classes that exist only with other parameters off their defaults: weights whose layout is that
    of depthwise convolutions, of several results for each channel."""
    usual = {(p.name, label) for i, p in enumerate(op.parameters) for label in class_names(op, i, dtype)}
    labels = {one for made in found for one in made.classes} - usual
    ordered = [(p.name, label) for p in op.parameters for name, label in sorted(labels) if name == p.name]
    for (p, a), (q, b) in combinations(ordered, 2):
        if p == q or frozenset({(p, a), (q, b)}) in met:
            continue
        # As in a graph that has one of the two.
        bases = [dict(made.classes) for made in found if made.classes & {(p, a), (q, b)}]
        made = (
            _pair(op, TensorType(s, dtype), {**base, p: a, q: b}, met) for base in bases for s in rich(op)
        )
        graph = next((g for g in made if g is not None), None)
        if graph is not None:
            yield f"{p}_{a}-{q}_{b}", graph


def _pair(
    op: Operator, x: TensorType, forced: Mapping[str, str], met: set[frozenset[tuple[str, str]]]
) -> Made | None:
    """The graph with the two forced classes, the others chosen to make pairs not met yet."""
    labels: list[tuple[str, str]] = []

    def new(name: str, label: str) -> int:
        return sum(frozenset({(name, label), other}) not in met for other in labels)

    def pick(name: str, classes: Mapping[str, Sequence[Any]]) -> Any:
        if name in forced and forced[name] not in classes:
            raise Unavailable
        label = forced.get(name) or max(classes, key=lambda c: new(name, c))
        labels.append((name, label))
        return classes[label][0]

    graph = one_node(op, x, pick, "weights")
    if graph is not None:
        met.update(frozenset(pair) for pair in combinations(labels, 2))
    return graph
