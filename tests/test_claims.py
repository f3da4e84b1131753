"""Claims are asked of many graphs in one process; one that ends the process costs the others nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_byoc.claims import Claims
from pytest_byoc.evidence import JobReport
from pytest_byoc.generation.systematic import default_case
from pytest_byoc.graph import Graph

NAMES = ("nn.relu", "add", "abs", "sigmoid", "tanh")
GRAPHS = [default_case(name, "float32").graph for name in NAMES]


#: Jobs that show whether several graphs may share a process: five alone, and together.
PROBES = 6


class Crashing:
    """A worker whose process ends at graphs of some operators, and which takes all others whole; or of the
    graphs of one process the first alone."""

    def __init__(self, *crashing: str, first_alone: bool = False) -> None:
        self.crashing = crashing
        self.first_alone = first_alone
        self.jobs = 0

    def submit(self, job: Mapping[str, Any]) -> None:
        self.jobs += 1
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
                message = {"number": number, "regions": [], "nodes": [graph.nodes[0].op]}
                report.messages.append({"fact": "regions", "executor": None, "value": message})
                continue
            region = {"composites": ["c"], "calls": [graph.nodes[0].op]}
            value = {"number": number, "regions": [region], "nodes": [graph.nodes[0].op]}
            report.messages.append({"fact": "regions", "executor": None, "value": value})
        report.messages.append({"done": True})
        return report


def test_a_crash_costs_the_other_graphs_nothing() -> None:
    worker = Crashing("add", "sigmoid")
    found = Claims(worker).survey(GRAPHS)  # type: ignore[arg-type]
    assert [c is not None for c in found] == [True, False, True, False, True]
    assert all(c is None or c.offloaded == (True,) for c in found)
    assert worker.jobs == PROBES + 3, "one for each crash, and one for the rest"


def test_each_graph_is_asked_about_once() -> None:
    worker = Crashing()
    claims = Claims(worker)  # type: ignore[arg-type]
    assert claims.survey(GRAPHS) == claims.survey(GRAPHS[::-1])[::-1]
    assert worker.jobs == PROBES + 1 and claims.known(GRAPHS[0]) is not None


def test_a_target_that_keeps_state_is_asked_about_each_graph_alone() -> None:
    found = Claims(Crashing(first_alone=True)).survey(GRAPHS)  # type: ignore[arg-type]
    assert all(c is not None and c.offloaded == (True,) for c in found)
