"""The operator graph: a small frozen value that knows no IR and no operator.

Graphs are generated, shrunk, shown, saved and sent to the workers. Every value has a name; a node
names the values that it reads and the values that it computes. The types of its results are stored
in the node, so that a saved graph can be read without the operators' type rules.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

#: The dtypes that a tensor may have, under the names that NumPy and TVM share.
DTYPES = (
    "float16", "bfloat16", "float32", "float64",
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool",
)
FORMAT = "pytest-byoc/graph"
VERSION = 1


class GraphError(ValueError):
    """Raised for a graph that can't be examined; the message states what was expected."""


class GraphFormatError(GraphError):
    """Raised for text that is not a graph, and for a graph with missing or duplicate names."""


@dataclass(frozen=True)
class TensorType:
    """The type of a tensor.

    shape: a tuple of ints, `()` for rank 0. dtype: NumPy's name of it.
    """

    shape: tuple[int, ...]
    dtype: str

    def __str__(self) -> str:
        return "%s[%s]" % (self.dtype, ",".join(str(d) for d in self.shape))

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """Returns the number of elements."""
        n = 1
        for d in self.shape:
            n *= d
        return n


@dataclass(frozen=True)
class Source:
    """A value that no node computes: a graph input or a constant.

    Its elements are drawn at random from [low, high] by `seed` (seed 0: small round numbers). A
    constant may give its elements in `data` instead (nested lists, row-major).
    """

    name: str
    type: TensorType
    low: float = -2.0
    high: float = 2.0
    seed: int = 0
    data: Any | None = None


@dataclass(frozen=True)
class Node:
    """One application of an operator.

    op: TVM's name of the operator. inputs: names of the values that it reads. outputs, types: names
    and types of its results.
    """

    op: str
    inputs: tuple[str, ...]
    attrs: Mapping[str, Any]
    outputs: tuple[str, ...]
    types: tuple[TensorType, ...]


