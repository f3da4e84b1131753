"""The results of a session: the gate's judgement, the report files and the summary on the
terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Protocol

import pytest

from ..config.settings import Settings, as_mapping
from ..examination import stages
from ..gate import judge
from ..gate.baseline import Baseline
from ..gate.planned import Selection
from ..gate.problems import Gate
from ..gate.waivers import Waiver, Waivers
from ..record.target_record import TargetRecord
from ..report import html, json_report, provenance, session_zip, summary, terminal
from ..report.words import counted
from ..storage import stored_passes
from ..storage.corpus import Entry
from .unfinished import Unfinished, taken_over

#: What is left to `merge` when a shard ends.
LEFT_TO_MERGE = (
    "whether any graph passed, --byoc-fail-under, the comparison with the baseline and the judgement on "
    "entries of waivers"
)


class Ended(Protocol):
    """A session that has ended, as far as its exit code is concerned."""

    exitstatus: int | pytest.ExitCode


class Results:
    """The results of a session, computed from the records of all targets when the tests have
    ended.

    root: the project's folder. provenance: returns the `session` of report.json. shard: returns the
    `shard` of report.json for a shard, given its exit code; None for a whole session."""

    def __init__(
        self, settings: Settings, records: Sequence[TargetRecord], selections: Sequence[Selection],
        waivers: Waivers | None, baseline: Baseline | None, corpus: Sequence[Entry], limits: Unfinished,
        root: Path, provenance: Callable[[], dict[str, Any]] | None = None,
        shard: Callable[[int], dict[str, Any]] | None = None,
    ) -> None:
        self._settings = settings
        self._records = records
        self._selections = selections
        self._waivers = waivers
        self._baseline = baseline
        self._corpus = corpus
        self._limits = limits
        self._root = root
        self._started = datetime.now(timezone.utc)
        self._provenance = provenance or self._made_now
        self._shard = shard
        self._section: dict[str, Any] | None = None
        self.gate = Gate()
        self._unwritten: list[str] = []

    def finish(self, session: Ended) -> None:
        """Judges the session, which sets its exit code, and writes its reports."""
        if self._shard is not None:
            self._section = self._shard(int(session.exitstatus))
            session.exitstatus = self._section["exit"]
        # A session that was interrupted, or ran nothing, is not judged.
        if session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            self._judge(session)
        for record in self._records:
            record.not_checked += taken_over(record.taken_over)
        if self._settings.report is not None or self._settings.bundle is not None:
            self._report(session)
        if self._settings.summary is not None:
            text = summary.markdown(self._records, self.gate, self._waivers, int(session.exitstatus))
            self._write("summary", session, lambda path: summary.write(path, text), self._settings.summary)

    def _seed(self) -> str:
        """Returns the seed of the random graphs as text; "derandomized" if they are the same every
        time."""
        return "derandomized" if self._settings.explore is None else str(self._settings.explore)

    def _made_now(self) -> dict[str, Any]:
        return provenance.session(self._settings, self._started, datetime.now(timezone.utc), self._root)

    def _report(self, session: Ended) -> None:
        """Writes report.json, the page beside it and the bundle, all from the same data."""
        report = json_report.build(
            self._records, self._seed(), as_mapping(self._settings), self._provenance()
        )
        report["gate"] = {"exit": int(session.exitstatus), **self.gate.as_dict()}
        if self._section is not None:
            report["shard"] = self._section
        s = self._settings
        if s.report is not None:
            passes = {(record.target, record.ir): record.passes for record in self._records}
            self._write("file of passes", session, lambda path: stored_passes.write(path, passes), s.report)
            self._write("report", session, lambda path: json_report.write(path, report), s.report)
            page = html.path_beside(s.report)
            self._write("page", session, lambda path: html.write(path, report), page)
        if s.bundle is not None:
            theirs = [e.path for e in self._corpus if not e.automatic]
            folder, files = s.failures.parent, session_zip.inputs(s, theirs)
            write = session_zip.write
            self._write("bundle", session, lambda path: write(path, report, folder, files), s.bundle)

    def _judge(self, session: Ended) -> None:
        needed: list[Waiver] = []
        if self._shard is None:
            self.gate, needed = judge.judge(
                self._settings, self._records, self._selections, self._waivers, self._baseline
            )
        else:
            self._judge_shard()
        if self._limits.left_out:
            self.gate.fail(f"not everything was checked: {self._limits.why_left_out()}")
        nothing = not any(record.graphs for record in self._records)
        if self._limits.out_of_time and nothing and self._shard is None:
            self.gate.fail("the time budget was used up before anything was examined")
        if self.gate.problems:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        unasked = self._settings.stages is None and any(r.partition_only for r in self._records)
        if session.exitstatus == pytest.ExitCode.OK and unasked:
            session.exitstatus = stages.EXIT_PARTITION_ONLY
            self.gate.note(
                f"exit code {stages.EXIT_PARTITION_ONLY}: the target conforms as far as it could be checked "
                "here; with --byoc-stages=partition it is 0"
            )
        updated = self._waivers if self._settings.update_waivers else None
        if updated is not None and needed != list(updated.entries):
            write = updated.write
            if self._write("file of waivers", session, lambda path: write(needed), updated.path):
                self.gate.note(f"{updated.path} was rewritten, with {len(needed)} waivers")

    def _judge_shard(self) -> None:
        """Judges what a shard can judge of the tests that it ran, and notes what it leaves."""
        for record in self._records:
            if self._settings.strict_corpus:
                judge.strict_corpus(self.gate, record)
        assert self._section is not None
        tests = f"{self._section['here']} of {self._section['whole']} tests"
        self.gate.note(
            f"this is {self._settings.shard} ({tests}): {LEFT_TO_MERGE} are left to "
            "`python -m pytest_byoc merge`"
        )
        if self._settings.report is None:
            self.gate.note("without --byoc-report=DIR it leaves no report that could be merged")

    def _write(
        self, what: str, session: Ended, write: Callable[[Path], None], path: Path
    ) -> bool:
        """Calls `write` and returns whether it succeeded. An error fails the session, and is
        printed at its end."""
        try:
            write(path)
        except Exception as e:  # Even a bug of ours must not cost the other results of the session.
            kind = "" if isinstance(e, OSError) else f"{type(e).__name__}: "
            self._unwritten.append(f"the {what} could not be written: {kind}{e}")
            session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED
            return False
        return True

    def print(self, terminalreporter: Any, deselected: int) -> None:
        """Prints the end of the session's output. deselected: the number of deselected tests."""
        for record in self._records:
            if not record.graphs:
                continue
            terminalreporter.section("byoc", sep="=")
            for text, markup in terminal.summary(record):
                terminalreporter.write_line(text, **markup)
        if deselected:
            terminalreporter.write_line("")
            terminalreporter.write_line(
                f"{counted(deselected, 'test')} deselected: the target offloads nothing of "
                "their graphs"
            )
        lines = list(terminal.gate(self._records, self.gate, self._waivers))
        if lines:
            terminalreporter.section("byoc gate", sep="=")
        for text, markup in lines:
            terminalreporter.write_line(text, **markup)
        for text in self._unwritten:
            terminalreporter.write_line(text, red=True)
        if self._settings.report is None and any(record.graphs for record in self._records):
            terminalreporter.write_line("report: none was written; --byoc-report=FOLDER writes one")
        elif self._settings.report is not None and not self._unwritten:
            terminalreporter.write_line(f"report: {self._settings.report}")
            terminalreporter.write_line(f"page:   {html.path_beside(self._settings.report)}")
        if self._settings.bundle is not None and not self._unwritten:
            terminalreporter.write_line(f"bundle: {self._settings.bundle}")
