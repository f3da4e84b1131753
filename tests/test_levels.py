"""Tests of how much is examined: levels, exploring, the time budget, the order of the phases."""

from __future__ import annotations

import json
import os
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from pytest_byoc.checks import CHECKS
from pytest_byoc.config import plan
from pytest_byoc.config.effort import ONE, Effort
from pytest_byoc.config.errors import SettingsError
from pytest_byoc.config.levels import LEVELS
from pytest_byoc.config.plan import ALL_CHECKS, AT_SMOKE, effort, thorough
from pytest_byoc.config.values import _duration
from pytest_byoc.core.finding import WRONG_RESULT, Finding
from pytest_byoc.core.graph import Graph
from pytest_byoc.examination.examiner import Examiner
from pytest_byoc.examination.outcome import CRASH, NOT_OFFLOADED, ORACLE_SUSPECT, PASS, Verdict
from pytest_byoc.examination.partitions import Partitions
from pytest_byoc.generation.structures import STRUCTURES
from pytest_byoc.generation.systematic import cases, default_case
from pytest_byoc.operators import OPERATORS

from .conftest import PYTHON, declaration, make_settings


def test_smoke_has_few_cases_but_every_dtype() -> None:
    for ir in ("relay", "relax"):
        every = cases(list(OPERATORS), ir)
        few = [c for c in every if c.smoke]
        assert 0.25 < len(few) / len(every) < 0.6

        def first_types(some: list[Any]) -> set[tuple[str, str]]:
            return {(c.operator, c.graph.type_of(c.graph.nodes[0].inputs[0]).dtype) for c in some}

        assert first_types(few) == first_types(every)


def test_smoke_has_every_value_of_named_attributes() -> None:
    """Named values are those of layouts, modes and flags."""
    for name in ("nn.conv2d", "nn.avg_pool2d", "image.resize2d", "take", "nn.pad"):
        every = cases([name], "relay")
        for key in every[0].graph.nodes[0].attrs:
            values = {str(c.graph.nodes[0].attrs[key]) for c in every}
            named = {v for v in values if v.isalpha() or "_" in v}
            few = {str(c.graph.nodes[0].attrs[key]) for c in every if c.smoke}
            assert named <= few, (name, key)


@pytest.mark.parametrize(
    ("given", "seconds"), [("90", 90), ("90s", 90), ("10m", 600), ("1.5h", 5400)]
)
def test_durations_are_parsed(given: str, seconds: float) -> None:
    assert _duration("--byoc-time-budget", given) == seconds


@pytest.mark.parametrize("given", ["", "m", "-1", "0", "nan", "inf", "1 day", "10 minutes"])
def test_invalid_durations_are_refused(given: str) -> None:
    with pytest.raises(SettingsError, match="must be a time like"):
        _duration("--byoc-time-budget", given)


def test_higher_levels_examine_more() -> None:
    smoke, standard, full = LEVELS.values()
    assert smoke.max_examples < standard.max_examples < full.max_examples
    assert smoke.near_misses < standard.near_misses < full.near_misses


@pytest.fixture
def common(tvm_python: str, ir: str) -> tuple[str, ...]:
    return (
        "--byoc-target=example_c", f"--byoc-ir={ir}", f"--byoc-python={PYTHON}",
        "--byoc-operators=nn.relu,clip", "--byoc-report=out", "-p", "no:cacheprovider",
    )


def _report(pytester: pytest.Pytester) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((pytester.path / "out/report.json").read_text())
    return data


@pytest.mark.once
def test_smoke_runs_few_cases_and_lists_the_rest(pytester: pytest.Pytester, common: tuple[str, ...]) -> None:
    result = pytester.runpytest_subprocess(*common, "--byoc-level=smoke", "-v", timeout=300)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["byoc: example_c; level smoke", "*left to level standard*"])
    target = _report(pytester)
    assert target["settings"]["level"] == "smoke"
    assert {"nn.relu[float32]", "clip[float32]"} <= set(target["cases"])
    assert "nn.relu[float32-negative_zero]" not in target["cases"] and not target["onnx"]
    # Random graphs come last.
    order = [line.split("::")[0] for line in result.outlines if "::test_" in line]
    phases = list(dict.fromkeys(name.rsplit("/", 1)[-1] for name in order))
    assert phases[0] == "test_operators.py" and phases[-1] == "test_random.py"


