"""Tests of work that threads do ahead of the main one."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pytest_byoc.examination import ahead
from pytest_byoc.examination.ahead import ENOUGH, Ahead

from .conftest import PYTHON


@dataclass
class Lane:
    """A stand-in for a thread's workers, which notes what happens."""

    fails: bool = False
    does: list[str] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    def open(self) -> None:
        if self.fails:
            raise OSError("no more processes")

    def hang_up(self) -> None:
        self.ended.set()

    def close(self) -> None:
        self.does.append("closed")


@dataclass(frozen=True)
class Job:
    """A task that takes a time, or until its lane is ended (seconds: None), and returns its name."""

    name: str
    seconds: float | None = 0.0
    fails: bool = False

    def run(self, lane: Lane) -> str:
        lane.does.append(self.name)
        if self.seconds is None:
            lane.ended.wait(10.0)
        elif self.seconds:
            time.sleep(self.seconds)
        if self.fails:
            raise ValueError(self.name)
        return f"result of {self.name}"


class Two:
    """A main lane and one of a thread."""

    def __init__(self, fails: bool = False) -> None:
        self.own, self.other = Lane(), Lane(fails)
        self.waited = 0
        self.ahead = Ahead(self.own, lambda: self.other, 1, self._wait)

    def _wait(self) -> None:
        self.waited += 1

    def request(self, *jobs: Job) -> None:
        """Requests jobs, with so many others before that the thread is started."""
        for number in range(ENOUGH):
            self.ahead.request(Job(f"before {number}"))
        for job in jobs:
            self.ahead.request(job)


def until(holds: Any) -> None:
    for _ in range(500):
        if holds():
            return
        time.sleep(0.01)
    raise AssertionError("it did not happen in 5 s")


@pytest.mark.once
def test_a_thread_does_what_was_requested_and_the_main_one_takes_it() -> None:
    two = Two()
    two.request(Job("a"), Job("b"))
    until(lambda: two.other.does[-1:] == ["b"])
    until(lambda: not two.ahead.left and not two.ahead._running)
    assert [two.ahead.take(Job(name)) for name in "ab"] == ["result of a", "result of b"]
    assert two.own.does == []
    two.ahead.close()
    assert two.other.does[-1] == "closed"


@pytest.mark.once
def test_what_nobody_has_begun_the_main_thread_does_itself() -> None:
    two = Two()
    for _ in range(ENOUGH - 1):
        two.ahead.request(Job("a"))  # Too few requests for a thread, and the same one each time.
    assert two.ahead.left == 1
    assert two.ahead.take(Job("a")) == "result of a" and two.own.does == ["a"]
    assert two.ahead.left == 0
    assert two.ahead.take(Job("c")) == "result of c"


@pytest.mark.once
def test_the_main_thread_does_the_next_task_while_another_is_at_work() -> None:
    two = Two()
    two.request(Job("slow", 0.3), Job("next"))
    until(lambda: "slow" in two.other.does)
    assert two.ahead.take(Job("slow", 0.3)) == "result of slow"
    assert two.own.does == ["next"] and two.waited
    assert two.ahead.take(Job("next")) == "result of next"
    assert two.own.does == ["next"] and "next" not in two.other.does
    two.ahead.close()


@pytest.mark.once
def test_what_fails_in_a_thread_fails_in_the_main_one_too() -> None:
    two = Two()
    two.request(Job("bad", fails=True))
    until(lambda: "closed" in two.other.does)
    with pytest.raises(ValueError, match="bad"):
        two.ahead.take(Job("bad", fails=True))
    assert two.own.does == ["bad"] and not two.ahead.is_on


@pytest.mark.once
def test_without_further_workers_the_main_thread_does_all() -> None:
    two = Two(fails=True)
    two.request(Job("a"))
    until(lambda: not two.ahead.is_on)
    assert two.ahead.take(Job("a")) == "result of a" and two.own.does == ["a"]
    two.ahead.request(Job("b"))
    assert two.ahead.take(Job("b")) == "result of b"
    two.ahead.close()


@pytest.mark.once
def test_closing_ends_what_is_at_work() -> None:
    two = Two()
    two.request(Job("endless", None))
    until(lambda: "endless" in two.other.does)
    began = time.monotonic()
    two.ahead.close()
    assert time.monotonic() - began < 5.0 and two.other.does[-1] == "closed"


@pytest.mark.once
def test_nothing_is_at_work_while_times_are_measured() -> None:
    two = Two()
    two.request(Job("slow", 0.2))
    until(lambda: "slow" in two.other.does)
    with two.ahead.pause():
        assert not two.ahead._running
        two.ahead.request(Job("later"))
    until(lambda: not two.ahead.left and not two.ahead._running)
    assert two.ahead.take(Job("later")) == "result of later"
    two.ahead.close()


@pytest.mark.once
def test_processes_of_xdist_share_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw0")
    assert ahead.threads() == 1
    monkeypatch.delenv("PYTEST_XDIST_WORKER")
    assert 1 <= ahead.threads() <= ahead.MOST


def report(pytester: pytest.Pytester, ir: str, threads: int) -> dict[str, Any]:
    result = pytester.runpytest_subprocess(
        "--byoc-target=example_c", f"--byoc-python={PYTHON}", f"--byoc-ir={ir}", "--byoc-level=smoke",
        "--byoc-anew", "--byoc-operators=subtract", f"--byoc-threads={threads}",
        "-p", "no:cacheprovider", f"--byoc-report=out{threads}", "-k", "not random", timeout=600,
    )
    assert result.ret == 0
    found: dict[str, Any] = json.loads(Path(pytester.path, f"out{threads}", "report.json").read_text())
    return found


@pytest.mark.once
def test_two_threads_tell_the_same_as_one(pytester: pytest.Pytester, ir: str) -> None:
    one, two = report(pytester, ir, 1), report(pytester, ir, 2)
    for key in ("outcomes", "graphs", "subgraphs", "cells", "cases", "held", "not_checked", "patterns"):
        assert one[key] == two[key], key
