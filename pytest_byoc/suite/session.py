"""What tests talk to: one target of the session, its verdicts recorded, its failures shrunk and saved."""

from __future__ import annotations

import gc
import shlex
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path

from ..config import plan
from ..config.declarations import TargetDeclaration
from ..config.levels import STANDARD
from ..config.settings import MEMORY, TIMEOUT, Settings, cache_folder
from ..core import files
from ..core.graph import Graph
from ..core.names import folder_name
from ..core.precision import in_words
from ..examination import batching
from ..examination.activity import Activity
from ..examination.decision import causes
from ..examination.description import Description
from ..examination.examiner import Examiner
from ..examination.outcome import PASS, ConformanceFailure, Verdict
from ..examination.recent import Recent
from ..generation.patterns import Found, Pattern, made_of, not_among, search
from ..operators import OPERATORS
from ..record.target_record import Excused, Failure, TargetRecord, failure_id
from ..report import bundle, trial
from ..report.text import FailureText
from ..report.trial import Trial
from ..report.words import title
from ..storage import corpus
from . import onnx_nodes
from .known_failures import KnownFailures
from .shrinking import Shrinking
from .unusable_operators import unusable_operators

#: What stands between the failures of one graph.
AND_ANOTHER = "The graph has another failure, of a cause of its own:"
#: Graphs of a case that are not counted twice.
COUNTED = 20_000
#: Of patterns that no graph is taken for, in words.
_FATES = {"shadowed": "never matched in its table", "never": "never matched"}


