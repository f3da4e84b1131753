"""Statistics: reductions to an index, a truth value or a spread, and scans along an axis."""

from __future__ import annotations

from typing import Any, Sequence

from ..core.graph import TensorType
from .record import (
    NUMBERS,
    SIGNED,
    Attrs,
    Classes,
    Lowering,
    Operator,
    Parameter,
    normalize_axis,
    some,
)
from .reduction import axis_classes, exclusions, infer, reduced_axes

SHAPES = ((2, 3, 5), (7,), (1,), (3, 67), (4, 1), (2, 3, 4, 5), (2, 1, 3, 1, 2))
_KEEPDIMS = Parameter("keepdims", {"no": (False,), "yes": (True,)})
#: Values of axis for operators that Relax reduces along one axis or all axes only.
_SINGLE = (None,) + tuple((i,) for i in range(-6, 6))


def _axis_list(attrs: Attrs, types: Sequence[TensorType]) -> Any:
    """Returns the axes to reduce as Relax expects them: a list without `exclude`, or None."""
    axis = attrs["axis"]
    if attrs["exclude"]:
        axis = reduced_axes(types[0].rank, attrs)
    return None if axis is None else list(axis)


# --- argmax, argmin --------------------------------------------------------------------------


def _arg_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    return (TensorType(infer(types, attrs)[0].shape, attrs["dtype"]),)


