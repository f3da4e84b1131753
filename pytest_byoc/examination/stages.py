"""Decides whether all stages are run for a target, or only partitioning.

TVM holds patterns of targets whose codegen or runtime is missing in the installed build. Their
partition functions are checked all the same: LLVM builds the regions instead of the target.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..core.graph import Graph
from ..generation.systematic import default_case
from .outcome import CRASH, ERROR, HANG, Verdict
from .partitions import Partition, Partitions
from .workers import Workers

#: The stages after partitioning.
LEFT_OUT = ("codegen", "build", "export", "load", "run")
#: The exit code of a session that passes, but could only run the partition stage of a target.
EXIT_PARTITION_ONLY = 6
#: Common operators, of which most targets offload at least one.
_COMMON = ("nn.relu", "add", "nn.conv2d", "nn.dense", "nn.softmax", "nn.max_pool2d")
#: The number of graphs that are built and run for a target that TVM knows by name, before only
#: partitioning is checked.
_TRIED = 3


class Stages:
    """Decides for one target when its first region is seen, and sets `Workers.partition_only`.

    given: the value of --byoc-stages ("all" or "partition"), or None, for which the decision
    depends on the stages that can be run.
    """

    def __init__(self, workers: Workers, partitions: Partitions, given: str | None) -> None:
        self._workers = workers
        self._partitions = partitions
        self._decided = given is not None
        #: Whether a tried graph could be run, and the reason why another one could not.
        self._runs, self._refused = False, ""
        if given == "partition":
            workers.partition_only = "as --byoc-stages=partition says"

    @property
    def decided(self) -> bool:
        """Returns whether it is known which stages are run."""
        return self._decided

    def to_be_tried(self) -> Iterator[Graph]:
        """Decides by partitioning simple graphs, and yields graphs that have to be built and run.

        Graphs are yielded only for a target that TVM knows by name, because its codegen may be
        installed without its runtime. The caller passes their verdicts to `learn`. No more follow
        once one of them could be run.
        """
        if self._decided:
            return
        graphs = [default_case(name, "float32").graph for name in _COMMON]
        partitions = self._partitions.survey(graphs)
        for partition in partitions:
            self._decide(partition)
        if self._workers.partition_only or not self._workers.named_in_tvm:
            return
        offloaded = [g for g, p in zip(graphs, partitions) if p is not None and p.regions]
        for graph in offloaded[:_TRIED]:
            if not self._runs:
                yield graph
        if self._refused and not self._runs:
            self._workers.partition_only = self._refused

    def learn(self, verdict: Verdict) -> None:
        """Notes the verdict on a graph that was yielded by `to_be_tried`.

        A crash or hang decides nothing: it is a failure that the tests report.
        """
        finding = verdict.findings[0] if verdict.findings else None
        if verdict.outcome in (CRASH, HANG):
            return
        if verdict.outcome != ERROR or finding is None or finding.stage not in LEFT_OUT:
            self._runs = True
            return
        reason = f"TVM knows it by name, and its regions can't be built or run here: {finding.message}"
        self._refused = self._refused or reason

    def decide(self, graph: Graph) -> None:
        """Decides by a graph, unless it is decided already or nothing of the graph is offloaded."""
        if not self._decided:
            self._decide(self._partitions.of(graph))

    def _decide(self, partition: Partition | None) -> None:
        if self._decided or partition is None or not partition.regions:
            return
        self._decided = True
        if not partition.with_codegen:
            prefix = f"{self._workers.ir}.ext."
            names = ", ".join(prefix + name for name in sorted(partition.compilers))
            self._workers.partition_only = f"TVM has no codegen for its regions here ({names})"


def in_words(reason: str) -> str:
    """Returns the notice of a session that only ran the partition stage. reason: why it did."""
    return (
        f"partition stage only: the stages {', '.join(LEFT_OUT[:-1])} and {LEFT_OUT[-1]} were not run "
        f"({reason}); LLVM built the regions in the target's place"
    )
