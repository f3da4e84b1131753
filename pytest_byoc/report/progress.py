"""A line of progress now and then, on a terminal, during long sessions."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from ..outcome import OUTCOMES, PASS, Verdict
from ..recorder import ONNX
from .words import counted

#: Seconds from one line to the next.
INTERVAL = 20.0
#: Attribute of a test's report by which its counts reach the controller of pytest-xdist.
ATTRIBUTE = "byoc_progress"


def counts(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """Of one test's verdicts: number by outcome, and the cells that were offloaded and passed."""
    outcomes: dict[str, int] = {}
    cells: set[tuple[str, str]] = set()
    for v in verdicts:
        outcomes[v.outcome] = outcomes.get(v.outcome, 0) + 1
        if v.outcome == PASS:
            nodes = (n for n, taken in zip(v.graph.nodes, v.offloaded) if taken)
            cells |= {(n.op, n.types[0].dtype) for n in nodes if not n.op.startswith(ONNX)}
    return {"outcomes": outcomes, "cells": [list(c) for c in sorted(cells)]}


class Progress:
    """Writes on a terminal alone: under pytest-xdist that is the controller's."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._begin = self._last = 0.0
        self._watched = False
        self._outcomes = dict.fromkeys(OUTCOMES, 0)
        self._cells: set[tuple[str, ...]] = set()

    def pytest_sessionstart(self) -> None:
        """Somebody watches a terminal, but not under -q, and not in a CI job, whose log may be one too.
        pytest's reporter is there only now."""
        reporter: Any = self._config.pluginmanager.get_plugin("terminalreporter")
        in_ci = os.environ.get("CI") or os.environ.get("BUILD_NUMBER")
        self._watched = bool(reporter and reporter.isatty and self._config.option.verbose >= 0 and not in_ci)

    def pytest_runtest_logstart(self) -> None:
        # What comes before the first test, collection and its claims, examines no graph.
        self._begin = self._begin or time.monotonic()
        self._last = self._last or self._begin

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        found: Mapping[str, Any] | None = getattr(report, ATTRIBUTE, None)
        if found is not None:
            for outcome, n in found["outcomes"].items():
                self._outcomes[outcome] += n
            self._cells.update(tuple(c) for c in found["cells"])

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logfinish(self) -> None:
        """After pytest's own letter or word for the test. Its reporter begins a new line, and names the
        file again, after what `write_line` wrote."""
        now = time.monotonic()
        if not self._watched or now - self._last < INTERVAL or not any(self._outcomes.values()):
            return
        self._last = now
        reporter: Any = self._config.pluginmanager.get_plugin("terminalreporter")
        reporter.ensure_newline()
        writer = self._config.get_terminal_writer()
        if writer.width_of_current_line:
            # Under pytest-xdist the reporter does not know that it is in the middle of a line of dots.
            writer.line()
        writer.line(self.line(now - self._begin), light=True)

    def line(self, seconds: float) -> str:
        """What is known after so many seconds."""
        total = sum(self._outcomes.values())
        outcomes = ", ".join(f"{n} {o}" for o, n in self._outcomes.items() if n)
        speed = f"{seconds:.0f} s ({total / max(seconds, 1e-3):.1f}/s)"
        return (
            f"byoc: {counted(total, 'graph')} in {speed}: {outcomes}; "
            f"{counted(len(self._cells), 'cell')} (operator and dtype) with a pass"
        )