def _arg(name: str) -> Operator:
    """Returns the record of argmax or argmin: the position of the first or last extreme element."""

    def relay(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
        return getattr(ns, name)(
            args[0],
            axis=attrs["axis"],
            keepdims=attrs["keepdims"],
            exclude=attrs["exclude"],
            select_last_index=attrs["select_last_index"],
        )

    def relax(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
        axis = attrs["axis"]
        return getattr(ns, name)(
            args[0], axis=None if axis is None else axis[0], keepdims=attrs["keepdims"]
        )

    only_relax = {
        "axis": _SINGLE,
        "exclude": (False,),
        "select_last_index": (False,),
        "dtype": ("int64",),
    }
    return Operator(
        name=name,
        infer=_arg_infer,
        shapes=SHAPES,
        accuracy="exact",
        accepts=some,
        parameters=(
            Parameter("axis", axis_classes),
            _KEEPDIMS,
            Parameter("exclude", exclusions),
            Parameter("select_last_index", {"no": (False,), "yes": (True,)}),
            # The dtype of the index: int32 in Relay, int64 in Relax.
            Parameter("dtype", {"int32": ("int32",), "int64": ("int64",)}),
        ),
        dtypes=NUMBERS,
        relay=Lowering(name, relay, {"dtype": ("int32",)}),
        relax=Lowering(name, relax, only_relax),
    )


# --- all, any --------------------------------------------------------------------------------


def _truth(name: str) -> Operator:
    def relay(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
        return getattr(ns, name)(args[0], **attrs)

    return Operator(
        name=name,
        infer=infer,
        shapes=SHAPES,
        accuracy="exact",
        accepts=some,
        parameters=(
            Parameter("axis", axis_classes),
            _KEEPDIMS,
            Parameter("exclude", exclusions),
        ),
        dtypes=("bool",),
        # Relax has neither.
        relay=Lowering(name, relay),
    )


# --- variance, std, logsumexp ----------------------------------------------------------------


def _unbiased(x: TensorType, chosen: Attrs) -> Classes:
    several = any(x.shape[a] > 1 for a in reduced_axes(x.rank, chosen))
    return {"no": (False,), "yes": (True,) if several else ()}


def _spread(name: str, accuracy: str, relay_op: str) -> Operator:
    def relay(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
        return getattr(ns, name)(args[0], **attrs)

    def relax(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
        return getattr(ns, name)(
            args[0], axis=_axis_list(attrs, types), keepdims=attrs["keepdims"]
        )

    return Operator(
        name=name,
        infer=infer,
        shapes=SHAPES,
        accuracy=accuracy,
        accepts=some,
        averages=True,
        parameters=(
            Parameter("axis", axis_classes),
            _KEEPDIMS,
            Parameter("exclude", exclusions),
            Parameter("unbiased", _unbiased),
        ),
        relay=Lowering(relay_op, relay),
        relax=Lowering(name, relax, {"unbiased": (False,)}),
    )


def _logsumexp_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    return infer(types, {**attrs, "exclude": False})


def _logsumexp_relay(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    return ns.logsumexp(args[0], axis=attrs["axis"], keepdims=attrs["keepdims"])


def _logsumexp_relax(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    axis = list(reduced_axes(types[0].rank, {**attrs, "exclude": False}))
    largest = ns.max(args[0], axis=axis, keepdims=True)
    total = ns.sum(ns.exp(ns.subtract(args[0], largest)), axis=axis, keepdims=True)
    y = ns.add(ns.log(total), largest)
    return y if attrs["keepdims"] else ns.squeeze(y, axis)


# --- cumsum, cumprod -------------------------------------------------------------------------


def _scan_axis(x: TensorType, chosen: Attrs) -> Classes:
    r = x.rank
    return {
        "last": (r - 1,),
        "flat": (None,),
        "minus_one": (-1,),
        "negative": tuple(-1 - i for i in range(1, r)),
        "other": tuple(range(r - 1)),
    }


def _scan_dtype(x: TensorType, chosen: Attrs) -> Classes:
    wider = {
        "float32": ("float64",),
        "float16": ("float32",),
        "int8": ("int32", "int16"),
        "int16": ("int32",),
        "int32": ("int64",),
        "uint8": ("int32",),
    }
    classes = {"unset": (None,), "same": (x.dtype,), "wider": wider.get(x.dtype, ())}
    return {**classes, "float": ("float32",)} if x.dtype in SIGNED else classes


def _scan_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    x = types[0]
    dtype = attrs["dtype"] or x.dtype
    if attrs["axis"] is None:
        return (TensorType((x.size,), dtype),)
    normalize_axis(attrs["axis"], x.rank)
    return (TensorType(x.shape, dtype),)


def _scan(name: str, accuracy: str, steep: bool = False) -> Operator:
    def lower(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
        return getattr(ns, name)(args[0], **attrs)

    return Operator(
        name=name,
        infer=_scan_infer,
        shapes=((2, 3, 5), (7,), (1,), (3, 17), (4, 1), (2, 3, 4, 5), (2, 1, 3, 1, 2)),
        accuracy=accuracy,
        accepts=some,
        parameters=(
            Parameter("axis", _scan_axis),
            Parameter("dtype", _scan_dtype),
            Parameter("exclusive", {"no": (False,), "yes": (True,)}),
        ),
        dtypes=NUMBERS,
        steep=steep,
        relay=Lowering(name, lower),
        relax=Lowering(name, lower),
    )


_VARIANCE = "sums of squares, in one pass or two: gamma(n + 5), Higham, ASNA 2nd ed., section 1.9"

OPERATORS: tuple[Operator, ...] = (
    _arg("argmax"),
    _arg("argmin"),
    _truth("all"),
    _truth("any"),
    _spread("variance", _VARIANCE, "variance"),
    _spread("std", _VARIANCE + "; 1 rounding of the root", "sqrt"),
    Operator(
        name="logsumexp",
        approximated=True,
        infer=_logsumexp_infer,
        shapes=SHAPES,
        accuracy="exp and log: 4 roundings each, sum of n: gamma(n), shift: 1 rounding",
        accepts=some,
        parameters=(Parameter("axis", axis_classes), _KEEPDIMS),
        # Neither IR has it; the last call of the expression removes the axes.
        relay=Lowering("squeeze", _logsumexp_relay),
        relax=Lowering("squeeze", _logsumexp_relax),
    ),
    _scan("cumsum", "sum of the first k: gamma(k), Higham, ASNA 2nd ed., section 4.2"),
    _scan("cumprod", "product of the first k: gamma(k), Higham, ASNA 2nd ed., lemma 3.1", steep=True),
)
