"""Runs sessions of the suite one after the other that share the work independent of the target.

The reference worker and the loader contain no code of the target and fork a child for each job, so
that one of each serves all targets. The reference worker's report on a job is the same for every
target, and is kept. Each session starts its own target worker. CPU seconds are given as if nothing
were shared: a reused report counts with the CPU seconds that it took originally.
"""

from __future__ import annotations

import contextlib
import os
import resource
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from json import dumps
from pathlib import Path
from typing import Any

import pytest

from pytest_byoc.core.job_report import JobReport
from pytest_byoc.core.protocol import encode
from pytest_byoc.examination.client import Worker
from pytest_byoc.examination.outcome import NOT_OFFLOADED, Verdict
from pytest_byoc.suite.session import TargetSession


def cpu_of(worker: Worker) -> float:
    """Returns the CPU seconds of a worker's processes and of the children they have waited for. Returns
    0 if the process has ended, since they are then among those of this process's children."""
    return 0.0 if worker._process is None else _cpu_of(worker._process.pid)


def _cpu_of(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return 0.0
    # The worker itself is a child of the process that keeps it.
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK") + sum(map(_cpu_of, map(int, children)))


class Kept:
    """A worker that outlives the session's examiner, with the reports on its jobs."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        worker.start()
        worker.ready()
        #: CPU seconds of the worker's start, and of jobs whose reports were reused.
        self.start_cpu = cpu_of(worker)
        self.saved_cpu = 0.0
        self._reports: dict[str, JobReport] = {}
        self._key: str | None = None

    @property
    def description(self) -> dict[str, Any]:
        return self.worker.description

    def start(self) -> None:
        """Does nothing: the worker has started already."""

    def ready(self) -> dict[str, Any]:
        return self.worker.description

    def stop(self) -> None:
        """Does nothing: later sessions use the worker too."""

    def submit(self, job: Mapping[str, Any], timeout: float | None = None) -> None:
        # Jobs about artifacts differ in each session, since artifacts are in folders of their own.
        repeatable = "graph" in job and "export" not in job
        self._key = sha256(encode(job)).hexdigest() if repeatable else None
        if self._key not in self._reports:
            self.worker.submit(job, timeout)

    def collect(self) -> JobReport:
        if self._key in self._reports:
            report = self._reports[self._key]
            self.saved_cpu += sum(report.end["cpu"].values()) if report.end else 0.0
            return report
        report = self.worker.collect()
        if self._key is not None and report.died is None:
            self._reports[self._key] = report
        return report


@dataclass
class Watch:
    """The progress of one session up to its first failing graph. seconds: seconds since its first
    test. cpu: CPU seconds since the start of the session."""

    start: float = 0.0
    start_cpu: float = 0.0
    examples: int = 0
    seconds: float = 0.0
    cpu: float = 0.0
    test: str = ""
    found: Verdict | None = None
    targets: list[Worker] = field(default_factory=list)


# eq: pytest plugins put all plugins into sets, so a session must be hashable.
@dataclass(eq=False)
class Sharing:
    """Sessions that share their workers. Each call of `run` is one session, with the same results
    as `pytest` with the same arguments."""

    #: Failing graphs with this number of operators or fewer are not shrunk, as they are small
    #: enough.
    shrink_above: int = 0
    kept: dict[str, Kept] = field(default_factory=dict)
    watch: Watch = field(default_factory=Watch)

    def __enter__(self) -> Sharing:
        return self

    def __exit__(self, *exception: object) -> None:
        for kept in self.kept.values():
            kept.worker.stop()

    # --- pytest hooks: an instance is a plugin of each session ------------------------------------

    def pytest_byoc_session(self, session: TargetSession) -> None:
        """Makes the session's examiner use the kept workers."""
        examiner, own = session.examiner, session.examiner.workers.make_worker
        session.failures.shrink_above = self.shrink_above

        def make(config: dict[str, Any]) -> Any:
            worker = own(config)
            if config["role"] == "target":
                self.watch.targets.append(worker)
                return worker
            key = dumps([examiner.workers.declaration.python, config], sort_keys=True)
            if key in self.kept:
                # The progress shown while it works is that of the present session.
                self.kept[key].worker._waiting = worker._waiting
            else:
                self.kept[key] = Kept(worker)
            return self.kept[key]

        examiner.workers.make_worker = make

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self) -> None:
        self.watch.start = time.monotonic()

    def pytest_byoc_verdict(self, session: TargetSession, verdict: Verdict) -> None:
        """Notes the first failing verdict and its time."""
        watch = self.watch
        if watch.found is not None:
            return
        watch.examples += verdict.outcome != NOT_OFFLOADED
        if verdict.failed:
            watch.found, watch.test = verdict, session.test
            watch.seconds = time.monotonic() - watch.start
            watch.cpu = self._cpu() - watch.start_cpu

    def run(self, folder: Path, arguments: Sequence[str]) -> int:
        """Runs pytest in the folder, with its output in `output.txt` there, and returns its exit
        code.

        Raises KeyboardInterrupt if pytest was interrupted: a kept worker may be in the middle of a
        job."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "pytest.ini").write_text("[pytest]\n")
        self.watch = Watch()
        started = sum(kept.start_cpu for kept in self.kept.values())
        self.watch.start_cpu = self._cpu() - started
        before = Path.cwd()
        os.chdir(folder)
        try:
            with Path("output.txt").open("w") as output, contextlib.redirect_stdout(output):
                given = ["-c", "pytest.ini", "-p", "no:cacheprovider", *arguments]
                status = int(pytest.main(given, plugins=[self]))
        finally:
            os.chdir(before)
        if status == pytest.ExitCode.INTERRUPTED:
            raise KeyboardInterrupt
        return status

    def cpu(self) -> float:
        """Returns the CPU seconds since the last `run` began, as if nothing were shared."""
        return self._cpu() - self.watch.start_cpu

    def _cpu(self) -> float:
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        total = sum(u.ru_utime + u.ru_stime for u in used)
        total += sum(cpu_of(kept.worker) + kept.saved_cpu for kept in self.kept.values())
        return total + sum(map(cpu_of, self.watch.targets))
