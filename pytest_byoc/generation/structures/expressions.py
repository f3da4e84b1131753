"""Small graphs written as expressions, of which the tables of structures consist.

A value that occurs twice in an expression is computed once: `y = call("tanh", x(3)); (y, y)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...core.graph import Graph, TensorType
from ..builder import Builder
from .vocabulary import (
    AT_HOST,
    BINARY,
    BINARY_1,
    ROLES,
    UNARY,
    UNARY_1,
    UNARY_2,
    Unavailable,
    Vocabulary,
    add,
)


@dataclass(frozen=True, eq=False)
class Leaf:
    """An input, or a constant. low, high, data: as in `core.graph.Source`."""

    type: TensorType
    constant: bool = False
    low: float | None = None
    high: float | None = None
    data: Any = None
    name: str = ""


@dataclass(frozen=True, eq=False)
class Call:
    """The results of an operator. complete: True if `given` holds all attributes; otherwise it holds
    some parameters, the others have their defaults, and operands that are missing are made."""

    operator: str
    operands: tuple[Value, ...]
    given: Mapping[str, Any] = field(default_factory=dict)
    complete: bool = False


@dataclass(frozen=True, eq=False)
class Field:
    """One of several results."""

    of: Call
    index: int


Value = Leaf | Call | Field


@dataclass(frozen=True)
class Row:
    """A small graph. needs: the operators that the target must offload, by default all of them; others
    may be left to TVM unless the target offloads them in a pattern. The roles in the graph are needed
    in any case."""

    outputs: tuple[Value, ...]
    needs: frozenset[str]


def x(*shape: int, low: float | None = None, high: float | None = None, dtype: str = "float32",
      data: Any = None, name: str = "") -> Leaf:
    """Returns an input."""
    return Leaf(TensorType(shape, dtype), False, low, high, data, name)


def constant(*shape: int, low: float | None = 0.5, high: float | None = 2.0, dtype: str = "float32",
             data: Any = None) -> Leaf:
    """Returns a constant, by default of positive numbers."""
    return Leaf(TensorType(shape, dtype), True, low, high, data)


def call(operator: str, *operands: Value, **parameters: Any) -> Call:
    """Returns the result of an operator in its simplest form, with the given parameters."""
    return Call(operator, operands, parameters)


def node(operator: str, *operands: Value, **attrs: Any) -> Call:
    """Returns the result of an operator with these operands and attributes alone."""
    return Call(operator, operands, attrs, complete=True)


def first(value: Value) -> Call:
    return call(UNARY_1, value)


def second(value: Value) -> Call:
    return call(UNARY_2, value)


def two(left: Value, right: Value) -> Call:
    return node(BINARY_1, left, right)


def host(value: Value) -> Call:
    return call(AT_HOST, value)


def row(*outputs: Value, needs: Iterable[str] | None = None) -> Row:
    """Returns a row with these outputs."""
    named = operators(outputs)
    return Row(outputs, named if needs is None else frozenset(needs) | named & ROLES)


def _in_order(outputs: Iterable[Value]) -> list[Value]:
    """Returns the values of an expression, each behind its operands. It has no recursion, since
    expressions may be deeper than Python's stack."""
    order: dict[int, Value] = {}
    left = list(outputs)[::-1]
    while left:
        value = left[-1]
        missing = [operand for operand in _before(value) if id(operand) not in order]
        if missing:
            left.extend(missing[::-1])
        else:
            order.setdefault(id(left.pop()), value)
    return list(order.values())


def _before(value: Value) -> tuple[Value, ...]:
    if isinstance(value, Field):
        return (value.of,)
    return value.operands if isinstance(value, Call) else ()


def operators(outputs: Iterable[Value]) -> frozenset[str]:
    """Returns the names of the operators of an expression, roles among them."""
    return frozenset(value.operator for value in _in_order(outputs) if isinstance(value, Call))


def _add(value: Value, b: Builder, v: Vocabulary, made: Mapping[int, tuple[str, ...]]) -> tuple[str, ...]:
    """Adds a value, whose operands are there already, and returns the names of its results."""
    if isinstance(value, Leaf):
        if value.constant:
            return (b.constant(value.type, value.low, value.high, value.data),)
        return (b.input(value.type, value.low, value.high, value.data, value.name),)
    if isinstance(value, Field):
        return (made[id(value.of)][value.index],)
    operator = v.operator(value.operator)
    operands = [made[id(operand)][0] for operand in value.operands]
    if value.complete:
        return b.node(operator, operands, value.given)
    return (b.simple(operator, *operands, **value.given),)


@dataclass(frozen=True)
class Table:
    """A structure that consists of rows: one graph of all that the target can have. Raises Unavailable
    if it can have none.

    in_patterns: whether it can have a row of operators that it offloads in patterns alone."""

    rows: tuple[Row, ...]
    in_patterns: bool = False

    def __call__(self, b: Builder, v: Vocabulary) -> Graph:
        outputs = list[str]()
        for one in self.rows:
            if all(map(v.takes if self.in_patterns else v.has, one.needs)):
                made: dict[int, tuple[str, ...]] = {}
                for value in _in_order(one.outputs):
                    made[id(value)] = _add(value, b, v, made)
                outputs += [made[id(value)][0] for value in one.outputs]
        if not outputs:
            needed = set().union(*(one.needs for one in self.rows)) - ROLES
            raise Unavailable(v.lacks(sorted(needed) or (*UNARY, *BINARY)))
        return b.graph(*outputs)


def add_table(
    name: str, rows: Iterable[Row | Value], in_full: bool = False, at_smoke: bool = True,
    in_patterns: bool = False,
) -> None:
    """Adds a structure of these rows; see `Table` and `vocabulary.add`."""
    made = tuple(one if isinstance(one, Row) else row(one) for one in rows)
    add(name, Table(made, in_patterns), in_full, at_smoke)
