"""Sessions of the suite in one process, one after the other, that share what no target has a part in.

The reference and the loader worker have none of the target's code and fork a child for each job, so that
one of each serves all targets; what the reference makes of a job is the same for every target, and kept.
The target's worker is started anew for each session. CPU seconds are given as if nothing were shared:
what is reused is counted with what it took.
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
    """CPU seconds of a worker's process and of the children it has waited for; 0 if it is gone (then they
    are among those of this process's children)."""
    process = worker._process
    if process is None:
        return 0.0
    try:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


class Kept:
    """Stands in an Examiner for a worker that outlives it."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        worker.start()
        worker.ready()
        #: CPU seconds of its start, and of jobs that were not run again.
        self.start_cpu = cpu_of(worker)
        self.saved_cpu = 0.0
        self._reports: dict[str, JobReport] = {}
        self._key: str | None = None

    @property
    def description(self) -> dict[str, Any]:
        return self.worker.description

    def start(self) -> None:
        """It is there."""

    def ready(self) -> dict[str, Any]:
        return self.worker.description

    def stop(self) -> None:
        """It is needed again."""

    def submit(self, job: Mapping[str, Any], timeout: float | None = None) -> None:
        # Artifacts lie in folders of their own.
        asks_reference = "graph" in job and "export" not in job
        self._key = sha256(encode(job)).hexdigest() if asks_reference else None
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
    """What one session has examined up to its first failing graph: seconds from the first test on, CPU
    seconds from the start of the session."""

    start: float = 0.0
    start_cpu: float = 0.0
    examples: int = 0
    seconds: float = 0.0
    cpu: float = 0.0
    test: str = ""
    found: Verdict | None = None
    targets: list[Worker] = field(default_factory=list)


@dataclass
class Sharing:
    """`run` is one session. Its results are those of `pytest` with the same arguments."""

    #: Failing graphs of that many operators or fewer are not shrunk: how many are left is known without.
    shrink_above: int = 0
    kept: dict[str, Kept] = field(default_factory=dict)
    watch: Watch = field(default_factory=Watch)

    def __enter__(self) -> Sharing:
        return self

    def __exit__(self, *exception: object) -> None:
        for kept in self.kept.values():
            kept.worker.stop()

    # --- hooks of the session, of which this is a plugin -----------------------------------------

    def pytest_byoc_session(self, session: TargetSession) -> None:
        """Gives the session's examiner the workers that are kept."""
        examiner, own = session.examiner, session.examiner.workers.make_worker
        session.failures.shrink_above = self.shrink_above

        def make(config: dict[str, Any]) -> Any:
            worker = own(config)
            if config["role"] == "target":
                self.watch.targets.append(worker)
                return worker
            key = dumps([examiner.workers.declaration.python, config], sort_keys=True)
            if key not in self.kept:
                self.kept[key] = Kept(worker)
            return self.kept[key]

        examiner.workers.make_worker = make

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self) -> None:
        self.watch.start = time.monotonic()

    def pytest_byoc_verdict(self, session: TargetSession, verdict: Verdict) -> None:
        """Notes what failed first, and when."""
        watch = self.watch
        if watch.found is not None:
            return
        watch.examples += verdict.outcome != NOT_OFFLOADED
        if verdict.failed:
            watch.found, watch.test = verdict, session.test
            watch.seconds = time.monotonic() - watch.start
            watch.cpu = self._cpu() - watch.start_cpu

    def run(self, folder: Path, arguments: Sequence[str]) -> int:
        """pytest's exit code; its output is in `folder/output.txt`, its working directory the folder.

        Raises KeyboardInterrupt if pytest was interrupted: a kept worker may be in the middle of a job."""
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
        """CPU seconds of the session since `run`, as if nothing were shared."""
        return self._cpu() - self.watch.start_cpu

    def _cpu(self) -> float:
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        total = sum(u.ru_utime + u.ru_stime for u in used)
        total += sum(cpu_of(kept.worker) + kept.saved_cpu for kept in self.kept.values())
        return total + sum(map(cpu_of, self.watch.targets))
