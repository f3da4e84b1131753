"""The first half of the run of the target worker: the graph is lowered and partitioned.

Each product (module, partitioned module, executable, outputs) is made once, when a check first
needs it. A stage that failed is not tried again, and is reported once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ..core.graph import Graph
from ..core.openings import OpenExtent
from ..ir.interface import IR, Form
from ..ir.main_function import check_type
from ..ir.places import places
from ..ir.shared import configured
from .base import Arrays, Run
from .reporter import Reporter


class Other(NamedTuple):
    """A second graph, with its constants and a set of inputs."""

    graph: Graph
    constants: Arrays
    inputs: Arrays


class Opened(NamedTuple):
    """The graph with open extents, and the same graph with larger extents."""

    extents: Sequence[OpenExtent]
    graph: Graph
    larger: Other


class Same(NamedTuple):
    """A graph that computes the same.

    change: what was changed, in words. cuts: whether it is meant to make several regions of one.
    """

    change: str
    cuts: bool
    other: Other


def _other(given: Mapping[str, Any] | None) -> Other | None:
    return Other(Graph.from_dict(given["graph"]), given["constants"], given["inputs"]) if given else None


def _opened(given: Mapping[str, Any]) -> Opened:
    larger = _other(given["larger"])
    assert larger is not None
    extents = [OpenExtent(*fields) for fields in given["extents"]]
    return Opened(extents, Graph.from_dict(given["graph"]), larger)


def _same(given: Mapping[str, Any]) -> Same:
    other = _other(given)
    assert other is not None
    return Same(given["change"], given["cuts"], other)


class PartitioningRun(Run):
    """A run through the stages lower and partition, with the vendor's partition function."""

    def __init__(
        self, ir: IR, target: Any, graph: Graph, job: Mapping[str, Any], reporter: Reporter
    ) -> None:
        super().__init__(ir, job, reporter)
        self._job = job
        self.graph = graph
        self.target = target
        self.constants: Arrays = job["constants"]
        self._products: dict[tuple[str, ...], Any] = {}
        #: The graph with a larger batch; None where it has no batch.
        self.larger = _other(job.get("larger"))
        #: The ways to leave extents of the graph open, and how many of them are tried.
        self.openings = [_opened(given) for given in job.get("openings", [])]
        self.tried_openings: int = job.get("tried_openings", 0)
        #: The graphs that compute the same, and how many changes of the graph are tried.
        self.equivalents = [_same(given) for given in job.get("equivalents", [])]
        self.tried_equivalents: int = job.get("tried_equivalents", 0)
        #: The graph with other constants; None where it has none that could be different.
        self.twin = _other(job.get("twin"))
        #: TVM's current target and PassContext before the first partitioning (see `IR.scopes`).
        self.scopes: dict[str, str] = {}
        #: The partitioned module as text, if the check "reproducible" is made. The text is written
        #: before any build, since Relay's build changes attributes (of qnn.requantize) that the
        #: module shares.
        self.outline: list[str] = []
        #: Whether the partitioned module is known to hold no region.
        self.nothing_offloaded = False
        #: Whether the last call of `partition` changed main.
        self.main_changed = False
        #: Whether partitioning this run's own graph changed main.
        self._changed = False

    def _once(self, key: tuple[str, ...], make: Any) -> Any:
        if key not in self._products:
            try:
                self._products[key] = (make(), None)
            except Exception as e:
                self._products[key] = (None, e)
        value, error = self._products[key]
        if error is not None:
            raise error
        return value

    def module(self) -> Any:
        """Returns the graph as an IRModule."""

        def make() -> Any:
            self.stage("lower")
            module, self._signatures = self.ir.lower(self.graph, self.constants)
            return module

        return self._once(("lower",), make)

    def partitioned(self) -> Any:
        """Returns the IRModule that the vendor's partition function returned for the graph."""

        def make() -> Any:
            module = self._partition_graph()
            self._changed = self.main_changed
            if "reproducible" in self._checks:
                self.outline = self.ir.modules.outline(module)
            return module

        return self._once(("partition",), make)

    def _partition_graph(self) -> Any:
        return self.partition(self.module())

    def narrow(self, graph: Graph, signatures: list[str]) -> None:
        """Replaces the graph by a part of it, and drops the inputs and constants of the rest."""
        self.graph, self._signatures = graph, signatures
        names = [s.name for s in graph.inputs]
        self.inputs = [{name: given[name] for name in names} for given in self.inputs]
        self.constants = {s.name: self.constants[s.name] for s in graph.constants}

    def regions(self) -> dict[str, Any]:
        """Returns facts about the partitioned module.

        They are those of `IR.partition_facts`, "nodes" (the signature of each node of the graph),
        "changed" (whether partitioning changed main), and of a whole model "places" (`ir/places.py`).
        """
        facts = self.facts_of(self.partitioned())
        self.nothing_offloaded = not facts["regions"]
        if "model" in self._job:
            facts["places"] = places(self.ir, self.module(), self.partitioned())
        return dict(facts, nodes=self._signatures, changed=self._changed)

    def facts_of(self, partitioned: Any) -> dict[str, Any]:
        """Returns facts about a partitioned module as `IR.partition_facts` does."""
        facts = self.ir.partition_facts(partitioned)
        if self.target.build is not None:
            # The target's own function may compile regions for which TVM has no codegen.
            for region in facts["regions"]:
                region["codegen"] = True
        return facts

    @property
    def nothing_to_judge(self) -> bool:
        """True if nothing is offloaded and main is unchanged: a check would only judge TVM."""
        return self.nothing_offloaded and not self._changed

    def lowered_again(self) -> Any:
        """Returns the graph as a second IRModule, which shares nothing with the first."""
        return self.lowered_other(self.graph, self.constants)

    def lowered_other(self, graph: Graph, constants: Arrays) -> Any:
        """Returns another graph as an IRModule."""
        return self.ir.lower(graph, constants)[0]

    def partitioned_other(self, graph: Graph, constants: Arrays) -> Any:
        """Returns another graph as the vendor's partition function partitions it."""
        self.stage("lower")
        return self.partition(self.lowered_other(graph, constants))

    def partition(self, module: Any) -> Any:
        """Calls the vendor's partition function, and returns the partitioned module.

        Raises NotAModule where it returns something other than a module, and MainLost where main is
        gone or has another type.
        """
        self.stage("partition")
        self.scopes = self.scopes or self.ir.scopes()
        # The vendor may change the module in place. Functions are immutable, so main is kept.
        main, types = module["main"], self.ir.main_type(module)
        with configured(self.target.pass_config):
            partitioned = self.ir.check_partitioned(self.target.partition(module))
        check_type(types, self.ir.main_type(partitioned))
        self.main_changed = not self.ir.same_function(main, partitioned["main"])
        return partitioned

    def marked_by_hand(self) -> Any:
        """Returns the graph's module with one region marked as a user would do it.

        The region holds an operator that the target offloads. None where that can't be done.
        """
        partitioned, regions = self.partitioned(), self.regions()["regions"]
        table = self.pattern_table(regions)
        return self.ir.modules.marked_by_hand(self.lowered_again(), partitioned, regions, table)

    def pattern_table(self, regions: Sequence[Mapping[str, Any]]) -> Any:
        """Returns the patterns of the declared name, or else those of the regions' compiler."""
        names = [self.target.patterns] + [region["compiler"] for region in regions]
        tables = (self.ir.pattern_table(name) for name in dict.fromkeys(names))
        return next((table for table in tables if table), [])

    def lowered_unbound(self) -> Any:
        """Returns the graph as an IRModule with its constants as inputs."""
        return self.ir.lower(self.graph.unbound(), {})[0]

    def unbound(self) -> Any:
        """Returns the graph with its constants as inputs, partitioned.

        Where TVM does not lower such a graph, it reports the check as not made, and returns None.
        """

        def make() -> Any:
            module = self._lowered(self.lowered_unbound, "TVM accepts these values as constants only")
            return None if module is None else self.partition(module)

        return self._once(("unbound",), make)

    def _lowered(self, lower: Callable[[], Any], why_not: str) -> Any:
        """Returns lower(). If that raises, it reports the check as not made, and returns None."""
        try:
            return lower()
        except Exception as e:
            self.not_checked("%s (%s)" % (why_not, type(e).__name__))
            return None

    def open_module(self, opening: Opened) -> Any:
        """Returns the graph as an IRModule with open extents.

        Where TVM does not lower such a graph, it reports the check as not made, and returns None.
        """
        self.stage("lower")
        return self._lowered(
            lambda: self.ir.lower(opening.graph, self.constants, opening.extents)[0],
            "TVM cannot express some graphs with open extents",
        )

    def lowered_same(self, same: Same) -> Any:
        """Returns a graph that computes the same as an IRModule.

        Where TVM does not lower such a graph, it reports the check as not made, and returns None.
        """
        self.stage("lower")
        return self._lowered(
            lambda: self.lowered_other(same.other.graph, same.other.constants),
            "TVM does not lower some graphs that compute the same",
        )

    def with_non_op_nodes(self) -> Form | None:
        """Returns the graph as a Form with nodes that call no operator; None where it has none.

        Where TVM does not lower such a graph, it reports the check as not made, and returns None.
        """
        self.stage("lower")
        facts = self.regions()

        return self._lowered(
            lambda: self.ir.modules.with_non_op_nodes(self.lowered_again, facts, self.inputs),
            "TVM cannot lower the graph in this form",
        )
