"""How many regions are needed at least."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pytest_byoc.core.graph import Graph, Node, Source, TensorType
from pytest_byoc.evidence.fragmentation import smallest

_T = TensorType((2,), "float32")


def graph(**reads: str) -> Graph:
    """Nodes by name, each with the names it reads; x is the input."""
    nodes = [Node("op", tuple(r), {}, (name,), (_T,)) for name, r in reads.items()]
    return Graph((Source("x", _T),), (), tuple(nodes), (list(reads)[-1],))


@pytest.mark.parametrize(
    ("made", "host", "needed"),
    [
        (graph(a="x", b="a", c="ab"), "", 1),
        (graph(a="x", b="a", c="b"), "b", 2),
        # The sum of a value and of what the host makes of it depends on both.
        (graph(a="x", b="a", c="ab"), "b", 2),
        # Two parts that no value connects.
        (graph(a="x", b="x", c="ab"), "c", 2),
        # c may stand with a, and d after the host.
        (graph(a="x", h="a", c="a", d="hc"), "h", 2),
        # Three times in turn with the host.
        (graph(a="x", h="a", b="h", i="b", c="i"), "hi", 3),
        # b and c are connected by d alone.
        (graph(a="x", b="x", d="ab"), "", 1),
        # Each of two chains would have to be before the other: one of them is cut.
        (graph(a="x", b="x", h="a", i="b", c="hb", d="ia"), "hi", 3),
    ],
)
def test_smallest(made: Graph, host: str, needed: int) -> None:
    alone = [i if node.outputs[0] not in host else None for i, node in enumerate(made.nodes)]
    assert smallest(made, alone, len(made.nodes) - len(host)) == needed
    assert smallest(made, alone, needed) == needed


def test_parts_of_what_a_node_was_lowered_into_are_no_more_than_would_do() -> None:
    made = graph(a="x", b="a")
    assert smallest(made, [0, 1], 2) == 1
    assert smallest(made, [0, 1], 3) == 3


def test_as_many_as_a_chain_needs() -> None:
    """Every second of them is the host's: each of the others is a region of its own."""
    names = [chr(97 + i) for i in range(23)]
    reads: dict[str, Sequence[str]] = {n: ("x",) if i == 0 else (names[i - 1],) for i, n in enumerate(names)}
    made = graph(**{n: "".join(r) for n, r in reads.items()})
    placement = [i if i % 2 == 0 else None for i in range(23)]
    assert smallest(made, placement, 12) == 12
