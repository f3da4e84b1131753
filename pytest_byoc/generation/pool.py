"""Pools of operators to draw from: which of them accept a value, and how likely each one is."""

from __future__ import annotations

import math
import random
import zlib
from bisect import bisect
from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import accumulate

from ..core.graph import TensorType
from ..operators import OPERATORS, within
from ..operators.measured import dtypes as runnable
from ..operators.record import Operator
from .builder import first

#: Lengths with which shapes are varied: one, odd ones, powers of two and their neighbours.
_LENGTHS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17)
_MAX_ELEMENTS = 600
_VARIATIONS = 40
_STEP = 64
#: The least weight of an operator; without it elementwise operators would be rare.
_LEAST = 60
#: The number of types for which the operators that accept them are remembered.
_REMEMBERED = 10_000


class Choices:
    """Operators with weights, from which one is drawn at a time."""

    def __init__(self, records: Sequence[Operator], ir: str | None) -> None:
        self.records = list(records)
        self._ends = list(accumulate(weight(r.name, ir) for r in records))
        self.total = self._ends[-1] if self._ends else 0

    def pick(self, rng: random.Random) -> Operator:
        # The number is drawn in two steps, because Hypothesis is not uniform over more than some
        # hundred numbers.
        number = rng.randrange(self.total // _STEP + 1) * _STEP + rng.randrange(_STEP)
        return self.records[bisect(self._ends, number % self.total)]


class Pool:
    """Operators by name, as an IR has them (None: any IR), grouped by the types they accept."""

    def __init__(self, names: Sequence[str], ir: str | None) -> None:
        self.ir = ir
        self.every = Choices([within(name, ir) for name in names], ir)
        #: Operators that TVM's own build runs, by the dtype of their first operand.
        self._running: dict[str, list[Operator]] = {}
        for record in self.every.records:
            for dtype in runnable(record, ir):
                self._running.setdefault(dtype, []).append(record)
        self._takers: dict[TensorType, Choices] = {}
        self._choices: dict[tuple[str, ...], Choices] = {}

    def takers(self, x: TensorType) -> Choices:
        """Returns the operators that accept a first operand of that type."""
        if x not in self._takers:
            if len(self._takers) > _REMEMBERED:
                self._takers.clear()
            taking = [r for r in self._running.get(x.dtype, ()) if r.accepts(x)]
            # The same operators often accept different types, which then share the choices.
            names = tuple(r.name for r in taking)
            if names not in self._choices:
                self._choices[names] = Choices(taking, self.ir)
            self._takers[x] = self._choices[names]
        return self._takers[x]


@lru_cache(maxsize=256)
def pool(names: tuple[str, ...], ir: str | None) -> Pool:
    return Pool(names, ir)


def takes(op: Operator, x: TensorType, ir: str | None) -> bool:
    """Returns whether the operator accepts a first operand of the type and TVM's build runs it."""
    return x.dtype in runnable(op, ir) and op.accepts(x)


@cache
def weight(name: str, ir: str | None) -> int:
    """Returns how likely an operator is drawn, relative to others: at least _LEAST, or 1 if TVM's
    own build runs it in no dtype.

    Operators with many dtypes and parameter classes, and operators that accept few types, are drawn
    more often, so that each operator and each class appears early. `benchmarks/diversity.py` showed
    the square root to be best: without it a few operators fill the graphs."""
    op = within(name, ir)
    dtypes = runnable(op, ir)
    if not dtypes:
        return 1
    x = TensorType(op.shapes[0], dtypes[0])
    chosen: dict[str, object] = {}
    classes = 1
    for parameter in op.parameters:
        values = parameter.values(x, chosen)
        chosen[parameter.name] = first(parameter.name, values)
        classes += len(values) - 1
    share = sum(takes(op, t, ir) for t in _common_types()) / len(_common_types())
    return max(_LEAST, round(10 * math.sqrt(len(dtypes) * classes / share)))


@cache
def _common_types() -> list[TensorType]:
    return [TensorType(s, d) for op in OPERATORS.values() for s in op.shapes[:2] for d in op.dtypes]


@cache
def shapes(name: str, dtype: str, ir: str | None) -> tuple[tuple[int, ...], ...]:
    """Returns shapes of a first operand: the record's, and some with other lengths and ranks."""
    op = within(name, ir)
    result = dict.fromkeys(s for s in op.shapes if op.takes(TensorType(s, dtype)))
    draw = random.Random(zlib.crc32(name.encode()))
    for _ in range(_VARIATIONS):
        shape = [d if draw.random() < 0.5 else draw.choice(_LENGTHS) for d in draw.choice(op.shapes)]
        drawn = draw.random()
        if drawn < 0.2 and shape:
            shape.pop(draw.randrange(len(shape)))
        elif drawn < 0.4 and len(shape) < 6:
            shape.insert(draw.randrange(len(shape) + 1), draw.choice(_LENGTHS[:4]))
        x = TensorType(tuple(shape), dtype)
        if x.size <= _MAX_ELEMENTS and op.takes(x):
            result[x.shape] = None
    return tuple(result)
