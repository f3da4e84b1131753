"""Builds graphs value by value; the graphs are valid by construction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..core.graph import Graph, Node, Source, TensorType
from ..operators import OPERATORS
from ..operators.record import DATA, FRESH, LEAD, Operand, Operator, default_range

#: Chooses a value of a parameter: (name, values by class) -> value.
Pick = Callable[[str, Mapping[str, Sequence[Any]]], Any]
#: Returns the name of an existing or a new value for an operand: (operand, its position) -> name.
Supply = Callable[[Operand, int], str]


def first(name: str, classes: Mapping[str, Sequence[Any]]) -> Any:
    """Returns the default of a parameter: the first value of its first class."""
    return next(iter(classes.values()))[0]


def choose_parameters(op: Operator, x: TensorType, pick: Pick) -> dict[str, Any]:
    """Returns a value for each parameter of the operator, for a first operand of type `x`."""
    chosen: dict[str, Any] = {}
    for parameter in op.parameters:
        chosen[parameter.name] = pick(parameter.name, parameter.values(x, chosen))
    return chosen


def _range(type_: TensorType, low: float | None, high: float | None) -> tuple[float, float]:
    """Returns the given range; a bound that is None is that of the dtype's default range."""
    default = default_range(type_.dtype)
    return default[0] if low is None else low, default[1] if high is None else high


class Builder:
    """A graph under construction. Inputs are named x0, x1 …, constants c0 …, nodes' results v0 …"""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self.inputs: list[Source] = []
        self.constants: list[Source] = []
        self.nodes: list[Node] = []
        self.types: dict[str, TensorType] = {}
        #: The range that the elements of each source lie in: (low, high).
        self.ranges: dict[str, tuple[float, float]] = {}
        #: Values inside a pattern, which would no longer match if another node read them too.
        self.hidden: set[str] = set()
        #: Constants, and results that TVM computes from constants alone.
        self.fixed: set[str] = set()

    def usable(self) -> list[str]:
        """Returns the values that may be operands or outputs, in the order of their making."""
        return [name for name in self.types if name not in self.hidden]

    def splice(self, part: Graph, choose: Callable[[TensorType], str | None]) -> tuple[str, ...]:
        """Adds the nodes of another graph and returns the names of its outputs here.

        choose: returns the value to use for an input of that type, or None for a new input. Results
        of the part's nodes that are not among its outputs are hidden."""
        names: dict[str, str] = {}
        for source in part.inputs:
            value = choose(source.type)
            names[source.name] = value or self.input(source.type, source.low, source.high, source.data)
        for source in part.constants:
            names[source.name] = self.constant(source.type, source.low, source.high, source.data)
        for node in part.nodes:
            outputs = self.node(node.op, [names[i] for i in node.inputs], node.attrs)
            names.update(zip(node.outputs, outputs))
        results = {names[o] for node in part.nodes for o in node.outputs}
        self.hidden |= results - {names[o] for o in part.outputs}
        return tuple(names[o] for o in part.outputs)

    def twin(self, node: Node, lead: str) -> tuple[str, ...]:
        """Adds a node again with another first operand and new constants; returns its outputs."""
        constants = {c.name: c for c in self.constants}

        def renewed(name: str) -> str:
            c = constants.get(name)
            return name if c is None else self.constant(c.type, c.low, c.high, c.data)

        return self.node(node.op, [lead, *(renewed(i) for i in node.inputs[1:])], node.attrs)

    def _next_seed(self) -> int:
        if self._seed == 0:
            return 0
        return self._seed * 1009 + len(self.inputs) * 31 + len(self.constants)

    def input(
        self, type_: TensorType, low: float | None = None, high: float | None = None, data: Any = None,
        name: str = "",
    ) -> str:
        """Adds an input, drawn from a range (by default its dtype's) or with given elements;
        returns its name."""
        name = name or f"x{len(self.inputs)}"
        source = Source(name, type_, *_range(type_, low, high), self._next_seed(), data)
        self.inputs.append(source)
        return self._add(source)

    def constant(
        self, type_: TensorType, low: float | None = None, high: float | None = None, data: Any = None
    ) -> str:
        """Adds a constant, drawn from a range or with given elements; returns its name."""
        source = Source(
            f"c{len(self.constants)}", type_, *_range(type_, low, high), self._next_seed(), data
        )
        self.constants.append(source)
        self.fixed.add(source.name)
        return self._add(source)

    def _add(self, source: Source) -> str:
        self.types[source.name] = source.type
        self.ranges[source.name] = (source.low, source.high)
        return source.name

    def fresh(self, operand: Operand, position: int = 0) -> str:
        """Adds a source for an operand, an input for data or a constant for weights and biases;
        returns its name."""
        make = self.input if operand.role in (LEAD, DATA, FRESH) else self.constant
        return make(operand.type, *operand.range(), operand.data)

    def lead(self, op: Operator, type_: TensorType) -> str:
        """Adds an input whose elements suit the operator's first operand; returns its name."""
        return self.input(type_, *op.range(type_.dtype))

    def apply(
        self, op: str | Operator, x: str, chosen: Mapping[str, Any], supply: Supply | None = None
    ) -> tuple[str, ...]:
        """Applies an operator to the first operand `x` and returns the names of its outputs.

        Raises TypeRuleError if the parameters do not go together, which the records rule out.
        """
        record = OPERATORS[op] if isinstance(op, str) else op
        names = []
        for i, operand in enumerate(record.operands(self.types[x], chosen)):
            names.append(x if operand.role == LEAD else (supply or self.fresh)(operand, i))
        return self.node(record.name, names, record.attrs(chosen))

    def node(self, op: str, inputs: Sequence[str], attrs: Mapping[str, Any]) -> tuple[str, ...]:
        """Adds a node with the given operands and attributes; returns the names of its outputs."""
        types = OPERATORS[op].infer([self.types[i] for i in inputs], attrs)
        count = sum(len(n.outputs) for n in self.nodes)
        outputs = tuple(f"v{count + i}" for i in range(len(types)))
        self.nodes.append(Node(op, tuple(inputs), dict(attrs), outputs, types))
        self.types.update(zip(outputs, types))
        silent = OPERATORS[op].type_only
        if all(name in self.fixed for at, name in enumerate(inputs) if at not in silent):
            self.fixed.update(outputs)
        return outputs

    def simple(self, op: str, x: str, *others: str, **parameters: Any) -> str:
        """Applies an operator to the given values and returns its first output; parameters that are
        not given have their defaults."""
        if len(others) and OPERATORS[op].parameters and not parameters:
            return self.node(op, (x, *others), {})[0]
        record = OPERATORS[op]
        chosen = choose_parameters(
            record,
            self.types[x],
            lambda name, classes: parameters[name] if name in parameters else first(name, classes),
        )
        queue = list(others)
        return self.apply(
            record, x, chosen, lambda o, i: queue.pop(0) if queue else self.fresh(o, i)
        )[0]

    def graph(self, *outputs: str) -> Graph:
        return Graph(tuple(self.inputs), tuple(self.constants), tuple(self.nodes), outputs)
