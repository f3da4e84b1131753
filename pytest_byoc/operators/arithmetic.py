"""Further arithmetic: powers, integer division, remainders, functions of two arguments.

Relax's ewise_fma is left out: Relax 0.27 does not legalize it, so LLVM cannot build it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..core.graph import TensorType
from .elementwise import SHAPES, binary, binary_infer, other_shape
from .record import (
    FLOATS,
    FRESH,
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
    call,
    same_type,
)

_OTHER_SHAPE = Parameter("other_shape", other_shape, attribute=False)


# --- power -----------------------------------------------------------------------------------

_EXPONENTS = {"square": 2.0, "cube": 3.0, "reciprocal": -1.0, "none": 0.0}


def _power_operands(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
    """Returns base and exponent.

    The lead is the base of a whole power, or with form "exponent" the exponent of a positive base.
    """
    other = TensorType(tuple(chosen["other_shape"]), x.dtype)
    if chosen["form"] == "exponent":
        return (Operand(FRESH, other, 0.25, 4.0), Operand(LEAD, x))
    exponent = _EXPONENTS[chosen["form"]]
    return (Operand(LEAD, x), Operand(FRESH, other, exponent, exponent))


# --- division --------------------------------------------------------------------------------


def _divisor(x: TensorType, chosen: Attrs) -> Classes:
    return {
        "positive": ("positive",),
        "negative": ("negative",) if x.dtype in FLOATS + SIGNED else (),
    }


def _division_operands(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
    # Divisors are never zero; integer divisors are never one, which would leave no remainder.
    low, high = (0.5, 3.0) if x.dtype in FLOATS else (2.0, 5.0)
    if chosen["divisor"] == "negative":
        low, high = -high, -low
    return (Operand(LEAD, x), Operand(FRESH, TensorType(tuple(chosen["other_shape"]), x.dtype), low, high))


def _division(name: str, accuracy: str, relax: Lowering | None) -> Operator:
    return Operator(
        name=name,
        infer=binary_infer,
        shapes=SHAPES,
        accuracy=accuracy,
        dtypes=NUMBERS,
        operands=_division_operands,
        parameters=(_OTHER_SHAPE, Parameter("divisor", _divisor, attribute=False)),
        relay=call(name),
        relax=relax,
    )


_QUOTIENT = "integers exact; floats exact unless 3 roundings of the quotient reach an integer"
_REMAINDER = "a - q * b with q exact, IEEE 754: two roundings of the operands, one of the result"


# --- fixed_point_multiply --------------------------------------------------------------------


def _shift(x: TensorType, chosen: Attrs) -> Classes:
    return {
        "none": (0,),
        # Not for a power of two: TVM 0.16 then shifts by 30 less, and so by a negative number.
        "left": (2, 1) if chosen["multiplier"] != 2**30 else (),
        "right": (-1, -3),
    }


def _fixed_point_infer(types: Any, attrs: Attrs) -> tuple[TensorType, ...]:
    if types[0].dtype != "int32" or not -31 <= attrs["shift"] <= 30:
        raise TypeRuleError(
            "%s cannot be shifted by %d: int32 is needed, and a shift from -31 to 30"
            % (types[0], attrs["shift"])
        )
    return same_type(types, attrs)


OPERATORS: tuple[Operator, ...] = (
    Operator(
        name="power",
        approximated=True,
        infer=binary_infer,
        shapes=SHAPES,
        accuracy="16 ulp: OpenCL C",
        dtypes=FLOATS,
        operands=_power_operands,
        parameters=(
            _OTHER_SHAPE,
            Parameter(
                "form",
                {"square": ("square",), "odd": ("cube",), "negative": ("reciprocal",), "zero": ("none",),
                 "exponent": ("exponent",)},
                attribute=False,
            ),
        ),
        relay=call("power"),
        relax=call("power"),
        steep=True,
    ),
    _division("floor_divide", _QUOTIENT, call("floor_divide")),
    # Relax 0.27 has one integer division towards zero, divide, and one remainder of it, mod.
    _division("trunc_divide", _QUOTIENT, None),
    _division("mod", _REMAINDER, call("mod")),
    _division("floor_mod", _REMAINDER, call("floor_mod")),
    _division("trunc_mod", _REMAINDER, None),
    replace(
        binary("atan2", "6 ulp: OpenCL C", FLOATS, approximated=True), relay=None
    ),
    replace(
        binary(
            "log_add_exp", "log(exp(a) + exp(b)) with exp and log to 2 ulp: 4 ulp of 1.0", FLOATS,
            approximated=True,
        ),
        relay=None,
    ),
    Operator(
        name="fixed_point_multiply",
        infer=_fixed_point_infer,
        shapes=SHAPES,
        accuracy="exact in integers, halves are rounded up: tir.q_multiply_shift",
        dtypes=("int32",),
        parameters=(
            Parameter(
                "multiplier",
                {"odd": (1395864371,), "power_of_two": (2**30,), "negative": (-1395864371,),
                 "largest": (2**31 - 1,)},
            ),
            Parameter("shift", _shift),
        ),
        relay=call("fixed_point_multiply"),
    ),
)
