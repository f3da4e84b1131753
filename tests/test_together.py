"""Tests of surveys in which graphs are partitioned together in one module."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_byoc.core.job_report import JobReport
from pytest_byoc.examination import partitions as surveys
from pytest_byoc.examination import together
from pytest_byoc.examination.examiner import Examiner
from pytest_byoc.examination.partitions import Partition, Partitions
from pytest_byoc.examination.together import GAIN, Together
from pytest_byoc.generation.systematic import cases, default_case
from pytest_byoc.operators import OPERATORS

from .conftest import declaration, make_settings, several_outputs

NAMES = ("exp", "tanh", "sigmoid", "subtract", "abs", "erf", "sqrt", "multiply")
SIMPLE = [default_case(name, "float32").graph for name in NAMES]

#: A target that offloads as example_c does, unless `{unless}` holds for the operators of a module.
_TARGET = """\
import os
import tvm
{imports}

def partition(mod):
    ops = []
    def visit(e):
        if isinstance(e, ir.Call) and isinstance(e.op, tvm.ir.Op):
            ops.append(e.op.name.replace("relax.", ""))
    ir.analysis.post_order_visit(mod["main"], visit)
    if {unless}:
        {then}
    return offload(mod)
"""
_IMPORTS = {
    "relax": "from tvm import relax as ir\n"
    "from pytest_byoc.examples.example_c.relax import partition_for_example_c as offload",
    "relay": "from tvm import relay as ir\n"
    "from pytest_byoc.examples.example_c.relay import partition_for_example_c as offload",
}
Surveyed = Callable[[str, str], Partitions]


@pytest.fixture
def surveyed(ir: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Surveyed]:
    """Returns the partitions of a target that partitions graphs together, in groups of four."""
    monkeypatch.setattr(surveys, "_MANY", 4)
    monkeypatch.setattr(surveys, "_PARTS", 1)
    monkeypatch.setattr(together, "SIZE", 4)
    opened: list[Examiner] = []

    def of(unless: str, then: str) -> Partitions:
        (tmp_path / "mine.py").write_text(_TARGET.format(imports=_IMPORTS[ir], unless=unless, then=then))
        opened.append(Examiner(make_settings(tmp_path), declaration(f"{tmp_path}/mine.py:partition", ir)))
        opened[-1].open()
        partitions = opened[-1].partitions
        partitions._together.tried = partitions._together.on = True
        return partitions

    yield of
    for examiner in opened:
        examiner.close()


def placements(found: list[Partition | None]) -> list[bool | None]:
    return [None if p is None else bool(p.regions) for p in found]


def test_graphs_have_the_partition_that_they_have_alone(ir: str, surveyed: Surveyed) -> None:
    """Regions, composites, values at their boundaries and whether main has changed are compared."""
    every = [case.graph for case in cases(list(OPERATORS), ir) if case.smoke]
    graphs = [several_outputs(), *SIMPLE, *every[::97]]
    partitions = surveyed("False", "pass")
    apart, joint = partitions.report(graphs), partitions.report(graphs, groups=[len(graphs)])
    alone = {v["number"]: v for _, v in apart.facts("regions")}
    beside = {v["number"]: v for _, v in joint.facts("together")}
    assert list(beside) == list(alone) == list(range(len(graphs)))
    assert len(list(joint.facts("regions"))) == 1, "one is partitioned alone too"
    for n, graph in enumerate(graphs):
        assert not surveys._differ(graph, beside[n], alone[n]), graph


def test_a_graph_that_raises_is_told_from_those_beside_it(surveyed: Surveyed) -> None:
    found = surveyed("'tanh' in ops", "raise ValueError('no tanh')").survey(SIMPLE)
    assert placements(found) == [True, None, *[True] * 2, *placements(found)[4:]]
    assert None not in found[2:]


def test_a_graph_that_kills_the_process_is_told_from_those_beside_it(surveyed: Surveyed) -> None:
    found = surveyed("'tanh' in ops", "os.abort()").survey(SIMPLE)
    assert placements(found) == [True, None, *[True] * 2, *placements(found)[4:]]
    assert None not in found[2:]


def test_a_target_that_partitions_graphs_otherwise_beside_others_has_them_partitioned_alone(
    surveyed: Surveyed,
) -> None:
    partitions = surveyed("len(ops) > 3", "return mod")
    found = partitions.survey(SIMPLE)
    assert found == surveyed("False", "pass").survey(SIMPLE)
    assert partitions._together.wrong and not partitions._doubtful
    assert all(partitions.known(graph) for graph in SIMPLE)


@pytest.mark.parametrize(
    ("alone", "beside", "same", "died", "expected"),
    [
        (1.0, 0.9 * GAIN, True, None, True),
        (1.0, 1.1 * GAIN, True, None, False),
        (1.0, 0.1, False, None, False),
        (1.0, 0.1, True, "SIGSEGV", False),
    ],
)
def test_the_trial_decides(
    alone: float, beside: float, same: bool, died: str | None, expected: bool
) -> None:
    def report(seconds: float, signal: str | None = None) -> JobReport:
        end = {"hung": False, "signal": signal, "status": 0, "seconds": {"partition": seconds}}
        return JobReport([{"done": True}], end=end)

    decision = Together()
    decision.decide(report(alone), report(beside, died), same)
    assert decision.on is expected and decision.tried and not decision.wrong
    assert decision.groups(together.SIZE + 2) == ([together.SIZE, 2] if expected else [])


def test_a_group_has_at_least_two_graphs() -> None:
    decision = Together()
    decision.on = True
    assert decision.groups(together.SIZE + 1) == [together.SIZE] and decision.groups(1) == []


def test_graphs_are_not_lost_where_the_one_partitioned_alone_dies() -> None:
    """Its group is partitioned once more, one by one."""
    messages = [
        {"fact": "begun together", "value": 0},
        *({"fact": "together", "value": {"number": n}} for n in range(3)),
        {"fact": "begun", "value": 1},
    ]
    report = JobReport(messages, end={"hung": False, "signal": "SIGSEGV", "status": None})
    reading = together.Reading(report, [10, 11, 12, 13], [3], "regions")
    assert reading.answers == {11: None} and reading.again == {10, 12}
