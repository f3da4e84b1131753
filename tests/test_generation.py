"""Systematic cases and random graphs, without TVM."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from pytest_byoc.generation.strategies import graphs
from pytest_byoc.generation.systematic import cases, default_case
from pytest_byoc.graph import Graph
from pytest_byoc.operators import OPERATORS

IRS = ("relay", "relax", None)


def generated(count: int, **options: Any) -> list[Graph]:
    """The first graphs of a strategy, the same ones every time."""
    found: list[Graph] = []

    @settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(graphs(**options))
    def collect(graph: Graph) -> None:
        found.append(graph)

    collect()
    return found


@pytest.mark.parametrize("ir", IRS)
def test_a_case_has_an_id_of_its_own(ir: str | None) -> None:
    counted = Counter(c.id for c in cases(list(OPERATORS), ir))
    assert [i for i, n in counted.items() if n > 1] == []


@pytest.mark.parametrize("ir", IRS)
def test_every_operator_has_cases_and_they_are_the_same_every_time(ir: str | None) -> None:
    found = cases(list(OPERATORS), ir)
    assert {c.operator for c in found} == {n for n, op in OPERATORS.items() if ir is None or ir in op.irs()}
    assert found == cases(list(OPERATORS), ir)


@pytest.mark.parametrize("focus", ["nn.conv2d", "cumsum"])
@pytest.mark.parametrize("names", [(), ("nn.relu", "tanh", "exp")])
def test_a_graph_holds_the_focus_whatever_the_fragments(focus: str, names: Sequence[str]) -> None:
    fragments = [default_case(n, "float32").graph for n in names]
    found = generated(60, focus=focus, fragments=fragments, max_nodes=3)
    assert all(focus in g.operators for g in found)


def test_a_graph_holds_a_fragment() -> None:
    fragment = default_case("nn.conv2d", "float32").graph
    found = generated(60, fragments=[fragment], max_nodes=4)
    assert all("nn.conv2d" in g.operators for g in found)
