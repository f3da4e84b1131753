"""Operands from which an operator makes a result of a given shape."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from ...core.graph import TensorType
from ...operators import OPERATORS
from .alternatives import keeps_shape

#: A shape of the first operand, and the parameters with which the result has the shape asked for.
Inverse = tuple[tuple[int, ...], Mapping[str, Any]]


def is_invertible(operator: str) -> bool:
    """Returns whether `inverses` knows the operator; it may still have no operand for some shape."""
    return operator in _INVERSES or keeps_shape(operator)


def inverses(operator: str, shape: tuple[int, ...]) -> list[Inverse]:
    """Returns operands that an operator makes a result of that shape from, the usual one first.

    Empty if there is none."""
    if operator in _INVERSES:
        found = list(_INVERSES[operator](shape))
        return [one for at, one in enumerate(found) if one not in found[:at]]
    return [(shape, {})] if keeps_shape(operator) else []


def _transpose(shape: tuple[int, ...]) -> Iterator[Inverse]:
    rank = len(shape)
    (parameter,) = OPERATORS["transpose"].parameters
    for options in parameter.values(TensorType(shape, "float32"), {}).values():
        for axes in options:
            order = [a % rank for a in axes] if axes is not None else range(rank)[::-1]
            operand = [0] * rank
            for axis, extent in zip(order, shape):
                operand[axis] = extent
            yield tuple(operand), {"axes": axes}


def _reshape(shape: tuple[int, ...]) -> Iterator[Inverse]:
    """Yields shapes with one axis more, one axis less, or as many."""
    rank = len(shape)
    operands = [(1, *shape)]
    for axis in range(rank)[::-1]:
        a, b = _factors(shape[axis])
        operands += [(*shape[:axis], *pair, *shape[axis + 1 :]) for pair in ((a, b), (b, a))]
    operands += [(*shape[:i], shape[i] * shape[i + 1], *shape[i + 2 :]) for i in range(rank - 1)]
    for operand in (*operands, shape):
        yield operand, {"newshape": shape}


def _factors(extent: int) -> tuple[int, int]:
    """Returns two factors of an extent that are as near to each other as possible."""
    low = next(d for d in range(math.isqrt(extent), 0, -1) if extent % d == 0) if extent else 1
    return low, extent // low


def _expand_dims(shape: tuple[int, ...]) -> Iterator[Inverse]:
    for axis, extent in enumerate(shape):
        if extent == 1 and len(shape) > 1:
            yield shape[:axis] + shape[axis + 1 :], {"axis": axis, "num_newaxis": 1}


def _squeeze(shape: tuple[int, ...]) -> Iterator[Inverse]:
    for axis in range(len(shape) + 1):
        yield (*shape[:axis], 1, *shape[axis:]), {"axis": (axis,)}


def _broadcast_to(shape: tuple[int, ...]) -> Iterator[Inverse]:
    for axis in range(len(shape)):
        yield (*shape[:axis], 1, *shape[axis + 1 :]), {"shape": shape}


_INVERSES = {
    "transpose": _transpose,
    "reshape": _reshape,
    "expand_dims": _expand_dims,
    "squeeze": _squeeze,
    "broadcast_to": _broadcast_to,
}
