"""An operator between others: graphs in which a target may take it as a part of a larger region."""

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

#: Operators tried before it and after it, at most.
_EACH = 6
#: Operators that are put behind it.
_BEHIND = 10
#: How often it is put behind itself.
_ITSELF = 4


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


def followed(name: str, dtype: str, claimed: Sequence[str], ir: str) -> Graph | None:
    """The operator of that name, of that dtype, and behind it one that the target takes: itself, if it is one
    of these, and _BEHIND others at most. Each pair is there in its simplest form and in another one, the
    operator itself in more. Which they are is a matter of their names. None where none fits."""
    op, builder, outputs = within(name, ir), Builder(seed=1), list[str]()
    shapes = [TensorType(s, dtype) for s in op.shapes if op.takes(TensorType(s, dtype))]
    outputs += _behind_itself(builder, op, dtype, shapes, ir) if name in claimed else ()
    number = 0
    for other in sorted(claimed, key=lambda other: crc32(f"{name} {other}".encode())):
        if number == _BEHIND:
            break
        behind, before = within(other, ir), len(outputs)
        # Without parameters there is one form.
        for turn in (0, number + 2) if op.parameters or behind.parameters else (0,):
            form = _form(turn)
            x = _leading_to(behind, op, shapes, form, ir)
            if x is not None:
                value = _apply(builder, op, builder.lead(op, x), form)
                # Another one than that before it, if they are alike.
                chosen = choose_parameters(behind, builder.types[value], _form(turn and turn + 1))
                outputs += builder.apply(behind, value, chosen)[: behind.used]
        number += len(outputs) > before
    return builder.graph(*outputs) if outputs else None


def _leading_to(
    behind: Operator, op: Operator, types: Sequence[TensorType], form: Pick, ir: str
) -> TensorType | None:
    """The first of the types of which the operator, in that form, makes what the one behind it takes."""
    return next((x for x in types if _fits(behind, _result(op, x, form), ir)), None)


def _behind_itself(
    builder: Builder, op: Operator, dtype: str, shapes: Sequence[TensorType], ir: str
) -> Iterator[str]:
    """Adds the operator behind itself in other forms, on axes of which no shape tells one from another where
    it takes such; the results. Compilers make one of two."""
    alike = [x for x in (TensorType((3,) * rank, dtype) for rank in (3, 4)) if op.takes(x)]
    for turn in range(_ITSELF if op.parameters and op.domain is None else 0):
        form = _form(turn)
        x = _leading_to(op, op, (*alike, *shapes), form, ir)
        if x is not None:
            value = _apply(builder, op, builder.lead(op, x), form)
            yield _apply(builder, op, value, _form(turn + 1))


def forms(name: str, dtype: str, claimed: Sequence[str], ir: str) -> Graph | None:
    """The operator of that name several times on one value of that dtype, each time with another attribute
    (`several_forms`). None where it has one form.

    The value is the result of an operator that the target takes, so that its readers may be in one region; an
    input where the operator has a domain, and where none fits."""
    op, builder = within(name, ir), Builder(seed=1)
    x = next(TensorType(s, dtype) for s in op.shapes if op.takes(TensorType(s, dtype)))
    simple = sorted(claimed, key=lambda other: other not in UNARY)
    others = (within(other, ir) for other in simple if other != name)
    before = next((o for o in others if o.domain is None and _keeps(o, x, ir)), None)
    if before is None or op.domain is not None:
        value = builder.lead(op, x)
    else:
        value = _apply(builder, before, builder.lead(before, x))
    outputs = several_forms(builder, op, value)
    return builder.graph(*outputs) if outputs else None


def _form(turn: int) -> Pick:
    """Of each parameter another class each turn; the default in turn 0, and where there is no other."""

    def pick(name: str, classes: Mapping[str, Sequence[Any]]) -> Any:
        values = list(classes.values())
        return values[1 + (turn - 1) % (len(values) - 1) if turn and len(values) > 1 else 0][0]

    return pick


def _result(op: Operator, x: TensorType, form: Pick = first) -> TensorType:
    """Type of the first result of the operator in its simplest form, or another."""
    chosen = choose_parameters(op, x, form)
    return op.infer([o.type for o in op.operands(x, chosen)], op.attrs(chosen))[0]


def _fits(op: Operator, x: TensorType, ir: str) -> bool:
    """Whether the operator can be applied to any value of the type."""
    return takes(op, x, ir) and op.domain is None and x.size > 0


def _applied(op: Operator, x: TensorType, before: Operator | None) -> tuple[Builder, str]:
    """A builder that holds the operator, and the name of its first result."""
    builder = Builder(seed=1)
    lead = builder.lead(before or op, x)
    if before is not None:
        lead = _apply(builder, before, lead)
    return builder, _apply(builder, op, lead)


def _apply(builder: Builder, op: Operator, lead: str, form: Pick = first) -> str:
    return builder.apply(op, lead, choose_parameters(op, builder.types[lead], form))[0]


def _keeps(op: Operator, x: TensorType, ir: str) -> bool:
    """Whether the operator can be applied, and its first result is of the same type."""
    return takes(op, x, ir) and _result(op, x) == x


