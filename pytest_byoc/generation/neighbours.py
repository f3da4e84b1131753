"""Graphs of an operator beside others, in which a target may offload it as part of a larger
region."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from zlib import crc32

from ..core.graph import Graph, TensorType
from ..operators import within
from ..operators.record import Operator
from .builder import Builder, Pick, choose_parameters, first
from .forms import several_forms
from .pool import takes
from .structures.vocabulary import UNARY

#: The largest number of operators tested before it, and after it.
_EACH = 6
#: The largest number of other operators that are put behind it.
_BEHIND = 10
#: The number of times it is put behind itself.
_ITSELF = 4


def between(name: str, dtype: str, offloaded: Sequence[str], ir: str) -> list[Graph]:
    """Returns graphs that hold the operator once, in its simplest form, between two operators that
    the target offloads, or only before one; only behind one if no operator fits after it.

    name, dtype: the operator and the dtype of its first operand. offloaded: names of the operators
    that the target offloads."""
    op = within(name, ir)
    others = [within(other, ir) for other in offloaded if other != name]
    x = next(TensorType(s, dtype) for s in op.shapes if op.takes(TensorType(s, dtype)))
    graphs: dict[Graph, None] = {}
    before = [o for o in others if op.domain is None and _keeps(o, x, ir)][:_EACH]
    for pair in [*((b, None) for b in before), (None, None)]:
        builder, value = _applied(op, x, pair[0])
        if builder.types[value].size == 0:
            continue
        after = [o for o in others if o.domain is None and _keeps(o, builder.types[value], ir)][:_EACH]
        for other in after:
            builder, value = _applied(op, x, pair[0])
            graphs[builder.graph(_apply(builder, other, value))] = None
        if pair[0] is not None and not after:
            graphs[builder.graph(value)] = None
    return list(graphs)


def followed(name: str, dtype: str, offloaded: Sequence[str], ir: str) -> Graph | None:
    """Returns one graph in which operators that the target offloads follow the operator `name`: the
    operator itself if it is offloaded, and at most _BEHIND others. None if no operator fits.

    Each pair occurs in its simplest form and in another one, the operator behind itself in more. A
    checksum of the names determines which operators come first."""
    op, builder, outputs = within(name, ir), Builder(seed=1), list[str]()
    shapes = [TensorType(s, dtype) for s in op.shapes if op.takes(TensorType(s, dtype))]
    outputs += _behind_itself(builder, op, dtype, shapes, ir) if name in offloaded else ()
    number = 0
    for other in sorted(offloaded, key=lambda other: crc32(f"{name} {other}".encode())):
        if number == _BEHIND:
            break
        behind, before = within(other, ir), len(outputs)
        # Without parameters there is only one form.
        for index in (0, number + 2) if op.parameters or behind.parameters else (0,):
            form = _form(index)
            x = _leading_to(behind, op, shapes, form, ir)
            if x is not None:
                value = _apply(builder, op, builder.lead(op, x), form)
                # If the two operators are alike, the second one has another form than the first.
                chosen = choose_parameters(behind, builder.types[value], _form(index and index + 1))
                outputs += builder.apply(behind, value, chosen)[: behind.used]
        number += len(outputs) > before
    return builder.graph(*outputs) if outputs else None


def _leading_to(
    behind: Operator, op: Operator, types: Sequence[TensorType], form: Pick, ir: str
) -> TensorType | None:
    """Returns the first type for which the result of `op`, in that form, fits `behind`, or None."""
    return next((x for x in types if _fits(behind, _result(op, x, form), ir)), None)


def _behind_itself(
    builder: Builder, op: Operator, dtype: str, shapes: Sequence[TensorType], ir: str
) -> Iterator[str]:
    """Adds the operator behind itself in several forms and yields the names of the results. If it
    accepts such a type, all axes have the same length, so that no shape tells them apart. Compilers
    merge two such operators into one."""
    alike = [x for x in (TensorType((3,) * rank, dtype) for rank in (3, 4)) if op.takes(x)]
    for index in range(_ITSELF if op.parameters and op.domain is None else 0):
        form = _form(index)
        x = _leading_to(op, op, (*alike, *shapes), form, ir)
        if x is not None:
            value = _apply(builder, op, builder.lead(op, x), form)
            yield _apply(builder, op, value, _form(index + 1))


def forms(name: str, dtype: str, offloaded: Sequence[str], ir: str) -> Graph | None:
    """Returns a graph with the operator several times on one value of that dtype, each time with
    another attribute (`several_forms`); None if it has only one form.

    The value is the result of an operator that the target offloads, so that its readers may be in
    one region. It is an input if the operator has a domain, or if no other operator fits."""
    op, builder = within(name, ir), Builder(seed=1)
    x = next(TensorType(s, dtype) for s in op.shapes if op.takes(TensorType(s, dtype)))
    simple = sorted(offloaded, key=lambda other: other not in UNARY)
    others = (within(other, ir) for other in simple if other != name)
    before = next((o for o in others if o.domain is None and _keeps(o, x, ir)), None)
    if before is None or op.domain is not None:
        value = builder.lead(op, x)
    else:
        value = _apply(builder, before, builder.lead(before, x))
    outputs = several_forms(builder, op, value)
    return builder.graph(*outputs) if outputs else None


def _form(index: int) -> Pick:
    """Returns a function that picks the default of each parameter in index 0, and another class in
    each further index if there is one."""

    def pick(name: str, classes: Mapping[str, Sequence[Any]]) -> Any:
        values = list(classes.values())
        return values[1 + (index - 1) % (len(values) - 1) if index and len(values) > 1 else 0][0]

    return pick


def _result(op: Operator, x: TensorType, form: Pick = first) -> TensorType:
    """Returns the type of the operator's first result in that form, by default the simplest."""
    chosen = choose_parameters(op, x, form)
    return op.infer([o.type for o in op.operands(x, chosen)], op.attrs(chosen))[0]


def _fits(op: Operator, x: TensorType, ir: str) -> bool:
    """Returns whether the operator can be applied to any value of the type."""
    return takes(op, x, ir) and op.domain is None and x.size > 0


def _applied(op: Operator, x: TensorType, before: Operator | None) -> tuple[Builder, str]:
    """Returns a builder that holds the operator, behind `before` if given, and its first result."""
    builder = Builder(seed=1)
    lead = builder.lead(before or op, x)
    if before is not None:
        lead = _apply(builder, before, lead)
    return builder, _apply(builder, op, lead)


def _apply(builder: Builder, op: Operator, lead: str, form: Pick = first) -> str:
    return builder.apply(op, lead, choose_parameters(op, builder.types[lead], form))[0]


def _keeps(op: Operator, x: TensorType, ir: str) -> bool:
    """Returns whether the operator accepts the type, and its first result has the same type."""
    return takes(op, x, ir) and _result(op, x) == x