@pytest.mark.once
def test_the_most_informative_tests_come_first(pytester: pytest.Pytester, common: tuple[str, ...]) -> None:
    lines = pytester.runpytest_subprocess(*common, "--collect-only", "-q", timeout=300).outlines
    ids = [line for line in lines if "::test_" in line]

    def place(text: str) -> int:
        return next(i for i, line in enumerate(ids) if text in line)

    places = [
        max(place(f"[clip[{c}]]") for c in ("float64", "float32-mixed_1")),
        place("[clip[float32]]"),  # all checks are made on it
        place("[clip[float32-nan]]"),
        place("test_structure[diamond]"),
        place("[clip[float32-negative_zero]]"),
        place("test_thoroughly[diamond]"),
        place("test_random["),
    ]
    assert places == sorted(places)


def test_all_checks_are_made_on_some_structures_at_smoke() -> None:
    assert set(AT_SMOKE) <= set(STRUCTURES)
    everything = {c.id for c in CHECKS}
    of_all = checks("smoke")
    assert thorough("smoke") == AT_SMOKE
    assert "host_between" in thorough("standard") and not thorough("full")
    for name in (*AT_SMOKE, "host_between"):
        only = {c.id for c in CHECKS if name in c.at_smoke}
        expensive = (only or everything) if name in AT_SMOKE else set()
        assert checks("smoke", ALL_CHECKS, name) == of_all | expensive
        assert checks("smoke", ALL_CHECKS) == checks("smoke", name) == of_all
    assert any(name in c.at_smoke for c in CHECKS for name in AT_SMOKE)
    assert checks("standard", ALL_CHECKS, "host_between") == everything
    assert checks("standard", "diamond") < everything


def test_cases_of_some_kinds_get_more_checks() -> None:
    more = {
        "nn.relu[float32-large]": {"threads", "opt-levels"}, "nn.relu[float32-shape_1x1]": {"overrun"},
        "nn.relu[float32-aligned]": {"overread"}, "nn.conv2d[float32-padding_asymmetric]": {"overread"},
        "nn.relu[float32-shape_3x5]": set(),
    }
    by_id = {c.id: c for c in cases(["nn.relu", "nn.conv2d"], None) if c.id in more}
    for name, ids in more.items():
        if name in by_id:
            assert checks("standard", *by_id[name].kinds) - checks("standard") == ids, name
            assert checks("smoke", *by_id[name].kinds) == checks("smoke")
    assert len(by_id) >= 4


def checks(level: str, *kinds: str) -> set[str]:
    return set(effort(LEVELS[level], set(kinds)).checks)


@pytest.mark.once
def test_exploring_generates_other_reproducible_graphs(
    pytester: pytest.Pytester, common: tuple[str, ...]
) -> None:
    def graphs(*more: str) -> dict[str, int]:
        few = (*common, "-k", "random", "--byoc-max-examples=3", *more)
        result = pytester.runpytest_subprocess(*few, timeout=300)
        assert result.ret == 0
        target = _report(pytester)
        return {f"{c['operator']} {c['dtype']}": c["generated"] for c in target["cells"]}

    always, seven = graphs(), graphs("--byoc-explore=7")
    assert _report(pytester)["seed"] == "7"
    assert graphs("--byoc-explore", "--hypothesis-seed=7") == seven != always


