"""The session of one target: examines graphs, records verdicts and reports failures."""

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
from ..core.irs import IR_TITLES
from ..examination.activity import Activity
from ..examination.examiner import Examiner
from ..examination.limited_dict import LimitedDict
from ..examination.outcome import PASS, ConformanceFailure, Verdict
from ..gate.excuses import Excuses
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
from .models import Models
from .observer import Observer
from .onnx_session import OnnxTests
from .patterns import Patterns
from .unusable_operators import generate, unusable_operators

#: Number of recent pairs of case and graph that are remembered, so that none is counted twice.
COUNTED = 20_000


class TargetSession:
    """The session of one target. The suite's tests call `check`, a vendor's own tests
    `check_example`.

    observer: is notified of each verdict. peers: the other processes that examine the same
    target. excuses: waivers and the baseline; by default nothing excuses a failure."""

    def __init__(
        self,
        settings: Settings,
        declaration: TargetDeclaration,
        activity: Activity | None = None,
        observer: Observer | None = None,
        peers: Peers | None = None,
        excuses: Excuses | None = None,
    ) -> None:
        self.settings = settings
        self.declaration = declaration
        self.activity = activity or Activity()
        self._observer = observer or Observer()
        self.record = TargetRecord(declaration.name, "", {})
        passes = self.record.passes if settings.keeps_passes else None
        self.examiner = Examiner(settings, declaration, self.activity, peers, passes)
        self.known = KnownFailures(self.examiner, self.record, settings.max_causes)
        self.examinations = Examinations(self.examiner, self.known)
        self.failures = Failures(
            settings, declaration, self.examiner, self.record, self.known, self._observer, excuses
        )
        self.onnx = OnnxTests(settings, self.examiner, self.record, self.failures, self._observer)
        self.models = Models(self.examiner, self.record, self.failures, self._observer, self.check)
        #: The reason why the target, one of several, cannot be tested; "" if it can.
        self.unusable = ""
        #: Id of the running test, which serves as the case in a vendor's own tests.
        self.test = ""
        #: Failing verdicts of the running test, of which `settle` reports one.
        self._examples: list[Verdict] = []
        self._counted = LimitedDict[tuple[str, bytes], None](COUNTED)
        #: Verdicts on modules that fail though no graph in them does, by the module's first graph.
        self._modules: dict[Graph, Verdict] = {}

    @property
    def ir(self) -> str:
        return self.examiner.workers.ir

    @cached_property
    def operators(self) -> tuple[str, ...]:
        """Returns the operators to be tested that the IR has. Operators that cannot be tested here
        are left out and recorded with a reason."""
        found = unusable_operators(self.examiner.workers, self.settings.operators)
        if len(self.settings.operators) < len(OPERATORS):
            absent = (o for o in self.settings.operators if self.ir not in OPERATORS[o].irs())
            found.update(dict.fromkeys(absent, f"{IR_TITLES[self.ir]} does not have it"))
        self.record.not_checked += [f"operator {name}: {reason}" for name, reason in found.items()]
        here = (o for o in self.settings.operators if self.ir in OPERATORS[o].irs())
        return tuple(o for o in here if o not in found)

    @cached_property
    def patterns(self) -> Patterns:
        """Returns the target's patterns that consist of the operators to be tested."""
        return Patterns(self.examiner, self.record, self.operators)

    @property
    def left_out_patterns(self) -> list[str]:
        """Returns the names of the patterns that --byoc-operators leaves out."""
        return self.patterns.left_out if self.settings.left_out and "patterns" in vars(self) else []

    def open(self) -> None:
        """Starts the workers. Raises WorkerError if one cannot be started.

        Until `close` the garbage collector ignores the objects that exist now, since traversing
        them again and again took a tenth of the host's time."""
        self.examiner.open(self._generate)
        gc.freeze()
        self.record.target = self.examiner.workers.name
        self.record.ir = self.examiner.workers.ir
        self.record.versions = self.examiner.workers.versions
        self.record.precision = in_words(asdict(self.examiner.workers.precision))
        self.record.not_checked = list(self.examiner.workers.not_checked)
        self.record.partition_only = self.examiner.workers.partition_only
        self.record.not_taken_over = self.examiner.since.why_not

    def _generate(self, ir: str) -> None:
        """Generates the systematic cases, unless the session runs given graphs or models alone."""
        if not (self.settings.replay or self.settings.models):
            generate(self.settings.operators, ir)

    def close(self) -> None:
        gc.unfreeze()
        self.examiner.close()

    # --- examining ---------------------------------------------------------------------------

    def effort(self, graph: Graph, kinds: Set[str] = PLAIN) -> Effort:
        """Returns the effort for a graph of these kinds (`config/plan.py`) at the session's
        level."""
        return plan.effort(self.settings.level, kinds, alone=len(graph.nodes) == 1)

    def is_plain(self, graph: Graph, kinds: Set[str]) -> bool:
        """Returns whether a graph of these kinds needs only the checks of every graph. Only such
        graphs may share a module with others."""
        return self.effort(graph, kinds).checks == self.effort(graph).checks

    def examine(self, graph: Graph, case: str, kinds: Set[str] = PLAIN) -> Verdict:
        """Returns the verdict on a graph, and records it. A failing verdict raises nothing."""
        verdict = self.examinations.examine(graph, self.effort(graph, kinds))
        # That the target can only be partitioned may become known with the first offloaded graph.
        self.record.partition_only = self.examiner.workers.partition_only
        if (case, graph.digest) not in self._counted:
            self._counted[case, graph.digest] = None
            self.record.add(verdict, case)
        self.known.see(verdict)
        self._observer.examined(verdict)
        return verdict

    def check(self, graph: Graph, case: str = "", kinds: Set[str] = PLAIN, shrink: bool = True) -> Verdict:
        """Returns the verdict on a graph. If the target fails it and the failure is not excused,
        shrinks the graph, saves a bundle, lists the failure and raises ConformanceFailure."""
        case = case or self.test
        verdict = self.examine(graph, case, kinds)
        more = {*kinds, plan.REWRITTEN}
        if verdict.unjudged and self.effort(graph, more).checks != self.effort(graph, kinds).checks:
            verdict = self.examine(graph, case, more)
        if verdict.failed and not self.failures.excused(verdict, case):
            self.failures.fail(verdict, case, shrink)
        if verdict.outcome == PASS:
            self.known.note(True, PASS)
        return verdict

    # --- several graphs in one module ----------------------------------------------------------

    def ahead(self, graphs: Sequence[Graph], kinds: Set[str] = PLAIN) -> Verdict | None:
        """Examines graphs together in modules, where the level allows it, before each is examined
        by itself. Returns the verdict on the first module that fails though no graph in it does,
        which is a failure too; otherwise None."""
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
        """Raises ConformanceFailure for the case if a module of these graphs, examined by `ahead`,
        fails though none of them does."""
        module = self._modules.get(graphs[0])
        if module is not None and self.holds_against(module, case):
            self.fail(module, case)

    def holds_against(self, module: Verdict, case: str) -> bool:
        """Records the verdict on a module that `ahead` returned. Returns False if it is excused."""
        self.record.add(module, case)
        self._observer.examined(module)
        return not self.failures.excused(module, case)

    def fail(self, verdict: Verdict, case: str) -> None:
        """Shrinks, saves and lists a failing verdict, and raises ConformanceFailure."""
        beside = any(verdict is module for module in self._modules.values())
        self.failures.fail(verdict, case, beside=beside)

    # --- a vendor's own tests, and saved graphs -------------------------------------------------

    def check_example(self, graph: Graph) -> Verdict:
        """Returns the verdict on a graph of a user's own test. Raises ConformanceFailure if the
        target fails it and the failure is not excused. Hypothesis shrinks the example by running
        the test repeatedly; `settle` lists and saves the last failing graph when the test has
        ended."""
        verdict = self.examine(graph, self.test)
        if verdict.failed and not self.failures.excused(verdict, self.test):
            self._examples.append(verdict)
            raise ConformanceFailure(f"{title(graph.operators)}: {verdict.findings[0].message}", verdict)
        return verdict

    def settle(self, raised: BaseException | None) -> list[str]:
        """Lists and saves one failing example of `check_example` when the user's own test has
        ended: the one whose failure the test raised, or else the smallest. Returns the texts of the
        failures, none without failing examples.

        raised: the exception with which the test ended."""
        if not self._examples:
            return []
        smallest = min(self._examples, key=lambda v: (len(v.graph.nodes), v.graph.elements))
        texts: list[str] = []
        if isinstance(raised, ConformanceFailure):
            if any(raised.verdict is example for example in self._examples):
                smallest = raised.verdict
            else:
                # `check` raised this failure and has listed it already.
                texts.append(str(raised))
        self._examples.clear()
        try:
            self.failures.fail(smallest, self.test, shrink=False)
        except ConformanceFailure as e:
            texts.append(str(e))
        return texts

    def absent(self, graph: Graph) -> list[str]:
        """Returns the operators of a graph that the IR does not have."""
        return [op for op in graph.operators if self.ir not in OPERATORS[op].irs()]

    def leave_out(self, entry: corpus.Entry, kind: str, reason: str) -> None:
        """Records that a graph of the corpus is not checked. kind: "unusable" or "left out"."""
        self.record.corpus[entry.id] = f"{kind}: {reason}"
        self.record.not_checked.append(f"{entry.case}: {reason}")

    def check_entry(self, entry: corpus.Entry, graph: Graph, found_in: str) -> Verdict:
        """Checks a graph of the corpus. A graph that a session saved is removed when it passes,
        unless the check that had failed could not be made.

        found_in: the case in which the failure was found."""
        verdict = self.examine(graph, entry.case, {plan.ALL_CHECKS, plan.SAVED})
        self.record.corpus[entry.id] = verdict.outcome
        # A waiver or baseline entry of the original case holds for a saved graph; a vendor's own
        # graph has no original case.
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
