"""A target's pattern, as the worker describes it, and the ways of matching it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

#: A way of matching a pattern: branches by the number of the `or` or call that has several.
Way = Mapping[int, int]


@dataclass(frozen=True)
class Tree:
    """A node of a pattern.

    kind: wildcard, constant, variable, call, tuple, item, or, and, with, other.
    data: the elements of a constant with a given value; `dtype` and `shape` are its type then.
    of: numbers of the node's parts; None if the pattern leaves them open.
    ops: operators of a call, any of which matches. more: True if a call may have more arguments.
    index: index of an item, None for any.
    attrs, dtype, shape: demands of a `with`.
    text: the class of an `other`.
    """

    kind: str
    of: tuple[int, ...] | None = ()
    ops: tuple[str, ...] | None = None
    more: bool = False
    index: int | None = None
    attrs: Mapping[str, Any] = field(default_factory=dict)
    dtype: str | None = None
    shape: tuple[int, ...] | None = None
    text: str = ""
    data: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Pattern:
    """A pattern of a target's table. nodes: its nodes, parts before the whole, the root last.
    table: the name under which it is registered. position: its position there. label: a name that
    is unique in the table. repeated: whether another pattern of the table has the same name."""

    name: str
    nodes: tuple[Tree, ...]
    table: str = ""
    position: int = 0
    label: str = ""
    repeated: bool = False

    @property
    def root(self) -> int:
        return len(self.nodes) - 1


def parse(
    name: str, described: Sequence[Mapping[str, Any]], table: str = "", position: int = 0, label: str = ""
) -> Pattern:
    """Returns the pattern that a worker described. Raises KeyError for a malformed description."""

    def node(d: Mapping[str, Any]) -> Tree:
        parts = d.get("args" if d["is"] == "call" else "of", ())
        return Tree(
            d["is"],
            None if parts is None else tuple(parts),
            None if d.get("ops") is None else tuple(d["ops"]),
            bool(d.get("more")),
            d.get("index"),
            dict(d.get("attrs") or {}),
            d.get("dtype"),
            None if d.get("shape") is None else tuple(d["shape"]),
            d.get("class", ""),
            None if d.get("data") is None else tuple(d["data"]),
        )

    return Pattern(name, tuple(node(d) for d in described), table, position, label or name)


def parse_table(described: Sequence[Mapping[str, Any]]) -> list[Pattern]:
    """Returns the patterns of tables that a worker described. The second of a name is labelled
    `NAME#2`."""
    patterns: list[Pattern] = []
    names = Counter(d["name"] for d in described)
    for d in described:
        same = sum(p.name == d["name"] for p in patterns)
        label = f"{d['name']}#{same + 1}" if same else d["name"]
        parsed = parse(d["name"], d["nodes"], d.get("table", ""), d.get("position", 0), label)
        patterns.append(replace(parsed, repeated=names[d["name"]] > 1))
    return patterns


def _choices(pattern: Pattern, way: Way) -> list[tuple[int, int]]:
    """Returns the nodes that have several branches on a way, and the number of branches of each."""
    branches: dict[int, int] = {}

    def visit(number: int) -> None:
        node = pattern.nodes[number]
        if node.kind == "or":
            branches[number] = 2
            assert node.of is not None
            visit(node.of[way.get(number, 0)])
            return
        if node.kind == "call" and node.ops is not None and len(node.ops) > 1:
            branches[number] = len(node.ops)
        for part in node.of or ():
            visit(part)

    visit(pattern.root)
    return list(branches.items())


def ways(pattern: Pattern, limit: int = 32) -> list[Way]:
    """Returns ways of matching a pattern, at most `limit`, that together contain each branch: first
    the way with all first branches, then ways that differ from an earlier one in one branch.
    """
    result: list[Way] = [{}]
    covered: set[tuple[int, int]] = set()
    for way in result:
        for number, branches in _choices(pattern, way):
            covered.add((number, way.get(number, 0)))
            for branch in range(branches):
                if (number, branch) not in covered and len(result) < limit:
                    covered.add((number, branch))
                    result.append({**way, number: branch})
    return result
