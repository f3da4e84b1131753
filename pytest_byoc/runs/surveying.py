"""The run of a survey: many graphs are partitioned in one process, and the facts about each are sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..core.graph import Graph
from ..core.union import in_turn, named_apart, union
from ..ir.interface import IR
from .partitioning import PartitioningRun
from .reporter import Reporter

#: The number of groups in a row that could not be partitioned together, after which the rest of a job is
#: partitioned one by one.
_FAILURES = 3


def survey(
    ir: IR, target: Any, graphs: Sequence[Mapping[str, Any]], groups: Sequence[int], reporter: Reporter
) -> None:
    """Partitions graphs, and sends the facts about the regions of each.

    graphs: each with "graph" and "constants". groups: the sizes of groups of successive graphs. The graphs
    of a group are partitioned together in one module, and their facts are sent as "together". One of each
    group is partitioned alone too. The graphs behind all groups, and those of a group for which the
    partition function raises, are partitioned one by one. Their facts are sent as "regions".
    """
    entries = [(number, entry) for number, entry in enumerate(graphs)]
    failures = 0
    for group in in_turn(entries, [*groups, *[1] * (len(entries) - sum(groups))]):
        alone = group
        if len(group) > 1 and failures < _FAILURES:
            reporter.send({"fact": "begun together", "executor": None, "value": group[0][0]})
            found = _Together(ir, target, [entry for _, entry in group], reporter).regions_of_each()
            failures = 0 if found else failures + 1
            for (number, _), facts in zip(group, found):
                reporter.send({"fact": "together", "executor": None, "value": dict(facts, number=number)})
            # What is wrongly left to TVM would not be examined.
            refused = (at for at, facts in enumerate(found) if not facts["regions"])
            alone = [group[next(refused, 0)]] if found else group
        for number, entry in alone:
            reporter.send({"fact": "begun", "executor": None, "value": number})
            job = {"inputs": [], "constants": entry["constants"]}
            run = PartitioningRun(ir, target, Graph.from_dict(entry["graph"]), job, reporter)
            try:
                run.record("regions", dict(run.regions(), number=number))
            except Exception as e:
                run.failed(e)


class _Together(PartitioningRun):
    """A run of the union of several graphs through the stages lower and partition."""

    def __init__(
        self, ir: IR, target: Any, graphs: Sequence[Mapping[str, Any]], reporter: Reporter
    ) -> None:
        self._members = [Graph.from_dict(entry["graph"]) for entry in graphs]
        constants = named_apart([entry["constants"] for entry in graphs])
        job = {"inputs": [], "constants": constants}
        super().__init__(ir, target, union(self._members), job, reporter)

    def regions_of_each(self) -> list[dict[str, Any]]:
        """Returns the facts about each graph as `regions` does; none where they can't be had together."""
        # The partition function may change the lowered module in place.
        before = self._apart(self.module)
        after = self._apart(self.partitioned)
        if before is None or after is None:
            return []
        nodes = in_turn(self._signatures, [len(graph.nodes) for graph in self._members])
        return [
            dict(self.facts_of(new), nodes=own, changed=self._changed and not self._same(old, new))
            for old, new, own in zip(before, after, nodes)
        ]

    def _apart(self, make: Callable[[], Any]) -> list[Any] | None:
        """Returns a module for each graph of the one that is made; None where this is impossible."""
        try:
            module = make()
        except Exception:  # the graph that raises is told when it is partitioned alone
            return None
        return self.ir.modules.taken_apart(module, [len(graph.outputs) for graph in self._members])

    def _same(self, before: Any, after: Any) -> bool:
        return self.ir.same_function(before["main"], after["main"])