@dataclass(frozen=True)
class Graph:
    """A graph: inputs, constants, nodes in an order of computation, and names of outputs."""

    inputs: tuple[Source, ...]
    constants: tuple[Source, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[str, ...]
    _types: dict[str, TensorType] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        types: dict[str, TensorType] = {}
        for s in (*self.inputs, *self.constants):
            if s.name in types:
                raise GraphFormatError("two values have the name %r" % s.name)
            types[s.name] = s.type
        for node in self.nodes:
            for name in node.inputs:
                if name not in types:
                    raise GraphFormatError(
                        "node %r reads %r, which no input, constant or earlier node defines" % (node.op, name)
                    )
            for name, type_ in zip(node.outputs, node.types):
                if name in types:
                    raise GraphFormatError("two values have the name %r" % name)
                types[name] = type_
        for name in self.outputs:
            if name not in types:
                raise GraphFormatError("no input, constant or node defines the output %r" % name)
        object.__setattr__(self, "_types", types)

    def __hash__(self) -> int:
        return hash(self.digest)

    @cached_property
    def digest(self) -> bytes:
        """Returns a 16-byte hash of everything in the graph."""

        def rows(sources: tuple[Source, ...]) -> list[Any]:
            return [(s.name, s.type.dtype, s.type.shape, s.low, s.high, s.seed, s.data) for s in sources]

        nodes = [
            (n.op, n.inputs, dict(n.attrs), n.outputs, [(t.dtype, t.shape) for t in n.types])
            for n in self.nodes
        ]
        # The content of to_json in half the time: the digest of every graph is computed.
        text = json.dumps([rows(self.inputs), rows(self.constants), nodes, self.outputs])
        return hashlib.blake2b(text.encode(), digest_size=16).digest()

    def type_of(self, name: str) -> TensorType:
        return self._types[name]

    @property
    def operators(self) -> tuple[str, ...]:
        """Returns the sorted names of the operators in the graph, each once."""
        return tuple(sorted({n.op for n in self.nodes}))

    @property
    def elements(self) -> int:
        """Returns the number of elements of all values together."""
        return sum(s.type.size for s in self.sources()) + sum(t.size for n in self.nodes for t in n.types)

    def sources(self) -> Iterator[Source]:
        yield from self.inputs
        yield from self.constants

    def needed(self) -> Graph:
        """Returns the graph without the nodes, inputs and constants that no output depends on."""
        wanted = set(self.outputs)
        nodes: list[Node] = []
        for node in reversed(self.nodes):
            if wanted.intersection(node.outputs):
                nodes.append(node)
                wanted.update(node.inputs)
        return replace(
            self,
            inputs=tuple(s for s in self.inputs if s.name in wanted),
            constants=tuple(s for s in self.constants if s.name in wanted),
            nodes=tuple(reversed(nodes)),
        )

    def unbound(self) -> Graph:
        """Returns the graph with its constants turned into inputs, which follow the others."""
        return replace(self, inputs=(*self.inputs, *self.constants), constants=())

    def to_dict(self) -> dict[str, Any]:
        def source(s: Source) -> dict[str, Any]:
            out: dict[str, Any] = {"name": s.name, "dtype": s.type.dtype, "shape": list(s.type.shape)}
            if s.data is not None:
                out["data"] = s.data
            else:
                out.update(low=s.low, high=s.high, seed=s.seed)
            return out

        return {
            "format": FORMAT,
            "version": VERSION,
            "inputs": [source(s) for s in self.inputs],
            "constants": [source(s) for s in self.constants],
            "nodes": [
                {
                    "op": n.op,
                    "inputs": list(n.inputs),
                    "attrs": dict(n.attrs),
                    "outputs": [
                        {"name": o, "dtype": t.dtype, "shape": list(t.shape)}
                        for o, t in zip(n.outputs, n.types)
                    ],
                }
                for n in self.nodes
            ],
            "outputs": list(self.outputs),
        }

    def to_json(self, indent: int | None = None) -> str:
        return json.dumps(self.to_dict(), indent=indent, sort_keys=False)

    @staticmethod
    def from_dict(obj: Any) -> Graph:
        """Builds a graph from the data of `to_dict`. Raises GraphFormatError for other data."""
        if not isinstance(obj, dict) or obj.get("format") != FORMAT:
            given = obj.get("format") if isinstance(obj, dict) else type(obj).__name__
            raise GraphFormatError(
                'expected an object with "format": "%s", found %r' % (FORMAT, given)
            )
        if type(obj.get("version")) is not int or obj["version"] != VERSION:
            raise GraphFormatError(
                "expected version %d of the graph format, found %r" % (VERSION, obj.get("version"))
            )
        try:
            graph = Graph(
                inputs=tuple(_source(s) for s in obj["inputs"]),
                constants=tuple(_source(s) for s in obj["constants"]),
                nodes=tuple(_node(n) for n in obj["nodes"]),
                outputs=tuple(_string(o) for o in obj["outputs"]),
            )
            if not graph.nodes or not graph.outputs:
                raise GraphFormatError("a graph needs at least one node and one output")
            return graph
        except GraphFormatError:
            raise
        except KeyError as e:
            raise GraphFormatError("malformed graph: the field %s is missing" % e) from e
        except (TypeError, ValueError, AttributeError, OverflowError) as e:
            raise GraphFormatError("malformed graph: %s: %s" % (type(e).__name__, e)) from e

    @staticmethod
    def from_json(text: str) -> Graph:
        """Builds a graph from the text of `to_json`. Raises GraphFormatError for other text."""
        try:
            obj = json.loads(text)
        except (ValueError, RecursionError) as e:
            raise GraphFormatError("expected JSON (%s)" % e) from e
        return Graph.from_dict(obj)


def _string(value: Any) -> str:
    # UTF-8 cannot encode surrogates, so such a name can't be sent to a worker.
    if not isinstance(value, str) or any("\ud800" <= c <= "\udfff" for c in value):
        raise GraphFormatError("expected a name, found %r" % (value,))
    return value


def _type(obj: Mapping[str, Any]) -> TensorType:
    shape = tuple(obj["shape"])
    if not all(type(d) is int and d >= 0 for d in shape):
        raise GraphFormatError("a shape must be a list of non-negative ints, found %r" % (shape,))
    if obj["dtype"] not in DTYPES:
        raise GraphFormatError("unknown dtype %r; known are %s" % (obj["dtype"], ", ".join(DTYPES)))
    return TensorType(shape, obj["dtype"])


def _source(obj: Mapping[str, Any]) -> Source:
    low, high, seed = float(obj.get("low", -2.0)), float(obj.get("high", 2.0)), int(obj.get("seed", 0))
    if not (-math.inf < low <= high < math.inf) or seed < 0:
        raise GraphFormatError(
            "expected finite low <= high and a seed that is not negative, found %r, %r and %r"
            % (low, high, seed)
        )
    return Source(_string(obj["name"]), _type(obj), low, high, seed, obj.get("data"))


def _freeze(value: Any) -> Any:
    return tuple(_freeze(v) for v in value) if isinstance(value, list) else value


def _node(obj: Mapping[str, Any]) -> Node:
    return Node(
        _string(obj["op"]),
        tuple(_string(i) for i in obj["inputs"]),
        {_string(k): _freeze(v) for k, v in obj["attrs"].items()},
        tuple(_string(o["name"]) for o in obj["outputs"]),
        tuple(_type(o) for o in obj["outputs"]),
    )


#: The largest number of given elements that `show` lists.
_FEW = 8


def _elements(source: Source) -> str:
    """Returns a text on the elements of a source: how they are drawn, or the given elements.

    Of more than `_FEW` given elements only the special ones are named: -0.0, and values that JSON
    has no number for (written as strings).
    """
    if source.data is None:
        return "in [%g, %g], seed %d" % (source.low, source.high, source.seed)
    elements: list[Any] = []
    rest = [source.data]
    while rest:
        value = rest.pop(0)
        if isinstance(value, (list, tuple)):
            rest[:0] = value
        else:
            elements.append(value)
    if len(elements) <= _FEW:
        return "given: " + ", ".join(map(str, elements))
    special = dict.fromkeys(str(e) for e in elements if isinstance(e, str) or str(e) == "-0.0")
    return "given" + (", %s among them" % ", ".join(special) if special else "")


def show(graph: Graph, remarks: Sequence[str] = ()) -> str:
    """Returns the graph as text in the style of TVM's text format, one line for each value or node.

    remarks: a comment for each node; "" for none.
    """
    lines = ["inputs:"]
    lines += ["  %%%s: %s %s" % (s.name, s.type, _elements(s)) for s in graph.inputs]
    if graph.constants:
        lines.append("constants:")
        lines += ["  %%%s: %s %s" % (s.name, s.type, _elements(s)) for s in graph.constants]
    lines.append("nodes:")
    for position, n in enumerate(graph.nodes):
        results = ", ".join("%%%s: %s" % (o, t) for o, t in zip(n.outputs, n.types))
        args = ["%" + i for i in n.inputs]
        args += ["%s=%s" % (k, json.dumps(v)) for k, v in n.attrs.items()]
        remark = "  # " + remarks[position] if remarks and remarks[position] else ""
        lines.append("  %s = %s(%s)%s" % (results, n.op, ", ".join(args), remark))
    lines.append("outputs: " + ", ".join("%" + o for o in graph.outputs))
    return "\n".join(lines)
