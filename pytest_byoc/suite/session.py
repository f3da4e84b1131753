"""The session of one target: its graphs examined, its verdicts recorded, its failures reported."""

from __future__ import annotations

import gc
from collections.abc import Sequence, Set
from dataclasses import asdict
from functools import cached_property

from ..config import plan
from ..config.declarations import TargetDeclaration
from ..config.effort import Effort
from ..config.plan import PLAIN
from ..config.settings import Settings
from ..core.graph import Graph
from ..examination.activity import Activity
from ..examination.examiner import Examiner
from ..examination.outcome import PASS, ConformanceFailure, Verdict
from ..examination.recent import Recent
from ..operators import OPERATORS
from ..record.target_record import TargetRecord
from ..report.words import title
from ..storage import corpus
from ..storage.shared_answers import Peers
from ..worker.declared_precision import in_words
from . import batching
from .batching import Examinations
from .failures import Failures
from .known_failures import KnownFailures
from .observer import Observer
from .onnx_session import OnnxTests
from .patterns import Patterns
from .unusable_operators import unusable_operators

#: The number of graphs of cases that are kept, so as not to be counted twice.
COUNTED = 20_000


class TargetSession:
    """The session of one target. The suite's tests and a vendor's own tests call `check`.

    observer: is told of each verdict. peers: other processes that examine the same target."""

    def __init__(
        self,
        settings: Settings,
        declaration: TargetDeclaration,
        activity: Activity | None = None,
        observer: Observer | None = None,
        peers: Peers | None = None,
    ) -> None:
        self.settings = settings
        self.declaration = declaration
        self.activity = activity or Activity()
        self._observer = observer or Observer()
        self.examiner = Examiner(settings, declaration, self.activity, peers)
        self.record = TargetRecord(declaration.name, "", {})
        self.known = KnownFailures(self.examiner, self.record, settings.max_causes)
        self.examinations = Examinations(self.examiner, self.known)
        self.failures = Failures(
            settings, declaration, self.examiner, self.record, self.known, self._observer
        )
        self.onnx = OnnxTests(settings, self.examiner, self.record, self.failures, self._observer)
        #: Why it can't be tested, where it is one of several targets; empty if it can.
        self.unusable = ""
        #: Id of the running test, which is the case of a vendor's own tests.
        self.test = ""
        #: Failing verdicts of the running test that `settle` has yet to choose from.
        self._examples: list[Verdict] = []
        self._counted = Recent[tuple[str, bytes], None](COUNTED)
        #: Verdicts on modules that fail though no graph in them does, by the first graph.
        self._modules: dict[Graph, Verdict] = {}

    @property
    def ir(self) -> str:
        return self.examiner.workers.ir

    @cached_property
    def operators(self) -> tuple[str, ...]:
        """The operators to be tested that the IR has. Those that can't be tested here are recorded with their
        reason."""
        found = unusable_operators(self.examiner.workers, self.settings.operators)
        self.record.not_checked += [f"operator {name}: {reason}" for name, reason in found.items()]
        here = (o for o in self.settings.operators if self.ir in OPERATORS[o].irs())
        return tuple(o for o in here if o not in found)

    @cached_property
    def patterns(self) -> Patterns:
        """The target's patterns that are made of the operators to be tested."""
        return Patterns(self.examiner, self.record, self.operators)

    @property
    def left_out_patterns(self) -> list[str]:
        """Names of the patterns that --byoc-operators leaves out."""
        return self.patterns.left_out if self.settings.left_out and "patterns" in vars(self) else []

    def open(self) -> None:
        """Starts the workers. Raises WorkerError when one can't be had.

        Until `close` the garbage collector passes over the objects there are: to go through all of them,
        again and again, took a tenth of the host's time."""
        self.examiner.open()
        gc.freeze()
        self.record.target = self.examiner.workers.name
        self.record.ir = self.examiner.workers.ir
        self.record.versions = self.examiner.workers.versions
        self.record.precision = in_words(asdict(self.examiner.workers.precision))
        self.record.not_checked = list(self.examiner.workers.not_checked)
        self.record.partition_only = self.examiner.workers.partition_only

    def close(self) -> None:
        gc.unfreeze()
        self.examiner.close()

    # --- examining ---------------------------------------------------------------------------

    def effort(self, graph: Graph, kinds: Set[str] = PLAIN) -> Effort:
        """The effort for a graph of these kinds (`config/plan.py`) at the session's level."""
        return plan.effort(self.settings.level, kinds, alone=len(graph.nodes) == 1)

    def is_plain(self, graph: Graph, kinds: Set[str]) -> bool:
        """Whether no checks are made on a graph but those of every graph: on a module of several no others
        are."""
        return self.effort(graph, kinds).checks == self.effort(graph).checks

    def examine(self, graph: Graph, case: str, kinds: Set[str] = PLAIN) -> Verdict:
        """The verdict on a graph, counted. Raises nothing for a failing target."""
        verdict = self.examinations.examine(graph, self.effort(graph, kinds))
        # Where the simplest graphs did not tell, the first that is offloaded does.
        self.record.partition_only = self.examiner.workers.partition_only
        if (case, graph.digest) not in self._counted:
            self._counted[case, graph.digest] = None
            self.record.add(verdict, case)
        self._observer.examined(verdict)
        return verdict

    def check(self, graph: Graph, case: str = "", kinds: Set[str] = PLAIN, shrink: bool = True) -> Verdict:
        """The verdict on a graph. Raises ConformanceFailure if the target fails it, after shrinking
        the graph, saving a bundle and listing the failure; not for a failure that is excused."""
        case = case or self.test
        verdict = self.examine(graph, case, kinds)
        if verdict.failed and not self.failures.excused(verdict, case):
            self.failures.fail(verdict, case, shrink)
        if verdict.outcome == PASS:
            self.known.note(tells_something=True)
        return verdict

    # --- several graphs in one module ----------------------------------------------------------

    def ahead(self, graphs: Sequence[Graph], kinds: Set[str] = PLAIN) -> Verdict | None:
        """Examines graphs, each of which is going to be examined, together in modules where the level allows.
        Returns the verdict on a module that fails though no graph in it does: a failure too."""
        found: Verdict | None = None
        if self.settings.level.side_by_side:
            effort = plan.effort(self.settings.level, kinds & {plan.NUMEROUS})
            for group in batching.groups(graphs, self.ir):
                verdict = self.examinations.together(group.graphs, effort)
                if verdict is not None:
                    self._modules[group.graphs[0]] = verdict
                found = found or verdict
        return found

    def answer_for(self, graphs: Sequence[Graph], case: str) -> None:
        """Raises ConformanceFailure in that case where a module of these graphs, examined `ahead`, fails
        though none of them does."""
        module = self._modules.get(graphs[0])
        if module is not None and self.holds_against(module, case):
            self.fail(module, case)

    def holds_against(self, module: Verdict, case: str) -> bool:
        """Counts the verdict on a module that `ahead` returned; False where it is excused."""
        self.record.add(module, case)
        self._observer.examined(module)
        return not self.failures.excused(module, case)

    def fail(self, verdict: Verdict, case: str) -> None:
        """Shrinks, saves and lists a failing verdict, and raises ConformanceFailure."""
        beside = any(verdict is module for module in self._modules.values())
        self.failures.fail(verdict, case, beside=beside)

    # --- a vendor's own tests, and saved graphs -------------------------------------------------

    def check_example(self, graph: Graph) -> Verdict:
        """The verdict on a graph of a test of the user's own. Raises ConformanceFailure if the
        target fails it; not for a failure that is excused. Hypothesis makes it smaller by running
        the test again and again: what is listed and saved, once the test has ended (`settle`), is
        the graph that it ends with."""
        verdict = self.examine(graph, self.test)
        if verdict.failed and not self.failures.excused(verdict, self.test):
            self._examples.append(verdict)
            raise ConformanceFailure(f"{title(graph.operators)}: {verdict.findings[0].message}", verdict)
        return verdict

    def settle(self, raised: BaseException | None) -> list[str]:
        """Lists and saves what a test of the user's own has ended with, of the failing examples of
        `check_example`: what it raised, or else, where that is something else, the smallest of them. Texts on
        what failed; none where there are no such examples."""
        if not self._examples:
            return []
        smallest = min(self._examples, key=lambda v: (len(v.graph.nodes), v.graph.elements))
        told: list[str] = []
        if isinstance(raised, ConformanceFailure):
            if any(raised.verdict is example for example in self._examples):
                smallest = raised.verdict
            else:
                # Listed already, by `check`.
                told.append(str(raised))
        self._examples.clear()
        try:
            self.failures.fail(smallest, self.test, shrink=False)
        except ConformanceFailure as e:
            told.append(str(e))
        return told

    def absent(self, graph: Graph) -> list[str]:
        """Operators of a graph that the IR does not have."""
        return [op for op in graph.operators if self.ir not in OPERATORS[op].irs()]

    def leave_out(self, entry: corpus.Entry, kind: str, reason: str) -> None:
        """Records that a graph of the corpus is not checked. kind: "unusable" or "left out"."""
        self.record.corpus[entry.id] = f"{kind}: {reason}"
        self.record.not_checked.append(f"{entry.case}: {reason}")

    def check_entry(self, entry: corpus.Entry, graph: Graph, found_in: str) -> Verdict:
        """`check` of a graph of the corpus. One that a session saved is removed once it passes.

        found_in: the case it was found in."""
        verdict = self.examine(graph, entry.case, {plan.ALL_CHECKS, plan.SAVED})
        self.record.corpus[entry.id] = verdict.outcome
        # What is known of the case it was found in is known of the graph; a vendor's own is judged alone.
        origin = found_in if entry.automatic else ""
        if verdict.failed and not self.failures.excused(verdict, entry.case, origin):
            self.failures.fail(verdict, entry.case, shrink=entry.unshrunk, entry=entry, found_in=found_in)
        if entry.automatic and verdict.outcome == PASS:
            check = corpus.failed_check(entry.path)
            not_made = {text.partition(":")[0] for text in verdict.not_checked} & plan.BY_MACHINE
            not_made |= self.examiner.workers.without_checks
            if check in not_made:
                self.record.corpus[entry.id] = f"{PASS}: kept, {check} was not made"
                return verdict
            self.record.corpus[entry.id] = f"{PASS}: removed"
            corpus.remove(entry.path)
        return verdict
