"""Tests of random graphs as Hypothesis draws them: outlines, plans, novelty, the database."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from itertools import chain
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.database import ExampleDatabase, InMemoryExampleDatabase

from pytest_byoc.config.errors import SettingsError
from pytest_byoc.config.values import seed as explored
from pytest_byoc.core.graph import Graph
from pytest_byoc.examination.outcome import Verdict
from pytest_byoc.generation.outlines import Outline, drawn
from pytest_byoc.generation.plans import Plan, fixed, plans
from pytest_byoc.generation.random_graphs import grown
from pytest_byoc.storage.shared_examples import SharedExamples
from pytest_byoc.suite.novelty import Novelty

pytestmark = pytest.mark.once

OPERATORS = ["nn.relu", "add", "tanh", "multiply", "nn.dense", "floor", "exp"]


def graph_of(outline: Outline, number: int, min_nodes: int = 6) -> Graph:
    return grown(
        Random(number), OPERATORS, outline=outline, min_nodes=min_nodes, max_nodes=9,
        prefer=["nn.relu", "add", "tanh", "multiply"],
    )


def made(plan: Plan, variants: int = 1, **options: Any) -> list[Graph]:
    """Returns the graphs of a plan in one list."""
    return [*chain.from_iterable(plan.graphs(variants, **{"operators": OPERATORS, **options}))]


def outline(**choices: int) -> Outline:
    return replace(drawn(Random(1)), **choices)


def test_fixed_plans_are_the_same_every_time() -> None:
    found = fixed("add", 11, 8)
    assert [len(plan.outlines) for plan in found] == [8, 3]
    assert found == fixed("add", 11, 8) != fixed("tanh", 11, 8)

    # The choices are spread: six graphs have sizes from six sixths.
    (plan,) = fixed("add", 6, 8)
    for field in fields(Outline):
        shares = [getattr(o, field.name) for o in plan.outlines]
        assert sorted(share // 10 for share in shares) == [*range(6)], field.name


def test_another_choice_means_other_graphs_throughout() -> None:
    (plan,) = fixed("add", 4, 4)
    graphs = {*made(plan, min_nodes=3)}
    assert {*made(plan, min_nodes=3)} == graphs
    for field in fields(Outline):
        first, *others = plan.outlines
        varied = replace(first, **{field.name: (getattr(first, field.name) + 1) % 60})
        other = replace(plan, outlines=(varied, *others))
        assert graphs.isdisjoint(made(other, min_nodes=3)), field.name


def test_an_outline_shapes_the_graph() -> None:
    sizes = [len(graph_of(outline(size=size), 1, min_nodes=2).nodes) for size in (0, 29, 59)]
    assert sizes == [2, 5, 9]

    def ranks(rank: int) -> set[int]:
        graphs = [grown(Random(n), ["nn.relu"], outline=outline(rank=rank)) for n in range(20)]
        return {g.type_of(g.nodes[0].inputs[0]).rank for g in graphs}

    assert {outline(rank=59).wanted_rank} == ranks(59) == {5}
    assert len(ranks(0)) > 1

    none, much = outline(sharing=49), outline(sharing=59)
    assert none.recurring == (0, 0, 0) < much.recurring
    sums = [[grown(Random(n), ["add"], outline=o, min_nodes=6) for n in range(40)] for o in (none, much)]
    sources = [sum(len([*g.sources()]) for g in graphs) for graphs in sums]
    assert sources[0] > 1.1 * sources[1]

    def on_host(host: int) -> float:
        nodes = [n for number in range(40) for n in graph_of(outline(host=host), number).nodes]
        return sum(n.op in ("floor", "exp", "nn.dense") for n in nodes) / len(nodes)

    assert outline(host=48).preferred == 10 and outline(host=59).preferred == 3
    assert on_host(48) == 0 < on_host(0) < on_host(59)


def test_graphs_of_a_plan_hold_its_parts_in_turn() -> None:
    (plan,) = fixed("x", 5, 8)
    parts = [grown(Random(i), [op], min_nodes=1, max_nodes=1) for i, op in enumerate(("nn.dense", "floor"))]
    graphs = made(plan, parts=parts, operators=["add", "tanh"], max_nodes=3)
    assert ["nn.dense" in g.operators for g in graphs] == [True, False, True, False, True]
    assert ["floor" in g.operators for g in graphs] == [False, True, False, True, False]


def run(body: Callable[[Plan], None], number: int, database: ExampleDatabase | None = None) -> None:
    """Runs a body with up to 12 drawn plans as the suite does."""
    driven = seed(number)(given(plan=plans(2))(body))
    settings(
        max_examples=12, phases=[Phase.reuse, Phase.generate, Phase.target], deadline=None,
        database=database, suppress_health_check=list(HealthCheck), report_multiple_bugs=False,
    )(driven)()


def test_a_seed_repeats_the_plans() -> None:
    def of(number: int) -> list[Plan]:
        found: list[Plan] = []

        def note(plan: Plan) -> None:
            found.append(plan)

        run(note, number)
        return found

    assert len(of(1)) == 12
    assert of(1) == of(1)
    # Both begin with the simplest plan.
    assert len({*of(1)} & {*of(2)}) == 1


def test_a_failing_plan_comes_first_wherever_the_database_is_shared() -> None:
    """Hypothesis's own keys are those of two tests here, as on machines with different folders."""
    kept = InMemoryExampleDatabase()
    seen: list[Plan] = []

    def here(plan: Plan) -> None:
        seen.append(plan)
        assert len(seen) < 5

    def elsewhere(plan: Plan) -> None:
        seen.append(plan)
        assert plan != failing

    with pytest.raises(AssertionError):
        run(here, 1, SharedExamples(kept, b"add"))
    failing = seen[-1]
    assert [*map(len, kept.data.values())] == [1]

    seen.clear()
    run(elsewhere, 7, SharedExamples(kept, b"tanh"))
    assert len(seen) == 12
    seen.clear()
    with pytest.raises(AssertionError):
        run(elsewhere, 7, SharedExamples(kept, b"add"))
    # Hypothesis runs the failing plan again for its report.
    assert seen == [failing, failing]

    # Once it passes, it is forgotten.
    run(lambda plan: None, 7, SharedExamples(kept, b"add"))
    assert not any(kept.data.values())


def test_variants_have_one_outline_and_other_numbers() -> None:
    (plan,) = fixed("x", 3, 8)
    several = plan.graphs(4, operators=OPERATORS, min_nodes=3)
    assert [len(graphs) for graphs in several] == [4, 4, 4]
    assert [graphs[0] for graphs in several] == made(plan, min_nodes=3)
    assert all(len({*graphs}) == 4 and len({len(g.nodes) for g in graphs}) == 1 for graphs in several)


def test_the_graph_with_most_new_nodes_is_picked() -> None:
    few, many = (grown(Random(n), ["add", "tanh"], min_nodes=n, max_nodes=n) for n in (1, 5))
    novelty = Novelty(["add", "tanh"])
    assert novelty.pick([few, many])[0] == many
    assert novelty.pick([many])[1] == 0
    assert Novelty(["floor"]).pick([few, many]) == (few, 0)

    apart = Verdict(few, "pass", placement=(0,))
    assert [novelty.new_regions([apart]), novelty.new_regions([apart])] == [1, 0]


def test_the_seed_of_hypothesis_is_that_of_an_exploring_session() -> None:
    assert explored(None, "7") is None
    assert explored("", "7") == 7
    assert explored("5", "7") == 5
    assert explored("") != explored("")
    with pytest.raises(SettingsError, match="--hypothesis-seed: the seed must be a whole number"):
        explored("", "x")
