"""Hypothesis strategies for graphs. Valid by construction: nothing is generated and thrown away.

They shrink toward one operator, default attributes, small shapes and round values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from ..graph import Graph, TensorType
from ..operators import OPERATORS, within
from ..operators.measured import dtypes as runnable
from ..operators.record import BIAS, CONSTANT, DATA, NUMBERS, WEIGHT, Operand, Operator
from .builder import Builder, choose_parameters

#: What tends to follow an operator in real models, and so in patterns.
FOLLOWERS = {
    "nn.conv2d": ("nn.bias_add", "add", "nn.relu"),
    "nn.dense": ("nn.bias_add", "add", "nn.relu"),
    "nn.matmul": ("add", "nn.relu"),
    "nn.batch_matmul": ("nn.softmax", "multiply"),
    "nn.bias_add": ("nn.relu", "clip", "sigmoid", "tanh"),
    "add": ("nn.relu", "tanh"),
    "split": ("concatenate",),
    "qnn.quantize": ("qnn.conv2d", "qnn.dense", "qnn.conv2d_transpose", "qnn.add"),
    "qnn.conv2d": ("qnn.requantize", "nn.bias_add"),
    "qnn.conv2d_transpose": ("qnn.requantize",),
    "qnn.dense": ("qnn.requantize", "nn.bias_add"),
    "qnn.batch_matmul": ("qnn.requantize",),
    "qnn.requantize": ("clip", "nn.max_pool2d", "qnn.conv2d", "qnn.add", "qnn.dequantize"),
    "qnn.add": ("qnn.mul", "qnn.dequantize"),
}
_MAX_OUTPUTS = 4
_MAX_ELEMENTS = 4096


@st.composite
def graphs(
    draw: st.DrawFn,
    operators: Sequence[str] | None = None,
    *,
    ir: str | None = None,
    min_nodes: int = 1,
    max_nodes: int = 6,
    focus: str | None = None,
    prefer: Sequence[str] = (),
    fragments: Sequence[Graph] = (),
    turn: Graph | None = None,
    dtypes: Sequence[str] = (*NUMBERS, "bool"),
) -> Graph:
    """Graphs of 1 to `max_nodes` operators.

    operators: names to choose from (None: all that are known). ir: leave out what this IR lacks.
    focus: an operator each graph holds. prefer: operators that are to be more likely (those a target
    takes). fragments: graphs of which each has at least one as a part (those that match a target's
    patterns); they count as their operators do. turn: the fragment that each graph holds. dtypes: of the
    first value, the first being the most likely; every operator is only applied to dtypes TVM's own build
    runs. Raises KeyError for an unknown operator.
    """
    names = [n for n in operators or OPERATORS if ir is None or ir in OPERATORS[n].irs()]
    records = [within(n, ir) for n in names]
    if not records:
        raise ValueError("no operator to make graphs of")
    preferred = [r for r in records if r.name in prefer]
    count = draw(st.integers(min_nodes, max_nodes))
    must = -1
    if focus or fragments or turn:
        must = draw(st.integers(0, count - 1))
    builder = Builder(seed=draw(st.integers(0, 1000)))
    dtype = draw(st.sampled_from([dtypes[0]] * len(dtypes) + [*dtypes]))
    last: str | None = None
    last_op = ""
    kept: list[str] = []
    while len(builder.nodes) < count:
        due = 0 <= must <= len(builder.nodes)
        # The focus keeps its place: a fragment may not fill the graph before it.
        left = count - len(builder.nodes) - (focus is not None and must >= 0)
        wanted = due and not focus
        if (fragments or turn) and (wanted or _chance(draw, 3)):
            # One that fits into what is left, or else whichever: it must be there.
            small = [f for f in fragments if len(f.nodes) <= left]
            if wanted and turn is not None:
                small = [turn]
            if small or wanted:
                part = draw(st.sampled_from(small or fragments))
                last, last_op = _draw_part(draw, builder, part), part.nodes[-1].op
                kept.append(last)
                must = -1 if not focus else must
                continue
        if due and focus is not None:
            op, follow, must = within(focus, ir), False, -1
        else:
            pool = preferred if preferred and _chance(draw, 7) else records
            op, follow = _draw_operator(draw, builder, pool, last_op, ir)
        lead = _draw_lead(draw, builder, op, dtype, last if follow else None, ir)
        outputs = _draw_node(draw, builder, op, lead)
        last, last_op = outputs[0], op.name
    return builder.graph(*_draw_outputs(draw, builder, kept))


def _needed(builder: Builder, outputs: Sequence[str]) -> set[str]:
    """Values the outputs depend on, themselves included."""
    wanted = set(outputs)
    for node in reversed(builder.nodes):
        if wanted.intersection(node.outputs):
            wanted.update(node.inputs)
    return wanted


def _draw_part(draw: st.DrawFn, builder: Builder, part: Graph) -> str:
    """Adds a fragment, fed with what is there where that fits; its first output."""

    def choose(type_: TensorType) -> str | None:
        fitting = [n for n in builder.usable() if builder.types[n] == type_]
        return draw(st.sampled_from(fitting[::-1])) if fitting and _chance(draw, 7) else None

    return builder.splice(part, choose)[0]


def _chance(draw: st.DrawFn, out_of_ten: int) -> bool:
    """True in that many cases of ten. Shrinks to False."""
    return draw(st.integers(0, 9)) >= 10 - out_of_ten


def _draw_operator(
    draw: st.DrawFn, builder: Builder, records: list[Operator], last_op: str, ir: str | None
) -> tuple[Operator, bool]:
    """An operator, and whether the last value is to be its first operand."""
    followers = [r for r in records if r.name in FOLLOWERS.get(last_op, ())]
    if followers and _chance(draw, 5):
        return draw(st.sampled_from(followers)), True
    # Mostly one that takes a value the graph has: else the graph falls into pieces.
    fitting = [r for r in records if any(_fits(builder, r, name, ir) for name in builder.usable())]
    pool = fitting if fitting and _chance(draw, 8) else records
    return draw(st.sampled_from(pool)), _chance(draw, 5)


def _draw_lead(
    draw: st.DrawFn, builder: Builder, op: Operator, dtype: str, preferred: str | None, ir: str | None
) -> str:
    """The first operand: the preferred value if it fits, another of the graph's, or a new input."""
    if preferred is not None and _fits(builder, op, preferred, ir):
        return preferred
    candidates = [name for name in builder.usable() if _fits(builder, op, name, ir)]
    made = [name for name in candidates if name[0] == "v"]
    if candidates and _chance(draw, 9):
        return draw(st.sampled_from((made or candidates)[::-1]))
    fitting = runnable(op, ir)
    if dtype not in fitting:
        dtype = fitting[0]
    shape = draw(st.sampled_from([s for s in op.shapes if op.takes(TensorType(s, dtype))]))
    return builder.lead(op, TensorType(shape, dtype))


