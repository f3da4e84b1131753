"""Pooling in two dimensions, and rules for any number of spatial axes."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Callable, Sequence

from ..core.graph import TensorType
from .convolution import image, image_axes, is_image, laid_out, layouts
from .record import NUMBERS, Attrs, Classes, Lowering, Operator, Parameter, TypeRuleError, call

_FLAG = {"no": (False,), "yes": (True,)}

#: Windows by the number of spatial axes, by class.
_POOL_SIZES: dict[int, Classes] = {
    1: {"odd": ((3,), (5,)), "even": ((2,), (4,)), "pointwise": ((1,),)},
    2: {
        "square": ((2, 2), (3, 3)),
        "pointwise": ((1, 1),),
        "uneven": ((2, 3), (3, 1), (1, 2), (3, 2)),
    },
    3: {
        "cube": ((2, 2, 2), (3, 3, 3)),
        "pointwise": ((1, 1, 1),),
        "uneven": ((2, 3, 1), (1, 2, 3), (3, 1, 2)),
    },
}
_STRIDES: dict[int, Classes] = {
    1: {"unit": ((1,),), "strided": ((2,), (3,))},
    # (1, 2) and (1, 3) are left out: for some average pools with them TVM 0.27 emits invalid LLVM
    # code ("Instruction does not dominate all uses").
    2: {"unit": ((1, 1),), "strided": ((2, 2), (3, 3)), "uneven": ((2, 1), (3, 2))},
    3: {"unit": ((1, 1, 1),), "strided": ((2, 2, 2),), "uneven": ((2, 1, 3), (3, 2, 1))},
}
_PADDINGS: dict[int, Classes] = {
    1: {"none": ((0, 0),), "symmetric": ((1, 1),), "asymmetric": ((0, 1), (1, 0), (1, 2))},
    2: {
        "none": ((0, 0, 0, 0),),
        "symmetric": ((1, 1, 1, 1), (1, 0, 1, 0)),
        "asymmetric": ((0, 1, 1, 2), (1, 0, 2, 1), (1, 0, 0, 0), (0, 0, 0, 1), (0, 2, 1, 0)),
    },
    3: {
        "none": ((0, 0, 0, 0, 0, 0),),
        "symmetric": ((1, 1, 1, 1, 1, 1), (0, 1, 1, 0, 1, 1)),
        "asymmetric": ((0, 1, 1, 1, 2, 0), (1, 0, 0, 0, 0, 1), (0, 0, 1, 0, 0, 0), (0, 0, 0, 0, 1, 0)),
    },
}
_DILATIONS: dict[int, Classes] = {
    1: {"unit": ((1,),), "dilated": ((2,), (3,))},
    2: {"unit": ((1, 1),), "dilated": ((2, 2),), "uneven": ((1, 2), (3, 1))},
    3: {"unit": ((1, 1, 1),), "dilated": ((2, 2, 2),), "uneven": ((1, 2, 1), (1, 1, 2), (2, 1, 1))},
}


def _simplest(n: int) -> dict[str, Any]:
    """Returns the simplest value of each parameter, for n spatial axes."""
    return {"strides": (1,) * n, "dilation": (1,) * n, "padding": (0, 0) * n, "ceil_mode": False}


def _out(n: int, k: int, stride: int, before: int, after: int, dilation: int, ceil: bool) -> int:
    """Returns the output length along one axis.

    Raises TypeRuleError where a window contains only padding. With ceil_mode TVM up to 0.19 has
    such windows and later versions do not; their value is the smallest number or -inf (max), or
    0 / 0 (avg).
    """
    out, wrong = _counted(n, k, stride, before, after, dilation, ceil)
    if wrong:
        raise TypeRuleError(wrong)
    return out


# Cached: the systematic cases need the same few windows a hundred thousand times.
@lru_cache(maxsize=1 << 14)
def _counted(
    n: int, k: int, stride: int, before: int, after: int, dilation: int, ceil: bool
) -> tuple[int, str]:
    """Returns the output length along one axis, and the error message, empty if it is valid."""
    room = n + before + after - dilation * (k - 1) - 1
    if room < 0:
        return 0, "a window of %d elements does not fit" % (dilation * (k - 1) + 1)
    out = (room + (stride - 1 if ceil else 0)) // stride + 1
    for i in range(out):
        first = i * stride - before
        if not any(0 <= first + j * dilation < n for j in range(k)):
            return out, "window %d contains nothing but padding" % i
    return out, ""


def _pool_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    x = types[0]
    batch, channels, sizes = image(x, attrs["layout"])
    n = len(sizes)
    before, after = attrs["padding"][:n], attrs["padding"][n:]
    windows = zip(sizes, attrs["pool_size"], attrs["strides"], before, after, attrs["dilation"])
    out = [_out(s, k, step, b, a, d, attrs["ceil_mode"]) for s, k, step, b, a, d in windows]
    return (TensorType(laid_out(batch, channels, out, attrs["layout"]), x.dtype),)


def _valid(x: TensorType, chosen: Attrs, name: str, values: Sequence[Any]) -> tuple[Any, ...]:
    """Returns the values of a parameter with which the operator can be applied.

    Parameters that have no value yet are assumed to have their simplest value.
    """
    good = []
    for value in values:
        try:
            _pool_infer([x], {**_simplest(x.rank - 2), **chosen, name: value})
        except TypeRuleError:
            continue
        good.append(value)
    return tuple(good)


def _domain(name: str, by_axes: Callable[[int], Classes]) -> Parameter:
    def valid_classes(x: TensorType, chosen: Attrs) -> Classes:
        return {k: _valid(x, chosen, name, v) for k, v in by_axes(x.rank - 2).items()}

    return Parameter(name, valid_classes)


def _strides(x: TensorType, chosen: Attrs) -> Classes:
    n = x.rank - 2
    valid = {k: _valid(x, chosen, "strides", v) for k, v in _STRIDES[n].items()}
    if not chosen["ceil_mode"]:
        return valid

    def enlarges(strides: Any) -> bool:
        attrs = {**_simplest(n), **chosen, "strides": strides}
        return _pool_infer([x], attrs) != _pool_infer([x], {**attrs, "ceil_mode": False})

    # Prefers strides for which ceil_mode changes the output's shape.
    telling = {k: tuple(s for s in v if enlarges(s)) for k, v in valid.items()}
    return telling if any(telling.values()) else valid


def _padding(x: TensorType, chosen: Attrs) -> Classes:
    valid = {k: _valid(x, chosen, "padding", v) for k, v in _PADDINGS[x.rank - 2].items()}
    # count_include_pad has an effect only with padding.
    padded = {k: v for k, v in valid.items() if k != "none"}
    return padded if chosen.get("count_include_pad") and any(padded.values()) else valid


def _ceil_mode(x: TensorType, chosen: Attrs) -> Classes:
    """Returns ceil_mode's values; with windows of one element it changes nothing."""
    return {"no": (False,), "yes": (True,) if max(chosen["pool_size"]) > 1 else ()}


