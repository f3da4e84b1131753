"""The run of a union in the target worker, with each of its graphs partitioned by itself."""

from __future__ import annotations

from typing import Any

from ..core.union import only, split
from .target import TargetRun


class UnionRun(TargetRun):
    """A run of a union that partitions each graph and merges the partitioned modules into one.

    Graphs that partitioning leaves unchanged are dropped. This is faster than to partition the
    union, where TVM infers the types of the whole module for each region. It also tells which nodes
    of each graph are offloaded.
    """

    def _partition_graph(self) -> Any:
        """Returns the partitioned module.

        Records for each graph its partition facts ("partition"), and once ("kept") the positions of the
        graphs in the module, and whether it was merged or partitioned as a whole.
        """
        modules: dict[int, Any] = {}
        signatures: list[str] = []
        nothing: Any = None
        changed = False
        for position, graph in split(self.graph).items():
            self.stage("lower")
            module, nodes = self.ir.lower(graph, self.constants)
            module = self.partition(module)
            facts = self.ir.partition_facts(module)
            self.record("partition", dict(facts, number=position, nodes=nodes, changed=self.main_changed))
            # A graph whose main has changed is judged even if nothing of it is offloaded.
            changed |= self.main_changed
            if facts["regions"] or self.main_changed:
                modules[position] = module
                signatures += nodes
            else:
                nothing = module
        merged = self.ir.modules.merged(modules) if modules else nothing
        self.narrow(only(self.graph, modules), signatures)
        self.record("kept", {"positions": list(modules), "merged": merged is not None})
        if merged is None:
            return self.partition(self.lowered_again())
        self.main_changed = changed
        return merged
