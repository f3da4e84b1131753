"""Structures in which values are shared, returned, joined, or pass through operators left to TVM.

A flow is a graph of a few unary and binary operators, views, concatenations, splits, and operators
that the target does not offload. Flows are drawn with fixed seeds, and of those drawn the ones are
kept that show the most: who makes a value, who reads it, in which order and how much later, whether
it is returned (classes 2, 18, 19, 25, 33, 34, 38, 48, 49, 55).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from random import Random

from ...core.graph import Graph, TensorType
from ..builder import Builder
from .vocabulary import (
    AT_HOST,
    BINARY,
    BINARY_1,
    ROLES,
    UNARY,
    UNARY_1,
    UNARY_2,
    Unavailable,
    Vocabulary,
    add,
    fields,
)

_VIEW, _JOIN, _SPLIT = "reshape", "concatenate", "split"
#: For each structure: the kinds of its steps, some more likely than others, and the number of flows.
_FLOWS: dict[str, tuple[tuple[str, ...], int]] = {
    "flows": ((UNARY_1, UNARY_2, BINARY_1, BINARY_1), 10),
    "flows_around_host": ((UNARY_1, BINARY_1, BINARY_1, AT_HOST), 10),
    "flows_of_views": ((UNARY_1, UNARY_2, BINARY_1, _VIEW, _VIEW), 8),
    "flows_of_tuples": ((UNARY_1, BINARY_1, _JOIN, _SPLIT, _SPLIT), 8),
}
#: The number of flows that are drawn for a structure, and the largest number of steps.
_DRAWN, _LONGEST = 300, 7
_Shape = tuple[int, int]
_SHAPE = (4, 6)


@dataclass(frozen=True)
class _Step:
    """A step reads values and makes one, or two if it is a split; values are numbered."""

    kind: str
    operands: tuple[int, ...]
    results: tuple[int, ...]


@dataclass(frozen=True)
class _Flow:
    """Steps in order, the inputs' numbers and shapes, and the values that are returned."""

    steps: tuple[_Step, ...]
    inputs: tuple[tuple[int, _Shape], ...]
    outputs: tuple[int, ...]