class TargetSession:
    """One target. `check` is what conformance tests and a vendor's own tests call."""

    def __init__(
        self, settings: Settings, declaration: TargetDeclaration, activity: Activity | None = None
    ) -> None:
        self.settings = settings
        self.declaration = declaration
        self.activity = activity or Activity()
        self.examiner = Examiner(settings, declaration, self.activity)
        self.record = TargetRecord(declaration.name, "", {})
        self.known = KnownFailures(self.examiner, self.record, settings.max_causes)
        #: Why it can't be tested, where it is one of several targets; empty if it can.
        self.unusable = ""
        #: Names of the patterns that --byoc-operators leaves out.
        self.left_out_patterns: list[str] = []
        #: Id of the running test, which is the case of a vendor's own tests.
        self.test = ""
        #: Failing graphs of that many operators or fewer are not shrunk.
        self.shrink_above = 0
        self._excused: set[tuple[str, str, bytes]] = set()
        #: Failing verdicts of the running test that `settle` has yet to choose from.
        self._examples: list[Verdict] = []
        #: What excuses a failing verdict in a case, or None; the plugin knows the waivers.
        self.excuse: Callable[[Verdict, str], Excused | None] = lambda verdict, case: None
        #: Called with each failure that is excused.
        self.on_excuse: Callable[[Excused], None] = lambda excused: None
        #: Seconds that the running test of random graphs may take beyond its number of them.
        self.share_of_time: Callable[[], float] = lambda: 0.0
        self._survey: onnx_nodes.Survey | None = None
        self._failed_onnx: dict[str, Path] | None = None
        self._patterns: dict[str, Pattern] | None = None
        self._found: dict[str, Found] = {}
        self._counted = Recent[tuple[str, bytes], None](COUNTED)
        #: Verdicts on modules that fail though no graph in them does, by the first graph.
        self._side_by_side: dict[Graph, Verdict] = {}
        #: Called with each verdict; the plugin listens.
        self.listener: Callable[[Verdict], None] = lambda verdict: None

    @property
    def ir(self) -> str:
        return self.examiner.workers.ir

    @cached_property
    def operators(self) -> tuple[str, ...]:
        """The operators asked for that the IR has. Those that can't be tested here are recorded with their
        reason."""
        found = unusable_operators(self.examiner.workers, self.settings.operators)
        self.record.not_checked += [f"operator {name}: {reason}" for name, reason in found.items()]
        here = (o for o in self.settings.operators if self.ir in OPERATORS[o].irs())
        return tuple(o for o in here if o not in found)

    def open(self) -> None:
        """Starts the workers. Raises WorkerError when one can't be had.

        Until `close` the garbage collector passes over what there is: to go through all of it, again and
        again, took a tenth of the host's time."""
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

    # --- checking ----------------------------------------------------------------------------

    def examine(
        self, graph: Graph, case: str, chosen: bool = False, saved: bool = False, many: bool = False
    ) -> Verdict:
        """The verdict on a graph, counted. Raises nothing for a failing target.

        chosen: whether the graph is one of the few on which all checks are made. saved: whether it is one of
        the corpus. many: as in `Level.is_quick`."""
        quick = self.settings.level.is_quick(many) and not saved
        verdict = self.examiner.examine(
            graph, self.checks(chosen, saved, len(graph.nodes) == 1 and not saved, case), quick,
            self.known.tells_nothing_new,
        )
        # Where the simplest graphs did not tell, the first that is offloaded does.
        self.record.partition_only = self.examiner.workers.partition_only
        if (case, graph.digest) not in self._counted:
            self._counted[case, graph.digest] = None
            self.record.add(verdict, case)
        self.listener(verdict)
        return verdict

    def answer_for(self, graphs: Sequence[Graph], case: str) -> None:
        """Raises ConformanceFailure in that case where a module of these graphs, examined `ahead`, fails
        though none of them does."""
        module = self._side_by_side.get(graphs[0])
        if module is not None and self.holds_against(module, case):
            self.fail(module, case)

    def holds_against(self, module: Verdict, case: str) -> bool:
        """Counts the verdict on a module that `ahead` returned; False where it is excused."""
        self.record.add(module, case)
        self.listener(module)
        return not self.excused(module, case)

    def ahead(self, graphs: Sequence[Graph], many: bool = False) -> Verdict | None:
        """Examines graphs, of which each is going to be asked about, together in one module where the level
        allows. Returns the verdict on a module that fails though no graph in it does: a failure too.

        many: as in `examine`."""
        found: Verdict | None = None
        if self.settings.level.side_by_side:
            for group in batching.groups(graphs, self.ir):
                verdict = batching.examine(
                    self.examiner, group.graphs, self.checks(False), self.settings.level.is_quick(many),
                    is_known=self.known.tells_nothing_new,
                )
                if verdict is not None:
                    self._side_by_side[group.graphs[0]] = verdict
                found = found or verdict
        return found

    def checks(
        self, chosen: bool, saved: bool = False, alone: bool = False, case: str = ""
    ) -> tuple[str, ...]:
        """Ids of the checks made on a graph, by what `examine` is told; alone: it has one operator."""
        # What was saved may have failed any check.
        return plan.made(chosen, STANDARD if saved else self.settings.level.name, alone, case)

    def is_plain(self, graph: Graph, case: str, chosen: bool) -> bool:
        """Whether no checks are made on a graph but those of every one: on a module of several no others
        are."""
        return self.checks(chosen, alone=len(graph.nodes) == 1, case=case) == self.checks(False)

    # --- the target's patterns ---------------------------------------------------------------

    def patterns(self) -> list[str]:
        """Names of the patterns TVM has registered for the target, made of the operators asked for."""
        if self._patterns is None:
            found = self.examiner.claims.patterns()
            unknown = self.examiner.claims.without_table
            if unknown:
                self.record.not_checked.append(
                    f"the patterns of {', '.join(unknown)}: TVM has none registered under the target's name, "
                    "or under what these names begin with; name their table by the target's key or attribute "
                    "patterns"
                )
            chosen = set(self.operators)
            self._patterns = {p.label: p for p in found if made_of(p, chosen, self.ir)}
            others = {
                p.label: not_among(p, chosen, self.ir) for p in found if p.label not in self._patterns
            }
            if others:
                named = ", ".join(f"{label} ({', '.join(ops)})" for label, ops in others.items())
                self.record.not_checked.append(f"patterns of operators that are not tested: {named}")
            if self.settings.left_out:
                self.left_out_patterns = list(others)
        return list(self._patterns)

    def found(self, name: str) -> Found:
        """Graphs that the target takes for one of its patterns, or why there are none."""
        self.patterns()
        assert self._patterns is not None
        if name not in self._found:
            claims = self.examiner.claims
            try:
                found = search(self._patterns[name], self.ir, claims.composites, claims.alone)
            except Exception as e:
                # Its own test raises it; others that ask for its graphs go on without.
                reason = f"the search for its graphs raised {type(e).__name__}: {e}"
                found = Found(name, reason=reason, failed=e)
            if found.fragments:
                # Of alternatives those that are asked for.
                asked = [f for f in found.fragments if self._asked_for(f.graph)]
                found = replace(found, fragments=asked or found.fragments)
            self._found[name] = found
            self.record.patterns[name] = "" if found.fragments else str(found.reason)
            if not found.fragments:
                self.record.not_checked.append(f"pattern {name} is {_FATES[found.fate]}: {found.reason}")
        return self._found[name]

    def fragments(self) -> list[Graph]:
        """A graph for each pattern, of as few operators as were found."""
        names = self.patterns()
        for name in self.examiner.peers.beginning_elsewhere(names):
            self.found(name)
        found = (self.found(name).fragments for name in names)
        smallest = [min((f.graph for f in fs), key=lambda g: len(g.nodes)) for fs in found if fs]
        return [g for g in smallest if self._asked_for(g)]

    def _asked_for(self, graph: Graph) -> bool:
        return set(graph.operators) <= set(self.operators)

    def check(
        self, graph: Graph, case: str = "", shrink: bool = True, chosen: bool = False, many: bool = False
    ) -> Verdict:
        """The verdict on a graph. Raises ConformanceFailure if the target fails it, after shrinking
        the graph, saving a bundle and listing the failure; not for a failure that is excused.

        chosen: make all checks, not only those that are cheap enough for every graph. many: as in
        `examine`."""
        case = case or self.test
        verdict = self.examine(graph, case, chosen, many=many)
        if verdict.failed and not self.excused(verdict, case):
            self.fail(verdict, case, shrink)
        if verdict.outcome == PASS:
            self.known.note(tells_something=True)
        return verdict

    def check_example(self, graph: Graph) -> Verdict:
        """The verdict on a graph of a test of the user's own. Raises ConformanceFailure if the
        target fails it; not for a failure that is excused. Hypothesis makes it smaller by running
        the test again and again: what is listed and saved, once the test has ended (`settle`), is
        the graph that it ends with."""
        verdict = self.examine(graph, self.test)
        if verdict.failed and not self.excused(verdict, self.test):
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
            self.fail(smallest, self.test, shrink=False)
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
        verdict = self.examine(graph, entry.case, chosen=True, saved=True)
        self.record.corpus[entry.id] = verdict.outcome
        # What is known of the case it was found in is known of the graph; a vendor's own is judged alone.
        origin = found_in if entry.automatic else ""
        if verdict.failed and not self.excused(verdict, entry.case, origin):
            self.fail(verdict, entry.case, shrink=entry.unshrunk, entry=entry, found_in=found_in)
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

    def excused(self, verdict: Verdict, case: str, origin: str = "") -> bool:
        """Whether all that a failing verdict holds against the target is waived or known from the baseline;
        what is, is recorded.

        origin: another case by which it may be."""
        found = [(cause, self._excuse_of(cause, case, origin)) for cause in causes(verdict)]
        for cause, excuse in found:
            if excuse is None:
                continue
            key = (case, cause.findings[0].check, verdict.graph.digest)
            if key not in self._excused:
                self._excused.add(key)
                self.record.excuse(excuse, verdict.graph)
            self.on_excuse(excuse)
        return all(excuse is not None for _, excuse in found)

    def _excuse_of(self, verdict: Verdict, case: str, origin: str = "") -> Excused | None:
        """What excuses the first finding of a verdict."""
        excuse = self.excuse(verdict, case)
        if excuse is None and origin:
            excuse = self.excuse(verdict, origin)
            excuse = replace(excuse, case=case) if excuse is not None else None
        return excuse

    def _not_excused(self, verdict: Verdict, case: str, origin: str = "") -> Verdict:
        """The verdict by the first of its causes that is not excused."""
        found = (c for c in causes(verdict) if self._excuse_of(c, case, origin) is None)
        return next(found, verdict)

    def fail(
        self,
        verdict: Verdict,
        case: str,
        shrink: bool = True,
        entry: corpus.Entry | None = None,
        found_in: str = "",
    ) -> None:
        """Shrinks, saves and lists a failing verdict, by each of its causes, and raises ConformanceFailure.

        entry: the graph of the corpus it is about. found_in: the case that it was found in at first."""
        beside = any(verdict is module for module in self._side_by_side.values())
        origin = found_in if entry is not None and entry.automatic else ""
        open_ = [c for c in causes(verdict) if self._excuse_of(c, case, origin) is None] or [verdict]
        told = []
        for number, cause in enumerate(open_):
            if len(open_) > 1:
                # What other checks found is told as a failure of its own.
                own = tuple(f for f in cause.findings if f.check == cause.findings[0].check)
                cause = replace(cause, findings=own)
            # The file of the graph is the first one's.
            saved = [entry.path] if entry is not None and entry.automatic and not number else []
            told.append(self._list(cause, case, shrink, entry is not None, saved, found_in, beside))
        text = f"\n\n{AND_ANOTHER}\n".join(text for _, text in told)
        raise ConformanceFailure(text, told[0][0])

    def _list(
        self, verdict: Verdict, case: str, shrink: bool, from_corpus: bool, saved: list[Path], found_in: str,
        beside: bool,
    ) -> tuple[Verdict, str]:
        """Shrinks, saves and lists a failing verdict by its first cause; the verdict of the shrunk graph, and
        what is told of it. saved: files that its bundle takes the place of. beside: whether it is a module of
        graphs that each pass."""
        original = verdict
        enough = bool(self.why_enough())
        shrinking = Shrinking(self.examiner, self.ir, original, self.known.recognise)
        # A graph of an earlier session keeps its own bundle.
        known = None if from_corpus else shrinking.known()
        verdict = shrinking.original
        finished: bool | None = None
        if known is None and shrink and len(verdict.graph.nodes) > self.shrink_above and not enough:
            # Shrinking takes time, and may be what a session dies of.
            first = failure_id(verdict.signature, verdict.graph.operators) + corpus.UNSHRUNK
            # Where that can't be written the bundle can't either, which is told.
            with suppress(OSError):
                check = verdict.findings[0].check
                saved.append(corpus.save(self._folder(first), verdict.graph, found_in or case, check))
            verdict, finished = shrinking.run()
            known = self.known.recognise(verdict)
        failure, new = self.record.fail(verdict, case, original.graph, known)
        self.known.note(tells_something=new)
        where = f"{case}, at first in {found_in}" if found_in else case
        if new:
            folder = self._folder(failure.id)
            failure.besides, failure.each_needed = _besides(original, verdict), finished
            failure.graph, failure.bundle = str(folder / "graph.json"), self._bundle(folder)
            failure.command = self.command(f"--byoc-replay={shlex.quote(failure.graph)}")
            failure.case = self.examiner.peers.first(("failure", failure.id), case)
        if new and failure.case == case:
            described = self.examiner.describe(verdict)
            failure.texts = described.as_dicts()
            text = self._text().new(verdict, original, failure, where, described)
            more = self._write_bundle(failure, folder, verdict, text, found_in or case, described)
            if not failure.graph:
                text = self._text().new(verdict, original, failure, where, described)
            text += more
            self.known.tell(failure)
        else:
            folder = Path(failure.graph).parent
            text = self._text().again(verdict, where, failure)
        if beside:
            text += "\nThe graphs of the module that failed each pass by themselves, but not side by side."
        for path in saved if failure.graph else ():
            if path.parent != folder:
                corpus.remove(path)
        return verdict, text

    def why_enough(self) -> str:
        """Why no more failures are looked for (--byoc-max-causes); "" where more are."""
        return self.known.why_enough()

    def _write_bundle(
        self, failure: Failure, folder: Path, verdict: Verdict, text: str, found_in: str,
        described: Description,
    ) -> str:
        """Saves a failure; what is to be added to its text. Where it can't be saved the text has to be made
        again: it says then nothing of where it is saved."""
        finding = verdict.findings[0]

        def attempt(script: Path) -> str:
            if finding.check not in bundle.REPRODUCED:
                return ""  # The script says so itself.
            tried = Trial(self.declaration.python, self.settings.timeout, self.settings.memory_bytes)
            try:
                failure.tried = trial.note(tried.run(script), finding, failure.command)
            except OSError as e:  # no fault of the bundle's
                failure.tried = f"reproduce.py could not be tried: {e}"
            return failure.tried

        try:
            bundle.write(
                folder, verdict, text,
                declaration={
                    **self.declaration.for_worker(), **_declared(self.declaration),
                    "partition_only": self.examiner.workers.partition_only,
                    "by_table": self.examiner.workers.by_table,
                },
                ir=self.ir,
                executors=self.examiner.workers.executors,
                opt_level=self.examiner.workers.built["opt_level"],
                timeout=self.settings.timeout,
                versions=self.examiner.workers.versions,
                command=failure.command,
                found_in=found_in,
                description=described,
                attempt_script=attempt,
            )
        except OSError as e:
            return self._unsaved(failure, e)
        return f"\n{failure.tried}" if failure.tried else ""

    def _text(self) -> FailureText:
        return FailureText(self.record.target, self.ir, self.declaration.python)

    def _unsaved(self, failure: Failure, error: OSError) -> str:
        """What is told of a failure whose bundle can't be written: it is listed all the same."""
        failure.graph = failure.bundle = ""
        failure.command = self.command("-k", shlex.quote(failure.case))
        return f"\nIt could NOT be saved ({error}). To repeat it: {failure.command}"

    def _folder(self, name: str) -> Path:
        """Where the bundle of a failure goes, by its id."""
        return self.settings.failures / f"{folder_name(self.record.target, self.ir)}-{name}"

    def _bundle(self, folder: Path) -> str:
        """The folder as seen from report.json."""
        return folder.relative_to(self.settings.failures.parent).as_posix()

    def command(self, *extra: str) -> str:
        """The pytest command for this target, with further options."""
        d = self.declaration
        parts = ["pytest", f"--byoc-target={shlex.quote(d.given)}", f"--byoc-ir={self.ir}"]
        if d.python_given:
            parts.append(f"--byoc-python={shlex.quote(d.python_given)}")
        # Whether it fails may depend on them.
        if self.settings.timeout != TIMEOUT:
            parts.append(f"--byoc-timeout={self.settings.timeout:g}")
        if self.settings.memory_bytes != MEMORY << 20:
            parts.append(f"--byoc-memory={self.settings.memory_bytes >> 20}")
        return " ".join([*parts, *extra])

    # --- ONNX's node tests -------------------------------------------------------------------

    def onnx_candidates(self) -> list[str]:
        """Names of the ONNX node tests that can be run; the others are recorded with their reason."""
        if self._survey is None:
            folder = cache_folder("onnx")
            try:
                self._survey = onnx_nodes.survey(self.examiner.workers, folder, self.activity)
            except (RuntimeError, OSError) as e:
                # What a TVM or an onnx of another version does there is no reason to test nothing else.
                self._survey = onnx_nodes.Survey({}, None, folder, f"ONNX's node tests: {e}")
            if self._survey.not_checked:
                self.record.not_checked.append(self._survey.not_checked)
            for name, reason in self._survey.left_out.items():
                self.record.onnx[name] = f"left out: {reason}"
        return self._survey.candidates

    def onnx_failed(self) -> dict[str, Path]:
        """ONNX's node tests that failed in earlier sessions and have not passed since."""
        if self._failed_onnx is None:
            s = self.settings
            found = corpus.failed_onnx(s.failures, self.record.target, self.ir) if s.remembers else {}
            self._failed_onnx = found
        return self._failed_onnx

    def check_onnx(self, name: str) -> Verdict:
        """The verdict on one ONNX node test. Raises ConformanceFailure if the target fails it."""
        assert self._survey is not None
        verdict = onnx_nodes.examine(self.examiner, self._survey, name)
        self.record.add(verdict, name)
        self.record.onnx[name] = ": ".join([verdict.outcome, *verdict.notes[:1]])
        self.listener(verdict)
        if verdict.outcome == PASS and name in self.onnx_failed():
            corpus.remove(self.onnx_failed()[name])
        if verdict.failed and not self.excused(verdict, name):
            verdict = self._not_excused(verdict, name)
            failure, new = self.record.fail(verdict, name)
            if new:
                folder = self._folder(failure.id + corpus.ONNX)
                failure.command = self.command("-k", shlex.quote(f"test_onnx[{name}]"))
            made = onnx_nodes.described(self.examiner, self._survey, name, verdict) if new else Description()
            text = onnx_nodes.describe(verdict, self.record.target, failure.command, made)
            if new:
                failure.texts = made.as_dicts()
                failure.graph, failure.bundle = str(folder / "graph.json"), self._bundle(folder)
                try:
                    files.replace(folder / "graph.json", verdict.graph.to_json(indent=1).encode())
                    files.replace(folder / "failure.txt", text.encode(errors="replace"))
                    bundle.write_texts(folder, made)
                except OSError as e:
                    text += self._unsaved(failure, e)
            raise ConformanceFailure(text, verdict)
        return verdict


def _besides(original: Verdict, verdict: Verdict) -> list[str]:
    """Checks that the graph fails as well, and the shrunk one does not show."""
    shown = {finding.check for finding in verdict.findings}
    return list(dict.fromkeys(f.check for f in original.findings if f.check not in shown))


def _declared(d: TargetDeclaration) -> dict[str, object]:
    return {"ir": d.ir, "python": d.python, "libraries": d.libraries, "sys_path": d.sys_path}
