"""The plugin's part that is only there with a target: sessions, parametrisation, reports."""

from __future__ import annotations

import functools
import os
import shutil
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import hypothesis
import pytest

import conformance

from .checks import CHECKS
from .checks.selection import AT_SMOKE
from .checks.selection import made as made_checks
from .corpus import find_graphs, read_graph
from .gate import baseline, judge, waivers
from .gate.excuses import Excuses
from .gate.problems import Gate
from .gate.selection import PARAMETERS, Selection, case_of
from .generation.structures import STRUCTURES
from .generation.systematic import Case, cases
from .graph import GraphFormatError
from .operators import OPERATORS
from .outcome import PASS, ConformanceFailure, Verdict
from .recorder import Excused, TargetRecord
from .report import archive, html, json_report, junit, progress, provenance, summary, terminal
from .report.words import vendor_frame
from .session import TargetSession
from .settings import SettingsError, as_mapping, resolve
from .worker.client import WorkerError

_SUITE = Path(conformance.__file__).parent
#: The systematic cases but the first few of each operator.
_REST = "test_operators.py, the rest"
#: The phases of the suite in their order: what is the same every time decides before what is random, and
#: what shows most with few graphs before the many.
_PHASES = (
    "test_replay.py",
    "test_operators.py",
    "test_patterns.py",
    "test_regions.py",
    "test_structures.py",
    _REST,
    "test_onnx.py",
    "test_random.py",
)


