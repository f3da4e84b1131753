"""Which stages are run for a target: all of them, or partitioning alone.

TVM holds patterns of targets whose codegen or runtime is not in this build of it. What their partition
functions do is checked all the same: LLVM builds the regions in the target's place.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..core.graph import Graph
from ..generation.systematic import default_case
from .claims import Claim, Claims
from .outcome import CRASH, ERROR, HANG, Verdict
from .workers import Workers

#: The stages behind partitioning.
LEFT_OUT = ("codegen", "build", "export", "load", "run")
#: Exit code of a session that passes, of a target of which only the partition stage could be run.
EXIT_PARTITION_ONLY = 6
#: Operators of which a target offloads one, most likely.
_COMMON = ("nn.relu", "add", "nn.conv2d", "nn.dense", "nn.softmax", "nn.max_pool2d")
#: Graphs of a target that TVM knows by name whose regions are built and run before that is given up.
_TRIED = 3


class Stages:
    """Decides for one target, when its first region is seen, and says so in `Workers.partition_only`.

    given: the value of --byoc-stages ("all" or "partition"), or None where what can be run here decides."""

    def __init__(self, workers: Workers, claims: Claims, given: str | None) -> None:
        self._workers = workers
        self._claims = claims
        self._decided = given is not None
        #: Whether a graph that was tried could be run, and why another one could not.
        self._runs, self._refused = False, ""
        if given == "partition":
            workers.partition_only = "--byoc-stages=partition asks for it"

    def to_be_tried(self) -> Iterator[Graph]:
        """Decides by the partitioning of the simplest graphs. Yields graphs to be built and run, whose
        verdicts `learn` is to be given, where the target is one that TVM knows by name: its codegen may be
        there, and its runtime not. None once one of them can be run."""
        if self._decided:
            return
        graphs = [default_case(name, "float32").graph for name in _COMMON]
        claims = self._claims.survey(graphs)
        for claim in claims:
            self._decide(claim)
        if self._workers.partition_only or not self._workers.named_in_tvm:
            return
        offloaded = [g for g, claim in zip(graphs, claims) if claim is not None and claim.regions]
        for graph in offloaded[:_TRIED]:
            if not self._runs:
                yield graph
        if self._refused and not self._runs:
            self._workers.partition_only = self._refused

    def learn(self, verdict: Verdict) -> None:
        """Takes note of the verdict on a graph that was built and run. All may die of it: that is a failure
        of its own."""
        finding = verdict.findings[0] if verdict.findings else None
        if verdict.outcome in (CRASH, HANG):
            return
        if verdict.outcome != ERROR or finding is None or finding.stage not in LEFT_OUT:
            self._runs = True
            return
        reason = f"TVM knows it by name, and its regions can't be built or run here: {finding.message}"
        self._refused = self._refused or reason

    def decide(self, graph: Graph) -> None:
        """Decides by a graph, unless that was done, or nothing of the graph is offloaded."""
        if not self._decided:
            self._decide(self._claims.of(graph))

    def _decide(self, claim: Claim | None) -> None:
        if self._decided or claim is None or not claim.regions:
            return
        self._decided = True
        if not claim.with_codegen:
            prefix = f"{self._workers.ir}.ext."
            names = ", ".join(prefix + name for name in sorted(claim.compilers))
            self._workers.partition_only = f"TVM has no codegen for its regions here ({names})"


def in_words(reason: str) -> str:
    """What a session says of a target of which only the partition stage was run. reason: why."""
    return (
        f"partition stage only: the stages {', '.join(LEFT_OUT[:-1])} and {LEFT_OUT[-1]} were not run "
        f"({reason}); LLVM built the regions in the target's place"
    )
