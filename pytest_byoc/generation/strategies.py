"""Random graphs as a Hypothesis strategy, for tests of a user's own.

They shrink toward one operator, default attributes, small shapes and round values.
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
    turn: Graph | None = None,
    dtypes: Sequence[str] = (*NUMBERS, "bool"),
) -> Graph:
    """Graphs of `min_nodes` to `max_nodes` operators.

    operators: names to choose from (None: all that are known). ir: leave out what this IR lacks.
    focus: an operator each graph holds. prefer: operators that are to be more likely (those a target
    takes). fragments: graphs of which each has at least one as a part (those that match a target's
    patterns); they count as their operators do. turn: the fragment that each graph holds. dtypes: of the
    first value, the first being the most likely; every operator is only applied to dtypes TVM's own build
    runs. Raises KeyError for an unknown operator, ValueError where no graph is possible.
    """
    return vouch_for(grown(
        draw(st.randoms(use_true_random=False)), operators, ir=ir, min_nodes=min_nodes, max_nodes=max_nodes,
        focus=focus, prefer=prefer, fragments=fragments, turn=turn, dtypes=dtypes,
    ))
