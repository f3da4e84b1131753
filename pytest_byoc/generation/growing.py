"""Builds random graphs operator by operator; they are valid by construction, none is discarded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, TypeVar

from ..core.graph import Graph, Node, TensorType
from ..operators import OPERATORS, within
from ..operators.measured import dtypes as runnable
from ..operators.record import BIAS, CONSTANT, DATA, OWN, WEIGHT, Operand, Operator
from .builder import Builder, choose_parameters, first
from .outlines import Outline
from .pool import Choices, Pool, pool, shapes, takes
from .scales import natural

T = TypeVar("T")

_MAX_ELEMENTS = 4096


def one(rng: Random, options: Sequence[T]) -> T:
    """Returns one of the options; the first if the generator returns its least number."""
    return options[rng.randrange(len(options))]


def chance(rng: Random, out_of_ten: int) -> bool:
    """Returns True in `out_of_ten` cases of ten; False for the generator's least number."""
    return rng.randrange(10) >= 10 - out_of_ten


def _followers(operator: str) -> tuple[str, ...]:
    """Returns the operators that often follow an operator in real models; none for an unknown one."""
    return OPERATORS[operator].followed_by if operator in OPERATORS else ()


class Growing:
    """A graph to which operators are added at random, as its outline says."""

    def __init__(
        self, rng: Random, outline: Outline, names: tuple[str, ...], ir: str | None,
        preferred: tuple[str, ...],
    ) -> None:
        self.rng, self.ir, self.names, self.outline = rng, ir, names, outline
        self.builder = Builder(seed=rng.randrange(1001))
        self.every = pool(names, ir)
        self.preferred = pool(preferred, ir) if preferred else self.every
        others = tuple(n for n in names if n not in preferred)
        self.others = pool(others, ir) if others else self.every
        #: True if the preferred operators and the others alternate in this graph.
        self.alternating = bool(preferred and others) and outline.preferred is None
        self.dtype = "float32"
        #: Changes the type of a new first operand; used where the operator accepts the changed
        #: type.
        self.fit: Callable[[TensorType], TensorType] = lambda x: x
        self.last: str | None = None
        self.last_op = ""
        #: Values that must not become dead code.
        self.kept: list[str] = []

    # --- adding operators ------------------------------------------------------------------------

    def add_part(self, part: Graph) -> None:
        """Adds a fragment; its inputs are existing values where these have the type."""

        def choose(type_: TensorType) -> str | None:
            fitting = [n for n in self.builder.usable() if self.builder.types[n] == type_]
            return one(self.rng, fitting[::-1]) if fitting and chance(self.rng, 7) else None

        outputs = self.builder.splice(part, choose)
        self._register(outputs, part.nodes[-1].op)
        self.kept.append(outputs[0])

    def add(self, op: Operator) -> None:
        """Adds an operator, mostly on an existing value if one fits."""
        fitting = [name for name in self._values() if self._fits(op, name)]
        results = [name for name in fitting if name[0] == "v"]
        if fitting and chance(self.rng, 9):
            self._apply(op, one(self.rng, (results or fitting)[::-1]))
        else:
            self._apply(op, self._fresh(op))

    def add_any(self) -> None:
        """Adds a random operator, mostly one that accepts an existing value: otherwise the graph
        would fall into pieces."""
        rng = self.rng
        if not self.alternating and chance(rng, self.outline.recurring[1]) and self._add_twin():
            return
        if not self.alternating and self.last is not None and chance(rng, 5):
            following = tuple(n for n in _followers(self.last_op) if n in self.names)
            if following and self._add_to(self.last, pool(following, self.ir)):
                return
        kind = self._pool()
        values = self._values()
        if values and chance(rng, 9):
            value = self.last if self.last in values and chance(rng, 5) else None
            results = [name for name in values if name[0] == "v"]
            if self._add_to(value or one(rng, (results or values)[::-1]), kind):
                return
        choices = self._choices(kind.every.records) if self._steep() else kind.every
        op = choices.pick(rng) if choices.total else self.every.every.records[0]
        self.add(op)

    def _pool(self) -> Pool:
        """Returns the operators to draw from: the preferred and the others in alternation, or
        as often the preferred as the outline says, and otherwise all."""
        if self.alternating:
            return self.others if len(self.builder.nodes) % 2 else self.preferred
        return self.preferred if chance(self.rng, self.outline.preferred or 7) else self.every

    def _add_to(self, value: str, kind: Pool) -> bool:
        """Applies one of the operators to a value; returns False if none accepts it."""
        choices = kind.takers(self.builder.types[value])
        if not choices.total:
            return False
        op = choices.pick(self.rng)
        if op.domain is not None and not self._fits(op, value) and not (op.steep and self._steep()):
            # Hardly any value is known to lie in the operator's domain, so a new input is added for
            # it.
            self._apply(op, self._fresh(op))
            return True
        if not self._fits(op, value):
            # The graph already has a steep operator: choose among the operators that are not steep.
            choices = self._choices([r for r in choices.records if self._fits(r, value)])
            if not choices.total:
                return False
            op = choices.pick(self.rng)
        self._apply(op, value)
        return True

    def _add_twin(self) -> bool:
        """Repeats a node with other constants, on another value if there is one; returns False if
        no node can be repeated. This shows a target that mixes up the constants of two equal
        regions, or keeps one copy for both."""
        builder = self.builder
        constants = {c.name for c in builder.constants}
        last: Node | None = None
        for node in builder.nodes:
            visible = not builder.hidden.intersection((*node.inputs, node.outputs[0]))
            if visible and node.inputs[0] not in constants and constants.intersection(node.inputs[1:]):
                last = node
        if last is None or (OPERATORS[last.op].steep and self._steep()):
            return False
        x = builder.types[last.inputs[0]]
        op = within(last.op, self.ir)
        fitting = [n for n in self._values() if builder.types[n] == x and self._fits(op, n)]
        lead = one(self.rng, fitting[::-1]) if fitting else last.inputs[0]
        self._register(builder.twin(last, lead), last.op)
        return True

    def _apply(self, op: Operator, lead: str) -> None:
        self._register(_node(self.rng, self.builder, op, lead, self.outline), op.name)

    def _register(self, outputs: Sequence[str], op: str) -> None:
        self.last, self.last_op = outputs[0], op
        unused = outputs[OPERATORS[op].used :] if OPERATORS[op].used is not None else ()
        if unused and chance(self.rng, 8):
            self.builder.hidden.update(unused)

    # --- operators that fit ----------------------------------------------------------------------

    def _values(self) -> list[str]:
        """Returns the values that may be an operator's first operand. Values computed from
        constants alone are left out: TVM folds them into constants, and an output that is a
        constant is never written."""
        return [name for name in self.builder.usable() if name not in self.builder.fixed]

    def _steep(self) -> bool:
        return any(OPERATORS[n.op].steep for n in self.builder.nodes)

    def _choices(self, records: Sequence[Operator]) -> Choices:
        steep = self._steep()
        return Choices([r for r in records if not (steep and r.steep)], self.ir)

    def _fits(self, op: Operator, name: str) -> bool:
        if not takes(op, self.builder.types[name], self.ir) or (op.steep and self._steep()):
            return False
        if op.domain is None:
            return True
        # A value that is not known to lie in the operator's domain might become NaN in half of its
        # elements.
        low, high = self.builder.ranges.get(name, (float("-inf"), float("inf")))
        return low >= op.domain[0] and high <= op.domain[1]

    def _fresh(self, op: Operator) -> str:
        """Adds a new first operand for the operator and returns its name. It is an input; now and
        then a constant, if another operand keeps the result from being a constant."""
        fitting = runnable(op, self.ir)
        dtype = self.dtype if self.dtype in fitting else fitting[0]
        every = shapes(op.name, dtype, self.ir)
        of_rank = [shape for shape in every if len(shape) == self.outline.wanted_rank]
        x = TensorType(one(self.rng, of_rank or every), dtype)
        fitted = self.fit(x)
        x = fitted if op.takes(fitted) else x
        if chance(self.rng, 1) and _takes_data(op, x):
            return self.builder.constant(x, *op.range(dtype))
        return self.builder.lead(op, x)


