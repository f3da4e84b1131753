"""An operator between others: graphs in which a target may take it as a part of a larger region."""

from __future__ import annotations

from collections.abc import Sequence

from ..graph import Graph, TensorType
from ..operators import OPERATORS, within
from ..operators.measured import dtypes as runnable
from ..operators.record import Operator
from .builder import Builder, choose_parameters, first

#: Operators tried before it and after it, at most.
_EACH = 6


def between(name: str, dtype: str, claimed: Sequence[str], ir: str) -> list[Graph]:
    """Graphs that hold the operator of that name once, in its simplest form and of that dtype, between two
    operators the target takes, or behind or before one where no other fits. claimed: those it takes."""
    op = within(name, ir)
    others = [within(other, ir) for other in claimed if other != name]
    x = next(TensorType(s, dtype) for s in op.shapes if op.takes(TensorType(s, dtype)))
    found: dict[Graph, None] = {}
    before = [o for o in others if op.domain is None and _keeps(o, x, ir)][:_EACH]
    for pair in [*((b, None) for b in before), (None, None)]:
        builder, value = _applied(op, x, pair[0])
        if builder.types[value].size == 0:
            continue
        after = [o for o in others if o.domain is None and _keeps(o, builder.types[value], ir)][:_EACH]
        for other in after:
            builder, value = _applied(op, x, pair[0])
            found[builder.graph(_apply(builder, other, value))] = None
        if pair[0] is not None and not after:
            found[builder.graph(value)] = None
    return list(found)


def _applied(op: Operator, x: TensorType, before: Operator | None) -> tuple[Builder, str]:
    """A builder that holds the operator, and the name of its first result."""
    builder = Builder(seed=1)
    lead = builder.lead(before or op, x)
    if before is not None:
        lead = _apply(builder, before, lead)
    return builder, _apply(builder, op, lead)


def _apply(builder: Builder, op: Operator, lead: str) -> str:
    return builder.apply(op, lead, choose_parameters(op, builder.types[lead], first))[0]


def _keeps(op: Operator, x: TensorType, ir: str) -> bool:
    """Whether the operator can be applied, and its first result is of the same type."""
    if x.dtype not in runnable(OPERATORS[op.name], ir) or not op.accepts(x):
        return False
    chosen = choose_parameters(op, x, first)
    types = [o.type for o in op.operands(x, chosen)]
    return op.infer(types, op.attrs(chosen))[0] == x
