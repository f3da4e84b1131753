"""Handles failing verdicts: decides which are excused, and shrinks, saves and lists the others."""

from __future__ import annotations

import shlex
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ..config.declarations import TargetDeclaration
from ..config.settings import MEMORY, TIMEOUT, Settings
from ..core.names import folder_name
from ..examination.decision import causes
from ..examination.description import Description
from ..examination.examiner import Examiner
from ..examination.outcome import HANG, ConformanceFailure, Verdict
from ..gate.excuses import Excuses
from ..record.listed import Excused, Failure, failure_id
from ..record.sighting import Look, Sighting, blamed, cells_of
from ..record.target_record import TargetRecord
from ..report import bundle as failure_bundle
from ..report import trial
from ..report.text import FailureText
from ..report.trial import Trial
from ..storage import corpus
from .known_failures import KnownFailures
from .observer import Observer
from .shrinking import Shrinking

#: The line between the texts of several failures of one graph.
AND_ANOTHER = "The graph has another failure, with a cause of its own:"


class Failures:
    """The failures of one target's session.

    known: the failures that the session knows. excuses: finds the waiver or the entry of the
    baseline that excuses a failure."""

    def __init__(
        self, settings: Settings, declaration: TargetDeclaration, examiner: Examiner, record: TargetRecord,
        known: KnownFailures, observer: Observer, excuses: Excuses | None = None,
    ) -> None:
        self._settings = settings
        self._declaration = declaration
        self._examiner = examiner
        self._record = record
        self._known = known
        self._observer = observer
        self.excuses = excuses or Excuses(None, None, update=False)
        #: Failing graphs with this number of operators or fewer are not shrunk.
        self.shrink_above = 0
        #: Position, among all tests of the session, and id of the running test of a shard.
        self.place = (0, "")
        self._excused: set[tuple[str, str, bytes]] = set()
        #: The id of the first failure by a hang, of which reproduce.py was tried; "" if there is none.
        self._tried_hang = ""

    @property
    def _ir(self) -> str:
        return self._examiner.workers.ir

    def excused(self, verdict: Verdict, case: str, origin: str = "") -> bool:
        """Returns whether every cause of a failing verdict is waived or known from the baseline.
        Records each cause that is.

        origin: another case whose waivers and baseline entries count too."""
        found = [(cause, self._excuse_of(cause, case, origin)) for cause in causes(verdict)]
        for cause, excuse in found:
            if excuse is None:
                continue
            key = (case, cause.findings[0].check, verdict.graph.digest)
            if key not in self._excused:
                self._excused.add(key)
                self._record.excuse(excuse, verdict.graph)
                self.saw(cause, case, origin)
            self._observer.excused(excuse)
        return all(excuse is not None for _, excuse in found)

    def _excuse_of(self, verdict: Verdict, case: str, origin: str = "") -> Excused | None:
        """Returns the waiver or baseline entry that excuses the first finding of a verdict, or
        None."""
        excuse = self.excuses.find(self._record, verdict, case)
        if excuse is None and origin:
            excuse = self.excuses.find(self._record, verdict, origin)
            excuse = replace(excuse, case=case) if excuse is not None else None
        return excuse

    def not_excused(self, verdict: Verdict, case: str, origin: str = "") -> Verdict:
        """Returns the first cause of the verdict that is not excused."""
        found = (c for c in causes(verdict) if self._excuse_of(c, case, origin) is None)
        return next(found, verdict)

    def fail(
        self,
        verdict: Verdict,
        case: str,
        shrink: bool = True,
        entry: corpus.Entry | None = None,
        found_in: str = "",
        beside: bool = False,
        repeat: str = "",
    ) -> None:
        """Shrinks, saves and lists each cause of a failing verdict, and raises ConformanceFailure.

        entry: the corpus entry of the graph, if it is one. found_in: the case in which the failure
        was first found. beside: whether the graph is a module of graphs that each pass alone. repeat: the
        option that repeats it, where the graph stands for a whole model and can't be built."""
        origin = found_in if entry is not None and entry.automatic else ""
        open_ = [c for c in causes(verdict) if self._excuse_of(c, case, origin) is None] or [verdict]
        listed = []
        for number, cause in enumerate(open_):
            if len(open_) > 1:
                # Findings of other checks are listed as failures of their own.
                own = tuple(f for f in cause.findings if f.check == cause.findings[0].check)
                cause = replace(cause, findings=own)
            # The bundle of the first cause replaces the saved graph.
            saved = [entry.path] if entry is not None and entry.automatic and not number else []
            listed.append(
                self._list(cause, case, shrink, entry is not None, saved, found_in, beside, origin, repeat)
            )
        text = f"\n\n{AND_ANOTHER}\n".join(text for _, text in listed)
        raise ConformanceFailure(text, listed[0][0])

    def _list(
        self, verdict: Verdict, case: str, shrink: bool, from_corpus: bool, saved: list[Path], found_in: str,
        beside: bool, origin: str, repeat: str,
    ) -> tuple[Verdict, str]:
        """Shrinks, saves and lists the first cause of a failing verdict. Returns the verdict on the
        shrunk graph and the text of the failure.

        saved: files that the new bundle replaces. beside, repeat: see `fail`. origin: see `excused`."""
        original = verdict
        enough = bool(self._known.why_enough())
        # Each smaller graph would cost the limit too. Without any result yet, the graph is a simple one.
        enough |= original.outcome == HANG and not self._known.has_result
        shrinking = Shrinking(self._examiner, self._ir, original, self._known.recognise)
        # A graph of the corpus keeps its own bundle, even if its failure is known.
        known = None if from_corpus else shrinking.known()
        verdict = shrinking.original
        finished: bool | None = None
        if known is None and shrink and len(verdict.graph.nodes) > self.shrink_above and not enough:
            # Shrinking takes long, and the session may end during it: the graph is saved first.
            first = failure_id(verdict.signature, verdict.graph.operators) + corpus.UNSHRUNK
            # If the file cannot be written, neither can the bundle, which is reported below.
            with suppress(OSError):
                check = verdict.findings[0].check
                saved.append(corpus.save(self.folder(first), verdict.graph, found_in or case, check))
            verdict, finished = shrinking.run()
            if unjudged := shrinking.unjudged:
                self._record.not_checked.append(
                    f"smaller graphs than that of {case} ({len(unjudged)}): {unjudged[0]}; please report this"
                )
            known = self._known.recognise(verdict)
        failure, new = self._record.fail(verdict, case, original.graph, known)
        self.saw(original, case, origin, failure, verdict, recognisable=not from_corpus)
        self._known.note(new, original.outcome)
        where = f"{case}, at first in {found_in}" if found_in else case
        if new:
            folder = self.folder(failure.id + (corpus.MODEL if repeat else ""))
            failure.besides, failure.each_needed = _besides(original, verdict), finished
            failure.graph, failure.bundle = str(folder / "graph.json"), self.bundle(folder)
            failure.command = self.command(repeat or f"--byoc-replay={shlex.quote(failure.graph)}")
            failure.case = self._examiner.peers.first(("failure", failure.id), case)
        if new and failure.case == case:
            described = self._examiner.describe(verdict)
            failure.texts = described.as_dicts()
            texts = self._text(by_script=not repeat)
            text = texts.new(verdict, original, failure, where, described)
            more = self._write_bundle(failure, folder, verdict, text, found_in or case, described)
            if not failure.graph:
                text = texts.new(verdict, original, failure, where, described)
            text += more
            self._known.tell(failure)
        else:
            folder = Path(failure.graph).parent
            text = self._text().again(verdict, where, failure)
        if beside:
            text += "\nEach graph of the module that failed passes by itself, but not beside the others."
        for path in saved if failure.graph else ():
            if path.parent != folder:
                corpus.remove(path)
        return verdict, text

    def saw(
        self, original: Verdict, case: str, origin: str = "", failure: Failure | None = None,
        shrunk: Verdict | None = None, recognisable: bool = False,
    ) -> None:
        """Records a failing verdict of a shard, for `merge`.

        failure: the one that lists it; None if it is excused. shrunk: the verdict on the shrunk
        graph. recognisable: whether it might have been recognised before shrinking."""
        if self._settings.shard is None:
            return
        found = Sighting.of(*self.place, case, origin, original, excused=failure is None)
        if failure is not None:
            smaller = shrunk or original
            found.failure, found.counted = failure.id, cells_of(original.graph, blamed(smaller))
            found.before = Look.of(original, self._ir) if recognisable else None
            found.after = Look.of(smaller, self._ir) if smaller is not original else None
        else:
            found.counted = found.alone
        self._record.sightings.append(found)

    def _write_bundle(
        self, failure: Failure, folder: Path, verdict: Verdict, text: str, found_in: str,
        described: Description,
    ) -> str:
        """Writes the bundle of a failure and returns the lines to add to its text. If the bundle
        cannot be written, `failure.graph` is empty afterwards, and the caller has to build the text
        again without the path."""
        finding, device = verdict.findings[0], self._declaration.device

        def attempt(script: Path) -> str:
            if finding.check not in failure_bundle.REPRODUCED:
                return ""  # The script itself says that it does not show this failure.
            if finding.outcome == HANG and self._tried_hang:
                which = f"that of {self._tried_hang} was"
                failure.tried = f"reproduce.py was not tried, since a hang takes long; {which}"
                return failure.tried
            if finding.outcome == HANG:
                self._tried_hang = failure.id
            tried = Trial(self._declaration.python, self._settings.timeout, self._settings.memory_bytes)
            try:
                failure.tried = trial.note(tried.run(script), finding, failure.command)
            except OSError as e:  # The bundle itself is complete.
                failure.tried = f"reproduce.py could not be tried: {e}"
            return failure.tried

        try:
            failure_bundle.write(
                folder, verdict, text,
                declaration={
                    **self._declaration.for_worker(), **_declared(self._declaration),
                    "partition_only": self._examiner.workers.partition_only,
                    "by_table": self._examiner.workers.by_table,
                },
                ir=self._ir,
                executors=self._examiner.workers.executors,
                opt_level=self._examiner.workers.built["opt_level"],
                timeout=self._settings.timeout,
                versions=self._examiner.workers.versions,
                command=failure.command,
                found_in=found_in,
                description=described,
                attempt_script=attempt,
                on_device=device.in_words if device.is_foreign else "",
            )
        except OSError as e:
            return self.unsaved(failure, e)
        return f"\n{failure.tried}" if failure.tried else ""

    def _text(self, by_script: bool = True) -> FailureText:
        alone = by_script and not self._declaration.device.is_foreign
        return FailureText(self._record.target, self._ir, self._declaration.python, alone)

    def unsaved(self, failure: Failure, error: OSError) -> str:
        """Returns the lines for a failure whose bundle cannot be written. The failure is still
        listed."""
        failure.graph = failure.bundle = ""
        failure.command = self.command("-k", shlex.quote(failure.case))
        return f"\nThe failure could NOT be saved ({error}). To repeat it: {failure.command}"

    def folder(self, name: str) -> Path:
        """Returns the folder for the bundle of a failure with this id."""
        return self._settings.failures / f"{folder_name(self._record.target, self._ir)}-{name}"

    def bundle(self, folder: Path) -> str:
        """Returns the folder's path relative to that of report.json."""
        return folder.relative_to(self._settings.failures.parent).as_posix()

    def command(self, *extra: str) -> str:
        """Returns the pytest command for this target, with further options."""
        d = self._declaration
        parts = ["pytest", f"--byoc-target={shlex.quote(d.given)}", f"--byoc-ir={self._ir}"]
        if d.python_given:
            parts.append(f"--byoc-python={shlex.quote(d.python_given)}")
        # A failure may depend on these limits.
        if self._settings.timeout != TIMEOUT:
            parts.append(f"--byoc-timeout={self._settings.timeout:g}")
        if self._settings.memory_bytes != MEMORY << 20:
            parts.append(f"--byoc-memory={self._settings.memory_bytes >> 20}")
        return " ".join([*parts, *extra])


def _besides(original: Verdict, verdict: Verdict) -> list[str]:
    """Returns the checks that the original graph fails too and the shrunk graph does not."""
    shown = {finding.check for finding in verdict.findings}
    return list(dict.fromkeys(f.check for f in original.findings if f.check not in shown))


def _declared(d: TargetDeclaration) -> dict[str, object]:
    return {"ir": d.ir, "python": d.python, "libraries": d.libraries, "sys_path": d.sys_path}
