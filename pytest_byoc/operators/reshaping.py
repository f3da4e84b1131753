"""Type rule and parameters of reshape, with the special values of Relay's `newshape`."""

from __future__ import annotations

import math
from typing import Any, Iterator, Sequence, Tuple

from ..core.graph import TensorType
from .record import Attrs, Classes, TypeRuleError


def reshaped(shape: Sequence[int], newshape: Sequence[int]) -> tuple[int, ...]:
    """Returns the shape that Relay's `newshape` describes; raises TypeRuleError if it does not fit.

    0 copies a dimension, -1 is inferred, -2 copies all remaining dimensions, -3 joins the next two,
    -4 splits the next one into the two values that follow, one of which may be -1.
    """
    total = TensorType(tuple(shape), "").size
    try:
        out = _walked(shape, newshape)
    except IndexError:
        raise TypeRuleError("%s cannot be reshaped to %s" % (tuple(shape), tuple(newshape))) from None
    if -1 in out:
        known = TensorType(tuple(d for d in out if d != -1), "").size
        out[out.index(-1)] = total // known if known else 0
    if TensorType(tuple(out), "").size != total or -1 in out:
        raise TypeRuleError("%s cannot be reshaped to %s" % (tuple(shape), tuple(newshape)))
    return tuple(out)


def _walked(shape: Sequence[Any], newshape: Sequence[int]) -> list[Any]:
    """Returns the shape that `newshape` describes, in which -1 is left to be inferred.

    shape: numbers, or TVM's expressions. Raises IndexError if `newshape` asks for more of them.
    """
    left, wanted = list(shape), list(newshape)
    out: list[Any] = []
    while wanted:
        d = wanted.pop(0)
        if d == 0:
            out.append(left.pop(0))
        elif d == -2:
            out += left
            left = []
        elif d == -3:
            out.append(left.pop(0) * left.pop(0))
        elif d == -4:
            whole, a, b = left.pop(0), wanted.pop(0), wanted.pop(0)
            out += [whole // b if a == -1 else a, whole // a if b == -1 else b]
        else:
            out.append(d)
            if left:
                left.pop(0)
    return out


def following(
    before: Sequence[TensorType], given: Sequence[TensorType], attrs: Attrs
) -> Iterator[dict[str, Any]]:
    """Yields attributes whose `newshape` fits the operand's shape before and after a change.

    An axis that is split gives the change to the first of its parts, then to the second.
    """
    old, new = before[0].shape, given[0].shape
    parts = _blocks(old, reshaped(old, attrs["newshape"]))
    for first in (True, False):
        newshape = _special(parts, new, first)
        if newshape is not None:
            yield {**attrs, "newshape": newshape}


#: The lengths of corresponding axes of an operand and of its reshaped result.
Block = Tuple[Tuple[int, ...], Tuple[int, ...]]


def _blocks(old: Sequence[int], result: Sequence[int]) -> list[Block]:
    """Divides the axes of two shapes of one size into the shortest sequences of equal products."""
    blocks: list[Block] = []
    i = j = 0
    while i < len(old) or j < len(result):
        begin = i, j
        i, j = min(i + 1, len(old)), min(j + 1, len(result))
        sizes = [math.prod(old[begin[0] : i]), math.prod(result[begin[1] : j])]
        while sizes[0] != sizes[1] and (i < len(old) or j < len(result)):
            if j == len(result) or (sizes[0] < sizes[1] and i < len(old)):
                sizes[0] *= old[i]
                i += 1
            else:
                sizes[1] *= result[j]
                j += 1
        blocks.append((tuple(old[begin[0] : i]), tuple(result[begin[1] : j])))
    return blocks


def _special(blocks: Sequence[Block], new: Sequence[int], first: bool) -> tuple[int, ...] | None:
    """Returns a `newshape` of special values for an operand of the shape `new`, or None.

    first: the first part of an axis that is split is inferred, not the second.
    """
    out: list[int] = []
    at = passed = 0
    inferred = False
    values: tuple[int, ...]
    for old, result in blocks:
        changed = tuple(new[at : at + len(old)]) != old
        if changed and passed == at and len(old) == len(result) == 1:
            values, reads = (0,), 1
        elif passed == at and (len(old), len(result)) == (2, 1):
            values, reads = (-3,), 2
        elif passed == at and (len(old), len(result)) == (1, 2):
            parts = (-1, result[1]) if first else (result[0], -1)
            values, reads = (-4, *(parts if changed else result)), 1
        elif changed:
            if inferred:
                return None
            inferred = True
            values, reads = (-1, *result[1:]), len(result)
        else:
            values, reads = result, len(result)
        out += values
        at, passed = at + len(old), passed + reads
    return tuple(out)


def newshapes(x: TensorType, chosen: Attrs) -> Classes:
    s, r = x.shape, x.rank
    if r == 0:
        return {"flat": ((1,),), "same": ((),), "ones": ((1, 1),)}
    even = [i for i, d in enumerate(s) if d % 2 == 0]
    return {
        "flat": ((x.size,),),
        "same": (s,),
        "reversed": (s[::-1],) if s != s[::-1] else (),
        "inferred": ((-1,), (s[0], -1), (-1, s[-1])),
        "copied": ((0,) * r, (0, -1)) + (((0, 0, -1),) if r > 1 else ()),
        "ones": ((1,) + s, s + (1,), s[:1] + (1,) + s[1:]),
        "merged": tuple(s[:i] + (s[i] * s[i + 1],) + s[i + 2 :] for i in range(r - 1)),
        "divided": tuple(s[:i] + (2, s[i] // 2) + s[i + 1 :] for i in even),
        "rest": ((0, -2), (-2,), (-2, 1)),
        "joined": ((-3, -2),) if r > 1 else (),
        "halved": ((-4, 2, -1, -2), (-4, -1, 2, -2)) if s[0] % 2 == 0 else (),
    }


def infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    return (TensorType(reshaped(types[0].shape, attrs["newshape"]), types[0].dtype),)


def relax(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    shape, newshape = types[0].shape, attrs["newshape"]
    if all(isinstance(d, int) for d in shape):
        return ns.reshape(args[0], reshaped(shape, newshape))
    # Relax infers -1 from open extents itself.
    return ns.reshape(args[0], _walked(shape, newshape))
