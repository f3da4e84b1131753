"""Conversions: casts, copies, and tensors of one value with the shape of another tensor."""

from __future__ import annotations

from typing import Any, Sequence

from ..core.graph import TensorType
from .elementwise import SHAPES
from .interesting import CONVERTED
from .record import (
    ANY,
    DATA,
    FLOATS,
    LEAD,
    Attrs,
    Classes,
    Lowering,
    Operand,
    Operator,
    Parameter,
    TypeRuleError,
    call,
    only_lead,
    same_type,
)

_INTEGER = ("int32", "int8", "int16", "int64")
_TO_ANY = {"integer": _INTEGER, "unsigned": ("uint8",), "boolean": ("bool",)}
#: By source dtype, the target dtypes by class. float64 to float16 is left out: the LLVM code of TVM
#: 0.16 (Relay) calls the conversion routine with the wrong convention and returns garbage.
_FROM_FLOAT: dict[str, dict[str, Sequence[str]]] = {
    "float32": {"wider": ("float64",), "narrower": ("float16", "bfloat16"), **_TO_ANY},
    "float64": {"narrower": ("float32", "bfloat16"), **_TO_ANY},
    "float16": {"wider": ("float32", "float64"), "other": ("bfloat16",), **_TO_ANY},
    "bfloat16": {"wider": ("float32", "float64"), "other": ("float16",), **_TO_ANY},
}
#: Prefixes of the class names by source dtype, so that each kind of source has classes of its own.
#: float32 has none, the signed integers have "signed_".
_KINDS = {
    "float64": "double_",
    "float16": "half_",
    "bfloat16": "bfloat_",
    "uint8": "unsigned_",
    "bool": "bool_",
}


def _from_integer(dtype: str) -> dict[str, Sequence[str]]:
    float_: Sequence[str] = ("float32", "float64", "float16", "bfloat16")
    if dtype == "bool":
        return {"float": float_, "integer": _INTEGER, "unsigned": ("uint8",)}
    if dtype == "uint8":
        wider = ("int32", "int16", "int64")
        return {"float": float_, "wider": wider, "signed": ("int8",), "boolean": ("bool",)}
    width = int(dtype[3:])
    return {
        "float": float_,
        "wider": tuple("int%d" % w for w in (16, 32, 64) if w > width),
        "narrower": tuple("int%d" % w for w in (8, 16, 32) if w < width),
        "unsigned": ("uint8",),
        "boolean": ("bool",),
    }


#: int8 comes before int32, since fewer of its elements are negative, which uint8 does not hold.
_SOURCES = FLOATS + ("int8", "int32", "int16", "int64", "uint8", "bool")


def _cast_to(x: TensorType, chosen: Attrs) -> Classes:
    classes = _FROM_FLOAT.get(x.dtype) or _from_integer(x.dtype)
    kind = "" if x.dtype == "float32" else _KINDS.get(x.dtype, "signed_")
    return {kind + name: values for name, values in {**classes, "same": (x.dtype,)}.items()}


def _cast_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    return (TensorType(types[0].shape, attrs["dtype"]),)


# --- cast_like, full_like --------------------------------------------------------------------


def _like_dtype(x: TensorType, chosen: Attrs) -> Classes:
    return {
        "integer": ("int32", "int8"),
        "float": ("float32", "float64") if x.dtype != "float64" else ("float32",),
        "half": ("float16",) if x.dtype != "float64" else (),
        "boolean": ("bool",),
    }


def _cast_like_operands(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
    shape = x.shape if chosen["like"] == "same" else ()
    return (Operand(LEAD, x), Operand(DATA, TensorType(shape, chosen["dtype"])))


def _cast_like_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    return (TensorType(types[0].shape, types[1].dtype),)


def _full_like_operands(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
    return (Operand(LEAD, x), Operand(DATA, TensorType((), x.dtype)))


def _full_like_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    x, fill = types
    if fill != TensorType((), x.dtype):
        raise TypeRuleError("%s cannot be filled with %s: a scalar of its dtype is needed" % (x, fill))
    return (x,)


# --- reinterpret -----------------------------------------------------------------------------

_SAME_WIDTH: dict[str, Classes] = {
    "float32": {"integer": ("int32",)},
    "float64": {"integer": ("int64",)},
    "float16": {"integer": ("int16",)},
    "int32": {"float": ("float32",)},
    "int64": {"float": ("float64",)},
    "int8": {"unsigned": ("uint8",)},
    "uint8": {"signed": ("int8",)},
}


def _reinterpret_to(x: TensorType, chosen: Attrs) -> Classes:
    return _SAME_WIDTH[x.dtype]


def _reinterpret_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    known = [dtype for dtypes in _SAME_WIDTH.get(types[0].dtype, {}).values() for dtype in dtypes]
    if attrs["dtype"] not in known:
        raise TypeRuleError(
            "%s cannot be read as %s; known dtypes are %s" % (types[0], attrs["dtype"], ", ".join(known))
        )
    return _cast_infer(types, attrs)


def _like(
    name: str,
    operands: Any = only_lead,
    infer: Any = same_type,
    relay: Lowering | None = None,
    relax: Lowering | None = None,
    **more: Any,
) -> Operator:
    fields: dict[str, Any] = {"accuracy": "exact", "dtypes": ANY, **more}
    return Operator(
        name=name, infer=infer, shapes=SHAPES, operands=operands, relay=relay, relax=relax, **fields
    )


_CONVERTED = "correctly rounded; integers towards zero; bool is true unless the value is zero"

OPERATORS: tuple[Operator, ...] = (
    _like(
        "cast",
        infer=_cast_infer,
        parameters=(Parameter("dtype", _cast_to),),
        dtypes=_SOURCES,
        interesting=CONVERTED,
        accuracy=_CONVERTED,
        relay=call("cast"),
        relax=call("astype"),
    ),
    _like(
        "cast_like",
        _cast_like_operands,
        _cast_like_infer,
        type_only=(1,),
        parameters=(
            Parameter("dtype", _like_dtype, attribute=False),
            Parameter("like", {"same": ("same",), "scalar": ("scalar",)}, attribute=False),
        ),
        accuracy=_CONVERTED,
        relay=call("cast_like"),
    ),
    _like(
        "reinterpret",
        infer=_reinterpret_infer,
        parameters=(Parameter("dtype", _reinterpret_to),),
        dtypes=tuple(_SAME_WIDTH),
        relay=call("reinterpret"),
    ),
    _like("copy", relay=call("copy")),
    _like("zeros_like", type_only=(0,), relay=call("zeros_like"), relax=call("zeros_like")),
    _like("ones_like", type_only=(0,), relay=call("ones_like"), relax=call("ones_like")),
    _like(
        "full_like",
        _full_like_operands,
        _full_like_infer,
        type_only=(0,),
        relay=call("full_like"),
        relax=call("full_like"),
    ),
)