def _viewed(shape: _Shape) -> _Shape:
    """Returns another shape with as many elements, twice the rows if possible."""
    rows, columns = shape
    return (columns, rows) if columns % 2 else (2 * rows, columns // 2)


class _Drawing:
    """Draws one flow. Every third operand is the value made last, every tenth a new input."""

    def __init__(self, rng: Random, kinds: tuple[str, ...]) -> None:
        self._rng, self._kinds = rng, kinds
        self._shapes: list[_Shape] = []
        self._inputs: list[tuple[int, _Shape]] = []
        self._steps: list[_Step] = []

    def flow(self) -> _Flow:
        for _ in range(self._rng.randint(2, _LONGEST)):
            self._step(self._rng.choice(self._kinds))
        return _Flow(tuple(self._steps), tuple(self._inputs), self._outputs())

    def _step(self, kind: str) -> None:
        operands = [self._operand(None)]
        rows, columns = shape = self._shapes[operands[0]]
        if kind == _SPLIT and rows % 2:
            kind = UNARY_1
        if kind in (BINARY_1, _JOIN):
            other = self._operand(shape, None if kind == _JOIN else operands[0])
            operands.insert(self._rng.randrange(2), other)
        if kind == _VIEW:
            shape = _viewed(shape)
        elif kind in (_JOIN, _SPLIT):
            shape = (2 * rows if kind == _JOIN else rows // 2, columns)
        results = tuple(self._new(shape) for _ in range(2 if kind == _SPLIT else 1))
        self._steps.append(_Step(kind, tuple(operands), results))

    def _new(self, shape: _Shape) -> int:
        self._shapes.append(shape)
        return len(self._shapes) - 1

    def _operand(self, shape: _Shape | None, other: int | None = None) -> int:
        """Returns a value of that shape (None: of any), but not `other`: a difference of a value and
        itself is zero whatever went wrong before."""
        fitting = [n for n, s in enumerate(self._shapes) if shape in (None, s) and n != other]
        chance = self._rng.random()
        if not fitting or chance < 0.1:
            value = self._new(shape or _SHAPE)
            self._inputs.append((value, shape or _SHAPE))
            return value
        return fitting[-1] if chance < 0.4 else self._rng.choice(fitting)

    def _outputs(self) -> tuple[int, ...]:
        """Returns the values that nothing reads, one of them less now and then, so that there is dead
        code, and often one more, or one twice; in any order."""
        made = [value for step in self._steps for value in step.results]
        read = {value for step in self._steps for value in step.operands}
        outputs = [value for value in made if value not in read]
        chance = self._rng.random()
        if len(outputs) > 1 and chance < 0.2:
            outputs.remove(self._rng.choice(outputs))
        elif chance < 0.5:
            outputs.append(self._rng.choice(made))
        elif chance < 0.6:
            outputs.append(self._inputs[0][0])
        self._rng.shuffle(outputs)
        return tuple(outputs)


def _shown(flow: _Flow) -> Iterator[object]:
    """Yields facts about each value: its maker, its first readers, whether it is returned."""
    makers = {value: step.kind for step in flow.steps for value in step.results}
    uses: dict[int, list[tuple[int, str, int]]] = {}
    for at, step in enumerate(flow.steps):
        for place, value in enumerate(step.operands):
            uses.setdefault(value, []).append((at, step.kind, place))
    for value in {*makers, *uses}:
        maker, readers = makers.get(value, "input"), uses.get(value, [])
        returned = [n for n, output in enumerate(flow.outputs) if output == value]
        # 0 and 1 say whether it is the first output; two outputs may be the same value.
        yield maker, tuple(min(n, 1) for n in returned[:2]), min(len(readers), 3)
        for n, (at, kind, place) in enumerate(readers):
            yield maker, kind, place, bool(returned)
            for later, other, other_place in readers[n + 1:]:
                yield maker, kind, place, other, other_place, min(later - at, 3), bool(returned)
    for step in flow.steps:
        yield step.kind, tuple(makers.get(value, "input") for value in step.operands)
        if step.kind in (_VIEW, _SPLIT):
            # A view that is read longer than the value that it shows keeps the value's memory.
            last = max(at for at, _, _ in uses[step.operands[0]])
            for result in step.results:
                longer = max((at for at, _, _ in uses.get(result, ())), default=last) - last
                yield step.kind, makers.get(step.operands[0]), max(min(longer, 3), 0), result in flow.outputs


@cache
def _covering(name: str) -> tuple[_Flow, ...]:
    """Returns the flows of a structure: again and again the one that shows the most that is new."""
    kinds, number = _FLOWS[name]
    rng = Random(name)
    shown = {flow: set(_shown(flow)) for flow in (_Drawing(rng, kinds).flow() for _ in range(_DRAWN))}
    chosen: list[_Flow] = []
    while len(chosen) < number:
        chosen.append(max(shown, key=lambda flow: len(shown[flow])))
        new = shown[chosen[-1]]
        shown = {flow: facts - new for flow, facts in shown.items()}
    return tuple(chosen)


def _flows(name: str, b: Builder, v: Vocabulary) -> Graph:
    """Returns one graph of the flows for whose roles the target offloads operators. Views, concatenations and
    splits may be left to TVM: a value then leaves a region and comes back in another form."""
    flows, outputs = _covering(name), list[str]()
    for flow in flows:
        if all(v.has(step.kind) if step.kind in ROLES else step.kind in v.tested for step in flow.steps):
            outputs += _add(flow, b, v)
    if not outputs:
        needed = {step.kind for flow in flows for step in flow.steps} & {_VIEW, _JOIN, _SPLIT}
        raise Unavailable(v.lacks(sorted(needed) or (*UNARY, *BINARY)))
    return b.graph(*outputs)


def _add(flow: _Flow, b: Builder, v: Vocabulary) -> list[str]:
    names = {n: b.input(TensorType(shape, "float32"), 0.5, 2.0) for n, shape in flow.inputs}
    for step in flow.steps:
        operands = [names[value] for value in step.operands]
        names.update(zip(step.results, _results(step.kind, operands, b, v)))
    return [names[value] for value in flow.outputs]


def _results(kind: str, operands: list[str], b: Builder, v: Vocabulary) -> tuple[str, ...]:
    x = operands[0]
    if kind == BINARY_1:
        return b.node(v.operator(kind), operands, {})
    if kind == _VIEW:
        rows, columns = b.types[x].shape
        return (b.simple("reshape", x, newshape=_viewed((rows, columns))),)
    if kind == _JOIN:
        return b.node("concatenate", operands, {"axis": 0})
    if kind == _SPLIT:
        return fields(b, x, 2, 0)
    return (b.simple(v.operator(kind), x),)


def register() -> None:
    """Adds the structures of this file."""
    for name in _FLOWS:
        add(name, partial(_flows, name), in_full=True)
