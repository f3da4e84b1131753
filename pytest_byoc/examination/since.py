"""What is taken over from an earlier session (--byoc-changed-since), and kept for a later one.

A graph is taken over if it passed, if the target makes the same code of it, and if nothing has changed that
runs the code or judges it. Only the graphs on which no more than the usual checks are made are taken over:
other checks judge more than this code, such as a second compilation.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from ..config import plan
from ..config.effort import Effort
from ..core.graph import Graph
from ..core.job_report import JobReport
from ..core.jobs import Job
from ..evidence.earlier_pass import Pass
from ..storage.own_code import sources
from ..storage.stored_passes import EarlierPasses, Passes, key_of
from .c_libraries import compiler
from .outcome import PASS, Verdict
from .subject import Subject
from .workers import Workers

_ELSEWHERE = "artifacts run on a device, and whether its software has changed is not known"
_PARTITION_ONLY = "only the partition stage is run"
#: The checks that are made on every graph.
_USUAL = frozenset(plan.every_graph().checks)
#: The seconds that a compiler may take to tell its version.
_TELLING = 10.0


class Since:
    """The passes of an earlier session of one target, and those of this session.

    new: the passes of this session; None if none are kept.
    """

    def __init__(self, new: Passes | None = None) -> None:
        self._new = new
        self._earlier = EarlierPasses()
        #: Why nothing is taken over; "" if something may be, or nothing is asked for.
        self.why_not = ""

    def open(self, workers: Workers, report: Path | None) -> None:
        """Begins to keep passes, and reads those of the earlier session, if there is one.

        report: its report.json. Raises SettingsError for one that can't be used.
        """
        if self._new is None:
            return
        device = workers.declaration.device
        why = _ELSEWHERE if device.is_elsewhere or device.runner else ""
        why = why or (_PARTITION_ONLY if workers.partition_only else "")
        if why:
            self._new, self.why_not = None, why if report is not None else ""
            return
        self._new.conditions = _conditions(workers)
        self._new.depend_on(workers.loader.description["files"])
        if report is not None:
            self.why_not = self._earlier.open(report, workers.name, workers.ir, self._new)

    def ask(self, job: Job, subject: Subject, effort: Effort) -> None:
        """Has the target worker tell the code of a graph, and compare it with that of an earlier session."""
        of_graph = subject.module is None and not subject.model and subject.expected is None
        if self._new is not None and of_graph and _is_usual(effort):
            job["tells_code"] = True
            earlier = self._earlier.of(_key(subject.graph, effort))
            if earlier is not None:
                job["known_code"] = dict(earlier.code)

    def taken(self, graph: Graph, effort: Effort, report: JobReport) -> Pass | None:
        """Returns the pass that is taken over, if the target worker has found the same code."""
        same = any(value for _, value in report.facts("known"))
        return self._earlier.of(_key(graph, effort)) if same else None

    def depend_on(self, report: JobReport, folder: str) -> None:
        """Notes the files that a report names, except those in the folder of the artifacts."""
        if self._new is not None:
            own = os.path.join(os.path.realpath(folder), "")
            for _, states in report.facts("files"):
                self._new.depend_on(one for one in states if not one[0].startswith(own))

    def keep(self, graph: Graph, effort: Effort, verdict: Verdict) -> None:
        """Keeps a graph that has passed, for a later session. One that fails with the code with which it has
        passed ends the taking over."""
        if self._new is None or not _is_usual(effort):
            return
        evidence, key = verdict.evidence, _key(graph, effort)
        code = dict(evidence.earlier.code) if evidence.earlier is not None else evidence.code()
        if verdict.failed:
            self._earlier.end_if_passed(key, code)
        elif verdict.outcome == PASS and code:
            kept = Pass(code, verdict.checks_made, verdict.not_checked, verdict.notes)
            self._new.passes[key] = asdict(kept)

    def forget(self, graph: Graph, effort: Effort) -> None:
        """Does not keep a graph after all."""
        if self._new is not None:
            self._new.passes.pop(_key(graph, effort), None)


def _is_usual(effort: Effort) -> bool:
    return _USUAL.issuperset(effort.checks)


def _key(graph: Graph, effort: Effort) -> str:
    return key_of(graph.digest, repr(effort))


def _conditions(workers: Workers) -> dict[str, str]:
    """Returns what passes depend on beside the code and files, by its name in words."""
    said = {k: v for k, v in workers.target.description.items() if k not in ("files", "versions")}
    declared = [said, workers.declaration.options, workers.declaration.libraries, workers.by_table]
    return {
        "pytest-byoc": sources(),
        "the versions of TVM, Python or NumPy": json.dumps(workers.versions, sort_keys=True),
        "what the target declares": json.dumps(declared, sort_keys=True, default=str),
        "the C++ compiler": _told_by_compiler(),
        "the processor": f"{platform.machine()} {_processor()}".strip(),
    }


def _told_by_compiler() -> str:
    with suppress(OSError, subprocess.SubprocessError):
        told = subprocess.run(
            [compiler(), "--version"], capture_output=True, text=True, timeout=_TELLING, check=False
        )
        return told.stdout.partition("\n")[0]
    return ""


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()
