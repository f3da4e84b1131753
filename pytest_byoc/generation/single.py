"""Makes graphs of one operator in a given shape and dtype, with given classes of its parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

from ..core.graph import Graph, TensorType
from ..operators.record import CONSTANT, DATA, INTEGERS, WEIGHT, Operand, Operator
from .builder import Builder, Pick, choose_parameters, first


class OneNodeGraph(NamedTuple):
    """A graph of one node, and the (parameter, class) pairs it was made with."""

    graph: Graph
    classes: frozenset[tuple[str, str]] = frozenset()


def default_type(op: Operator, dtype: str) -> TensorType:
    return TensorType(op.shapes[0], dtype)


def default_operands(op: Operator, dtype: str) -> tuple[Operand, ...]:
    return operands_of(op, default_type(op, dtype))


def operands_of(op: Operator, x: TensorType) -> tuple[Operand, ...]:
    return op.operands(x, choose_parameters(op, x, first))


def rich(op: Operator) -> tuple[tuple[int, ...], ...]:
    """Returns the shapes with two or more dimensions above 1; if there are none, with the most."""
    telling = [sum(d > 1 for d in s) for s in op.shapes]
    least = min(2, max(telling))
    return tuple(s for s, n in zip(op.shapes, telling) if n >= least)


@lru_cache(maxsize=4096)
def class_names(op: Operator, position: int, dtype: str) -> tuple[str, ...]:
    """Returns the classes of a parameter over all shapes, other parameters at their defaults."""
    names: dict[str, None] = {}
    for shape in op.shapes:
        x = TensorType(shape, dtype)
        chosen: dict[str, Any] = {}
        for parameter in op.parameters[:position]:
            chosen[parameter.name] = first(parameter.name, parameter.values(x, chosen))
        names.update(dict.fromkeys(op.parameters[position].values(x, chosen)))
    return tuple(names)


class NoSuchClass(Exception):
    """Raised if a parameter has no value of the required class, given those before it."""


def by_default(
    op: Operator, x: TensorType, forced: Mapping[str, str], constants: str | None = "weights"
) -> OneNodeGraph | None:
    """Returns a graph of one node with the forced classes and everything else at its default; None
    if a forced class does not exist for this operand.

    constants: with "weights", weights and biases are constants; with DATA, data operands too; with
    None only operands that must be constants.
    """

    return one_node(op, x, picking(forced), constants)


def picking(forced: Mapping[str, str]) -> Pick:
    """Returns a function that picks the forced classes, and the default of other parameters. It
    raises NoSuchClass."""

    def pick(name: str, classes: Mapping[str, Sequence[Any]]) -> Any:
        if name in forced:
            if forced[name] not in classes:
                raise NoSuchClass
            return classes[forced[name]][0]
        return first(name, classes)

    return pick


def with_class(
    op: Operator, dtype: str, shapes: Sequence[tuple[int, ...]], forced: Mapping[str, str]
) -> OneNodeGraph | None:
    """Returns the graph for the first shape with which the parameters have these classes, or None."""
    attempts = (by_default(op, TensorType(s, dtype), forced) for s in shapes)
    return next((g for g in attempts if g is not None), None)


def mixed(op: Operator, dtype: str, index: int) -> OneNodeGraph | None:
    def pick(name: str, classes: Mapping[str, Sequence[Any]]) -> Any:
        values = list(classes.values())
        chosen = values[min(index, len(values) - 1)]
        return chosen[-1]

    return one_node(op, TensorType(op.shapes[min(index, len(op.shapes) - 1)], dtype), pick, "weights")


def one_node(
    op: Operator, x: TensorType, pick: Any, constants: str | None, limit: float = 0.0
) -> OneNodeGraph | None:
    builder = Builder(seed=1)
    lead = builder.input(x, -limit, limit) if limit else builder.lead(op, x)
    classes: list[tuple[str, str]] = []

    def noted(name: str, values: Mapping[str, Sequence[Any]]) -> Any:
        if not values:
            raise NoSuchClass
        value = pick(name, values)
        classes.append((name, next(label for label, some in values.items() if value in some)))
        return value

    try:
        chosen = choose_parameters(op, x, noted)
    except NoSuchClass:
        return None

    def supply(operand: Operand, position: int) -> str:
        # The product of two large integers would overflow.
        if limit and operand.role == DATA and x.dtype not in INTEGERS:
            return builder.input(operand.type, -limit, limit)
        if operand.role == CONSTANT or constants == DATA:
            return builder.constant(operand.type, *operand.range(), operand.data)
        if constants is None:
            return builder.input(operand.type, *operand.range(), operand.data)
        return builder.fresh(operand)

    results = builder.apply(op, lead, chosen, supply)
    return OneNodeGraph(builder.graph(*results[: op.used]), frozenset(classes))


def others_constant(one: OneNodeGraph) -> OneNodeGraph:
    """Returns the graph with constants in place of all inputs but the operator's first operand."""
    graph = one.graph
    lead = graph.nodes[0].inputs[0]
    others = tuple(source for source in graph.inputs if source.name != lead)
    inputs = tuple(source for source in graph.inputs if source.name == lead)
    return one._replace(graph=replace(graph, inputs=inputs, constants=(*graph.constants, *others)))