_LAYOUT = Parameter("layout", lambda x, chosen: layouts(x.rank - 2))
# A parameter that has an effect only if another one is not at its default stands before that one.
_WINDOW = (
    _LAYOUT,
    _domain("pool_size", _POOL_SIZES.__getitem__),
    Parameter("ceil_mode", _ceil_mode),
)
_STEPS = (
    Parameter("padding", _padding),
    Parameter("strides", _strides),
    _domain("dilation", _DILATIONS.__getitem__),
)

AVERAGE = "sum of n: gamma(n), 3 roundings of the division"


def max_pool(n: int, shapes: tuple[tuple[int, ...], ...]) -> Operator:
    """Returns the record of max pooling with n spatial axes: nn.max_pool1d and so on."""
    name = "nn.max_pool%dd" % n
    return Operator(
        name=name,
        infer=_pool_infer,
        shapes=shapes,
        accuracy="exact",
        accepts=is_image(n),
        dtypes=NUMBERS,
        parameters=_WINDOW + _STEPS,
        relay=call(name),
        relax=call(name),
    )


def avg_pool(n: int, shapes: tuple[tuple[int, ...], ...]) -> Operator:
    """Returns the record of average pooling with n spatial axes: nn.avg_pool1d and so on."""
    name = "nn.avg_pool%dd" % n
    return Operator(
        name=name,
        infer=_pool_infer,
        shapes=shapes,
        accuracy=AVERAGE,
        accepts=is_image(n),
        dtypes=NUMBERS,
        parameters=_WINDOW + (Parameter("count_include_pad", _FLAG),) + _STEPS,
        relay=call(name),
        relax=call(name),
    )


# --- global pooling --------------------------------------------------------------------------


def _global_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    x = types[0]
    batch, channels, sizes = image(x, attrs["layout"])
    return (TensorType(laid_out(batch, channels, [1] * len(sizes), attrs["layout"]), x.dtype),)


def _global_avg_relax(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    return ns.nn.adaptive_avg_pool2d(args[0], (1, 1), layout=attrs["layout"])


def _global_max_relax(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    return ns.max(args[0], axis=list(image_axes(attrs["layout"])[2:]), keepdims=True)


# The shapes cover: H, W and C that all differ, a batch above 1, an extent of 1, and an extent that
# is no multiple of a vector's length.
SHAPES = ((1, 4, 7, 6), (2, 3, 5, 8), (1, 1, 9, 5), (3, 2, 1, 4), (1, 17, 4, 3))

OPERATORS: tuple[Operator, ...] = (
    max_pool(2, SHAPES),
    avg_pool(2, SHAPES),
    Operator(
        name="nn.global_avg_pool2d",
        infer=_global_infer,
        shapes=SHAPES,
        accuracy=AVERAGE,
        averages=True,
        accepts=is_image(2),
        dtypes=NUMBERS,
        parameters=(_LAYOUT,),
        relay=call("nn.global_avg_pool2d"),
        relax=Lowering("nn.adaptive_avg_pool2d", _global_avg_relax),
    ),
    Operator(
        name="nn.global_max_pool2d",
        infer=_global_infer,
        shapes=SHAPES,
        accuracy="exact",
        accepts=is_image(2),
        dtypes=NUMBERS,
        parameters=(_LAYOUT,),
        relay=call("nn.global_max_pool2d"),
        relax=Lowering("max", _global_max_relax),
    ),
)
