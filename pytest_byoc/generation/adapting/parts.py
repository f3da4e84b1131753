"""Functions for all ways of adapting a graph: they convert the parts of a graph one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from ...core.graph import Graph, Node, Source, TensorType
from ...operators import OPERATORS
from ...operators.elementwise import binary_infer
from ...operators.record import DATA, FRESH, LEAD, TypeRuleError, same_type

#: Attributes that refer to axes by position, although the operator keeps its operand's type.
_POSITIONAL = frozenset(("axis", "axes", "k", "layout", "block_size"))


class Unlike(Exception):
    """Raised if a graph cannot be converted to a form, or if it is not known how."""


def by_parts(graph: Graph, convert: Callable[[Graph], Graph]) -> Graph | None:
    """Returns the graph with its parts converted, as far as that is possible; None if it is for
    none. Parts share no value. convert: raises Unlike, or as type rules and records do."""
    sources: dict[str, Source] = {}
    nodes: dict[str, Node] = {}
    for part in parts(graph):
        with suppress(Unlike, TypeRuleError, KeyError):
            converted = convert(part)
            sources.update((s.name, s) for s in converted.sources())
            nodes.update((node.outputs[0], node) for node in converted.nodes)
    if not nodes:
        return None
    return replace(
        graph,
        inputs=tuple(sources.get(s.name, s) for s in graph.inputs),
        constants=tuple(sources.get(s.name, s) for s in graph.constants),
        nodes=tuple(nodes.get(node.outputs[0], node) for node in graph.nodes),
    )


def parts(graph: Graph) -> Iterator[Graph]:
    """Yields the parts of the graph: the connected graphs that it consists of."""
    groups: list[set[str]] = []
    for node in graph.nodes:
        names = {*node.inputs, *node.outputs}
        for part in [p for p in groups if p & names]:
            groups.remove(part)
            names |= part
        groups.append(names)
    for names in groups:
        yield restricted(graph, names)


def restricted(graph: Graph, names: Set[str]) -> Graph:
    """Returns the graph with only the values of these names, everything in its order."""
    return Graph(
        tuple(s for s in graph.inputs if s.name in names),
        tuple(s for s in graph.constants if s.name in names),
        tuple(node for node in graph.nodes if node.outputs[0] in names),
        tuple(o for o in graph.outputs if o in names),
    )


def has_layout(op: str) -> bool:
    """Returns whether the operator's images may have more than one layout."""
    return any(p.name in ("data_layout", "layout") for p in OPERATORS[op].parameters)


def is_elementwise(node: Node) -> bool:
    """Returns whether the node treats all axes alike."""
    infer: Callable[[Sequence[TensorType], Mapping[str, Any]], Any] = OPERATORS[node.op].infer
    if infer is binary_infer:
        return True
    return infer is same_type and len(node.inputs) == 1 and not _POSITIONAL.intersection(node.attrs)


#: Returns a node's attributes after conversion: (node, new types of its operands). Raises Unlike.
Attrs = Callable[[Node, Sequence[TensorType]], Mapping[str, Any]]


def again(graph: Graph, source: Callable[[Source], Source], attrs: Attrs) -> Graph:
    """Returns the graph with other sources and attributes, its types inferred again.

    Raises TypeRuleError if a type rule rejects them, and Unlike if no source's type has changed, or
    if a result that had elements has none any more."""
    changed = {s.name: source(s) for s in graph.sources()}
    if all(changed[s.name].type == s.type for s in graph.sources()):
        raise Unlike
    return inferred(graph, changed, attrs)


def inferred(graph: Graph, changed: Mapping[str, Source], attrs: Attrs) -> Graph:
    """Returns the graph with other sources, by name, and attributes, its types inferred again.

    Raises TypeRuleError if a type rule rejects them, and Unlike if a result that had elements has none
    any more."""
    types = {name: s.type for name, s in changed.items()}
    nodes: list[Node] = []
    for node in graph.nodes:
        operands = [types[name] for name in node.inputs]
        chosen = dict(attrs(node, operands))
        results = OPERATORS[node.op].infer(operands, chosen)
        if any(new.size == 0 < old.size for new, old in zip(results, node.types)):
            raise Unlike
        nodes.append(replace(node, attrs=chosen, types=results))
        types.update(zip(node.outputs, results))
    return replace(
        graph,
        inputs=tuple(changed[s.name] for s in graph.inputs),
        constants=tuple(changed[s.name] for s in graph.constants),
        nodes=tuple(nodes),
    )


def with_shape(source: Source, shape: tuple[int, ...], move: Callable[[np.ndarray], np.ndarray]) -> Source:
    """Returns the source with another shape and its given elements, if any, changed by `move`."""
    elements = source.data
    if elements is not None:
        elements = move(np.array(elements, dtype=object).reshape(source.type.shape)).tolist()
    return replace(source, type=replace(source.type, shape=shape), data=elements)


def data_sources(graph: Graph) -> frozenset[str]:
    """Returns the names of sources that stand for data, as a model's inputs do: not weights, biases
    or values from which these are made, nor values broadcast because they have fewer axes.

    Raises Unlike if an operator has indices, or if its record does not give its operands' roles."""
    data: set[str] = set()
    others: set[str] = set()
    for node in reversed(graph.nodes):
        for name, is_data in zip(node.inputs, _are_data(graph, node)):
            made_into_other = others.intersection(node.outputs) and not data.intersection(node.outputs)
            (data if is_data and not made_into_other else others).add(name)
    return frozenset(s.name for s in graph.sources() if s.name in data)


def _are_data(graph: Graph, node: Node) -> list[bool]:
    types = [graph.type_of(name) for name in node.inputs]
    if len(types) == 1 or node.op == "concatenate":
        return [True] * len(types)
    if OPERATORS[node.op].infer is binary_infer:
        return [t.rank == max(t.rank for t in types) for t in types]
    if OPERATORS[node.op].matrices:
        # Batches of matrices are data on both sides; a single matrix is a weight.
        return [True, types[1].rank == types[0].rank > 2]
    roles = [operand.role for operand in OPERATORS[node.op].operands(types[0], node.attrs)]
    if FRESH in roles or len(roles) != len(types):
        raise Unlike
    return [role in (LEAD, DATA) for role in roles]
