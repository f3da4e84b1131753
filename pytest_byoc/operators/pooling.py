"""Pooling."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

from ..graph import TensorType
from .convolution import AXES
from .record import NUMBERS, Attrs, Classes, Lowering, Operator, Parameter, TypeRuleError, call

_LAYOUT = {"nchw": ("NCHW",), "nhwc": ("NHWC",)}
_FLAG = {"no": (False,), "yes": (True,)}
#: What a parameter not chosen yet will be at its simplest.
_UNCHOSEN = {
    "strides": (1, 1),
    "dilation": (1, 1),
    "padding": (0, 0, 0, 0),
    "ceil_mode": False,
}


def _out(n: int, k: int, stride: int, before: int, after: int, dilation: int, ceil: bool) -> int:
    """Output length along one axis. Raises TypeRuleError where a window holds padding alone.

    Such windows are left out: with ceil_mode TVM up to 0.19 makes them and later ones do not, and
    their value is the smallest number or -inf (max), or 0 by 0 (avg).
    """
    room = n + before + after - dilation * (k - 1) - 1
    if room < 0:
        raise TypeRuleError("a window of %d does not fit" % (dilation * (k - 1) + 1))
    out = (room + (stride - 1 if ceil else 0)) // stride + 1
    for i in range(out):
        first = i * stride - before
        if not any(0 <= first + j * dilation < n for j in range(k)):
            raise TypeRuleError("window %d holds nothing but padding" % i)
    return out


def _pool_infer(types: Sequence[TensorType], attrs: Attrs) -> Tuple[TensorType, ...]:
    x = types[0]
    if x.rank != 4:
        raise TypeRuleError("pooling takes rank 4, not %s" % x)
    n, c, h, w = (x.shape[a] for a in AXES[attrs["layout"]])
    top, left, bottom, right = attrs["padding"]
    (kh, kw), (sh, sw), (dh, dw) = attrs["pool_size"], attrs["strides"], attrs["dilation"]
    out = {
        "N": n,
        "C": c,
        "H": _out(h, kh, sh, top, bottom, dh, attrs["ceil_mode"]),
        "W": _out(w, kw, sw, left, right, dw, attrs["ceil_mode"]),
    }
    return (TensorType(tuple(out[a] for a in attrs["layout"]), x.dtype),)


def _valid(x: TensorType, chosen: Attrs, name: str, values: Sequence[Any]) -> Tuple[Any, ...]:
    """The values with which the operator can be applied, all that is not chosen yet being simplest."""
    good = []
    for value in values:
        try:
            _pool_infer([x], {**_UNCHOSEN, **chosen, name: value})
        except TypeRuleError:
            continue
        good.append(value)
    return tuple(good)


def _domain(name: str, classes: Classes) -> Parameter:
    def valid_classes(x: TensorType, chosen: Attrs) -> Classes:
        return {k: _valid(x, chosen, name, v) for k, v in classes.items()}

    return Parameter(name, valid_classes)


def _strides(x: TensorType, chosen: Attrs) -> Classes:
    # Not (1, 2) nor (1, 3): TVM 0.27 makes invalid LLVM code of some average pools with them
    # ("Instruction does not dominate all uses").
    classes = {"unit": ((1, 1),), "strided": ((2, 2), (3, 3)), "uneven": ((2, 1), (3, 2))}
    valid = {k: _valid(x, chosen, "strides", v) for k, v in classes.items()}
    if not chosen["ceil_mode"]:
        return valid

    def enlarges(strides: Any) -> bool:
        attrs = {**_UNCHOSEN, **chosen, "strides": strides}
        return _pool_infer([x], attrs) != _pool_infer([x], {**attrs, "ceil_mode": False})

    # Strides with which ceil_mode changes something, where there are any.
    telling = {k: tuple(s for s in v if enlarges(s)) for k, v in valid.items()}
    return telling if any(telling.values()) else valid


def _padding(x: TensorType, chosen: Attrs) -> Classes:
    classes = {
        "none": ((0, 0, 0, 0),),
        "symmetric": ((1, 1, 1, 1), (1, 0, 1, 0)),
        "asymmetric": ((0, 1, 1, 2), (1, 0, 2, 1), (1, 0, 0, 0), (0, 0, 0, 1), (0, 2, 1, 0)),
    }
    valid = {k: _valid(x, chosen, "padding", v) for k, v in classes.items()}
    # Whether padding is counted shows only where there is some.
    padded = {k: v for k, v in valid.items() if k != "none"}
    return padded if chosen.get("count_include_pad") and any(padded.values()) else valid


# What changes nothing unless another parameter is off its default stands before that one.
_WINDOW = (
    Parameter("layout", _LAYOUT),
    _domain(
        "pool_size",
        {
            "square": ((2, 2), (3, 3)),
            "pointwise": ((1, 1),),
            "uneven": ((2, 3), (3, 1), (1, 2), (3, 2)),
        },
    ),
    _domain("ceil_mode", {"no": (False,), "yes": (True,)}),
)
_STEPS = (
    Parameter("padding", _padding),
    Parameter("strides", _strides),
    _domain("dilation", {"unit": ((1, 1),), "dilated": ((2, 2),), "uneven": ((1, 2), (3, 1))}),
)


# --- global pooling --------------------------------------------------------------------------


def _global_infer(types: Sequence[TensorType], attrs: Attrs) -> Tuple[TensorType, ...]:
    x = types[0]
    if x.rank != 4:
        raise TypeRuleError("pooling takes rank 4, not %s" % x)
    h, w = AXES[attrs["layout"]][2:]
    return (TensorType(tuple(1 if i in (h, w) else d for i, d in enumerate(x.shape)), x.dtype),)


def _global_avg_relax(ns: Any, args: List[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    return ns.nn.adaptive_avg_pool2d(args[0], (1, 1), layout=attrs["layout"])


def _global_max_relax(ns: Any, args: List[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    return ns.max(args[0], axis=list(AXES[attrs["layout"]][2:]), keepdims=True)


_COMMON: Dict[str, Any] = {
    # H, W and C all differ; batch above 1; size 1; one size that is no multiple of a vector.
    "shapes": ((1, 4, 7, 6), (2, 3, 5, 8), (1, 1, 9, 5), (3, 2, 1, 4), (1, 17, 4, 3)),
    "accepts": lambda x: x.rank == 4 and x.size > 0,
}

OPERATORS: Tuple[Operator, ...] = (
    Operator(
        name="nn.max_pool2d",
        infer=_pool_infer,
        accuracy="exact",
        dtypes=NUMBERS,
        parameters=_WINDOW + _STEPS,
        relay=call("nn.max_pool2d"),
        relax=call("nn.max_pool2d"),
        **_COMMON,
    ),
    Operator(
        name="nn.avg_pool2d",
        infer=_pool_infer,
        accuracy="sum of n: gamma(n), and 3 roundings of the division",
        parameters=_WINDOW + (Parameter("count_include_pad", _FLAG),) + _STEPS,
        relay=call("nn.avg_pool2d"),
        relax=call("nn.avg_pool2d"),
        **_COMMON,
    ),
    Operator(
        name="nn.global_avg_pool2d",
        infer=_global_infer,
        accuracy="sum of n: gamma(n), and 3 roundings of the division",
        parameters=(Parameter("layout", _LAYOUT),),
        relay=call("nn.global_avg_pool2d"),
        relax=Lowering("nn.adaptive_avg_pool2d", _global_avg_relax),
        **_COMMON,
    ),
    Operator(
        name="nn.global_max_pool2d",
        infer=_global_infer,
        accuracy="exact",
        dtypes=NUMBERS,
        parameters=(Parameter("layout", _LAYOUT),),
        relay=call("nn.global_max_pool2d"),
        relax=Lowering("max", _global_max_relax),
        **_COMMON,
    ),
)
