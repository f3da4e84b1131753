"""Elementwise operators: common functions of one tensor, and of two with NumPy's broadcasting."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Sequence

from ..core.graph import TensorType
from .interesting import POSITIVE, ROUNDING, SATURATING
from .record import (
    DATA,
    FLOATS,
    FRESH,
    INTEGERS,
    LEAD,
    NUMBERS,
    SIGNED,
    Attrs,
    Classes,
    Lowering,
    Operand,
    Operator,
    Parameter,
    TypeRuleError,
    broadcast,
    call,
    same_type,
)

#: The shapes cover: ranks 0 to 5, extents that are no multiple of a vector's length, extents that
#: all differ, an extent of 1, a batch above 1.
SHAPES = ((2, 3, 5), (), (1,), (7,), (3, 5), (1, 1), (2, 3, 4, 5), (2, 1, 3, 1, 2), (2, 67))

_IEEE = "IEEE 754: correctly rounded, 1/2 ulp"
_EXACT = "exact"


def unary(name: str, accuracy: str, **more: Any) -> Operator:
    """Returns the record of an operator of one tensor whose result has the tensor's type.

    more: other fields of the record. By default both IRs call the operator by its name.
    """
    fields = {"relay": call(name), "relax": call(name), "infer": same_type, **more}
    return Operator(name=name, shapes=SHAPES, accuracy=accuracy, **fields)


def _lower_clip_relay(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    return ns.clip(args[0], a_min=attrs["a_min"], a_max=attrs["a_max"])


def _lower_clip_relax(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    return ns.clip(args[0], min=attrs["a_min"], max=attrs["a_max"])


def _clip_low(x: TensorType, chosen: Attrs) -> Classes:
    if x.dtype not in FLOATS:
        return {"zero": (0,), "negative": (-1,) if x.dtype in SIGNED else ()}
    return {"zero": (0.0,), "negative": (-1.2345678, -0.5)}


def _clip_high(x: TensorType, chosen: Attrs) -> Classes:
    if x.dtype not in FLOATS:
        return {"plain": (1,), "six": (6,)}
    return {"six": (6.0,), "odd": (0.76543211, 1.1)}


def other_shape(x: TensorType, chosen: Attrs) -> Classes:
    """Returns shapes of the second operand of a broadcasting operator, by how they broadcast."""
    s = x.shape
    ones = tuple(1 for _ in s)
    tail = ones[2:]
    classes: dict[str, Sequence[Any]] = {
        "same": [s],
        "scalar": [()] if s else [],
        "one": [(1,)] if s else [],
        "trailing": [s[1:], s[-1:]] if len(s) > 1 else [],
        "leading_ones": [ones[:-1] + s[-1:]] if len(s) > 1 else [],
        # The shapes of a bias: (1, C, 1, 1), or the same without its leading 1.
        "channel": [(1, s[1]) + tail, (s[1],) + tail] if len(s) > 2 else [],
        "inner_one": [s[:-1] + (1,)] if len(s) > 1 else [],
        "all_ones": [ones] if len(s) > 1 else [],
        "more_dims": [(2,) + s, (2, 1) + s] if len(s) < 4 else [],
        # The same number of elements in another shape.
        "column": [s + (1,)] if len(s) == 1 and s[0] > 1 else [],
    }
    # The second operand widens a dimension of 1 of the first.
    if 1 in s:
        classes["widened"] = [tuple(3 if d == 1 else d for d in s)]
    return classes


#: Parameters of a binary operator: the other operand's shape, and the position of the lead.
BINARY = (
    Parameter("other_shape", other_shape, attribute=False),
    Parameter("order", {"first": ("first",), "second": ("second",)}, attribute=False),
)


def binary_operands(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
    """Returns the lead and a data operand of its dtype, in the order that `order` says."""
    other = Operand(DATA, TensorType(tuple(chosen["other_shape"]), x.dtype))
    lead = Operand(LEAD, x)
    return (other, lead) if chosen["order"] == "second" else (lead, other)


def binary_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    """Returns the type to which two operands of equal dtype broadcast; raises TypeRuleError."""
    a, b = types
    if a.dtype != b.dtype:
        raise TypeRuleError(
            "the operands have the dtypes %s and %s, which must be equal" % (a.dtype, b.dtype)
        )
    return (TensorType(broadcast(a.shape, b.shape), a.dtype),)


def binary(name: str, accuracy: str, dtypes: tuple[str, ...] = NUMBERS, **more: Any) -> Operator:
    """Returns the record of a binary operator of both IRs that broadcasts and keeps the dtype.

    more: other fields of the record.
    """
    return Operator(
        name=name,
        infer=binary_infer,
        shapes=SHAPES,
        accuracy=accuracy,
        dtypes=dtypes,
        operands=binary_operands,
        parameters=BINARY,
        relay=call(name),
        relax=call(name),
        **more,
    )


def _divide_operands(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
    # A new divisor is not near zero. A divisor from the graph may be, unless it is an integer,
    # since a processor may trap on division by zero.
    operands = binary_operands(x, chosen)
    if operands[1].role != DATA:
        return operands
    of_integers = x.dtype in INTEGERS
    low, high = (2.0, 5.0) if of_integers else (0.5, 3.0)
    return (operands[0], Operand(FRESH if of_integers else DATA, operands[1].type, low, high))


def _dividend_or_divisor(x: TensorType, chosen: Attrs) -> Classes:
    return {"first": ("first",), "second": () if x.dtype in INTEGERS else ("second",)}


_DIVIDE = replace(
    binary(
        "divide",
        "quotient, or product with a rounded reciprocal: 3 roundings, 1 1/2 ulp; integers exact, towards "
        "zero",
    ),
    operands=_divide_operands,
    approximated=True,
    parameters=(BINARY[0], Parameter("order", _dividend_or_divisor, attribute=False)),
)

OPERATORS: tuple[Operator, ...] = (
    unary("nn.relu", _EXACT, dtypes=NUMBERS, homogeneous=True, epilogue=True),
    unary(
        "nn.leaky_relu",
        "IEEE 754: alpha and the product are rounded, 2 * 1/2 ulp",
        relax=call("nn.leakyrelu"),
        homogeneous=True,
        parameters=(
            Parameter(
                "alpha",
                {"default": (0.05,), "odd": (0.31234567, 0.013), "above_one": (1.75,), "zero": (0.0,)},
            ),
        ),
    ),
    Operator(
        name="clip",
        epilogue=True,
        infer=same_type,
        shapes=SHAPES,
        accuracy="exact with bounds rounded to the dtype",
        dtypes=NUMBERS,
        parameters=(Parameter("a_min", _clip_low), Parameter("a_max", _clip_high)),
        relay=Lowering("clip", _lower_clip_relay),
        relax=Lowering("clip", _lower_clip_relax),
    ),
    unary("sigmoid", "1 / (1 + exp(-x)) with exp to 2 ulp: 3 ulp", approximated=True, interesting=SATURATING),
    unary("tanh", "1 ulp; quotient of exponentials: 4 ulp of 1.0", approximated=True, interesting=SATURATING),
    unary("exp", "2 ulp", steep=True, approximated=True, interesting=SATURATING),
    unary("log", "2 ulp", domain=(0.25, 4.0), approximated=True, interesting=POSITIVE),
    unary("sqrt", _IEEE, domain=(0.0, 4.0), approximated=True, interesting=POSITIVE),
    unary("abs", _EXACT, dtypes=NUMBERS),
    unary("negative", _EXACT, dtypes=FLOATS + SIGNED),
    unary("floor", _EXACT, interesting=ROUNDING),
    unary("ceil", _EXACT, interesting=ROUNDING),
    binary(
        "add", _IEEE, addends=(0, 1), commutative=True, associative=INTEGERS, epilogue=True,
        followed_by=("nn.relu", "tanh"),
    ),
    binary("subtract", _IEEE, addends=(0, 1)),
    binary("multiply", _IEEE, factors=(0, 1), commutative=True, associative=INTEGERS),
    _DIVIDE,
    binary("maximum", _EXACT, commutative=True, associative=NUMBERS),
    binary("minimum", _EXACT, commutative=True, associative=NUMBERS),
)