class ActivePlugin:
    """Registered in `pytest_configure` when there is a target."""

    def __init__(self, config: pytest.Config, targets: Sequence[str]) -> None:
        self._config = config
        try:
            self.settings = resolve(config, targets)
            self.replay = find_graphs(list(self.settings.replay))
            for path in self.replay:
                read_graph(path)
            s = self.settings
            self.waivers = waivers.read(s.waivers, s.update_waivers) if s.waivers else None
            self.baseline = baseline.read(s.baseline) if s.baseline else None
        except (SettingsError, GraphFormatError) as e:
            raise pytest.UsageError(str(e)) from None
        self.sessions = [TargetSession(self.settings, d) for d in self.settings.targets]
        self._selections = [Selection() for _ in self.sessions]
        self._verdicts: list[Verdict] = []
        self._excused: list[Excused] = []
        self._gate = Gate()
        self._unwritten: list[str] = []
        self._unusable = ""
        self._start = time.monotonic()
        self._out_of_time = 0
        self._random_left = 0
        if self.settings.explore is not None:
            # The processes of pytest-xdist are to make the same graphs.
            config.option.byoc_explore = str(self.settings.explore)
        self._started = datetime.now(timezone.utc)
        _set_profile(config)
        self._controller = bool(getattr(config.option, "numprocesses", None)) or (
            getattr(config.option, "dist", "no") != "no"
        )
        self._controller = self._controller and not hasattr(config, "workerinput")
        config.pluginmanager.register(progress.Progress(config), "pytest-byoc-progress")

    def suite(self) -> list[str]:
        """What is collected in place of a path: the installed suite."""
        return [str(_SUITE)]

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """With --byoc-replay only the replay is run, without it everything else that the level asks for."""
        if collection_path.parent == _SUITE and collection_path.suffix == ".py":
            if collection_path.name == "test_onnx.py" and not self.settings.level.onnx:
                return True
            return (collection_path.name == "test_replay.py") != bool(self.replay)
        return None

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> pytest.Module | None:
        """The suite's files, also where the project's own `python_files` would leave them out."""
        if file_path.parent == _SUITE and file_path.name.startswith("test_"):
            patterns = parent.config.getini("python_files")
            if not any(fnmatch(file_path.name, p) for p in patterns):
                return pytest.Module.from_parent(parent, path=file_path)
        return None

    # --- session -----------------------------------------------------------------------------

    def pytest_report_header(self) -> str:
        s = self.settings
        parts = [", ".join(d.name for d in s.targets), f"level {s.level.name}"]
        if s.explore is not None:
            parts.append(f"random graphs of seed {s.explore} (again: --byoc-explore={s.explore})")
        if s.time_budget is not None:
            parts.append(f"no test begins after {s.time_budget:g} s")
        return "byoc: " + "; ".join(parts)

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        if self._controller:
            return
        named = os.environ.get("CXX")
        if named and shutil.which(named) is None:
            raise pytest.UsageError(
                f"the environment variable CXX names {named!r}, which is no program: TVM's export_library "
                "takes the name or path of a C++ compiler there, without options."
            )
        if not named and not any(map(shutil.which, ("g++", "clang++", "c++"))):
            raise pytest.UsageError(
                "there is no C++ compiler: TVM's export_library needs one. Install g++ or clang++, "
                "or name one in the environment variable CXX."
            )
        excuses = Excuses(self.waivers, self.baseline, self.settings.update_waivers)
        for target in self.sessions:
            try:
                target.open()
                if self.baseline is not None:
                    self.baseline.of(target.record.target, target.ir)
            except (WorkerError, SettingsError) as e:
                self._close()
                name = target.declaration.name
                self._refuse(_in_words(name, e) if isinstance(e, WorkerError) else str(e))
                return
            target.listener = self._verdicts.append
            target.excuse = functools.partial(excuses.find, target.record)
            target.on_excuse = self._excused.append
            target.share_of_time = self._share_of_time
            if not self.settings.level.onnx and not self.replay:
                made = made_checks(chosen=True, level=self.settings.level.name)
                dear = ", ".join(c.id for c in CHECKS if c.id not in made)
                what = "ONNX's node tests, most systematic cases, most near misses, and on all but "
                what += f"{len(AT_SMOKE)} graphs the checks {dear}"
                target.record.not_checked.append(f"{what}: left to level standard")

    def _refuse(self, message: str) -> None:
        """Ends a session whose options or targets can't be used, with exit code 4."""
        if not hasattr(self._config, "workeroutput"):
            raise pytest.UsageError(message)
        # A worker of pytest-xdist that raises now is taken for a crashed one, and started again.
        self._config.workeroutput["byoc_unusable"] = message
        self._unusable = message

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        if self._unusable:
            pytest.exit(self._unusable, returncode=pytest.ExitCode.USAGE_ERROR)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self._close()
        for target, selection in zip(self.sessions, self._selections):
            selection.leave_out(self.settings.left_out, target.left_out_patterns)
        if hasattr(self._config, "workeroutput"):
            self._config.workeroutput["byoc"] = [t.record.as_dict() for t in self.sessions]
            self._config.workeroutput["byoc_selection"] = [s.as_dict() for s in self._selections]
            self._config.workeroutput["byoc_out_of_time"] = self._out_of_time
            return
        if self._out_of_time:
            for record in self._records():
                record.not_checked.append(f"{self._out_of_time} tests: the time budget was used up")
        # A session that was interrupted, or ran nothing, is not judged.
        if session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) and not (
            self._config.option.collectonly
        ):
            self._judge(session)
        if self.settings.report is not None or self.settings.bundle is not None:
            self._report(session)
        if self.settings.summary is not None:
            text = summary.markdown(self._records(), self._gate, self.waivers, int(session.exitstatus))
            self._write("summary", session, lambda path: summary.write(path, text), self.settings.summary)

    def _seed(self) -> str:
        """Where random graphs come from: of a test itself, the same every time, or of one seed."""
        return "derandomized" if self.settings.explore is None else str(self.settings.explore)

    def _report(self, session: pytest.Session) -> None:
        """report.json, the page beside it, the bundle: all of one set of data."""
        made = provenance.session(self.settings, self._started, datetime.now(timezone.utc))
        report = json_report.build(self._records(), self._seed(), as_mapping(self.settings), made)
        report["gate"] = {"exit": int(session.exitstatus), **self._gate.as_dict()}
        s = self.settings
        if s.report is not None:
            self._write("report", session, lambda path: json_report.write(path, report), s.report)
            page = html.path_beside(s.report)
            self._write("page", session, lambda path: html.write(path, report), page)
        if s.bundle is not None:
            folder, files = s.failures.parent, archive.inputs(s, self.replay)
            self._write("bundle", session, lambda path: archive.write(path, report, folder, files), s.bundle)

    def _judge(self, session: pytest.Session) -> None:
        self._gate, needed = judge.judge(
            self.settings, self._records(), self._selections, self.waivers, self.baseline
        )
        if self._out_of_time and not any(record.graphs for record in self._records()):
            self._gate.fail("the time budget was used up before anything was examined")
        if self._gate.problems:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if self.waivers is not None and self.settings.update_waivers and needed != list(self.waivers.entries):
            write = self.waivers.write
            self._write("file of waivers", session, lambda path: write(needed), self.waivers.path)
            self._gate.note(f"{self.waivers.path} was written anew, with {len(needed)} waivers")

    def _write(
        self, what: str, session: pytest.Session, write: Callable[[Path], None], path: Path
    ) -> None:
        try:
            write(path)
        except OSError as e:
            self._unwritten.append(f"the {what} could not be written: {e}")
            session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Under pytest-xdist: what a worker process recorded joins the one report."""
        output = getattr(node, "workeroutput", {})
        if "byoc_unusable" in output:
            raise pytest.UsageError(output["byoc_unusable"])
        for target, other in zip(self.sessions, output.get("byoc", [])):
            target.record.target, target.record.ir = other["target"], other["ir"]
            target.record.merge(other)
        self._out_of_time += output.get("byoc_out_of_time", 0)
        for selection, other in zip(self._selections, output.get("byoc_selection", [])):
            selection.merge(other)

    def _close(self) -> None:
        for target in self.sessions:
            target.close()

    def _records(self) -> list[TargetRecord]:
        return [t.record for t in self.sessions]

    # --- tests -------------------------------------------------------------------------------

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        names = metafunc.fixturenames
        if "byoc_target" not in names:
            return
        ours = _is_ours(metafunc.definition)
        if ours and "structure" in names:
            for selection in self._selections:
                selection.plan("structure", STRUCTURES)
        own = {
            "byoc_case": lambda t: cases(self.settings.operators, t.ir),
            "byoc_operator": lambda t: [
                o for o in self.settings.operators if t.ir in OPERATORS[o].irs()
            ],
            "byoc_pattern": lambda t: t.patterns(),
            "byoc_replay": lambda t: self.replay,
            "byoc_onnx": lambda t: t.onnx_candidates(),
        }
        several = len(self.sessions) > 1
        for name, values in own.items():
            if name in names:
                rows = []
                for i, t in enumerate(self.sessions):
                    found = values(t)
                    rows += [
                        pytest.param(i, v, id=f"{t.record.target}-{_id(v)}" if several else _id(v))
                        for v in found
                        if self.settings.level.all_cases or not isinstance(v, Case) or v.smoke
                    ]
                    if ours:
                        self._selections[i].plan(name, found, metafunc.definition.path.stem)
                metafunc.parametrize(f"byoc_target,{name}", rows, indirect=["byoc_target"])
                return
        if several:
            metafunc.parametrize(
                "byoc_target",
                range(len(self.sessions)),
                indirect=True,
                ids=[t.record.target for t in self.sessions],
                scope="session",
            )

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """A test of the vendor's own is a case, whose id is the test's. The suite's phases have an order."""
        for item in items:
            if not _is_ours(item) and "byoc_target" in getattr(item, "fixturenames", ()):
                self._selection_of(item).planned.add(item.nodeid)
        items.sort(key=_turn)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._random_left = sum(map(_is_random, session.items))

    def _selection_of(self, item: pytest.Item) -> Selection:
        callspec = getattr(item, "callspec", None)
        return self._selections[callspec.params.get("byoc_target", 0) if callspec else 0]

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        budget = self.settings.time_budget
        if budget is not None and _is_ours(item) and time.monotonic() - self._start > budget:
            self._out_of_time += 1
            pytest.skip(f"not checked: the time budget of {budget:g} s is used up")
        self._verdicts.clear()
        self._excused.clear()
        for target in self.sessions:
            target.test = item.nodeid

    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        self._random_left -= _is_random(item)

    def _share_of_time(self) -> float:
        """Seconds that a test of random graphs may take: of what is left of the time budget, as much as
        every other one that is still to come."""
        budget = self.settings.time_budget
        if budget is None:
            return 0.0
        processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
        left = max(1.0, self._random_left / processes)
        return (budget - (time.monotonic() - self._start)) / left

    def finish_report(
        self, item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport
    ) -> None:
        """A conformance failure is told in its own words; a test with failures that are all excused is
        an expected failure; one that judged nothing did not pass."""
        if not report.failed:
            self._finished(item)
        verdicts = list(self._verdicts)
        if call.excinfo is not None and isinstance(call.excinfo.value, ConformanceFailure):
            report.longrepr = str(call.excinfo.value)
            verdicts = [call.excinfo.value.verdict]
        elif self._excused and not report.failed:
            report.outcome = "skipped"
            report.longrepr = None
            report.wasxfail = "; ".join(dict.fromkeys(map(terminal.excuse, self._excused)))
        elif report.passed and self._verdicts and all(v.outcome != PASS for v in self._verdicts):
            outcomes = ", ".join(sorted({v.outcome for v in self._verdicts}))
            report.outcome = "skipped"
            path, line, _ = item.location
            report.longrepr = (path, line or 0, f"none of {len(self._verdicts)} graphs passed: {outcomes}")
        if self._verdicts:
            setattr(report, progress.ATTRIBUTE, progress.counts(self._verdicts))
        if verdicts:
            # JUnit XML takes a test's properties from its last report, which is yet to come.
            properties = junit.properties(verdicts, self._excused)
            item.user_properties += properties
            report.user_properties += properties

    def _finished(self, item: pytest.Item) -> None:
        selection, params = self._selection_of(item), getattr(item, "callspec", None)
        if not _is_ours(item):
            selection.finished.add(item.nodeid)
        elif params is not None:
            selection.finished |= {
                case_of(name, value, item.path.stem)
                for name, value in params.params.items()
                if name in PARAMETERS
            }

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        for record in self._records():
            if not record.graphs:
                continue
            terminalreporter.section("byoc", sep="=")
            for text, markup in terminal.summary(record):
                terminalreporter.write_line(text, **markup)
        lines = list(terminal.gate(self._records(), self._gate, self.waivers))
        if lines:
            terminalreporter.section("byoc gate", sep="=")
        for text, markup in lines:
            terminalreporter.write_line(text, **markup)
        for text in self._unwritten:
            terminalreporter.write_line(text, red=True)
        if self.settings.report is not None and not self._unwritten:
            terminalreporter.write_line(f"report: {self.settings.report}")
            terminalreporter.write_line(f"page:   {html.path_beside(self.settings.report)}")
        if self.settings.bundle is not None and not self._unwritten:
            terminalreporter.write_line(f"bundle: {self.settings.bundle}")


