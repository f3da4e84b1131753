"""The plugin's part that is only there with a target: sessions, parametrisation, reports."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import hypothesis
import pytest

import conformance

from .corpus import find_graphs, read_graph
from .generation.systematic import cases
from .graph import GraphFormatError
from .operators import OPERATORS
from .outcome import PASS, ConformanceFailure, Verdict
from .recorder import TargetRecord
from .report import json_report, terminal
from .report.words import vendor_frame
from .session import TargetSession
from .settings import SettingsError, as_mapping, resolve
from .worker.client import WorkerError

_SUITE = Path(conformance.__file__).parent
#: Random graphs are derandomised: the seed is the test's own, the same every time.
SEED = "derandomized"


class ActivePlugin:
    """Registered in `pytest_configure` when there is a target."""

    def __init__(self, config: pytest.Config, targets: Sequence[str]) -> None:
        self._config = config
        try:
            self.settings = resolve(config, targets)
            self.replay = find_graphs(list(self.settings.replay))
            for path in self.replay:
                read_graph(path)
        except (SettingsError, GraphFormatError) as e:
            raise pytest.UsageError(str(e)) from None
        self.sessions = [TargetSession(self.settings, d) for d in self.settings.targets]
        self._verdicts: list[Verdict] = []
        self._unwritten = ""
        _set_profile(config)
        self._controller = bool(getattr(config.option, "numprocesses", None)) or (
            getattr(config.option, "dist", "no") != "no"
        )
        self._controller = self._controller and not hasattr(config, "workerinput")

    def suite(self) -> list[str]:
        """What is collected in place of a path: the installed suite."""
        return [str(_SUITE)]

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """With --byoc-replay only the replay is run, without it everything else."""
        if collection_path.parent == _SUITE and collection_path.suffix == ".py":
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
        for target in self.sessions:
            try:
                target.open()
            except WorkerError as e:
                self._close()
                raise pytest.UsageError(_in_words(target.declaration.name, e)) from None
            target.listener = self._verdicts.append

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self._close()
        if hasattr(self._config, "workeroutput"):
            self._config.workeroutput["byoc"] = [t.record.as_dict() for t in self.sessions]
            return
        for record in self._records():
            if record.graphs and not record.outcomes[PASS] and session.exitstatus == 0:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if self.settings.report is not None:
            report = json_report.build(self._records(), SEED, as_mapping(self.settings))
            try:
                json_report.write(self.settings.report, report)
            except OSError as e:
                self._unwritten = str(e)
                session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Under pytest-xdist: what a worker process recorded joins the one report."""
        for target, other in zip(self.sessions, getattr(node, "workeroutput", {}).get("byoc", [])):
            target.record.target, target.record.ir = other["target"], other["ir"]
            target.record.merge(other)

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
                rows = [
                    pytest.param(i, v, id=f"{t.record.target}-{_id(v)}" if several else _id(v))
                    for i, t in enumerate(self.sessions)
                    for v in values(t)
                ]
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

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self._verdicts.clear()

    def finish_report(
        self, item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport
    ) -> None:
        """A conformance failure is told in its own words; a test that judged nothing did not pass."""
        if call.excinfo is not None and isinstance(call.excinfo.value, ConformanceFailure):
            report.longrepr = str(call.excinfo.value)
            verdict = call.excinfo.value.verdict
            report.user_properties += [
                ("byoc_check", verdict.findings[0].check),
                ("byoc_outcome", verdict.outcome),
                ("byoc_operators", ",".join(verdict.graph.operators)),
            ]
        elif report.passed and self._verdicts and all(v.outcome != PASS for v in self._verdicts):
            outcomes = ", ".join(sorted({v.outcome for v in self._verdicts}))
            report.outcome = "skipped"
            path, line, _ = item.location
            report.longrepr = (path, line or 0, f"none of {len(self._verdicts)} graphs passed: {outcomes}")

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        for record in self._records():
            if not record.graphs:
                continue
            terminalreporter.section("byoc", sep="=")
            for text, markup in terminal.summary(record):
                terminalreporter.write_line(text, **markup)
            if not record.outcomes[PASS]:
                terminalreporter.write_line(
                    "no example passed: the session fails, whatever the tests' own outcomes", red=True
                )
        if self._unwritten:
            terminalreporter.write_line(f"the report could not be written: {self._unwritten}", red=True)
        elif self.settings.report is not None:
            terminalreporter.write_line(f"report: {self.settings.report}")


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
