"""Logic: comparisons, logical and bitwise operators, selection by a condition.

Comparisons return bool, with one byte for each element.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Sequence

from ..core.graph import TensorType
from .elementwise import BINARY, SHAPES, binary, binary_operands, other_shape, unary
from .record import (
    ANY,
    DATA,
    FRESH,
    INTEGERS,
    LEAD,
    Attrs,
    Classes,
    Operand,
    Operator,
    Parameter,
    TypeRuleError,
    broadcast,
    call,
)

_BOOLEANS = "exact (booleans)"
_INTEGERS = "exact (integers)"
_BITS = INTEGERS + ("bool",)
_COMPARISON = "exact; not judged where the operands' bounds overlap"


def _as_bool(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    return (TensorType(types[0].shape, "bool"),)


def _comparison_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    a, b = types
    if a.dtype != b.dtype:
        raise TypeRuleError(
            "the operands have the dtypes %s and %s, which must be equal" % (a.dtype, b.dtype)
        )
    return (TensorType(broadcast(a.shape, b.shape), "bool"),)


def _comparison(name: str, commutative: bool = False) -> Operator:
    return Operator(
        name=name,
        commutative=commutative,
        infer=_comparison_infer,
        shapes=SHAPES,
        accuracy=_COMPARISON,
        dtypes=ANY,
        operands=binary_operands,
        parameters=BINARY,
        relay=call(name),
        relax=call(name),
    )


def _test(name: str) -> Operator:
    return unary(name, "exact", infer=_as_bool)


# --- shifts ----------------------------------------------------------------------------------


def _bits(dtype: str) -> int:
    return int("".join(c for c in dtype if c.isdigit()))


def _left_counts(x: TensorType, chosen: Attrs) -> Classes:
    return {"few": (3,), "half": (_bits(x.dtype) // 2,)}


def _right_counts(x: TensorType, chosen: Attrs) -> Classes:
    return {"few": (3,), "all": (_bits(x.dtype) - 1,)}


def _shift_operands(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
    count = TensorType(tuple(chosen["other_shape"]), x.dtype)
    return (Operand(LEAD, x), Operand(FRESH, count, 0, chosen["most"]))


def _shift(name: str, most: Parameter) -> Operator:
    return replace(
        binary(name, _INTEGERS, INTEGERS), operands=_shift_operands, parameters=(BINARY[0], most)
    )


# --- where -----------------------------------------------------------------------------------



def _where_operands(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
    condition = Operand(DATA, TensorType(tuple(chosen["condition_shape"]), "bool"))
    # Condition and other value broadcast to the lead independently of each other.
    shape = x.shape if chosen["other"] == "same" else x.shape[1:] if chosen["other"] == "trailing" else ()
    lead, other = Operand(LEAD, x), Operand(DATA, TensorType(shape, x.dtype))
    return (condition, other, lead) if chosen["order"] == "second" else (condition, lead, other)


def _other_value(x: TensorType, chosen: Attrs) -> Classes:
    return {
        "same": ("same",),
        "trailing": ("trailing",) if x.rank > 1 else (),
        "scalar": ("scalar",) if x.rank > 0 else (),
    }


def _where_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    condition, a, b = types
    if condition.dtype != "bool" or a.dtype != b.dtype:
        raise TypeRuleError(
            "%s, %s and %s are not a condition of bool and two operands of one dtype" % (condition, a, b)
        )
    return (TensorType(broadcast(condition.shape, broadcast(a.shape, b.shape)), a.dtype),)


OPERATORS: tuple[Operator, ...] = (
    _comparison("equal", commutative=True),
    _comparison("not_equal", commutative=True),
    _comparison("less"),
    _comparison("less_equal"),
    _comparison("greater"),
    _comparison("greater_equal"),
    # TVM's type rules accept other dtypes for these operators, its expressions do not.
    binary("logical_and", _BOOLEANS, ("bool",), commutative=True, associative=("bool",)),
    binary("logical_or", _BOOLEANS, ("bool",), commutative=True, associative=("bool",)),
    binary("logical_xor", _BOOLEANS, ("bool",), commutative=True, associative=("bool",)),
    unary("logical_not", _BOOLEANS, dtypes=("bool",)),
    binary("bitwise_and", _INTEGERS, _BITS, commutative=True, associative=_BITS),
    binary("bitwise_or", _INTEGERS, _BITS, commutative=True, associative=_BITS),
    binary("bitwise_xor", _INTEGERS, _BITS, commutative=True, associative=_BITS),
    unary("bitwise_not", _INTEGERS, dtypes=_BITS),
    _shift("left_shift", Parameter("most", _left_counts, attribute=False)),
    _shift("right_shift", Parameter("most", _right_counts, attribute=False)),
    _test("isnan"),
    _test("isinf"),
    _test("isfinite"),
    Operator(
        name="where",
        infer=_where_infer,
        shapes=SHAPES,
        accuracy="exact",
        dtypes=ANY,
        operands=_where_operands,
        parameters=(
            Parameter("condition_shape", other_shape, attribute=False),
            Parameter("other", _other_value, attribute=False),
            BINARY[1],
        ),
        relay=call("where"),
        relax=call("where"),
    ),
)
