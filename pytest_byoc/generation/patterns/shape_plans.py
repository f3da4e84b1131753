"""Plans the shapes of computed operands from a call down to the leaves, so that they fit each other.

The weight of a convolution may be dequantized, for example: its shape follows from the convolution,
not from the operator that computes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...core.graph import TensorType
from ...operators.record import Operator, TypeRuleError
from ..builder import choose_parameters
from .alternatives import LEAVES, NoInstance, Reading, keeps_shape
from .call_choices import CallChoices
from .inverses import Inverse, inverses, is_invertible

#: The probability that the operands of a call are planned.
_PLANNED = 0.85
#: The sizes of a product's sum, if its operands are planned from its result.
_DEPTHS = (4, 8, 3, 1)

#: Returns the type of an operand, building it if it does not exist yet.
TypeOf = Callable[[int], TensorType]


class ShapePlans:
    """The shapes that were planned for the parts of one pattern.

    leaves: by the leaf's number. results: of the first result, by the call's number. parameters: by the
    call's number, the shape of its first operand and the values of those parameters that lead to the
    planned shapes."""

    def __init__(self, reading: Reading, choices: CallChoices, plain: bool) -> None:
        self._reading, self._choices, self._plain = reading, choices, plain
        self.leaves: dict[int, tuple[int, ...]] = {}
        self.results: dict[int, tuple[int, ...]] = {}
        self.parameters: dict[int, Inverse] = {}

    def parameters_for(self, number: int, x: TensorType) -> Mapping[str, Any]:
        """Returns the planned parameters of a call, if its first operand has the planned shape."""
        shape, parameters = self.parameters.get(number, (None, {}))
        return parameters if shape == x.shape else {}

    def plan(self, number: int, op: Operator, existing: Mapping[int, Any], type_of: TypeOf) -> None:
        """Plans the operands of a call that are computed, if it has several of them or its result is
        planned itself. existing: the parts that have values. type_of: builds an operand that cannot
        be planned."""
        operands = self._reading.operands(number)
        computed = [o for o in operands if self._reading.pattern.nodes[o].kind not in LEAVES]
        planned = bool(operands) and number in self.results and op.matrices
        several = len(set(computed)) > 1 and any(map(self._can_plan, computed))
        if not (planned or several) or any(map(self._reading.is_tuple, operands)):
            return
        self._choices.begin(number, f"{op.name} operands")
        if not self._plain and self._choices.draw("planned") > _PLANNED:
            return
        self._choices.parts = self._reading.parts(number)
        x = self._lead(number, op, operands[0], existing, type_of)
        if x is None:
            return
        # The first operand may have been built, by choices of its own.
        self._choices.begin(number, f"{op.name} operands")
        self._choices.parts = self._reading.parts(number)
        wanted = self.results.get(number)
        self._choices.columns = wanted[-1] if wanted and op.matrices else None
        self._choices.count, self._choices.more = len(operands), False
        self._choices.other = self._choices.number = None
        shapes = [self.leaves[o] for o in operands if o in self.leaves]
        demands = self._reading.demands.get(number, {})
        chosen = choose_parameters(op, x, lambda n, c: self._choices.pick(n, c, demands, self._plain, shapes))
        self._choices.columns = None
        types = [o.type for o in op.operands(x, chosen)]
        if wanted is not None and not _gives(op, types, chosen, wanted):
            return
        for operand, type_ in zip(operands, types):
            if operand not in existing:
                self._hand_down(operand, type_.shape, existing)
        self.parameters[number] = x.shape, chosen

    def _lead(
        self, number: int, op: Operator, operand: int, existing: Mapping[int, Any], type_of: TypeOf
    ) -> TensorType | None:
        """Returns the type of a call's first operand: as it is if it exists or cannot be planned, else
        one that is to be planned."""
        wanted = self.results.get(number)
        if operand in existing or not self._can_plan(operand):
            return type_of(operand)
        x = self._choices.planned_lead(op)
        shape = self.leaves.get(operand)
        if x is not None and wanted is not None and keeps_shape(op.name):
            shape = wanted
        elif x is not None and wanted is not None and op.matrices and len(wanted) > 1:
            depth = x.shape[-1] if x.rank > 1 else self._choices.choose("depth", _DEPTHS)
            shape = (*wanted[:-1], depth)
        if x is not None and shape is not None:
            x = TensorType(shape, x.dtype)
        return x if x is not None and op.accepts(x) else None

    def _can_plan(self, number: int) -> bool:
        """Returns whether each call from a part to its leaf can be planned from its result."""
        for op, _ in self._chain(number):
            if op is None or not (is_invertible(op.name) or op.matrices):
                return False
            if op.matrices:
                return True
        return True

    def _chain(self, number: int) -> list[tuple[Operator | None, int]]:
        """Returns the calls from a part to its leaf along their first operands, each with its record."""
        chain: list[tuple[Operator | None, int]] = []
        while (node := self._reading.pattern.nodes[number]).kind == "call" and node.of and node.ops:
            try:
                candidates = self._choices.ordered(number, self._reading.candidates(number))
            except NoInstance:
                return [(None, number)]
            chain.append((candidates[0], number))
            number = self._reading.operands(number)[0]
        return chain if node.kind in LEAVES else [(None, number)]

    def _hand_down(self, number: int, shape: tuple[int, ...], existing: Mapping[int, Any]) -> None:
        """Plans that a part has a shape, as far as the calls that compute it can be planned."""
        results: dict[int, tuple[int, ...]] = {}
        parameters: dict[int, Inverse] = {}
        bottom = number
        for op, call in self._chain(number):
            if op is None or call in existing or self.results.get(call, shape) != shape:
                return
            results[call] = shape
            if op.matrices:
                bottom = call
                break
            below = inverses(op.name, shape)
            if not below:
                return
            self._choices.begin(call, f"{op.name} operand")
            parameters[call] = below[0] if self._plain else self._choices.choose("shape", below)
            shape = parameters[call][0]
            bottom = self._reading.operands(call)[0]
        if self._reading.pattern.nodes[bottom].kind in LEAVES:
            if bottom in existing or self.leaves.get(bottom, shape) != shape:
                return
            self.leaves[bottom] = shape
        self.results.update(results)
        self.parameters.update(parameters)


def _gives(op: Operator, types: list[TensorType], chosen: Mapping[str, Any], wanted: tuple[int, ...]) -> bool:
    try:
        return op.infer(types, op.attrs(chosen))[0].shape == wanted
    except TypeRuleError:
        return False
