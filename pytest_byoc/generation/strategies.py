"""A Hypothesis strategy for random graphs, for tests that users write.

Examples shrink toward one operator, default attributes, small shapes and round values. For that,
Hypothesis draws every number of a graph, which takes three times as long as a graph of the suite's
plans (`plans.py`): of these only eight choices and a seed are drawn, and a seed can't be shrunk.
"""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from ..core.graph import Graph
from ..operators.record import NUMBERS
from .random_graphs import grown
from .validation import vouch_for


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
    fragment: Graph | None = None,
    dtypes: Sequence[str] = (*NUMBERS, "bool"),
) -> Graph:
    """Generates graphs of `min_nodes` to `max_nodes` operators.

    operators: names of the operators to draw from (None: all); those that `ir` lacks are left out.
    focus: an operator that each graph holds.
    prefer: operators that are more likely than others, because the target offloads them.
    fragments: graphs that match the target's patterns. Each graph holds at least one of them as a
    part; a fragment counts as the number of its operators.
    fragment: the fragment that each graph holds.
    dtypes: dtypes of the first value, the first being the most likely. Every operator is applied
    only to dtypes that TVM's own build runs.

    Raises KeyError for an unknown operator, ValueError if no graph is possible.
    """
    return vouch_for(grown(
        draw(st.randoms(use_true_random=False)), operators, ir=ir, min_nodes=min_nodes, max_nodes=max_nodes,
        focus=focus, prefer=prefer, fragments=fragments, fragment=fragment, dtypes=dtypes,
    ))