@pytest.mark.once
def test_what_exploring_finds_is_replayed_on_another_machine(pytester: pytest.Pytester, ir: str) -> None:
    """The machines are two folders with one database. The random graph that is the same in every
    session does not show the failure."""
    pytester.makepyfile(
        shy="""
        from pytest_byoc.examples.example_c import ExampleC

        class Shy(ExampleC):
            name = "shy"

            def partition(self, mod):
                if "float64" in str(mod):
                    raise ValueError("too precise")
                return super().partition(mod)

        target = Shy()
        """
    )
    profile = f"""
        from hypothesis import settings
        from hypothesis.database import DirectoryBasedExampleDatabase

        shared = DirectoryBasedExampleDatabase({str(pytester.path / "shared")!r})
        settings.register_profile("team", database=shared)
        settings.load_profile("team")
        """

    def session(machine: str, *more: str) -> pytest.RunResult:
        folder = pytester.path / machine
        folder.mkdir(exist_ok=True)
        (folder / "pytest.ini").write_text("[pytest]\n")
        (folder / "conftest.py").write_text(dedent(profile))
        os.chdir(folder)
        return pytester.runpytest_subprocess(
            f"--byoc-target={pytester.path}/shy.py:target", f"--byoc-ir={ir}", f"--byoc-python={PYTHON}",
            "--byoc-operators=nn.relu,tanh", "--byoc-level=smoke", "-k", "random and relu", *more,
            timeout=300,
        )

    assert session("theirs").ret == 0
    found = session("ours", "--byoc-explore=7", "--hypothesis-show-statistics")
    found.assert_outcomes(failed=1)
    found.stdout.fnmatch_lines(["*too precise*", "*test_random?nn.relu?:", "*during generate phase*"])
    # The failure is shrunk and listed once, though Hypothesis runs the failing plan twice.
    assert len(list((pytester.path / "ours/byoc-failures").iterdir())) == 1
    replayed = session("theirs")
    replayed.assert_outcomes(failed=1)
    replayed.stdout.fnmatch_lines(["*too precise*"])


@pytest.mark.once
def test_the_time_budget_ends_the_session(pytester: pytest.Pytester, common: tuple[str, ...]) -> None:
    spent = ("--byoc-level=smoke", "--byoc-time-budget=0.01s", "-rs")
    result = pytester.runpytest_subprocess(*common, *spent, timeout=300)
    result.stdout.fnmatch_lines(["*not checked: the time budget of 0.01 s is used up*"])
    # A session that examined nothing is no success.
    assert result.ret == 1
    target = _report(pytester)
    assert any("time budget" in text for text in target["not_checked"])


