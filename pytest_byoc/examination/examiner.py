"""Examines graphs with the workers of a target, and keeps the verdicts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ..config import plan
from ..config.declarations import TargetDeclaration
from ..config.effort import Effort
from ..config.levels import NUMEROUS
from ..config.settings import Settings
from ..core.finding import Finding
from ..core.graph import Graph
from ..evidence.evidence import Evidence
from ..evidence.judging import Judgement
from ..generation import data, without_llvm
from ..generation.systematic import default_case
from ..reference_kernels import FULL
from ..storage.session_ended import no_room
from ..storage.shared_answers import Peers
from ..storage.stored_passes import Passes
from . import description
from .activity import Activity
from .ahead import Ahead, threads
from .client import WorkerError
from .decision import decide
from .description import Description
from .gathering import MAY_BE_TVMS
from .lane import Examination, TargetLane
from .limited_dict import LimitedDict
from .outcome import HANG, NOT_OFFLOADED, ORACLE_SUSPECT, PASS, Verdict
from .partitions import Partitions
from .shortcuts import takes_shortcuts
from .signature import exception_text
from .since import Since
from .stages import Stages
from .subject import Subject
from .time_limit import TimeLimit
from .workers import Workers

#: The operators of the graphs with which every partition function is tried first.
_SIMPLEST = ("nn.relu", "add")
#: The number of verdicts that are kept.
KEPT = 2000


def suspicious(verdict: Verdict) -> bool:
    """Returns whether a graph that was examined with less effort has to be examined in full."""
    return verdict.failed or verdict.outcome == ORACLE_SUSPECT
#: The notice on partitions that were not asked for.
_TAKEN_OVER = (
    "what the target offloads of graphs that are only looked at, one in sixteen excepted: taken over from an "
    "earlier session, since no file that the worker loads has changed (--byoc-anew asks again)"
)


class Examiner:
    """Examines graphs with the workers of one target in one IR. Call `open` first, `close` last.

    peers: the other processes that examine the same target. passes: where the graphs that pass are kept
    for a later session; None if they are not.
    """

    partitions: Partitions
    _stages: Stages

    def __init__(
        self,
        settings: Settings,
        declaration: TargetDeclaration,
        activity: Activity | None = None,
        peers: Peers | None = None,
        passes: Passes | None = None,
    ) -> None:
        self.settings = settings
        self.activity = activity or Activity()
        self.peers = peers or Peers()
        self.workers = Workers(settings, declaration, self.activity)
        self._limit = TimeLimit(settings.timeout)
        self.since = Since(passes)
        self._tvms_too = set[str]()
        self._lane = TargetLane(self.workers, self._limit, self.since, self._tvms_too)
        self._gatherer = self._lane.gatherer
        self._verdicts = LimitedDict[tuple[bytes, Effort], Verdict](KEPT)
        device = declaration.device
        alone = self.peers.processes > 1 or device.is_elsewhere or device.runner
        number = 0 if alone else (settings.threads or threads()) - 1
        #: The workers of further threads.
        self.ahead = Ahead(self._lane, self._another_lane, number, self.activity.tick)

    def open(self, meanwhile: Callable[[str], None] = lambda ir: None) -> None:
        """Starts the workers, and tries the simplest graphs. meanwhile: see `Workers.open`.

        Raises WorkerError if a worker can't be started, if a device can't run what TVM itself has built,
        or if the partition function returns no IRModule; SettingsError if the report of
        --byoc-changed-since can't be used.
        """
        with self.activity.during(
            f"starting the workers of {self.workers.name}, which import TVM and the target's code"
        ):
            self.workers.open(meanwhile)
        with self.activity.during(f"trying the simplest graphs with {self.workers.name}"):
            self._try_device()
            self._try_out()
            self.since.open(self.workers, self.settings.changed_since)

    def _try_device(self) -> None:
        """Has a device run what LLVM has built. Raises WorkerError if it can't: no verdict would tell
        anything about the target."""
        device = self.workers.declaration.device
        if not device.is_elsewhere or self.workers.partition_only or self.settings.stages == "partition":
            return
        wrong = self._gatherer.try_device(default_case(_SIMPLEST[0], "float32").graph)
        if wrong:
            what = "runner" if device.runner else "loader"
            raise WorkerError(
                f"target {self.workers.name}: the {what} ({device.in_words}) does not run a graph of one "
                f"{_SIMPLEST[0]} that TVM itself has built, so nothing of the target can be judged with it: "
                f"{wrong}"
            )

    def _try_out(self) -> None:
        self.partitions = self._new_partitions()
        own = self._refusal()
        if self.workers.tvms_partition and own:
            self.workers.partition_by_table(f"it raises {own}")
            self.partitions = self._new_partitions()
            by_table = self._refusal()
            if by_table:
                raise WorkerError(
                    f"target {self.workers.name}: TVM knows the name, but can partition nothing for it here. "
                    f"Its own partition function raises {own}; the patterns registered under that name raise "
                    f"{by_table}"
                )
        self._stages = Stages(self.workers, self.partitions, self.settings.stages)
        for graph in self._stages.to_be_tried():
            self._stages.learn(self._verdict(graph, plan.every_graph()))

    def _new_partitions(self) -> Partitions:
        stored = self.workers.stored_surveys()
        return Partitions(self.workers.target, self.peers, self.activity, self._limit, self.ahead, stored)

    def _refusal(self) -> str:
        """Returns the exception that partitioning raises for all of the simplest graphs, in words.

        It is "" if partitioning succeeds for one of them. Raises WorkerError if the partition
        function returns no IRModule.
        """
        graphs = [default_case(name, "float32").graph for name in _SIMPLEST]
        raised = [message["raised"] for message in self.partitions.report(graphs).raised()]
        for exception in raised:
            if exception["type"] == "NotAModule":
                raise WorkerError(f"target {self.workers.name}: {exception['message']}")
        if len(raised) < len(graphs):
            return ""
        return f"{raised[0]['type']}{exception_text(raised[0]['message'])}"

    def close(self) -> None:
        if hasattr(self, "partitions"):
            self.partitions.close()
        self.ahead.close()
        self._lane.close()

    def taken_over(self) -> list[str]:
        """Returns a sentence for the list "not checked" if an earlier session's partitions were used."""
        return [_TAKEN_OVER] if hasattr(self, "partitions") and self.partitions.taken_over else []

    # --- verdicts that are known ----------------------------------------------------------------

    def recall(self, graph: Graph, effort: Effort) -> Verdict | None:
        """Returns the verdict on a graph if it is known without an examination, or None.

        It is known if the graph has been examined with this effort, or if partitioning is known to
        offload and change nothing.
        """
        kept = self._verdicts.get((graph.digest, effort.apart()))
        if kept is None:
            partition = self.partitions.known(graph)
            if partition is not None and not partition.to_be_judged:
                return Verdict(graph, NOT_OFFLOADED, offloaded=partition.offloaded)
        return kept

    def knows(self, graph: Graph, effort: Effort) -> bool:
        """Returns whether the graph has been examined with this effort."""
        return (graph.digest, effort.apart()) in self._verdicts

    def learn(self, graph: Graph, effort: Effort, verdict: Verdict) -> None:
        """Keeps a verdict, which `recall` returns."""
        # Only the evidence of a failure is needed again; the rest would fill the memory.
        kept = verdict if verdict.failed else replace(verdict, evidence=None)
        self._verdicts[graph.digest, effort.apart()] = kept

    # --- examining ------------------------------------------------------------------------------

    @property
    def exact(self) -> bool:
        """True if the target declares no lower precision.

        Then the bounds do not depend on which nodes are offloaded.
        """
        return self.workers.precision == FULL

    def merges(self, graphs: Sequence[Graph]) -> bool:
        """Returns whether the graphs of a union are partitioned one by one.

        Not all are at a level at which no other test partitions several graphs in one module.
        """
        every = self.settings.level.one_executor == NUMEROUS
        return self.partitions.several and (every or any(map(takes_shortcuts, graphs[:1])))

    def examine(self, graph: Graph, effort: Effort | None = None) -> Verdict:
        """Returns the verdict on a graph, which is examined at most once with the same effort.

        A graph that is suspicious with less effort is examined in full. effort: by default in full
        with the checks of every graph.
        """
        effort = effort or plan.every_graph()
        verdict = self.recall(graph, effort)
        if verdict is None:
            verdict = self.examine_uncached(graph, effort)
            self.learn(graph, effort, verdict)
        return verdict

    def examine_uncached(self, graph: Graph, effort: Effort) -> Verdict:
        """Examines a graph even if its verdict is known; the verdict has all the evidence."""
        return self.look_again(self.first_look(graph, effort), effort)

    def first_look(self, graph: Graph, effort: Effort) -> Verdict:
        """Returns the verdict on a graph with no more than this effort, final unless suspicious.

        If the graphs of a union are partitioned one by one, the verdict covers only the graphs of
        which something is offloaded.
        """
        return self._verdict(graph, self._effort(graph, effort))

    def look_briefly(self, graph: Graph, effort: Effort, finding: Finding) -> Verdict:
        """Returns the verdict on a graph, to see whether it has such a finding. If the verdict is unknown,
        the graph is built for the executor alone that the finding names, if it does, and without anything
        that TVM does alone: a failure may be TVM's then."""
        named = finding.details.get("executor")
        brief = effort.briefly(named if named in self.workers.executors else None)
        verdict = self.recall(graph, effort) or self.recall(graph, brief)
        if verdict is None:
            verdict = self._verdict(graph, brief)
            self.learn(graph, brief, verdict)
        return verdict

    def look_again(self, seen: Verdict, effort: Effort) -> Verdict:
        """Returns the final verdict on a graph. seen: the verdict of `first_look`.

        If it is suspicious, the graph is examined in full. If the graph passes then, the first
        verdict still counts, unless only the graphs partitioned one by one have failed, or TVM alone
        fails in the same way.
        """
        effort = self._effort(seen.graph, effort)
        if not suspicious(seen) or effort == effort.in_full():
            return seen
        if effort.merged:
            seen = self._verdict(seen.graph, effort.apart())
            if not suspicious(seen):
                return seen
        in_full = self._verdict(seen.graph, effort.in_full())
        if in_full.outcome != PASS:
            return in_full
        if effort.asks_tvm or not (failing := {f.check for f in seen.findings} & MAY_BE_TVMS):
            return seen
        with_tvm = self._verdict(seen.graph, replace(effort.apart(), asks_tvm=True))
        withdrawn = {text.partition(":")[0] for text in with_tvm.not_checked}
        return with_tvm if with_tvm.failed or failing <= withdrawn else seen

    def _effort(self, graph: Graph, effort: Effort) -> Effort:
        """Returns the effort, without LLVM for graphs that TVM itself is known not to build."""
        return replace(effort, with_llvm=False) if without_llvm.llvm_fails(graph, self.workers.ir) else effort

    def anticipate(self, graph: Graph, effort: Effort) -> None:
        """Lets a graph be examined that `first_look` will ask for, if there is a core for it."""
        effort = self._effort(graph, effort)
        if self.ahead.is_on and self._stages.decided and plan.SPEED not in effort.checks:
            self.ahead.request(Examination(graph, effort))

    def _another_lane(self) -> TargetLane:
        return TargetLane(self.workers.another(), self._limit, self.since, self._tvms_too, self.workers)

    def _verdict(self, graph: Graph, effort: Effort) -> Verdict:
        self._stages.decide(graph)
        if plan.SPEED in effort.checks:
            with self.ahead.pause():
                evidence, judgement = Examination(graph, effort).run(self._lane)
        else:
            evidence, judgement = self.ahead.take(Examination(graph, effort))
        verdict = decide(evidence, judgement)
        self.since.keep(graph, effort, verdict)
        if suspicious(verdict) and (lacking := evidence.lacking_room()):
            raise no_room(lacking)
        return verdict

    def gather(self, subject: Subject, effort: Effort) -> tuple[Evidence, Judgement]:
        """Returns the evidence on a subject, and the findings of the checks in it."""
        return self._gatherer.gather(subject, effort)

    def describe(self, verdict: Verdict, module: str | None = None) -> Description:
        """Describes a failing graph's modules and generated sources as texts.

        A stage that hung is not run again, nor are those after it. module: TVM's JSON of the
        module, if it was not lowered from the graph.
        """
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