def constant_lead(op: Operator, dtype: str) -> OneNodeGraph | None:
    """Returns the simplest graph with its first operand a constant."""
    builder = Builder(seed=1)
    x = default_type(op, dtype)
    lead = builder.constant(x, *op.range(dtype))
    return OneNodeGraph(builder.graph(*builder.apply(op, lead, choose_parameters(op, x, first))[: op.used]))


def varied(op: Operator, dtype: str) -> Iterator[tuple[str, OneNodeGraph | None]]:
    """Yields (label, graph or None): the simplest graph in a dtype, one graph for each class of
    each parameter, and two graphs with everything off its default."""
    simplest = by_default(op, TensorType(op.shapes[0], dtype), {})
    yield dtype, simplest

    def is_usual(shape: tuple[int, ...]) -> bool:
        # On an image of one row, for example, only a window of one element fits.
        one = by_default(op, TensorType(shape, dtype), {})
        return one is not None and simplest is not None and one.classes == simplest.classes

    telling = [shape for shape in rich(op) if is_usual(shape)] or rich(op)
    for position, parameter in enumerate(op.parameters):
        for label in class_names(op, position, dtype):
            # Each parameter is tested with another shape, if the class exists for it; shapes with
            # long axes, on which other parameters can have their defaults, come first.
            shapes = (*telling[position % len(telling) :], *telling, *op.shapes)
            graph = with_class(op, dtype, shapes, {parameter.name: label})
            yield f"{dtype}-{parameter.name}_{label}", graph
    if len(op.parameters) > 1:
        for index in (1, 2):
            yield f"{dtype}-mixed_{index}", mixed(op, dtype, index)


def squared(op: Operator, dtype: str) -> Iterator[tuple[str, OneNodeGraph]]:
    """Yields (label, graph) for a square matrix times itself, transposed or not; only for operators
    whose operands have different types in the simplest case."""

    def fits(x: TensorType) -> bool:
        if not op.accepts(x):
            return False
        return any(o.role in (DATA, WEIGHT) and o.type == x for o in operands_of(op, x))

    if fits(default_type(op, dtype)):
        return
    squares = (TensorType((*lead, n, n), dtype) for n in range(2, 9) for lead in ((), (2,)))
    x = next(filter(fits, squares), None)
    if x is None:
        return
    yield f"{dtype}-squared", times_itself(op, x, {})
    for parameter in op.parameters:
        if parameter.name.startswith("transpose"):
            for label in parameter.values(x, {}):
                one = times_itself(op, x, {parameter.name: label})
                yield f"{dtype}-squared-{parameter.name}_{label}", one


def times_itself(op: Operator, x: TensorType, forced: Mapping[str, str]) -> OneNodeGraph:
    def pick(name: str, classes: Mapping[str, Sequence[Any]]) -> Any:
        return classes[forced[name]][0] if name in forced else first(name, classes)

    builder = Builder(seed=1)
    lead = builder.lead(op, x)

    def supply(operand: Operand, position: int) -> str:
        return lead if operand.role in (DATA, WEIGHT) and operand.type == x else builder.fresh(operand)

    results = builder.apply(op, lead, choose_parameters(op, x, pick), supply)
    return OneNodeGraph(builder.graph(*results[: op.used]))
