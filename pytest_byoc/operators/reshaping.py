"""Type rule and parameters of reshape, with the special values of Relay's `newshape`."""

from __future__ import annotations

from typing import Any, Sequence

from ..core.graph import TensorType
from .record import Attrs, Classes, TypeRuleError


def reshaped(shape: Sequence[int], newshape: Sequence[int]) -> tuple[int, ...]:
    """Returns the shape that Relay's `newshape` describes; raises TypeRuleError if it does not fit.

    0 copies a dimension, -1 is inferred, -2 copies all remaining dimensions, -3 joins the next two,
    -4 splits the next one into the two values that follow, one of which may be -1.
    """
    left, wanted = list(shape), list(newshape)
    out: list[int] = []
    total = TensorType(tuple(shape), "").size
    try:
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
    except IndexError:
        raise TypeRuleError("%s cannot be reshaped to %s" % (tuple(shape), tuple(newshape))) from None
    if -1 in out:
        known = TensorType(tuple(d for d in out if d != -1), "").size
        out[out.index(-1)] = total // known if known else 0
    if TensorType(tuple(out), "").size != total or -1 in out:
        raise TypeRuleError("%s cannot be reshaped to %s" % (tuple(shape), tuple(newshape)))
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
    return ns.reshape(args[0], reshaped(types[0].shape, attrs["newshape"]))
