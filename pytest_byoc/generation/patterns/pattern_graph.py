"""Builds a graph with the structure of a pattern, for one way of matching it and given choices."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ...core.graph import Graph, TensorType
from ...operators import OPERATORS
from ...operators.measured import dtypes as runnable
from ...operators.record import (
    BIAS,
    CONSTANT,
    DATA,
    FLOATS,
    FRESH,
    LEAD,
    UNSET,
    WEIGHT,
    Operand,
    Operator,
    TypeRuleError,
)
from ..builder import Builder, choose_parameters, first
from ..pool import takes
from ..scales import natural
from .alternatives import LEAVES, NoInstance, Reading, joins_any_number, returns_tuple, takes_tuple
from .call_choices import OTHER, CallChoices, thawed
from .draws import Draws
from .shape_plans import ShapePlans
from .tree import Pattern, Tree, Way

#: Attempts to choose an operator's parameters so that its operands fit the existing values.
_TRIES = 30
#: The probability that a product's scale follows from its operands; some checks need that.
_NATURAL = 0.8
#: The probability that attributes are left out which are optional and have their defaults, if the
#: pattern gives some call fewer arguments than it has with them: UNSET is among the words then.
_UNSET = 0.5
#: The probabilities that an operand with a domain of its own, such as indices, is a constant, and that
#: one of any elements is.
_FIXED, _FIXED_DATA = 0.3, 0.15
#: The most elements that the results of a node may have; results grow along a pattern.
_MAX_ELEMENTS = 4096


class NoFit(NoInstance):
    """Raised if these choices give no graph for a pattern, but others may."""


class PatternGraph:
    """A graph in the making, with the structure of a pattern. draws: makes the choices. plain: True
    if every choice should be the default. words: values of attributes and dtypes that are more
    likely."""

    def __init__(
        self, pattern: Pattern, way: Way, ir: str, seed: int, plain: bool, draws: Draws,
        words: Sequence[Any],
    ) -> None:
        self._pattern, self._reading, self._ir = pattern, Reading(pattern, way, ir), ir
        self._plain, self._draws, self._words = plain, draws, words
        self._choices = CallChoices(self._reading, ir, plain, draws, words)
        self._plans = ShapePlans(self._reading, self._choices, plain)
        self._builder = Builder(seed=seed + 1)
        self._values: dict[int, tuple[str, ...]] = {}
        #: The fewest operands that an operator accepted so far, by its name.
        self._wanted: dict[str, int] = {}

    def graph(self) -> Graph:
        """Returns the graph. Raises NoInstance."""
        root, demands = self._reading.resolve(self._pattern.root)
        if self._pattern.nodes[root].kind not in ("call", "item", "tuple"):
            raise NoInstance("the pattern matches values that no operator returns")
        outputs = self._visit(root, demands)
        if not self._builder.nodes:
            raise NoInstance("the pattern contains no operator")
        return self._builder.graph(*outputs)

    # --- walking the pattern -----------------------------------------------------------------

    def _visit(self, number: int, demands: Mapping[str, Any] | None = None) -> tuple[str, ...]:
        """Returns the names of the values of a node: a call, a tuple or an item of a tuple."""
        if number in self._values:
            return self._values[number]
        node = self._pattern.nodes[number]
        if node.kind == "item":
            assert node.of is not None
            of, inner = self._reading.resolve(node.of[0])
            if self._pattern.nodes[of].kind != "call":
                raise NoInstance("the pattern reads an item of a tuple that no operator returns")
            if not any(returns_tuple(op) for op in self._reading.candidates(of)):
                name = self._reading.name(of)
                raise NoInstance(f"the pattern reads an item of the result of {name}, which is not a tuple")
            values = self._visit(of, inner)
            if (node.index or 0) >= len(values):
                raise NoInstance(f"the pattern reads item {node.index} of a tuple of {len(values)}")
            results: tuple[str, ...] = (values[node.index or 0],)
        elif node.kind == "call":
            results = self._call(number, node, demands or {})
        elif node.kind == "tuple" and node.of is not None:
            results = tuple(v for part in node.of for v in self._visit(*self._reading.resolve(part)))
        else:
            raise NoInstance(_unusable(node))
        self._values[number] = results
        return results

    def _call(self, number: int, node: Tree, demands: Mapping[str, Any]) -> tuple[str, ...]:
        name = self._reading.name(number)
        candidates = self._choices.ordered(number, self._reading.candidates(number))
        self._choices.missing = ""
        self._plans.plan(number, candidates[0], self._values, self._type_of)
        slots, more = self._slots(node)
        leaves = [s for s in slots if isinstance(s, int) and self._given(s) is None]
        constant = self._choices.constant(leaves[-1]) if leaves and len(slots) == 2 else None
        if constant is not None:
            # A record whose other operand can have one element comes first.
            candidates.sort(key=lambda op: all(p.name != OTHER for p in op.parameters))
        demands = {**demands, "results": self._reading.least.get(number, 1)}
        for op in candidates:
            self._choices.number = constant
            results = self._apply(number, op, slots, more or node.more, demands)
            if results is not None:
                return results
        if not more and not node.more and self._wanted.get(name, 0) > len(slots):
            raise NoInstance(f"{name} has {self._wanted[name]} operands, the pattern gives it {len(slots)}")
        if self._choices.missing:
            demanded = self._choices.missing
            raise NoFit(f"the record of {name} does not have what the pattern demands: {demanded}")
        raise NoFit(f"no parameters of {name} fit the operands of the pattern{_one_for_several(node)}")

    def _type_of(self, number: int) -> TensorType:
        """Returns the type of a call's first result, or of a leaf that exists; makes the call."""
        return self._builder.types[self._visit(number, self._reading.demands.get(number))[0]]

    def _slots(self, node: Tree) -> tuple[list[str | int], bool]:
        """Returns the arguments of a call, tuples spread out, and whether there may be more than
        the pattern gives. An argument is the name of a value or the number of a leaf."""
        if node.of is None:
            return [], True
        slots: list[str | int] = []
        more = False
        for part in node.of:
            number, demands = self._reading.resolve(part)
            inner = self._pattern.nodes[number]
            if inner.kind in LEAVES:
                slots.append(number)
                # It may stand for a tuple of any number of values.
                more |= inner.kind == "wildcard" and joins_any_number(node, self._ir)
                if demands.get("shape") and all(isinstance(d, int) for d in demands["shape"]):
                    self._plans.leaves[number] = tuple(demands["shape"])
            elif inner.kind == "tuple":
                fields = inner.of
                more |= fields is None
                spread, _ = self._slots(Tree("call", fields or ()))
                slots += spread
            elif inner.kind == "other":
                # This argument is not a tensor; the record's lowering supplies it.
                slots.append(number)
            else:
                several = inner.kind == "call" and all(map(returns_tuple, self._reading.candidates(number)))
                if several and (len(node.of) > 1 or not takes_tuple(node, self._ir)):
                    raise NoInstance(
                        f"{self._reading.name(number)} returns a tuple, of which the pattern reads no item"
                    )
                results = self._visit(number, demands)
                slots += results if several else results[:1]
        return slots, more

    # --- applying an operator ----------------------------------------------------------------

    def _apply(
        self, number: int, op: Operator, slots: Sequence[str | int], more: bool, demands: Mapping[str, Any]
    ) -> tuple[str, ...] | None:
        """Adds a node for a call and returns its results' names; None if no parameters fit."""
        given = [self._given(s) for s in slots]
        only = given[0] if len(slots) == 1 else None
        if only is not None and not takes(op, self._builder.types[only], self._ir):
            return None
        lead = given[0] if given else None
        follows = natural(self._builder, op.name, lead) if lead is not None else {}
        existing = [self._builder.types[g] for g in given if g is not None]
        shapes = [t.shape for t in map(self._given_type, slots) if t is not None]
        shapes += [self._plans.leaves[s] for s in slots if isinstance(s, int) and s in self._plans.leaves]
        shape = self._plans.leaves.get(slots[0]) if slots and isinstance(slots[0], int) else None
        since = len(self._draws.used)
        self._choices.parts = self._reading.parts(number)
        for attempt in range(_TRIES):
            plain = self._plain and attempt == 0
            self._draws.forget(since)
            self._choices.begin(number, f"{op.name} {attempt}")
            self._choices.count, self._choices.more = len(slots), more
            follows_plan = attempt == 0 and number in self._plans.parameters
            if follows_plan and lead is not None:
                x: TensorType | None = self._builder.types[lead]
            else:
                x = self._choices.lead(op, existing, shape, demands, plain)
            if x is None or not takes(op, x, self._ir):
                continue
            planned = self._plans.parameters_for(number, x) if follows_plan else {}
            both = [t.shape for t in existing] if len(existing) == 2 else []
            self._choices.other = next((s for s in both if s != x.shape), x.shape) if both else None
            of_lead = lead is not None and x == self._builder.types[lead]
            natural_too = follows if of_lead and (plain or self._choices.draw("natural") < _NATURAL) else {}
            fixed = {**natural_too, **planned}
            before = None if planned else self._choices.before(op, x, attempt)

            def pick(
                name: str, classes: Mapping[str, Sequence[Any]],
                fixed: Mapping[str, Any] = fixed, plain: bool = plain,
            ) -> Any:
                known = name in fixed
                return fixed[name] if known else self._choices.pick(name, classes, demands, plain, shapes)

            chosen = before or choose_parameters(op, x, pick)
            operands = op.operands(x, chosen)
            ir_name = getattr(op, self._ir).op
            self._wanted[ir_name] = min(self._wanted.get(ir_name, len(operands)), len(operands))
            if not self._fits(number, op, operands, chosen, given, slots, more, demands):
                continue
            self._choices.remember(op, x, chosen)
            return self._node(op, operands, chosen, given, slots)
        return None

    def _given_type(self, slot: str | int) -> TensorType | None:
        """Returns the type of a constant whose value the pattern gives, or else None."""
        node = self._pattern.nodes[slot] if isinstance(slot, int) else None
        if node is None or node.data is None:
            return None
        assert node.shape is not None and node.dtype is not None
        return TensorType(node.shape, node.dtype)

    def _given(self, slot: str | int) -> str | None:
        """Returns the name of the value in a slot, if it exists already."""
        if isinstance(slot, str):
            return slot
        return self._values[slot][0] if slot in self._values else None

    def _fits(
        self,
        number: int,
        op: Operator,
        operands: Sequence[Operand],
        chosen: Mapping[str, Any],
        given: Sequence[str | None],
        slots: Sequence[str | int],
        more: bool,
        demands: Mapping[str, Any],
    ) -> bool:
        if len(operands) > len(slots) and not more:
            return False
        # Arguments without an operand must not be tensors; they may be a shape or an axis.
        if any(isinstance(s, str) for s in slots[len(operands) :]):
            return False
        types: dict[int, TensorType] = {}
        for operand, slot, value in zip(operands, slots, given):
            if value is not None and self._builder.types[value] != operand.type:
                return False
            if operand.role == CONSTANT and isinstance(slot, str):
                return False
            wanted = self._given_type(slot)
            if wanted is not None and wanted != operand.type:
                return False
            planned = self._plans.leaves.get(slot) if isinstance(slot, int) else None
            if planned not in (None, operand.type.shape):
                return False
            # A leaf used twice is one value.
            if isinstance(slot, int) and types.setdefault(slot, operand.type) != operand.type:
                return False
        attrs = op.attrs(chosen)
        for key, wanted in demands.get("attrs", {}).items():
            if key in attrs and thawed(attrs[key]) != thawed(wanted):
                return False
        try:
            results = op.infer([o.type for o in operands], attrs)
        except TypeRuleError:
            return False
        if demands.get("dtype") not in (None, results[0].dtype) or len(results) < demands["results"]:
            return False
        for users in self._reading.uses.get(number, ()):
            if users and not any(takes(user, results[0], self._ir) for user in users):
                return False
        return sum(t.size for t in results) <= _MAX_ELEMENTS

    def _node(
        self,
        op: Operator,
        operands: Sequence[Operand],
        chosen: Mapping[str, Any],
        given: Sequence[str | None],
        slots: Sequence[str | int],
    ) -> tuple[str, ...]:
        names = []
        for i, operand in enumerate(operands):
            slot = slots[i] if i < len(slots) else None
            name = given[i] if i < len(given) else None
            if name is None and isinstance(slot, int) and slot in self._values:
                name = self._values[slot][0]
            if name is None:
                name = self._leaf(op, operand, slot)
                if isinstance(slot, int):
                    self._values[slot] = (name,)
            names.append(name)
        return self._builder.node(op.name, names, {**op.attrs(chosen), **self._unset(op, operands, chosen)})

    def _unset(
        self, op: Operator, operands: Sequence[Operand], chosen: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Returns the attribute that leaves out those which are optional in the IR and have their
        defaults, or none: the call has fewer arguments then."""
        x = next((o.type for o in operands if o.role == LEAD), None)
        optional: Collection[str] = getattr(op, self._ir).optional
        if UNSET not in self._words or x is None or not optional or self._choices.draw("unset") > _UNSET:
            return {}
        before: dict[str, Any] = {}
        left_out = []
        for parameter in op.parameters:
            if parameter.name in optional:
                default = first(parameter.name, parameter.values(x, before))
                left_out += [parameter.name] * (chosen[parameter.name] == default)
            before[parameter.name] = chosen[parameter.name]
        return {UNSET: tuple(left_out)} if left_out else {}

    def _leaf(self, op: Operator, operand: Operand, slot: str | int | None) -> str:
        node = self._pattern.nodes[slot] if isinstance(slot, int) else None
        low, high = op.range(operand.type.dtype) if operand.role == LEAD else operand.range()
        constant = operand.role in (WEIGHT, BIAS, CONSTANT)
        data = operand.data
        wild = node is not None and node.kind == "wildcard" and not self._plain
        # Parts of one form share their choices, but each leaf may be a constant or not.
        name_of = f"{slot} {operand.role}"
        if node is not None and node.kind in ("constant", "variable"):
            constant = node.kind == "constant"
        elif wild and operand.role in (WEIGHT, BIAS) and self._draws.random(f"{name_of} input") > 0.8:
            constant = False
        elif wild and operand.role in (FRESH, DATA):
            share = _FIXED if operand.role == FRESH else _FIXED_DATA
            constant = self._draws.random(f"{name_of} fixed") > 1 - share
        if node is not None and node.data is not None:
            data = node.data if operand.type.shape else node.data[0]
        elif node is not None and self._choices.number is not None and _holds_a_number(operand):
            constant, data = True, [self._choices.number]
        name = (self._builder.constant if constant else self._builder.input)(operand.type, low, high, data)
        if not constant and self._choices.extent == 1 and operand.type.shape:
            self._choices.extent = operand.type.shape[-1]
        open_to_all = wild and operand.role in (LEAD, DATA) and not constant
        if open_to_all and self._draws.random(f"{name_of} made") > 0.85:
            # The leaf becomes the result of another operator; abs keeps it within its range.
            op = OPERATORS["abs"]
            if operand.type.dtype in runnable(op, self._ir) and high >= -low:
                return self._builder.node("abs", [name], {})[0]
        return name


def _holds_a_number(operand: Operand) -> bool:
    return operand.role in (DATA, FRESH) and operand.type.size == 1 and operand.type.dtype in FLOATS


def _one_for_several(node: Tree) -> str:
    """Returns a remark if a call has one part in several places, which is rarely intended."""
    parts = node.of or ()
    again = [i + 1 for i, part in enumerate(parts) if parts.count(part) > 1]
    if not again:
        return ""
    places = ", ".join(map(str, again))
    return f": operands {places} are the same object in the pattern, so all must be the same value"


def _unusable(node: Tree) -> str:
    if node.kind == "other":
        return f"the pattern contains a {node.text}"
    return f"the pattern has a {node.kind} where an operator's result is needed"
