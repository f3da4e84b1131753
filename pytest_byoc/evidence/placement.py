"""Finds the regions that hold the nodes of a graph, and the sizes of the tensors passed to them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any


@lru_cache(maxsize=4096)
def type_bytes(text: str) -> int:
    """Returns the bytes of a tensor of a type written as in "float32[2,3]"; 0 for other texts."""
    dtype, bracket, shape = text.partition("[")
    bits = re.search(r"\d+", dtype.replace("bool", "int8"))
    if not bracket or bits is None:
        return 0
    dims = [int(d) if d.strip().isdigit() else 1 for d in shape.rstrip("]").split(",") if d.strip()]
    return math.prod(dims) * max(int(bits[0]) // 8, 1)


def times(region: Mapping[str, Any]) -> int:
    """Returns the number of places from which a region is called."""
    return int(region.get("times", 1))


def placement(
    nodes: Sequence[str], regions: Sequence[Mapping[str, Any]], count: int
) -> tuple[int | None, ...]:
    """Returns for each node the position of the region that holds its call, or None.

    nodes: the signatures of the nodes' calls; none before partitioning. count: the number of nodes.

    First a call with the node's operator and output type is looked up, then one with only its
    operator, since a partition function may change layouts. Each call stands for one node. If
    several regions have equal calls, the first region is assumed.
    """
    left = [(c, i) for i, r in enumerate(regions) for c in r["calls"] * times(r)]
    region_of: list[int | None] = [None] * count
    for key in (lambda s: s, lambda s: s.split(" ")[0]):
        having: dict[str, list[int]] = {}
        for position in reversed(range(len(left))):
            having.setdefault(key(left[position][0]), []).append(position)
        used = set()
        for i, node in enumerate(nodes):
            if region_of[i] is None and having.get(key(node)):
                used.add(position := having[key(node)].pop())
                region_of[i] = left[position][1]
        left = [call for position, call in enumerate(left) if position not in used]
    return tuple(region_of)


def may_be_offloaded(
    nodes: Sequence[str], regions: Sequence[Mapping[str, Any]], offloaded: tuple[bool, ...]
) -> tuple[bool, ...]:
    """Returns for each node whether it is offloaded or indistinguishable from an offloaded one.

    nodes: the signatures of the nodes' calls; none before partitioning. offloaded: for each node,
    whether a region holds its call.

    Nodes are indistinguishable if they have the same operator and output type, or only the same
    operator where the offloaded node's call has another output type.
    """
    if not nodes:
        return offloaded
    calls = {c for r in regions for c in r["calls"]}
    keys = {
        node if node in calls else node.split(" ")[0]
        for node, is_offloaded in zip(nodes, offloaded)
        if is_offloaded
    }
    return tuple(node in keys or node.split(" ")[0] in keys for node in nodes)