@pytest.mark.once
def test_one_time_surveys_do_not_count_against_the_time_budget(
    pytester: pytest.Pytester, common: tuple[str, ...]
) -> None:
    """The plugin acts as if ONNX's node tests had been imported for an hour."""
    pytester.makepyfile(
        imported="""
        def pytest_collection_finish(session):
            activity = session.config.pluginmanager.get_plugin("pytest-byoc-active").sessions[0].activity
            activity.uncharged += 3600
        """
    )
    spent = ("--byoc-level=smoke", "--byoc-time-budget=0.01s")
    few = (*common, *spent, "-k", "test_operator and relu and shape")
    assert pytester.runpytest_subprocess(*few, timeout=300).ret == 1
    assert pytester.runpytest_subprocess(*few, "-p", "imported", timeout=300).ret == 0


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--byoc-level=quick", "unknown level 'quick'; known are: smoke, standard, full"),
        ("--byoc-explore=x", "must be a whole number"),
        ("--byoc-time-budget=soon", "must be a time like"),
    ],
)
def test_invalid_options_are_refused(pytester: pytest.Pytester, option: str, message: str) -> None:
    result = pytester.runpytest_subprocess("--byoc-target=example_c", option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*{message}*"])


@pytest.mark.parametrize(
    ("merged", "first_try", "in_full", "outcome", "examined"),
    [
        (None, PASS, PASS, PASS, ["one"]),
        (None, NOT_OFFLOADED, PASS, NOT_OFFLOADED, ["one"]),
        (None, WRONG_RESULT, WRONG_RESULT, WRONG_RESULT, ["one", None]),
        # TVM's own fault is found only by the full examination.
        (None, WRONG_RESULT, ORACLE_SUSPECT, ORACLE_SUSPECT, ["one", None]),
        # A failure by chance is a failure.
        (None, CRASH, PASS, CRASH, ["one", None]),
        (PASS, CRASH, CRASH, PASS, ["one merged"]),
        (CRASH, CRASH, PASS, CRASH, ["one merged", "one", None]),
        # No user merges modules, nor compiles the sources of several regions as one.
        (CRASH, PASS, PASS, PASS, ["one merged", "one"]),
    ],
)
def test_a_failure_with_low_effort_is_examined_in_full(
    tmp_path: Path, merged: str | None, first_try: str, in_full: str, outcome: str, examined: list[str | None]
) -> None:
    """The graph is examined under one executor, after a failure of merged graphs once more
    unmerged; a failure is then examined under all executors and by LLVM (None in `examined`).
    merged: the outcome of graphs that were partitioned apart and merged."""
    graph = default_case("nn.relu", "float32").graph
    examinations: list[str | None] = []
    first = merged or ""

    class Canned(Examiner):
        def _verdict(self, graph: Graph, effort: Effort) -> Verdict:
            one = effort.executors == ONE
            assert effort.with_llvm == (not one)
            examinations.append(f"{ONE} merged" if effort.merged else ONE if one else None)
            return Verdict(graph, first if effort.merged else first_try if one else in_full)

    examiner = Canned(make_settings(tmp_path), declaration("example_c", "relay"))
    examiner.workers.ir, examiner.workers.executors = "relay", ["one"]
    examiner.partitions = Partitions(None)  # type: ignore[arg-type]
    try:
        verdict = examiner.examine_uncached(graph, Effort(("offload",), ONE, False, merged is not None))
        assert (verdict.outcome, examinations) == (outcome, examined)
        examinations.clear()
        assert examiner.examine(graph).outcome == in_full and examinations == [None]
    finally:
        examiner.close()


@pytest.mark.parametrize(("with_tvm", "not_checked", "outcome"), [
    # TVM alone fails in the same way: the check was withdrawn.
    (PASS, ("views: TVM fails too",), PASS),
    # It does not, and the failure did not repeat itself.
    (PASS, (), WRONG_RESULT),
    (WRONG_RESULT, (), WRONG_RESULT),
])
def test_a_failure_that_may_be_tvms_is_examined_with_tvm_alone(
    tmp_path: Path, with_tvm: str, not_checked: tuple[str, ...], outcome: str
) -> None:
    """The graph passes with all executors, and fails with one; at first TVM alone was not asked."""
    graph = default_case("nn.relu", "float32").graph
    views = Finding("views", WRONG_RESULT, "run", "differs", "output 0 differs.")

    class Canned(Examiner):
        def _verdict(self, graph: Graph, effort: Effort) -> Verdict:
            if effort.executors != ONE:
                return Verdict(graph, PASS)
            if not effort.asks_tvm:
                return Verdict(graph, WRONG_RESULT, (views,))
            return Verdict(graph, with_tvm, (views,) * (with_tvm != PASS), not_checked=not_checked)

    examiner = Canned(make_settings(tmp_path), declaration("example_c", "relay"))
    examiner.workers.ir = "relay"
    try:
        effort = Effort(("views",), ONE, with_llvm=False, asks_tvm=False)
        assert examiner.look_again(examiner.first_look(graph, effort), effort).outcome == outcome
    finally:
        examiner.close()


@pytest.mark.once
def test_openings_of_a_graph() -> None:
    """A saved graph may have failed with any of them."""
    for name, of_structure in (("smoke", 1), ("standard", 3), ("full", 6)):
        level, kinds = LEVELS[name], {plan.ALL_CHECKS}
        assert plan.effort(level, kinds).openings == of_structure
        assert plan.effort(level, {plan.NUMEROUS, plan.OPENED}).openings == 1
        assert plan.effort(level, {*kinds, plan.SAVED}).openings == 6
        opened = "dynamic" in plan.effort(level, {plan.NUMEROUS, plan.OPENED}).checks
        assert opened == (name != "smoke")
    assert plan.again("dynamic").openings == 6
