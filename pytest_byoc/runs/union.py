"""The graphs of a union through the vendor's code, each partitioned by itself."""

from __future__ import annotations

from typing import Any

from ..core.union import only, split
from .target import TargetRun


class UnionRun(TargetRun):
    """The partitioned graphs are merged into one module, without those of which the target offloads nothing.

    It is quicker than to partition the union, where TVM infers the types of the whole for each region, and
    it tells which nodes of each graph are offloaded."""

    one_source = True

    def _partition_graph(self) -> Any:
        """The partitioned module. Records "claim" for each graph, as the survey of claims does, and "kept":
        the positions of the graphs in the module, and whether it is merged or was partitioned as a whole."""
        modules: dict[int, Any] = {}
        signatures: list[str] = []
        nothing: Any = None
        changed = False
        for position, graph in split(self.graph).items():
            self.stage("lower")
            module, found = self.ir.lower(graph, self.constants)
            module = self.partition(module)
            facts = self.ir.partition_facts(module)
            self.record("claim", dict(facts, number=position, nodes=found, changed=self.main_changed))
            # What is changed is judged, whether or not something of it is offloaded.
            changed |= self.main_changed
            if facts["regions"] or self.main_changed:
                modules[position] = module
                signatures += found
            else:
                nothing = module
        merged = self.ir.modules.merged(modules) if modules else nothing
        self.narrow(only(self.graph, modules), signatures)
        self.record("kept", {"positions": list(modules), "merged": merged is not None})
        if merged is None:
            return self.partition(self.lowered_again())
        self.main_changed = changed
        return merged
