"""Makes random graphs; they are valid by construction, so none is discarded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from random import Random
from typing import Any

from ..core.graph import Graph, TensorType
from ..operators import OPERATORS, within
from ..operators.record import NUMBERS
from .builder import Builder
from .growing import Growing, chance, one
from .outlines import Outline, at, drawn

_MAX_OUTPUTS = 4


def some(count: int, start: int | str, **options: Any) -> list[Graph]:
    """Returns `count` graphs of `grown(**options)`; they depend on `start` and the options alone.
    The graphs of the suite come from plans (`plans.py`)."""
    return [grown(Random(f"{start} {number}"), **options) for number in range(count)]


def grown(
    rng: Random,
    operators: Sequence[str] | None = None,
    *,
    ir: str | None = None,
    min_nodes: int = 1,
    max_nodes: int = 6,
    focus: str | None = None,
    prefer: Sequence[str] = (),
    fragments: Sequence[Graph] = (),
    fragment: Graph | None = None,
    dtypes: Sequence[str] = (*NUMBERS, "bool"),
    fit: Callable[[TensorType], TensorType] | None = None,
    outline: Outline | None = None,
) -> Graph:
    """Returns a graph of `min_nodes` to `max_nodes` operators.

    operators: names of the operators to draw from (None: all); those that `ir` lacks are left out.
    focus: an operator that the graph holds.
    prefer: operators that are more likely than others, because the target offloads them.
    fragments: graphs that match the target's patterns. The graph holds at least one of them as a
    part; a fragment counts as the number of its operators.
    fragment: the fragment that the graph holds.
    dtypes: dtypes of the first value, the first being the most likely. Every operator is applied
    only to dtypes that TVM's own build runs.
    fit: changes the type of a new first operand, where its operator accepts the changed type (a
    target may need batches of one).
    outline: the choices that shape the graph (None: they are drawn from `rng` too).

    Raises KeyError for an unknown operator, ValueError if the IR has none of the operators.
    """
    names, preferred = _names(tuple(operators or OPERATORS), tuple(prefer), ir)
    outline = outline or drawn(rng)
    count = at(outline.size, range(min_nodes, max_nodes + 1))
    must = at(outline.place, range(count)) if focus or fragments or fragment else -1
    growing = Growing(rng, outline, names, ir, preferred)
    growing.dtype = at(outline.dtype, [dtypes[0]] * (len(dtypes) // 2) + [*dtypes])
    growing.fit = fit or growing.fit
    builder = growing.builder
    while len(builder.nodes) < count:
        due = 0 <= must <= len(builder.nodes)
        # One place is kept for the focus, so that fragments do not fill the graph before it.
        left = count - len(builder.nodes) - (focus is not None and must >= 0)
        wanted = due and not focus
        if (fragments or fragment) and (wanted or chance(rng, outline.fragments)):
            # A fragment that fits into the rest is preferred; if one is due, it may be larger.
            small = [f for f in fragments if len(f.nodes) <= left]
            if wanted and fragment is not None:
                small = [fragment]
            if small or wanted:
                fitting = small or fragments
                growing.add_part(at(outline.anchor, fitting) if wanted else one(rng, fitting))
                must = -1 if not focus else must
                continue
        if due and focus is not None:
            growing.add(within(focus, ir))
            must = -1
        else:
            growing.add_any()
    return builder.graph(*_outputs(rng, builder, growing.kept))


@lru_cache(maxsize=64)
def _names(
    operators: tuple[str, ...], prefer: tuple[str, ...], ir: str | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the operators that the IR has, and the preferred ones among them."""
    names = tuple(n for n in operators if ir is None or ir in OPERATORS[n].irs())
    if not names:
        raise ValueError("there is no operator to generate graphs from")
    return names, tuple(n for n in names if n in prefer)


def _needed(builder: Builder, outputs: Sequence[str]) -> set[str]:
    """Returns the outputs and all values that they depend on."""
    wanted = set(outputs)
    for node in reversed(builder.nodes):
        if wanted.intersection(node.outputs):
            wanted.update(node.inputs)
    return wanted


def _outputs(rng: Random, builder: Builder, kept: Sequence[str]) -> list[str]:
    """Returns the outputs: values that no node reads, in some order, and now and then one that a
    node reads, one that is an output already, or an input. kept: values that must not become dead
    code."""
    used = {i for n in builder.nodes for i in n.inputs}
    results = [o for n in builder.nodes for o in n.outputs if o not in builder.hidden]
    leaves = [o for o in results if o not in used]
    # The last node's results are always outputs; other values may be dead code.
    outputs = [o for o in leaves if o in builder.nodes[-1].outputs] or [results[-1]]
    others = [o for o in leaves if o not in outputs]
    if others and rng.randrange(5) != 4:
        outputs = others + outputs
    outputs = outputs[-_MAX_OUTPUTS:]
    live = _needed(builder, outputs)
    outputs += [name for name in dict.fromkeys(kept) if name not in live]
    extra = rng.randrange(10)
    if len(outputs) < _MAX_OUTPUTS and extra >= 6:
        pool = results if extra < 9 else [s.name for s in builder.inputs] or results
        outputs.append(one(rng, pool))
    if len(outputs) > 1 and chance(rng, 5):
        outputs = outputs[::-1]
    return outputs
