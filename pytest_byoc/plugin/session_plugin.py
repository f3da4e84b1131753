"""The part of the plugin that is loaded only with a target: sessions, the gate and reports."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from ..config.errors import SettingsError
from ..config.settings import resolve
from ..core.graph import GraphFormatError
from ..examination import c_libraries, stages
from ..examination.activity import Activity
from ..examination.outcome import PASS, ConformanceFailure, Verdict
from ..gate import baseline, waivers
from ..gate.excuses import Excuses
from ..record.listed import Excused
from ..record.target_record import TargetRecord
from ..report import junit, progress, schema, terminal
from ..report.left_to_levels import left_to_levels
from ..report.text import in_own_words
from ..report.time_estimate import Work
from ..results.results import Results
from ..storage import corpus, scratch, stored_passes
from ..storage.session_ended import SessionEnded
from ..storage.shared_answers import Peers
from ..suite.cases import Suite
from ..suite.observer import Observer
from ..suite.session import TargetSession
from . import deselection
from .anticipation import Anticipation
from .collection import Collection, cases_of, costs, is_ours, is_random
from .division import unit_of
from .limits import Limits
from .opening_targets import open_all
from .sharding import Sharding

# While Python ends, its garbage collector would go through the objects of all tests several times.
atexit.register(gc.freeze)
#: Attribute of a test's report with the records made during the test.
_RECORDED = "byoc_recorded"


class _Observer(Observer):
    """The observer that passes the events of the target with this number on to the plugin."""

    def __init__(self, plugin: ActivePlugin, number: int) -> None:
        self._plugin = plugin
        self._number = number

    def examined(self, verdict: Verdict) -> None:
        self._plugin.examined(self._number, verdict)

    def excused(self, excuse: Excused) -> None:
        self._plugin.excused(excuse)


class ActivePlugin:
    """The plugin that runs the sessions. `pytest_configure` registers it if there is a target."""

    def __init__(self, config: pytest.Config, targets: Sequence[str]) -> None:
        self._config = config
        try:
            self.settings = resolve(config, targets)
            s = self.settings
            self.corpus = self._corpus()
            for entry in self.corpus if s.replay else ():
                corpus.read(entry.path)
            self.waivers = waivers.read(s.waivers, s.update_waivers) if s.waivers else None
            self.baseline = baseline.read(s.baseline, schema.problems) if s.baseline else None
            if s.changed_since is not None:
                stored_passes.read(s.changed_since)
            costly = baseline.read(s.costs, schema.problems, "--byoc-costs") if s.costs and s.shard else None
        except (SettingsError, GraphFormatError) as e:
            raise pytest.UsageError(str(e)) from None
        self._activity = Activity(lambda: self._progress.tick())
        workerinput = getattr(config, "workerinput", {})
        excuses = Excuses(self.waivers, self.baseline, self.settings.update_waivers)
        self.sessions: list[TargetSession] = []
        for number, declaration in enumerate(self.settings.targets):
            observer, peers = _Observer(self, number), Peers.of(workerinput, number)
            self.sessions.append(
                TargetSession(self.settings, declaration, self._activity, observer, peers, excuses)
            )
        self.suites = [Suite(target) for target in self.sessions]
        self._collection = Collection(self.settings, self.sessions, self.corpus)
        config.pluginmanager.register(self._collection, "pytest-byoc-collection")
        self._verdicts: list[Verdict] = []
        self._excused: list[Excused] = []
        self._unusable = ""
        self.limits = Limits(self.settings, self._activity, is_ours)
        if self.settings.explore is not None:
            # The processes of pytest-xdist have to generate the same graphs, so they get the drawn
            # seed.
            config.option.byoc_explore = str(self.settings.explore)
        self.sharding: Sharding | None = None
        if self.settings.shard is not None:
            self.sharding = Sharding(
                self.settings.shard, self.settings, self._collection, self.sessions, costly, self.limits
            )
            config.pluginmanager.register(self.sharding, "pytest-byoc-sharding")
        self._results = Results(
            self.settings, self._records(), self._collection.selections, self.waivers, self.baseline,
            self.corpus, self.limits, config.rootpath, shard=self._section if self.sharding else None,
        )
        _set_profile(config)
        self._controller = bool(getattr(config.option, "numprocesses", None)) or (
            getattr(config.option, "dist", "no") != "no"
        )
        self._controller = self._controller and not hasattr(config, "workerinput")
        if not self._controller:
            anticipation = Anticipation(self._collection, self.sessions, self.suites)
            config.pluginmanager.register(anticipation, "pytest-byoc-anticipation")
        self._deselection = deselection.Deselection(config)
        config.pluginmanager.register(self._deselection, "pytest-byoc-deselection")
        self._progress = progress.Progress(
            config, self._records(), self._activity, Work(costs(self.settings.level)),
            self._collection.kind_of, self.limits.within_budget, self._controller,
        )
        config.pluginmanager.register(self._progress, "pytest-byoc-progress")

    def _corpus(self) -> list[corpus.Entry]:
        """Returns the saved graphs to collect. Raises SettingsError."""
        given = getattr(self._config, "workerinput", {}).get("byoc_entries")
        if given is not None:
            return [corpus.Entry(name, Path(path), automatic) for name, path, automatic in given]
        s = self.settings
        if s.replay:
            return corpus.find(s.replay, self._config.rootpath)
        return corpus.all_of(s.failures if s.remembers else None, s.corpus, self._config.rootpath)

    # --- session -----------------------------------------------------------------------------

    def pytest_report_header(self) -> str:
        s = self.settings
        parts = [", ".join(d.name for d in s.targets), f"level {s.level.name}"]
        if s.shard is not None:
            parts.append(str(s.shard))
        if s.explore is not None:
            parts.append(f"random graphs of seed {s.explore} (again: --byoc-explore={s.explore})")
        if s.time_budget is not None:
            parts.append(f"no test begins after {s.time_budget:g} s")
        return "byoc: " + "; ".join(parts)

    def pytest_report_collectionfinish(self) -> list[str]:
        """Returns the lines on targets that can only be partitioned; at the time of the header
        their workers have not started."""
        if self._config.option.collectonly:
            return []
        found = [r for r in self._records() if r.partition_only]
        return [f"byoc: {r.target}: {stages.in_words(r.partition_only)}" for r in found]

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        if self._controller:
            return
        named = os.environ.get("CXX")
        if named and shutil.which(named) is None:
            self._refuse(
                f"the environment variable CXX names {named!r}, which is not a program: set it to the name "
                "or path of a C++ compiler without options, for TVM's export_library."
            )
            return
        if not c_libraries.compiler():
            self._refuse(
                "there is no C++ compiler: TVM's export_library needs one. Install g++ or clang++, "
                "or name one in the environment variable CXX."
            )
            return
        scratch.sweep()

    def _open(self) -> None:
        """Starts the workers of all targets; ends the session if no target can be used."""
        refused = open_all(
            self.sessions, self.baseline, lambda t: self._config.hook.pytest_byoc_session(session=t)
        )
        if refused:
            self._close()
            self._refuse(refused)
            return

    def examined(self, number: int, verdict: Verdict) -> None:
        """Notes a verdict on the target with this number."""
        self._verdicts.append(verdict)
        self._config.hook.pytest_byoc_verdict(session=self.sessions[number], verdict=verdict)

    def excused(self, excuse: Excused) -> None:
        """Notes an excused failure of the running test."""
        self._excused.append(excuse)

    def _refuse(self, message: str) -> None:
        """Ends a session whose options or targets cannot be used, with exit code 4."""
        self._unusable = message
        if not hasattr(self._config, "workeroutput"):
            raise pytest.UsageError(message)
        # pytest-xdist would treat a process that raises now as crashed, and start another.
        self._config.workeroutput["byoc_unusable"] = message

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        """Starts the workers. pytest has written its header by now, so the user sees it while they
        start."""
        if not (self._controller or self._unusable):
            self._open()
        if self._unusable:
            pytest.exit(self._unusable, returncode=pytest.ExitCode.USAGE_ERROR)

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Removes the traceback entries without a line, which CPython 3.11 makes where a signal
        arrives: pytest would fail on them, and the session would not end as interrupted.

        If the session was interrupted, or could not go on, records it. If it could not go on, a process
        of pytest-xdist also sends the reason to the controller, which ends the session of the others."""
        excinfo.traceback = excinfo.traceback.filter(_has_line)
        if isinstance(excinfo.value, KeyboardInterrupt):
            for record in self._records():
                record.not_checked.append("everything left when the session was interrupted")
        if isinstance(excinfo.value, SessionEnded):
            for record in self._records():
                record.not_checked.append(f"everything left when the session ended: {excinfo.value.msg}")
            if hasattr(self._config, "workeroutput"):
                self._config.workeroutput["byoc_ended"] = excinfo.value.msg

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self._close()
        for target, selection in zip(self.sessions, self._collection.selections):
            selection.leave_out(self.settings.left_out, target.left_out_patterns)
            alone = self.settings.replay or self.settings.models
            if not (self._controller or alone or target.unusable):
                partition_only = bool(target.record.partition_only)
                target.record.not_checked += left_to_levels(self.settings.level, partition_only)
                target.record.not_checked += target.examiner.taken_over()
                why = target.known.why_enough() if self.limits.left_out else ""
                if why:
                    target.record.not_checked.append(f"the tests that did not begin: {why}")
        if hasattr(self._config, "workeroutput"):
            self._config.workeroutput["byoc"] = [t.record.take() for t in self.sessions]
            self._config.workeroutput["byoc_selection"] = [s.as_dict() for s in self._collection.selections]
            self._config.workeroutput["byoc_out_of_time"] = self.limits.out_of_time
            self._config.workeroutput["byoc_deselected"] = self._deselection.take()
            self._config.workeroutput["byoc_left_out"] = dict(self.limits.left_out)
            return
        if self._config.option.collectonly or self._unusable:
            # Nothing was examined, so the reports of an earlier session stay.
            return
        for record in self._records():
            record.not_checked += self.limits.not_checked()
        self._results.finish(session)

    def _section(self, exit_code: int) -> dict[str, Any]:
        assert self.sharding is not None
        return self.sharding.section(exit_code, self._deselection.count)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Merges the records of an ended process of pytest-xdist into the controller's."""
        output = getattr(node, "workeroutput", {})
        if "byoc_unusable" in output:
            self._unusable = output["byoc_unusable"]
            raise pytest.UsageError(self._unusable)
        self._merge(output.get("byoc", []))
        self.limits.out_of_time += output.get("byoc_out_of_time", 0)
        self._deselection.add(output.get("byoc_deselected", 0))
        self.limits.left_out.update(output.get("byoc_left_out", {}))
        for selection, other in zip(self._collection.selections, output.get("byoc_selection", [])):
            selection.merge(other)
        if "byoc_ended" in output:
            raise SessionEnded(output["byoc_ended"])

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Merges the records of one test into the controller's of pytest-xdist. Since they come
        with each report, neither a process that dies nor an interruption loses any."""
        if self._controller:
            self._merge(vars(report).pop(_RECORDED, []))

    def _merge(self, others: Sequence[dict[str, Any]]) -> None:
        for target, other in zip(self.sessions, others):
            target.record.target, target.record.ir = other["target"], other["ir"]
            target.record.merge(other)

    def _close(self) -> None:
        for target in self.sessions:
            target.close()

    def _records(self) -> list[TargetRecord]:
        return [t.record for t in self.sessions]

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.limits.random = sum(map(is_random, session.items))
        selected: list[set[str]] = [set() for _ in self.sessions]
        # Verdicts must not depend on how a session is divided.
        elsewhere = self.sharding.elsewhere if self.sharding else []
        for item in filter(is_ours, [*session.items, *elsewhere]):
            selected[self._collection.position_of(item)] |= cases_of(item)
        for suite, cases in zip(self.suites, selected):
            suite.selected = frozenset(cases)

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        if is_ours(item):
            self.limits.stop_out_of_time()
            if not self.settings.replay:
                target = self.sessions[self._collection.position_of(item)]
                self.limits.stop_at_enough(item, target, self.sessions)
        self._verdicts.clear()
        self._excused.clear()
        for target in self.sessions:
            target.test = item.nodeid

    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        self.limits.random_done += is_random(item)

    def finish_report(
        self, item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport
    ) -> None:
        """Completes the report of a test: a conformance failure is reported by its own text; a test
        whose failures are all excused becomes an expected failure; a test without a passed graph
        becomes skipped, or is deselected if the target offloads nothing."""
        if not report.failed:
            self._finished(item)
        target = self.sessions[self._collection.position_of(item)]
        target.record.took(unit_of(item, target), call.duration)
        if not self._excused and deselection.mark(call, report):
            # The records go to the controller of pytest-xdist with the next report.
            return
        verdicts = list(self._verdicts)
        raised = call.excinfo.value if call.excinfo is not None else None
        texts = [text for target in self.sessions for text in target.settle(raised)]
        if self.sharding is not None:
            self.sharding.note_failure(raised, report)
        if isinstance(raised, ConformanceFailure):
            report.longrepr = in_own_words("\n\n".join(texts) or str(raised), item)
            verdicts = [raised.verdict]
        elif self._excused and not report.failed:
            report.outcome = "skipped"
            report.longrepr = None
            report.wasxfail = "; ".join(dict.fromkeys(map(terminal.excuse, self._excused)))
        elif report.passed and self._verdicts and all(v.outcome != PASS for v in self._verdicts):
            outcomes = ", ".join(sorted({v.outcome for v in self._verdicts}))
            report.outcome = "skipped"
            path, line, _ = item.location
            report.longrepr = (path, line or 0, f"none of {len(self._verdicts)} graphs passed: {outcomes}")
        if texts and not isinstance(raised, ConformanceFailure):
            report.sections.append(("byoc", "\n\n".join(texts)))
        if verdicts:
            # pytest's JUnit XML reads a test's properties from its last report, which comes later.
            properties = junit.properties(verdicts, self._excused)
            item.user_properties += properties
            report.user_properties += properties
        if hasattr(self._config, "workeroutput"):
            setattr(report, _RECORDED, [t.record.take() for t in self.sessions])

    def _finished(self, item: pytest.Item) -> None:
        selection = self._collection.selection_of(item)
        selection.finished |= cases_of(item) if is_ours(item) else {item.nodeid}

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if not self._unusable:
            self._results.print(terminalreporter, self._deselection.count)


def _set_profile(config: pytest.Config) -> None:
    """Sets Hypothesis's profile for a user's own tests of a target, unless the user has loaded one,
    by --hypothesis-profile or in a conftest.py. Building a graph takes longer than Hypothesis's
    deadline, and the examples have to be the same each time."""
    if getattr(config.option, "hypothesis_profile", None) or _has_own_profile():
        return
    hypothesis.settings.register_profile(
        "byoc", deadline=None, derandomize=True, database=None, max_examples=20,
        suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.data_too_large],
    )
    hypothesis.settings.load_profile("byoc")


def _has_own_profile() -> bool:
    """Returns whether Hypothesis's settings are other ones than those it begins with, apart from
    --hypothesis-verbosity, which changes them too."""
    found = []
    for name in ("default", "ci"):
        # Older versions have no profile "ci".
        with suppress(hypothesis.errors.InvalidArgument):
            found.append(_apart_from_verbosity(hypothesis.settings.get_profile(name)))
    return _apart_from_verbosity(hypothesis.settings()) not in found


def _apart_from_verbosity(settings: hypothesis.settings) -> str:
    return repr(hypothesis.settings(settings, verbosity=hypothesis.Verbosity.quiet))


def _has_line(entry: Any) -> bool:
    try:
        return entry.lineno >= 0
    except TypeError:
        return False
