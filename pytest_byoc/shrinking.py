"""From a failing graph to the smallest one that fails so."""

from __future__ import annotations

from dataclasses import dataclass

from .checks import selection
from .examine import Examiner
from .generation.reduce import reduce
from .graph import Graph
from .outcome import Verdict
from .recorder import TargetRecord, failure_id


@dataclass
class Shrinking:
    """original: the verdict of the graph that is to become small."""

    examiner: Examiner
    record: TargetRecord
    ir: str
    original: Verdict

    def is_told(self) -> bool:
        """Whether it is an operator alone, of which the failure has been told already."""
        return len(self.original.graph.nodes) == 1 and self._known(self.original.graph)

    def run(self) -> tuple[Verdict, bool | None]:
        """The verdict of the smallest graph found, and whether there was time to try all smaller ones; the
        original and None where what was found fails by chance."""
        reduced = reduce(self.original.graph, self._fails, self.ir, known=self._known)
        shrunk = self._examined(reduced.graph)
        return (shrunk, reduced.finished) if shrunk.failed else (self.original, None)

    def _examined(self, graph: Graph) -> Verdict:
        return self.examiner.examine(graph, selection.again(self.original.findings[0].check))

    def _fails(self, graph: Graph) -> bool:
        return self._examined(graph).fails_like(self.original)

    def _known(self, graph: Graph) -> bool:
        """Whether the failure has been told of a graph, here or by a process beside."""
        id = failure_id(self.original.identity, graph.operators)
        return id in self.record.failures or self.examiner.peers.answer(("failure", id)) is not None
