"""The sightings of failures: what a shard records of each failing graph, so that `merge` can list the
failures of all shards as one session would have listed them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ..core.graph import Graph
from ..examination.outcome import Verdict
from ..examination.signature import Signature, message_key, traits

#: Prefix of the operators that stand for a whole ONNX model: these have an outcome but no cell.
ONNX = "onnx."
#: Characters of a message that the list of excused failures has.
_MESSAGE = 300


@dataclass(frozen=True)
class Look:
    """The properties of a failing verdict by which it is recognised as a known failure.

    nodes: number of the graph's nodes. traits: its differences from the simplest cases of its
    operators."""

    signature: Signature
    operators: tuple[str, ...]
    nodes: int
    traits: frozenset[str]

    @staticmethod
    def of(verdict: Verdict, ir: str) -> Look:
        graph = verdict.graph
        return Look(verdict.signature, tuple(graph.operators), len(graph.nodes), traits(graph, ir))

    def as_dict(self) -> dict[str, Any]:
        return {
            "signature": asdict(self.signature), "operators": list(self.operators), "nodes": self.nodes,
            "traits": sorted(self.traits),
        }

    @staticmethod
    def from_dict(found: Mapping[str, Any]) -> Look:
        return Look(
            Signature(**found["signature"]), tuple(found["operators"]), found["nodes"],
            frozenset(found["traits"]),
        )


def short_message(verdict: Verdict) -> str:
    """Returns the beginning of the message of a failing verdict's first finding, as one line."""
    return " ".join(verdict.findings[0].message.split())[:_MESSAGE]


def cells_of(graph: Graph, operators: Sequence[str]) -> list[tuple[str, str]]:
    """Returns the cells (operator and dtype) of those nodes of a graph that have one of the
    operators."""
    nodes = (n for n in graph.nodes if n.op in operators and not n.op.startswith(ONNX))
    return sorted({(n.op, n.types[0].dtype) for n in nodes})


def blamed(verdict: Verdict) -> list[str]:
    """Returns the operators of a failing graph that may have failed: the offloaded ones, or all
    where that is not known."""
    offloaded = [n.op for n, inside in zip(verdict.graph.nodes, verdict.offloaded) if inside]
    return offloaded or list(verdict.graph.operators)


@dataclass
class Sighting:
    """One failing graph, with one cause of its failing.

    position, test: of the test, the position among all tests of the session. origin: the case in
    which a graph of the corpus was first found. excused: whether a waiver or the baseline excused
    it. failure: the id under which it is listed; "" if it was excused. before, after: the verdict
    before and after shrinking as known failures are recognised; None where that was not tried, or
    the graph was not shrunk. counted: the cells that count as failed. unshrunk: those that would,
    had it been recognised before shrinking. operators, nodes: of the graph before shrinking."""

    position: int
    test: str
    case: str
    origin: str
    check: str
    outcome: str
    message: str
    normalised: str
    excused: bool
    failure: str = ""
    before: Look | None = None
    after: Look | None = None
    counted: list[tuple[str, str]] = field(default_factory=list)
    unshrunk: list[tuple[str, str]] = field(default_factory=list)
    operators: list[str] = field(default_factory=list)
    nodes: int = 0

    @property
    def alone(self) -> list[tuple[str, str]]:
        """Returns the cell of a graph of one operator; nothing for any other graph."""
        return self.unshrunk if self.nodes == 1 else []

    @staticmethod
    def of(position: int, test: str, case: str, origin: str, verdict: Verdict, excused: bool) -> Sighting:
        """Returns the sighting of a failing verdict's first finding."""
        finding, graph = verdict.findings[0], verdict.graph
        return Sighting(
            position, test, case, origin, finding.check, verdict.outcome,
            short_message(verdict), message_key(finding, verdict.symbols), excused,
            unshrunk=cells_of(graph, blamed(verdict)),
            operators=list(graph.operators), nodes=len(graph.nodes),
        )

    def as_dict(self) -> dict[str, Any]:
        looks = {
            "before": self.before and self.before.as_dict(), "after": self.after and self.after.as_dict(),
        }
        # pytest-xdist and JSON have no tuples.
        cells = {k: [list(c) for c in getattr(self, k)] for k in ("counted", "unshrunk")}
        return {**vars(self), **looks, **cells}

    @staticmethod
    def from_dict(found: Mapping[str, Any]) -> Sighting:
        looks = {k: Look.from_dict(found[k]) if found[k] else None for k in ("before", "after")}
        cells = {k: [(op, dtype) for op, dtype in found[k]] for k in ("counted", "unshrunk")}
        known = {name: found[name] for name in Sighting.__dataclass_fields__}
        return Sighting(**{**known, **looks, **cells})
