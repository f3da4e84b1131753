"""What tests talk to: one target of the session, its verdicts recorded, its failures shrunk and saved."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from . import onnx_nodes
from .checks import selection
from .claims import Claim
from .examine import Examiner
from .generation.neighbours import between
from .generation.patterns import Found, Pattern, made_of, search
from .generation.reduce import reduce
from .generation.structures import Vocabulary, vocabulary
from .generation.systematic import Case, cases, default_case
from .graph import Graph, show
from .operators import OPERATORS
from .outcome import ConformanceFailure, Verdict
from .precision import in_words
from .recorder import Excused, Failure, TargetRecord
from .report import bundle
from .report.words import IR_TITLES, printed_lines, vendor_frame
from .settings import Settings, TargetDeclaration, cache_folder

#: Of patterns that no graph is taken for, in words.
_FATES = {"shadowed": "never matched in its table", "never": "never matched"}

class TargetSession:
    """One target. `check` is what conformance tests and a vendor's own tests call."""

    def __init__(self, settings: Settings, declaration: TargetDeclaration) -> None:
        self.settings = settings
        self.declaration = declaration
        self.examiner = Examiner(settings, declaration)
        self.record = TargetRecord(declaration.name, "", {})
        #: Names of the patterns that --byoc-operators leaves out.
        self.left_out_patterns: list[str] = []
        #: Id of the running test, which is the case of a vendor's own tests.
        self.test = ""
        self._excused: set[tuple[str, Graph]] = set()
        #: What excuses a failing verdict in a case, or None; the plugin knows the waivers.
        self.excuse: Callable[[Verdict, str], Excused | None] = lambda verdict, case: None
        #: Called with each failure that is excused.
        self.on_excuse: Callable[[Excused], None] = lambda excused: None
        #: Seconds that the running test of random graphs may take beyond its number of them.
        self.share_of_time: Callable[[], float] = lambda: 0.0
        #: Called with each verdict; the plugin listens.
        self._survey: onnx_nodes.Survey | None = None
        self._patterns: dict[str, Pattern] | None = None
        self._found: dict[str, Found] = {}
        self._claimed: dict[str, list[str]] | None = None
        #: Of each operator the first systematic case that the target takes.
        self._first_of: dict[str, str] = {}
        self._counted: set[tuple[str, Graph]] = set()
        self.listener: Callable[[Verdict], None] = lambda verdict: None

    @property
    def ir(self) -> str:
        return self.examiner.ir

    def open(self) -> None:
        """Starts the workers. Raises WorkerError when one can't be had."""
        self.examiner.open()
        self.record.target = self.examiner.name
        self.record.ir = self.examiner.ir
        self.record.versions = self.examiner.versions
        self.record.precision = in_words(asdict(self.examiner.precision))
        self.record.not_checked = list(self.examiner.not_checked)

    def close(self) -> None:
        self.examiner.close()

    # --- checking ----------------------------------------------------------------------------

    def examine(self, graph: Graph, case: str, chosen: bool = False) -> Verdict:
        """The verdict on a graph, counted. Raises nothing for a failing target.

        chosen: whether the graph is one of the few on which all checks are made."""
        # What is replayed may have failed any check.
        level = "standard" if self.settings.replay else self.settings.level.name
        verdict = self.examiner.examine(graph, selection.made(chosen, level, case))
        if (case, graph) not in self._counted:
            self._counted.add((case, graph))
            self.record.add(verdict, case)
        self.listener(verdict)
        return verdict

    def vocabulary(self) -> Vocabulary:
        """Operators to build structures from, by what the target claims of each one's default case.

        Raises structures.Unavailable when there are too few.
        """
        defaults = {
            name: default_case(name, "float32", self.ir).graph
            for name in self.settings.operators
            if self.ir in OPERATORS[name].irs() and "float32" in OPERATORS[name].dtypes
        }
        claims = self.examiner.claims.survey(defaults.values())
        return vocabulary(frozenset(n for n, c in zip(defaults, claims) if _takes(c)), self.ir)

    def claimed(self) -> dict[str, list[str]]:
        """Operators of which the target takes at least one systematic case of the level, and their dtypes."""
        if self._claimed is None:
            self._claimed = {}
            level = self.settings.level
            found = [c for c in cases(self.settings.operators, self.ir) if level.all_cases or c.smoke]
            for case, claim in zip(found, self.examiner.claims.survey(c.graph for c in found)):
                if _takes(claim):
                    self._first_of.setdefault(case.operator, case.id)
                    dtypes = self._claimed.setdefault(case.operator, [])
                    dtype = case.graph.type_of(case.graph.nodes[0].inputs[0]).dtype
                    if dtype not in dtypes:
                        dtypes.append(dtype)
        return self._claimed

    def in_region(self, operator: str) -> Graph | None:
        """A graph in which the target takes the operator in one region with others: the largest found, of
        its patterns' graphs and of its neighbours among what the target takes; None where there is none."""
        claimed = self.claimed()
        found = [g for g in self.fragments() if operator in g.operators]
        for dtype in claimed[operator][:2]:
            found += between(operator, dtype, list(claimed), self.ir)
        best, size = None, 1.0
        for graph, claim in zip(found, self.examiner.claims.survey(found)):
            if claim is None or not claim.regions:
                continue
            taken = [n.op for n, t in zip(graph.nodes, claim.offloaded) if t]
            # Operators per region: more than one, so that one of the regions has several.
            if operator in taken and len(taken) / claim.regions > size:
                best, size = graph, len(taken) / claim.regions
        return best

    def check_case(self, case: Case) -> Verdict:
        """`check` of a systematic case. What the target takes of all of them is found out first:
        that costs milliseconds a graph, and those it takes nothing of need no more."""
        self.claimed()
        return self.check(case.graph, case.id, chosen=self._first_of.get(case.operator) == case.id)

    # --- the target's patterns ---------------------------------------------------------------

    def patterns(self) -> list[str]:
        """Names of the patterns TVM has registered for the target, made of the operators asked for."""
        if self._patterns is None:
            found = self.examiner.claims.patterns()
            chosen = set(self.settings.operators)
            self._patterns = {p.label: p for p in found if made_of(p, chosen, self.ir)}
            if self.settings.left_out:
                self.left_out_patterns = [p.label for p in found if p.label not in self._patterns]
        return list(self._patterns)

    def found(self, name: str) -> Found:
        """Graphs that the target takes for one of its patterns, or why there are none."""
        self.patterns()
        assert self._patterns is not None
        if name not in self._found:
            claims = self.examiner.claims
            found = search(self._patterns[name], self.ir, claims.composites, claims.alone)
            self._found[name] = found
            self.record.patterns[name] = "" if found.fragments else str(found.reason)
            if not found.fragments:
                self.record.not_checked.append(f"pattern {name} is {_FATES[found.fate]}: {found.reason}")
        return self._found[name]

    def fragments(self) -> list[Graph]:
        """A graph for each pattern, of as few operators as were found."""
        found = (self.found(name).fragments for name in self.patterns())
        smallest = [min((f.graph for f in fs), key=lambda g: len(g.nodes)) for fs in found if fs]
        return [g for g in smallest if set(g.operators) <= set(self.settings.operators)]

    def check(
        self, graph: Graph, case: str = "", shrink: bool = True, chosen: bool = False
    ) -> Verdict:
        """The verdict on a graph. Raises ConformanceFailure if the target fails it, after shrinking
        the graph, saving a bundle and listing the failure; not for a failure that is excused.

        chosen: make all checks, not only those that are cheap enough for every graph."""
        case = case or self.test
        verdict = self.examine(graph, case, chosen)
        if verdict.failed and not self.excused(verdict, case):
            self.fail(verdict, case, shrink)
        return verdict

    def excused(self, verdict: Verdict, case: str) -> bool:
        """Whether a failing verdict is waived or known from the baseline; if so, that is recorded."""
        excuse = self.excuse(verdict, case)
        if excuse is None:
            return False
        if (case, verdict.graph) not in self._excused:
            self._excused.add((case, verdict.graph))
            self.record.excuse(excuse, verdict.graph)
        self.on_excuse(excuse)
        return True

    def fail(self, verdict: Verdict, case: str, shrink: bool = True) -> None:
        """Shrinks, saves and lists a failing verdict, and raises ConformanceFailure."""
        original = verdict
        if shrink:
            identity, checks = verdict.identity, selection.again(verdict.findings[0].check)

            def fails(graph: Graph) -> bool:
                tried = self.examiner.examine(graph, checks)
                return tried.failed and tried.identity == identity

            shrunk = self.examiner.examine(reduce(verdict.graph, fails, self.ir), checks)
            # What fails by chance may not fail again.
            verdict = shrunk if shrunk.failed else verdict
        failure, new = self.record.fail(verdict, case, original.graph)
        if new:
            folder = self._folder(failure)
            failure.graph, failure.bundle = str(folder / "graph.json"), self._bundle(folder)
            failure.command = self.command(f"--byoc-replay={shlex.quote(failure.graph)}")
            text = self.describe(verdict, original, case, failure.command, folder)
            bundle.write(
                folder, verdict, text,
                declaration={**self.declaration.for_worker(), **_declared(self.declaration)},
                ir=self.ir,
                executors=self.examiner.executors,
                opt_level=self.examiner.opt_level,
                timeout=self.settings.timeout,
                versions=self.examiner.versions,
                command=failure.command,
            )
        else:
            folder = Path(failure.graph).parent
            text = self.describe(verdict, original, case, failure.command, folder)
            text += f"\nThis is failure {failure.id} again, first met in {failure.case or 'a test'}."
        raise ConformanceFailure(text, verdict)

    def _folder(self, failure: Failure) -> Path:
        """Where a failure's bundle goes."""
        name = "".join(c if c.isalnum() or c in "-_" else "-" for c in self.record.target)
        return self.settings.failures / f"{name}-{self.ir}-{failure.id}"

    def _bundle(self, folder: Path) -> str:
        """The folder as seen from report.json."""
        return folder.relative_to(self.settings.failures.parent).as_posix()

    def command(self, *extra: str) -> str:
        """The pytest command for this target, with further options."""
        d = self.declaration
        parts = ["pytest", f"--byoc-target={shlex.quote(d.given)}", f"--byoc-ir={self.ir}"]
        if d.python_given:
            parts.append(f"--byoc-python={shlex.quote(d.python_given)}")
        return " ".join([*parts, *extra])

    # --- ONNX's node tests -------------------------------------------------------------------

    def onnx_candidates(self) -> list[str]:
        """Names of the ONNX node tests that can be run; the others are recorded with their reason."""
        if self._survey is None:
            self._survey = onnx_nodes.survey(self.examiner, cache_folder("onnx"))
            if self._survey.not_checked:
                self.record.not_checked.append(self._survey.not_checked)
            for name, reason in self._survey.left_out.items():
                self.record.onnx[name] = f"left out: {reason}"
        return self._survey.candidates

    def check_onnx(self, name: str) -> Verdict:
        """The verdict on one ONNX node test. Raises ConformanceFailure if the target fails it."""
        assert self._survey is not None
        verdict = onnx_nodes.examine(self.examiner, self._survey, name)
        self.record.add(verdict, name)
        self.record.onnx[name] = ": ".join([verdict.outcome, *verdict.notes[:1]])
        self.listener(verdict)
        if verdict.failed and not self.excused(verdict, name):
            failure, new = self.record.fail(verdict, name)
            if new:
                folder = self._folder(failure)
                failure.command = self.command("-k", shlex.quote(f"test_onnx[{name}]"))
            text = onnx_nodes.describe(verdict, self.record.target, failure.command)
            if new:
                folder.mkdir(parents=True, exist_ok=True)
                (folder / "graph.json").write_text(verdict.graph.to_json(indent=1))
                (folder / "failure.txt").write_text(text)
                failure.graph, failure.bundle = str(folder / "graph.json"), self._bundle(folder)
            raise ConformanceFailure(text, verdict)
        return verdict

    # --- words -------------------------------------------------------------------------------

    def describe(
        self, verdict: Verdict, original: Verdict, case: str, command: str, folder: Path
    ) -> str:
        """The failure as text: what, the graph, where it is saved, how to repeat it."""
        finding = verdict.findings[0]
        lines = [
            f"{verdict.outcome} in stage {finding.stage}, check {finding.check} "
            f"(target {self.record.target}, {IR_TITLES[self.ir]})",
            "",
            finding.message,
        ]
        lines += [f"also: {f.message}" for f in verdict.findings[1:4]]
        frame = vendor_frame(finding.details.get("exception", {}).get("frames", []))
        if frame:
            lines.append(f"raised in {frame['file']}:{frame['line']}, in {frame['function']}:")
            lines.append(f"  {frame['text']}")
        lines += printed_lines(finding.details)
        n, before = len(verdict.graph.nodes), len(original.graph.nodes)
        shrunk = f", shrunk from {before}" if before != n else ""
        lines += ["", f"graph ({n} operator{'s' if n != 1 else ''}{shrunk}):"]
        lines += ["  " + line for line in show(verdict.graph).splitlines()]
        taken = [node.op for node, t in zip(verdict.graph.nodes, verdict.offloaded) if t]
        lines.append(f"offloaded: {', '.join(taken) or 'nothing'} ({verdict.regions} subgraphs)")
        lines += [f"note: {note}" for note in verdict.notes]
        alone = f"{shlex.quote(self.declaration.python)} {shlex.quote(str(folder / 'reproduce.py'))}"
        lines += ["", f"case:     {case}", f"saved in: {folder}", f"repeat:   {command}"]
        lines.append(f"or, without pytest-byoc: {alone}")
        return "\n".join(lines)


def _takes(claim: Claim | None) -> bool:
    # Where partitioning fails the target has at least tried.
    return claim is None or any(claim.offloaded)


def _declared(d: TargetDeclaration) -> dict[str, object]:
    return {"ir": d.ir, "python": d.python, "libraries": d.libraries, "sys_path": d.sys_path}