def _fits(builder: Builder, op: Operator, name: str, ir: str | None) -> bool:
    # What is made of constants alone is a constant to TVM, and an output that is one is never written.
    if name[0] == "c":
        return False
    x = builder.types[name]
    if x.dtype not in runnable(op, ir) or not op.accepts(x):
        return False
    if op.steep and any(OPERATORS[n.op].steep for n in builder.nodes):
        return False
    if op.domain is None:
        return True
    # Only what is known to lie in the operator's domain: otherwise it would make NaN of half of it.
    low, high = builder.ranges.get(name, (float("-inf"), float("inf")))
    return low >= op.domain[0] and high <= op.domain[1]


def _draw_node(draw: st.DrawFn, builder: Builder, op: Operator, lead: str) -> tuple[str, ...]:
    x = builder.types[lead]

    def pick(name: str, classes: Mapping[str, Sequence[Any]]) -> Any:
        return draw(st.sampled_from(draw(st.sampled_from(list(classes.values())))))

    chosen = choose_parameters(op, x, pick)
    if sum(t.size for t in _result(builder, op, x, chosen)) > _MAX_ELEMENTS:
        # Broadcasting a large value further: take the defaults, which don't enlarge it.
        chosen = choose_parameters(op, x, lambda _, classes: next(iter(classes.values()))[0])

    def supply(operand: Operand, position: int) -> str:
        existing = [n for n in builder.usable() if builder.types[n] == operand.type]
        if operand.role == DATA and existing and draw(st.booleans()):
            return draw(st.sampled_from(existing[::-1]))
        if operand.role in (WEIGHT, BIAS):
            # Sharing a weight is as legal as it is rare.
            shared = [c.name for c in builder.constants if c.type == operand.type]
            if shared and draw(st.integers(0, 3)) == 3:
                return draw(st.sampled_from(shared))
            constant = draw(st.integers(0, 4)) < 4
        else:
            constant = operand.role == CONSTANT or draw(st.booleans())
        make = builder.constant if constant else builder.input
        return make(operand.type, *operand.range(), operand.data)

    return builder.apply(op, lead, chosen, supply)


def _result(
    builder: Builder, op: Operator, x: TensorType, chosen: Mapping[str, Any]
) -> tuple[TensorType, ...]:
    return op.infer([o.type for o in op.operands(x, chosen)], op.attrs(chosen))


def _draw_outputs(draw: st.DrawFn, builder: Builder, kept: Sequence[str]) -> list[str]:
    """Values nobody uses, in some order, and now and then one that is used, twice, or an input.

    kept: those that must not become dead code."""
    used = {i for n in builder.nodes for i in n.inputs}
    made = [o for n in builder.nodes for o in n.outputs if o not in builder.hidden]
    leaves = [o for o in made if o not in used]
    # The last node's results always; others may be dead code.
    outputs = [o for o in leaves if o in builder.nodes[-1].outputs] or [made[-1]]
    others = [o for o in leaves if o not in outputs]
    if others and draw(st.integers(0, 4)) != 4:
        outputs = others + outputs
    outputs = outputs[-_MAX_OUTPUTS:]
    live = _needed(builder, outputs)
    outputs += [name for name in dict.fromkeys(kept) if name not in live]
    extra = draw(st.integers(0, 9))
    if len(outputs) < _MAX_OUTPUTS and extra >= 6:
        pool = made if extra < 9 else [s.name for s in builder.inputs] or made
        outputs.append(draw(st.sampled_from(pool)))
    if len(outputs) > 1 and draw(st.booleans()):
        outputs = outputs[::-1]
    return outputs
