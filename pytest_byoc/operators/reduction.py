"""Reductions along axes."""

from __future__ import annotations

from typing import Any, Callable, Sequence

from ..core.graph import TensorType
from .record import (
    NUMBERS,
    Attrs,
    Classes,
    Lowering,
    Operator,
    Parameter,
    TypeRuleError,
    among,
    normalize_axis,
    some,
)


def reduced_axes(rank: int, attrs: Attrs) -> tuple[int, ...]:
    """Returns the axes to reduce, in ascending order.

    An `axis` of None names all axes. With `exclude` the axes that are not named are reduced. Raises
    TypeRuleError if an axis is out of range or named twice, or if naming axes leaves none to
    reduce.
    """
    if attrs["axis"] is None:
        return tuple(range(rank))
    named = [normalize_axis(a, rank) for a in attrs["axis"]]
    if len(set(named)) != len(named):
        raise TypeRuleError("the attribute axis=%s names an axis twice" % (attrs["axis"],))
    axes = tuple(a for a in range(rank) if (a in named) != attrs["exclude"])
    if named and not axes:
        raise TypeRuleError("the attribute axis=%s leaves no axis to reduce" % (attrs["axis"],))
    return axes


def axis_classes(x: TensorType, chosen: Attrs) -> Classes:
    """Returns axes to reduce: None for all, one, or several; pairs furthest apart come first."""
    r = x.rank
    if r == 0:
        return {"all": (None,)}
    return {
        "last": ((r - 1,),),
        "all": (None,),
        "minus_one": ((-1,),),
        "negative": tuple((-1 - i,) for i in range(1, r)),
        "other": tuple((i,) for i in range(r - 1)),
        "several": tuple((i, i + n) for n in range(r - 1, 0, -1) for i in range(r - n) if r > 2),
        "several_negative": ((-1, -2),) if r > 2 else (),
        "every": (tuple(range(r)),),
    }


def _axes(x: TensorType, chosen: Attrs) -> Classes:
    """Adds an empty list of axes, over which Relax reduces nothing."""
    return {**axis_classes(x, chosen), "none": ((),) if x.rank else ()}


def exclusions(x: TensorType, chosen: Attrs) -> Classes:
    """Returns whether the named axes may be those that are kept (Relay's `exclude`)."""
    some_left = chosen["axis"] is not None and len(chosen["axis"]) < x.rank
    return {"no": (False,), "yes": (True,) if some_left else ()}


def infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    """Removes the reduced axes from the shape, or with keepdims makes them 1: a type rule."""
    x = types[0]
    axes = reduced_axes(x.rank, attrs)
    if attrs["keepdims"]:
        return (TensorType(tuple(1 if i in axes else d for i, d in enumerate(x.shape)), x.dtype),)
    return (TensorType(tuple(d for i, d in enumerate(x.shape) if i not in axes), x.dtype),)


def _relay(name: str) -> Lowering:
    def lower(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
        return getattr(ns, name)(args[0], **attrs)

    # For Relay an empty list of axes means all axes.
    return Lowering(name, lower, lacks={"axis": among(())})


def _relax(name: str) -> Lowering:
    def lower(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
        axis = attrs["axis"]
        if attrs["exclude"]:
            axis = reduced_axes(types[0].rank, attrs)
        return getattr(ns, name)(
            args[0], axis=None if axis is None else list(axis), keepdims=attrs["keepdims"]
        )

    return Lowering(name, lower)


#: Largest integer by dtype. Relay's mean divides by the count as a constant of the dtype.
_MOST = {"int8": 2**7 - 1, "uint8": 2**8 - 1, "int16": 2**15 - 1}


def _countable(x: TensorType) -> bool:
    return some(x) and x.size <= _MOST.get(x.dtype, x.size)


def _reduction(
    name: str,
    accuracy: str,
    dtypes: tuple[str, ...],
    steep: bool = False,
    accepts: Callable[[TensorType], bool] = some,
    averages: bool = False,
) -> Operator:
    return Operator(
        name=name,
        infer=infer,
        shapes=((2, 3, 5), (7,), (1,), (3, 67), (4, 1), (2, 3, 4, 5), (2, 1, 3, 1, 2)),
        accuracy=accuracy,
        accepts=accepts,
        parameters=(
            Parameter("axis", _axes),
            Parameter("keepdims", {"no": (False,), "yes": (True,)}),
            Parameter("exclude", exclusions),
        ),
        dtypes=dtypes,
        steep=steep,
        averages=averages,
        relay=_relay(name),
        relax=_relax(name),
    )


OPERATORS: tuple[Operator, ...] = (
    _reduction("sum", "sum of n: gamma(n), Higham, ASNA 2nd ed., section 4.2", NUMBERS),
    _reduction(
        "mean",
        "sum of n: gamma(n), 3 roundings of the division; integers towards zero",
        NUMBERS,
        accepts=_countable,
        averages=True,
    ),
    _reduction("max", "exact", NUMBERS),
    _reduction("min", "exact", NUMBERS),
    _reduction("prod", "product of n: gamma(n), Higham, ASNA 2nd ed., lemma 3.1", NUMBERS, steep=True),
)