def _takes_data(op: Operator, x: TensorType) -> bool:
    """Returns whether the operator has, with default parameters, a second operand that is data."""
    operands = op.operands(x, choose_parameters(op, x, first))
    return any(o.role == DATA and i not in op.type_only for i, o in enumerate(operands))


def _node(
    rng: Random, builder: Builder, op: Operator, lead: str, outline: Outline
) -> tuple[str, ...]:
    x = builder.types[lead]
    values_recur, _, weights_recur = outline.recurring

    follows = natural(builder, op.name, lead)
    follows = follows if follows and chance(rng, 7) else {}

    def pick(name: str, classes: Mapping[str, Sequence[Any]]) -> Any:
        return follows[name] if name in follows else one(rng, one(rng, list(classes.values())))

    chosen = choose_parameters(op, x, pick)
    operands = op.operands(x, chosen)
    large = sum(t.size for t in op.infer([o.type for o in operands], op.attrs(chosen))) > _MAX_ELEMENTS
    if large or (lead[0] == "c" and all(o.role != DATA for o in operands)):
        # The drawn parameters may enlarge the value, for example by broadcasting it, or leave no
        # data operand beside a constant; the defaults do neither.
        chosen = choose_parameters(op, x, first)
    # True while all operands are constants or give only a type: another one must not be a constant,
    # or else the result is one.
    constant_so_far = lead[0] == "c" or 0 in op.type_only

    def supply(operand: Operand, position: int) -> str:
        nonlocal constant_so_far
        existing = [n for n in builder.usable() if builder.types[n] == operand.type]
        decides = constant_so_far and operand.role == DATA and position not in op.type_only
        if decides:
            existing = [n for n in existing if n not in builder.fixed]
            constant_so_far = False
        if operand.role == DATA and existing and chance(rng, values_recur):
            return one(rng, existing[::-1])
        if operand.role in (WEIGHT, BIAS):
            shared = [c.name for c in builder.constants if c.type == operand.type]
            if shared and chance(rng, weights_recur):
                return one(rng, shared)
        if operand.role in (WEIGHT, BIAS, OWN):
            constant = rng.randrange(5) < 4
        else:
            constant = not decides and (operand.role == CONSTANT or chance(rng, 5))
        make = builder.constant if constant else builder.input
        return make(operand.type, *operand.range(), operand.data)

    return builder.apply(op, lead, chosen, supply)
