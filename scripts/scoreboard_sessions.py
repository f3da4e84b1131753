"""Runs sessions of pytest for a scoreboard, one process each, and keeps what the page needs of their reports.

Nothing here imports TVM: a target that kills its process, or never ends, is a session with that result.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from pytest_byoc.core.files import replace
from pytest_byoc.record.target_record import is_offloaded, is_passing

ROOT = Path(__file__).resolve().parent.parent
_PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
#: Seconds that a session has for its report after SIGTERM.
_GRACE = 60
#: A line of `pytest --byoc-list-targets`.
_NAME = re.compile(r"^([\w.-]+)  \((.+)\)$")
_UNLISTED = "targets TVM knows cannot be listed: "
#: The fields of a model in report.json that the page shows.
_OF_A_MODEL = ("outcome", "operators", "offloaded", "multiply_adds", "multiply_adds_offloaded", "subgraphs",
               "no_bound")


class SessionError(Exception):
    """The targets can't be listed."""


def listed(ir: str, folder: Path, limit: float = 300.0) -> dict[str, str]:
    """Returns the names of targets that this interpreter offers in an IR, with what is known of each.

    Raises SessionError."""
    command = [*_PYTEST, "--byoc-list-targets", f"--byoc-ir={ir}"]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        done = subprocess.run(
            command, cwd=folder, env=_environment(), capture_output=True, text=True, timeout=limit
        )
    except subprocess.TimeoutExpired:
        raise SessionError(f"the targets can't be listed: pytest has not ended after {limit:g} s") from None
    if done.returncode or _UNLISTED in done.stdout:
        raise SessionError(f"the targets can't be listed: {done.stdout}{done.stderr}".strip())
    matches = filter(None, map(_NAME.match, done.stdout.splitlines()))
    found = {match[1]: match[2] for match in matches}
    return {name: where for name, where in found.items() if f", {ir}:" in where or "this TVM" not in where}


def run(options: Sequence[str], folder: Path, limit: float) -> dict[str, Any]:
    """Runs one session in a folder of its own, which is emptied, and returns what `read` returns of it.

    options: of pytest. limit: seconds of wall time after which the session is ended."""
    # What an earlier session left there would be taken for this one's.
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    command = [
        *_PYTEST, *options, f"--byoc-report={folder / 'report'}", f"--junitxml={folder / 'junit.xml'}",
    ]
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    with (folder / "printed.txt").open("w", encoding="utf-8") as printed:
        process = subprocess.Popen(
            command, cwd=folder, env=_environment(), stdin=subprocess.DEVNULL, stdout=printed,
            stderr=subprocess.STDOUT, start_new_session=True,
        )
        stopped = False
        try:
            process.wait(limit)
        except subprocess.TimeoutExpired:
            stopped = True
        finally:
            _end(process)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    facts = {
        "date": datetime.now(timezone.utc).date().isoformat(),
        "exit": process.returncode,
        "stopped_after": limit if stopped else None,
        "seconds": round(time.monotonic() - start, 1),
        "cpu_seconds": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1),
    }
    replace(folder / "session.json", (json.dumps(facts, indent=2) + "\n").encode())
    return read(folder)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends a session, if it has not ended, and what is left of its group of processes."""
    if process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def read(folder: Path) -> dict[str, Any]:
    """Returns what is kept of the session that was run in a folder.

    That is when and how it ended, how long it took, and of its report what `kept` returns. Without a report
    that is None, and `said` is the error that pytest printed. `failed` and `skipped` have the models whose
    tests ended so, with the first line of the message."""
    facts = json.loads((folder / "session.json").read_text(encoding="utf-8"))
    report = folder / "report" / "report.json"
    found = json.loads(report.read_text(encoding="utf-8")) if report.is_file() else None
    printed = (folder / "printed.txt").read_text(encoding="utf-8", errors="replace")
    return {
        **facts,
        "said": "" if found else _said(printed),
        "report": found and kept(found),
        **{kind: _models(folder / "junit.xml", kind) for kind in ("failed", "skipped")},
    }


def kept(report: Mapping[str, Any]) -> dict[str, Any]:
    """Returns of report.json what the page shows."""
    failures = {failure["id"]: failure for failure in report["failures"]}
    cells = [cell for cell in report["cells"] if is_offloaded(cell)]
    return {
        "tvm": report["versions"].get("tvm", ""),
        "python": report["versions"].get("python", ""),
        "level": report["settings"]["level"],
        "time_budget": report["settings"]["time_budget"],
        "partition_only": report["partition_only"],
        "outcomes": {outcome: count for outcome, count in report["outcomes"].items() if count},
        "graphs": report["graphs"],
        "operators": len({cell["operator"] for cell in report["cells"]}),
        "operators_offloaded": len({cell["operator"] for cell in cells}),
        "cells_passed": sum(map(is_passing, cells)),
        "cells_failed": sum(bool(cell["failed"]) for cell in cells),
        "cells": len(cells),
        "patterns": len(report["patterns"]),
        "patterns_matched": sum(not reason for reason in report["patterns"].values()),
        "failures": [
            {**_failure(failures[cause["failures"][0]]), "tests": cause["tests"]}
            for cause in report.get("causes", []) if cause["failures"]
        ],
        "unfinished": [text for text in report["not_checked"] if "the time budget was used up" in text],
        "problems": [problem["text"] for problem in report["gate"]["problems"]],
        # `failed` has those that were not imported.
        "models": {
            _inside(m["case"]): {f: m[f] for f in _OF_A_MODEL} for m in report["models"] if "no_bound" in m
        },
    }


def _failure(failure: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "check": failure["check"], "stage": failure["stage"], "outcome": failure["outcome"],
        "operators": failure["operators"], "case": failure["case"], "message": first_line(failure["message"]),
    }


def first_line(message: str) -> str:
    """Returns the first line of a message; of paths only the file's name is left."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return re.sub(r"(?<![\w.])/(?:[\w.+@-]+/)+(?=[\w.+@-])", "", lines[0]) if lines else ""


def _said(printed: str) -> str:
    """Returns the error that pytest printed, or else the last line."""
    lines = [line for line in printed.splitlines() if line.strip()]
    errors = [line.partition(" ")[2] for line in lines if line.startswith(("ERROR: ", "INTERNALERROR> "))]
    return first_line((errors[-1:] or lines[-1:] or [""])[0])


def _inside(case: str) -> str:
    """Returns the name in `model[name]`."""
    return case.partition("[")[2].rpartition("]")[0]


def _models(path: Path, kind: str) -> dict[str, str]:
    """Returns the whole models whose tests ended in a way, with the first line of the message.

    kind: "failed" or "skipped". path: the JUnit XML of the session."""
    found: dict[str, str] = {}
    try:
        tests = list(ElementTree.parse(path).iter("testcase"))
    except (OSError, ElementTree.ParseError):  # A session that was killed has none, or a part of it.
        return found
    for test in tests:
        name = test.get("name", "")
        for tag in ("failure", "error") if kind == "failed" else ("skipped",):
            for end in test.iter(tag):
                if name.startswith("test_model["):
                    found[_inside(name)] = first_line(end.get("message", "")).removeprefix("Failed: ")
    return found


def _environment() -> dict[str, str]:
    """Returns the environment of a session: it imports this checkout's pytest_byoc."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