def _is_ours(node: Any) -> bool:
    """Whether a test is one of the installed suite."""
    return bool(node.path.parent == _SUITE)


def _turn(item: pytest.Item) -> int:
    """A test's place among the phases. Of the systematic cases the first few of each operator come first."""
    if not _is_ours(item):
        return -1
    params = item.callspec.params if hasattr(item, "callspec") else {}
    case = params.get("byoc_case")
    return _PHASES.index(_REST if isinstance(case, Case) and not case.early else item.path.name)


def _is_random(item: pytest.Item) -> bool:
    return _is_ours(item) and item.path.name == "test_random.py"


def _set_profile(config: pytest.Config) -> None:
    """Hypothesis's settings for a user's own tests of a target, unless they name a profile themselves:
    building a graph takes longer than Hypothesis lets an example take, and is to be the same each time."""
    if getattr(config.option, "hypothesis_profile", None):
        return
    hypothesis.settings.register_profile(
        "byoc", deadline=None, derandomize=True, database=None, max_examples=20,
        suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.data_too_large],
    )
    hypothesis.settings.load_profile("byoc")


def _id(value: Any) -> str:
    if isinstance(value, str):
        return value
    return value.name if isinstance(value, Path) else str(value.id)


def _in_words(name: str, error: WorkerError) -> str:
    """One message for a worker that can't be had: what was raised, and where in the vendor's code."""
    if error.kind is None:
        return str(error)
    frame = vendor_frame(error.frames)
    text = f"target {name} cannot be imported: {error.kind}: {error}"
    if frame is not None:
        text += f"\n  in {frame['file']}:{frame['line']}, in {frame['function']}"
        if frame["text"]:
            text += f"\n    {frame['text']}"
    return text
