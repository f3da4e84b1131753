"""Tests of the least number of regions that a placement needs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pytest_byoc.core.graph import Graph, Node, Source, TensorType
from pytest_byoc.evidence.fragmentation import smallest

_T = TensorType((2,), "float32")


def graph(**reads: str) -> Graph:
    """Returns a graph with nodes by name, each with the names it reads; x is the input."""
    nodes = [Node("op", tuple(r), {}, (name,), (_T,)) for name, r in reads.items()]
    return Graph((Source("x", _T),), (), tuple(nodes), (list(reads)[-1],))


@pytest.mark.parametrize(
    ("case", "host", "needed"),
    [
        (graph(a="x", b="a", c="ab"), "", 1),
        (graph(a="x", b="a", c="b"), "b", 2),
        # The last sum depends on a value and on the host's result for it, so it needs a second
        # region.
        (graph(a="x", b="a", c="ab"), "b", 2),
        # No value connects the two parts.
        (graph(a="x", b="x", c="ab"), "c", 2),
        # c fits into the region of a, and d comes after the host.
        (graph(a="x", h="a", c="a", d="hc"), "h", 2),
        # Target and host alternate three times.
        (graph(a="x", h="a", b="h", i="b", c="i"), "hi", 3),
        # Only d connects a and b.
        (graph(a="x", b="x", d="ab"), "", 1),
        # Each of two chains would have to come before the other: one of them is cut.
        (graph(a="x", b="x", h="a", i="b", c="hb", d="ia"), "hi", 3),
    ],
)
def test_least_number_of_regions(case: Graph, host: str, needed: int) -> None:
    alone = [i if node.outputs[0] not in host else None for i, node in enumerate(case.nodes)]
    assert smallest(case, alone, len(case.nodes) - len(host)) == needed
    assert smallest(case, alone, needed) == needed


def test_calls_from_one_lowered_node_can_share_a_region() -> None:
    nodes = graph(a="x", b="a")
    assert smallest(nodes, [0, 1], 2) == 1
    assert smallest(nodes, [0, 1], 3) == 3


def test_a_chain_that_alternates_with_the_host_needs_many_regions() -> None:
    """Every second node is the host's: each of the others needs its own region."""
    names = [chr(97 + i) for i in range(23)]
    reads: dict[str, Sequence[str]] = {n: ("x",) if i == 0 else (names[i - 1],) for i, n in enumerate(names)}
    alternating = graph(**{n: "".join(r) for n, r in reads.items()})
    placement = [i if i % 2 == 0 else None for i in range(23)]
    assert smallest(alternating, placement, 12) == 12
