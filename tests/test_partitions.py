"""Tests of the survey of offloaded nodes: many graphs share a process, and a crash affects only one
of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_byoc.core.graph import Graph
from pytest_byoc.core.job_report import JobReport
from pytest_byoc.examination.partitions import Partitions, _size_of_parts
from pytest_byoc.examination.time_limit import FLOOR, TimeLimit
from pytest_byoc.generation.systematic import default_case
from pytest_byoc.storage.shared_answers import FOLDER, Peers

NAMES = ("nn.relu", "add", "abs", "sigmoid", "tanh")
GRAPHS = [default_case(name, "float32").graph for name in NAMES]


#: Number of jobs that show whether graphs may share a process: five graphs alone, and all together.
PROBES = 6


class Crashing:
    """A worker whose process ends at graphs with certain operators and which offloads all other
    graphs; with `first_alone`, it offloads only the first graph of each process."""

    def __init__(self, *crashing: str, first_alone: bool = False) -> None:
        self.crashing = crashing
        self.first_alone = first_alone
        self.received: list[Mapping[str, Any]] = []

    @property
    def jobs(self) -> int:
        return len(self.received)

    def submit(self, job: Mapping[str, Any]) -> None:
        self.received.append(job)
        self.job = job

    def collect(self) -> JobReport:
        report = JobReport(end={"hung": False, "signal": None, "status": 0})
        for number, entry in enumerate(self.job["graphs"]):
            graph = Graph.from_dict(entry["graph"])
            report.messages.append({"fact": "begun", "executor": None, "value": number})
            if graph.nodes[0].op in self.crashing:
                report.end = {"hung": False, "signal": "SIGSEGV", "status": None}
                return report
            if number and self.first_alone:
                message = {"number": number, "regions": [], "nodes": [graph.nodes[0].op], "changed": False}
                report.messages.append({"fact": "regions", "executor": None, "value": message})
                continue
            region = {
                "composites": ["c"], "calls": [graph.nodes[0].op], "compiler": "mine", "codegen": True,
            }
            value = {
                "number": number, "regions": [region], "nodes": [graph.nodes[0].op], "changed": True,
            }
            report.messages.append({"fact": "regions", "executor": None, "value": value})
        report.messages.append({"done": True})
        return report


def test_a_crash_does_not_affect_the_other_graphs() -> None:
    worker = Crashing("add", "sigmoid")
    partitions = Partitions(worker).survey(GRAPHS)  # type: ignore[arg-type]
    assert [c is not None for c in partitions] == [True, False, True, False, True]
    assert all(c is None or c.offloaded == (True,) for c in partitions)
    assert worker.jobs == PROBES + 3, "one for each crash, and one for the rest"


def test_each_graph_is_surveyed_once() -> None:
    worker = Crashing()
    partitions = Partitions(worker)  # type: ignore[arg-type]
    assert partitions.survey(GRAPHS) == partitions.survey(GRAPHS[::-1])[::-1]
    assert worker.jobs == PROBES + 1 and partitions.known(GRAPHS[0]) is not None


def test_a_target_that_keeps_state_gets_one_process_per_graph() -> None:
    partitions = Partitions(Crashing(first_alone=True)).survey(GRAPHS)  # type: ignore[arg-type]
    assert all(c is not None and c.offloaded == (True,) for c in partitions)


def peers_of_processes(folder: Path, number: int) -> list[Peers]:
    """Returns the peers that each process of pytest-xdist has."""
    values = {FOLDER: str(folder), "workercount": number}
    return [Peers.of({**values, "workerid": f"gw{index}"}, 0) for index in range(number)]


def test_the_first_answer_of_any_process_is_kept(tmp_path: Path) -> None:
    one, two = peers_of_processes(tmp_path, 2)
    assert one.first(("failure", "a"), "here") == "here" == two.first(("failure", "a"), "there")
    assert two.first(("failure", "b"), "there") == "there" == one.first(("failure", "b"), "here")
    assert Peers().first(("failure", "a"), "alone") == "alone"
    assert not list(tmp_path.rglob("*.[0-9]*"))


def test_answers_of_another_process_are_reused(tmp_path: Path) -> None:
    first, second = Crashing(), Crashing("nn.relu", "abs")
    one, two = peers_of_processes(tmp_path, 2)
    partitions = Partitions(first, one).survey(GRAPHS[:3])  # type: ignore[arg-type]
    results = Partitions(second, two).survey(GRAPHS)  # type: ignore[arg-type]
    assert results[:3] == partitions and None not in results
    jobs = [[len(job["graphs"]), job["kind"]] for job in second.received]
    assert jobs[PROBES:] == [[2, "partitions"]], "of sigmoid and tanh alone"


def test_processes_start_at_different_graphs_with_equal_answers(tmp_path: Path) -> None:
    worker = Crashing()
    for peers in peers_of_processes(tmp_path, 2):
        assert Partitions(worker, peers).survey(GRAPHS) == Partitions(Crashing()).survey(GRAPHS)  # type: ignore[arg-type]
    orders = [peers.beginning_elsewhere("abcde") for peers in peers_of_processes(tmp_path, 3)]
    assert ["".join(items) for items in orders] == ["abcde", "bcdea", "deabc"]
    assert Peers().beginning_elsewhere("abc") == list("abc")
    # A process that pytest-xdist starts in place of a crashed one gets the next number.
    fifth = Peers.of({FOLDER: "a", "workerid": "gw4", "workercount": 3}, 0)
    assert fifth.beginning_elsewhere("abc") == list("bca")


@pytest.mark.parametrize("broken", [True, False])
def test_unreadable_or_unwritable_answers_are_computed_again(tmp_path: Path, broken: bool) -> None:
    folder = tmp_path if broken else tmp_path / "on another machine" / "gone"
    one, two = peers_of_processes(folder, 2)
    Partitions(Crashing(), one).survey(GRAPHS)  # type: ignore[arg-type]
    for file in folder.rglob("*") if broken else ():
        if file.is_file():
            file.write_text("{")
    worker = Crashing()
    assert None not in Partitions(worker, two).survey(GRAPHS)  # type: ignore[arg-type]
    assert worker.jobs == PROBES + 1


def test_answers_are_kept_apart_by_target_and_kind(tmp_path: Path) -> None:
    values = {FOLDER: str(tmp_path), "workerid": "gw0", "workercount": 1}
    Peers.of(values, 0).tell(["a", "partitions", {}], {"fact": "regions"})
    assert Peers.of(values, 0).answer(["a", "partitions", {}]) == {"fact": "regions"}
    assert Peers.of(values, 1).answer(["a", "partitions", {}]) is None
    assert Peers.of(values, 0).answer(["a", "alone", {}]) is None
    assert Peers.of({}, 0).answer(["a", "partitions", {}]) is None


def test_the_oldest_claims_are_dropped_and_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_byoc.examination.partitions.KEPT", 3)
    worker = Crashing("add")
    partitions = Partitions(worker)  # type: ignore[arg-type]
    first = partitions.survey(GRAPHS)
    known = [partitions.known(g) is not None for g in GRAPHS]
    assert known == [False, False, True, True, True]
    assert partitions.survey(GRAPHS) == first, "and no survey lacks what it has asked for itself"


def test_after_a_hang_the_other_graphs_get_less_time() -> None:
    """A partition function that always hangs would otherwise cost the full limit for each graph."""

    class Hanging(Crashing):
        limits: list[float | None] = []

        def submit(self, job: Mapping[str, Any], timeout: float | None = None) -> None:
            self.limits.append(timeout)
            super().submit(job)

        def collect(self) -> JobReport:
            report = super().collect()
            if report.end is not None and report.end["signal"]:
                report.end.update(hung=True, signal=None)
            return report

    worker = Hanging("add")
    Partitions(worker, limit=TimeLimit(30.0)).survey(GRAPHS)  # type: ignore[arg-type]
    assert worker.limits[0] is None and worker.limits[-1] == FLOOR


def test_a_whole_model_has_a_longer_limit() -> None:
    limit = TimeLimit(30.0)
    assert [limit.of(nodes) for nodes in (0, 100, 101, 430)] == [30.0, 30.0, 60.0, 150.0]


@pytest.mark.parametrize("graphs, size", [(0, 1), (20, 20), (24, 24), (25, 13), (100, 20), (1000, 167)])
def test_surveys_are_cut_for_several_workers_into_parts_worth_a_process(graphs: int, size: int) -> None:
    assert _size_of_parts(graphs) == size
