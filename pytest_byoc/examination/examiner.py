"""Puts one graph through the workers and the checks, and comes to a verdict."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from ..checks import each_input
from ..config import plan
from ..config.declarations import TargetDeclaration
from ..config.levels import MANY
from ..config.settings import Settings
from ..core.graph import Graph
from ..evidence.evidence import Evidence
from ..generation import beyond, data
from ..generation.systematic import default_case
from ..oracle import evaluation
from ..reference_kernels import FULL, Bounded
from ..storage.session_ended import no_room
from ..storage.shared_answers import Peers
from . import description
from .activity import Activity
from .claims import Claims
from .client import WorkerError
from .decision import causes, decide
from .description import Description
from .gathering import Gatherer
from .outcome import HANG, NOT_OFFLOADED, ORACLE_SUSPECT, PASS, Verdict
from .recent import Recent
from .signature import exception_text
from .stages import Stages
from .time_limit import TimeLimit
from .workers import Workers

#: Operators whose graphs every partition function is given first.
_SIMPLEST = ("nn.relu", "add")
#: Verdicts that are given again without a look.
KEPT = 2000


def suspicious(verdict: Verdict) -> bool:
    """Whether what was seen quickly is to be seen in full."""
    return verdict.failed or verdict.outcome == ORACLE_SUSPECT


class Examiner:
    """Examines graphs by the workers of one target in one IR. `open` before, `close` after use."""

    claims: Claims
    _stages: Stages

    def __init__(
        self, settings: Settings, declaration: TargetDeclaration, activity: Activity | None = None
    ) -> None:
        self.settings = settings
        self.activity = activity or Activity()
        self.workers = Workers(settings, declaration, self.activity)
        self._limit = TimeLimit(settings.timeout)
        self._gatherer = Gatherer(self.workers, self._limit)
        self.gather = self._gatherer.gather
        #: Other processes that examine the same target.
        self.peers = Peers()
        #: See `side_by_side.parts`.
        self.changed_alone: set[str] = set()
        #: The number of failed modules that held a graph, by the graph's digest; modules in which a graph was
        #: known to fail do not count.
        self.failed_beside = Counter[bytes]()
        self._verdicts = Recent[tuple[bytes, tuple[str, ...], bool], Verdict](KEPT)

    def open(self) -> None:
        """Starts the workers. Raises WorkerError when one can't be had, or for a partition function that
        returns no IRModule at all."""
        with self.activity.during(
            f"starting the workers of {self.workers.name}, which import TVM and the target's code"
        ):
            self.workers.open()
        with self.activity.during(f"trying the simplest graphs with {self.workers.name}"):
            self._try_out()

    def _try_out(self) -> None:
        self.claims = Claims(self.workers.target, self.peers, self.activity, self._limit)
        own = self._refusal()
        if self.workers.tvms_partition and own:
            self.workers.partition_by_table(f"it raises {own}")
            self.claims = Claims(self.workers.target, self.peers, self.activity, self._limit)
            by_table = self._refusal()
            if by_table:
                raise WorkerError(
                    f"target {self.workers.name}: TVM knows the name, but can partition nothing for it here. "
                    f"Its own partition function raises {own}; the patterns registered under that name raise "
                    f"{by_table}"
                )
        self._stages = Stages(self.workers, self.claims, self.settings.stages)
        self._stages.try_out(lambda graph: self._examine(graph, plan.made(chosen=False)))

    def _refusal(self) -> str:
        """What partitioning raises for each of the simplest graphs, in words; "" where it succeeds for one.

        Raises WorkerError where it returns no IRModule at all."""
        graphs = [default_case(name, "float32").graph for name in _SIMPLEST]
        raised = [message["raised"] for message in self.claims.report(graphs).raised()]
        for found in raised:
            if found["type"] == "NotAModule":
                raise WorkerError(f"target {self.workers.name}: {found['message']}")
        if len(raised) < len(graphs):
            return ""
        return f"{raised[0]['type']}{exception_text(raised[0]['message'])}"

    def close(self) -> None:
        self.workers.close()
        self._gatherer.close()

    def examine(
        self, graph: Graph, checks: Sequence[str] | None = None, quick: bool = False,
        is_known: Callable[[Verdict], bool] = lambda verdict: False,
    ) -> Verdict:
        """The verdict on a graph; the same graph is examined once with the same checks.

        checks: ids of those to make; those that are made on every graph, if none are given. quick: whether
        one executor will do where nothing fails, without LLVM's build. is_known: whether a failing verdict
        tells nothing new: it is not looked at again in full then."""
        checks = tuple(checks or plan.made(chosen=False))
        key = graph.digest, checks, quick
        if key not in self._verdicts:
            claim = self.claims.known(graph)
            if claim is not None and not claim.to_be_judged:
                return Verdict(graph, NOT_OFFLOADED, offloaded=claim.offloaded)
            verdict = self.examine_anew(graph, checks, quick, is_known=is_known)
            self.learn(graph, checks, verdict, quick)
            return verdict
        return self._verdicts[key]

    def knows(self, graph: Graph, checks: Sequence[str], quick: bool = False) -> bool:
        """Whether the graph has been examined in this way."""
        return (graph.digest, tuple(checks), quick) in self._verdicts

    def learn(self, graph: Graph, checks: Sequence[str], verdict: Verdict, quick: bool = False) -> None:
        """Keeps a verdict, to be given again."""
        # What was seen of a failure is needed again; the rest would only fill the memory.
        kept = verdict if verdict.failed else replace(verdict, evidence=None)
        self._verdicts[graph.digest, tuple(checks), quick] = kept

    @property
    def exact(self) -> bool:
        """Whether bounds don't hang on which other nodes are offloaded: no lower precision is declared."""
        return self.workers.precision == FULL

    @property
    def merges(self) -> bool:
        """Whether graphs of a union may be partitioned apart. At smoke nothing else would see several of
        them in one module, nor compile their sources apart."""
        return self.settings.level.quick == MANY and self.claims.several

    def examine_anew(
        self, graph: Graph, checks: Sequence[str], quick: bool = False, merged: bool = False,
        is_known: Callable[[Verdict], bool] = lambda verdict: False,
    ) -> Verdict:
        """The verdict on a graph, with all its evidence, whether or not it is known.

        quick, merged: as in `first_look`. What fails there is examined in full; what passes then has failed
        all the same, unless as merged only. is_known: as in `examine`."""
        verdict = self.first_look(graph, checks, quick, merged)
        if verdict.failed and all(map(is_known, causes(verdict))):
            return verdict
        return self.look_again(graph, verdict, checks, quick, merged) if suspicious(verdict) else verdict

    def first_look(
        self, graph: Graph, checks: Sequence[str], quick: bool = False, merged: bool = False
    ) -> Verdict:
        """What is seen of a graph at first: a verdict unless it is suspicious.

        quick: under one executor, the same one for a graph each time, and without the reference. Under all of
        them but without the reference is examined what TVM's own build is known not to do. merged: the
        graph is a union whose graphs are partitioned apart; the verdict is on what is left of it without
        those of which the target takes nothing."""
        if not quick and not beyond.is_beyond(graph, self.workers.ir):
            return self._examine(graph, checks)
        return self._examine(graph, checks, self._one_executor(graph) if quick else None, merged, llvm=False)

    def look_again(
        self, graph: Graph, seen: Verdict, checks: Sequence[str], quick: bool, merged: bool
    ) -> Verdict:
        """The verdict on a graph of which `first_look` has seen something suspicious."""
        if not quick and not beyond.is_beyond(graph, self.workers.ir):
            return seen
        if merged:
            seen = self._examine(seen.graph, checks, self._one_executor(graph), llvm=False)
            if not suspicious(seen):
                return seen
        in_full = self._examine(seen.graph, checks)
        return seen if in_full.outcome == PASS else in_full

    def describe(self, verdict: Verdict, module: str | None = None) -> Description:
        """What the target makes of a failing graph, as text, as far as it gets without hanging again.

        module: TVM's JSON of what was lowered, where that is not the graph."""
        finding = verdict.findings[0]
        stages = ["partition"] if self.workers.partition_only else ["partition", "build"]
        if finding.outcome == HANG and finding.stage in stages:
            stages = stages[: stages.index(finding.stage)]
        constants = data.constants(verdict.graph) if module is None else {}
        try:
            report = self._gatherer.describe(verdict.graph, constants, stages, module)
        except WorkerError as e:
            return Description(missing=str(e))
        return description.read(report, self.workers.ir)

    def _one_executor(self, graph: Graph) -> str:
        """Each in turn; the first where a result is empty: Relay's VM calls nothing that has no others."""
        if any(not t.size for node in graph.nodes for t in node.types):
            return self.workers.executors[0]
        return self.workers.executors[zlib.crc32(graph.digest) % len(self.workers.executors)]

    def _examine(
        self, graph: Graph, checks: Sequence[str], executor: str | None = None, merged: bool = False,
        llvm: bool = True,
    ) -> Verdict:
        """The verdict on a graph, by evidence that is gathered now.

        executor: the only one; None: all of them. merged: as in `examine_anew`; what the target makes of
        its regions may be compiled as one source. llvm: whether the reference is asked."""
        self._stages.decide(graph)
        inputs = data.input_sets(graph, between=each_input.CHECK.id in checks)
        constants = data.constants(graph)
        job = {"inputs": inputs, "constants": constants, "checks": list(checks), "merged": merged}

        def expected(evidence: Evidence) -> list[list[Bounded]]:
            taken = evidence.may_be_offloaded()
            values = [{**evidence.constants, **i} for i in evidence.inputs]
            return [evaluation.evaluate(evidence.graph, v, self.workers.precision, taken) for v in values]

        evidence = self.gather(graph, job, expected, executor, llvm)
        verdict = decide(evidence)
        if suspicious(verdict) and (lacking := evidence.lacking_room()):
            raise no_room(lacking)
        return verdict
