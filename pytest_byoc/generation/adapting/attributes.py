"""Adapts graphs to the attributes that a target demands of an operator, for example one of its modes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...core.graph import Graph, Node, TensorType
from ...operators.record import Operator
from ..builder import choose_parameters, first
from .parts import Unlike, by_parts, inferred


@dataclass(frozen=True, eq=False)
class Demand:
    """Values of an operator's attributes without which a target offloads none of its nodes. usual: their
    values in the operator's simplest case. demanded: those in a case that the target offloads."""

    usual: Mapping[str, Any]
    demanded: Mapping[str, Any]

    def __str__(self) -> str:
        return ", ".join(f"{name}={json.dumps(value)}" for name, value in self.demanded.items())


def demands(simplest: Node, offloaded: Iterable[Node]) -> list[Demand]:
    """Returns the demands that may tell an operator's simplest node, which the target does not offload,
    from nodes that it offloads: each attribute that differs, then all that differ together."""
    found: dict[str, Demand] = {}
    for node in offloaded:
        differing = {k: v for k, v in node.attrs.items() if k in simplest.attrs and simplest.attrs[k] != v}
        for names in (*((name,) for name in differing), tuple(differing)):
            one = Demand({k: simplest.attrs[k] for k in names}, {k: differing[k] for k in names})
            if names:
                found.setdefault(str(one), one)
    return sorted(found.values(), key=lambda one: len(one.demanded))


def keeps_operands(op: Operator, x: TensorType, demand: Demand) -> bool:
    """Returns whether an operator has the same operands, made by the same choices, with the demanded
    attributes, which can be set in any graph then. x: the type of the first operand."""
    usual = choose_parameters(op, x, first)
    demanded = {**usual, **demand.demanded}
    made = [p for p in op.parameters if not p.attribute]
    alike = all(p.values(x, usual) == p.values(x, demanded) for p in made)
    return alike and op.operands(x, usual) == op.operands(x, demanded)


def with_attributes(by_operator: Mapping[str, Demand], graph: Graph) -> Graph | None:
    """Returns the graph with the demanded attributes wherever it has all of the usual ones. Parts whose
    types no longer fit stay unchanged; None if all parts do."""
    if by_operator.keys().isdisjoint(graph.operators):
        return None

    def attrs(node: Node, operands: Sequence[TensorType]) -> Mapping[str, Any]:
        found = by_operator.get(node.op)
        if found is None or any(node.attrs.get(k) != v for k, v in found.usual.items()):
            return node.attrs
        return {**node.attrs, **found.demanded}

    def converted(part: Graph) -> Graph:
        if by_operator.keys().isdisjoint(part.operators):
            raise Unlike
        return inferred(part, {s.name: s for s in part.sources()}, attrs)

    return by_parts(graph, converted)
