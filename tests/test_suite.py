"""Tests of the suite: its hooks, the operators of random graphs, regions, and what its tests
examine."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from fixtures.faults import FAULTS, Fault, Patch, apply
from pytest_byoc.config.effort import Effort
from pytest_byoc.core.finding import Finding
from pytest_byoc.core.graph import Graph
from pytest_byoc.examination.description import Description
from pytest_byoc.examination.outcome import ConformanceFailure, Verdict
from pytest_byoc.gate.excuses import Excuses
from pytest_byoc.generation import systematic
from pytest_byoc.generation.builder import Builder
from pytest_byoc.generation.structures import STRUCTURES
from pytest_byoc.generation.systematic import default_case
from pytest_byoc.operators import OPERATORS
from pytest_byoc.record.likely_causes import likely_causes
from pytest_byoc.record.listed import Excused
from pytest_byoc.record.target_record import TargetRecord
from pytest_byoc.report import terminal
from pytest_byoc.suite import cases
from pytest_byoc.suite.cases import Suite
from pytest_byoc.suite.session import TargetSession

from .conftest import FIXTURES, PYTHON, declaration, make_settings

_FEW = ("nn.conv2d", "nn.relu", "tanh", "add", "subtract", "sort", "argsort", "topk")


@pytest.fixture
def session(tmp_path: Path, ir: str) -> TargetSession:
    """Returns a session of example_c that is not opened."""
    settings = replace(make_settings(tmp_path, 120.0), operators=_FEW)
    return TargetSession(settings, declaration("example_c", ir))


@pytest.mark.once
def test_hooks_are_called_with_each_session_and_verdict(pytester: pytest.Pytester, ir: str) -> None:
    pytester.makeconftest(
        """
        import json

        seen = []

        def pytest_byoc_session(session):
            seen.append(session.declaration.name)

        def pytest_byoc_verdict(session, verdict):
            seen.append((session.test.split("::")[-1], verdict.outcome))

        def pytest_unconfigure():
            print("seen:", json.dumps(seen))
        """
    )
    result = pytester.runpytest_subprocess(
        "--byoc-target=example_c", f"--byoc-ir={ir}", f"--byoc-python={PYTHON}", "--byoc-operators=nn.relu",
        "-p", "no:cacheprovider", f"--confcutdir={pytester.path}", "-c", pytester.makeini("[pytest]"),
        "-p", "conftest", "-k", "test_operator and scalar", "-s",
    )
    line = next(line for line in result.outlines if line.startswith("seen: "))
    first, *verdicts = json.loads(line.removeprefix("seen: "))
    assert first == "example_c"
    assert ["test_operator[nn.relu[float32-shape_scalar]]", "pass"] in verdicts


def test_random_graphs_lack_operators_missing_in_the_runtime(
    session: TargetSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    calling = {n for n, op in OPERATORS.items() if op.calls}
    assert {"sort", "argsort", "topk"} <= calling
    suite = Suite(session)
    monkeypatch.setattr(suite.offloaded, "operators", lambda: {"sort": ["float32"]})
    session.operators = _FEW
    assert suite.offloaded.drawn() == list(_FEW)
    session.examiner.workers.host_lacks = frozenset(calling)
    drawn = suite.offloaded.drawn()
    assert suite.offloaded.drawn() == drawn
    assert drawn == [o for o in _FEW if o not in ("argsort", "topk")]
    (text,) = session.record.not_checked
    assert "argsort, topk" in text and " sort" not in text


def test_each_session_knows_operators_missing_in_the_runtime(session: TargetSession) -> None:
    session.open()
    try:
        description = session.examiner.workers.loader.description
        lacks = {n for n, op in OPERATORS.items() if set(op.calls) & set(description["absent"])}
        assert session.examiner.workers.host_lacks == lacks
        # If the compiler library is loaded, nothing is missing.
        assert not lacks or description["runtime_only"]
    finally:
        session.close()


def test_the_region_of_an_operator_is_one_large_region(session: TargetSession) -> None:
    session.open()
    try:
        suite = Suite(session)
        operators = suite.offloaded.operators()
        assert {"nn.conv2d", "tanh"} <= set(operators)
        for operator in ("nn.conv2d", "tanh"):
            graph = suite.offloaded.regions.of(operator)
            assert graph is not None and operator in graph.operators
            partition = session.examiner.partitions.of(graph)
            assert partition is not None and partition.regions == 1 and all(partition.offloaded)
            assert len(graph.nodes) >= 3
    finally:
        session.close()


def test_the_first_verdict_does_not_wait_for_partitioning_of_later_cases(
    session: TargetSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the early cases of a few operators are partitioned before it."""
    monkeypatch.setattr(cases, "_OPERATORS", 2)
    session.open()
    try:
        every = systematic.cases(_FEW, session.ir)
        suite = Suite(session)
        suite.selected = frozenset(c.id for c in every)
        first = next(c for c in every if c.early and not c.simplest)
        assert first.operator == _FEW[0]
        suite.check_case(first)
        known = {c.id for c in every if session.examiner.partitions.known(c.graph) is not None}
        assert {c.id for c in every if c.early and c.operator in _FEW[:2]} <= known
        assert not {c.id for c in every if c.operator in _FEW[2:] and not c.simplest} & known
        late = [c.id for c in every if c.operator == _FEW[1] and not c.early]
        assert not known.intersection(late[-1:])
    finally:
        session.close()


def test_equal_composites_of_a_region_are_counted_separately(session: TargetSession) -> None:
    """In Relax, TVM stores equal composites as one function."""
    session.open()
    try:
        suite = Suite(session)
        graph = STRUCTURES["long_chain"](Builder(seed=1), suite.offloaded.vocabulary())
        assert max(Counter(n.op for n in graph.nodes).values()) > 1
        partition = session.examiner.partitions.of(graph)
        assert partition is not None and partition.regions == 1 and all(partition.offloaded)
    finally:
        session.close()


def test_only_the_last_verdicts_are_kept(session: TargetSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session.examiner._verdicts, "most", 3)
    examined: list[Graph] = []

    def examine(graph: Graph, effort: Effort) -> Verdict:
        examined.append(graph)
        return Verdict(graph, "pass")

    examiner = session.examiner
    monkeypatch.setattr(examiner, "examine_uncached", examine)
    monkeypatch.setattr(examiner, "partitions", _NoPartitions(), raising=False)
    graphs = [default_case(o, "float32").graph for o in ("nn.relu", "tanh", "exp", "abs", "sigmoid")]
    for graph in (*graphs, graphs[-1], graphs[0]):
        assert examiner.examine(graph).graph == graph
    assert examined == [*graphs, graphs[0]]
    assert len(examiner._verdicts) == 3


class _NoPartitions:
    def known(self, graph: Graph) -> None:
        return None


@pytest.mark.once
def test_structures_share_modules_at_smoke_and_fail_individually(
    pytester: pytest.Pytester, ir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PARTICULAR", "outputs")
    pytester.makefile(".ini", pytest="[pytest]\n")
    result = pytester.runpytest_subprocess(
        f"--byoc-target={FIXTURES}/targets/particular.py:target", f"--byoc-ir={ir}", "--byoc-level=smoke",
        f"--byoc-python={PYTHON}", "--byoc-report=out", "--byoc-operators=nn.relu,subtract", "-k",
        "test_structure and (host_between or float64_chain or constant_regions)", "-p", "no:cacheprovider",
    )
    cases = json.loads(pytester.path.joinpath("out", "report.json").read_text())["cases"]
    assert set(cases) >= {"host_between", "float64_chain", "constant_regions"}, result.outlines
    failed = {case for case, outcome in cases.items() if outcome not in ("pass", "not-offloaded")}
    # A module that fails though none of its graphs does is reported with its first case, host_between.
    # In Relay most modules are merged of graphs that were partitioned one by one, of which none fails.
    assert failed | ({"host_between"} if ir == "relay" else set()) == {"constant_regions", "host_between"}


@pytest.mark.once
def test_few_operators_raise_no_false_alarm(pytester: pytest.Pytester, ir: str) -> None:
    """Structures are built from the selected operators: here a constant is the second operand of a
    division."""
    result = pytester.runpytest_subprocess(
        "--byoc-target=example_c", f"--byoc-ir={ir}", f"--byoc-python={PYTHON}",
        "--byoc-operators=abs,divide,nn.relu", "-p", "no:cacheprovider",
        "-k", "(test_structure or test_thoroughly) and (large_weight or diamond or constant_regions)",
        timeout=300,
    )
    assert result.ret == pytest.ExitCode.OK
    assert result.parseoutcomes()["passed"] == 6


@pytest.mark.parametrize("shapes", ["each", pytest.param("first", marks=pytest.mark.once)])
def test_regions_with_an_open_batch(
    pytester: pytest.Pytester, ir: str, shapes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A target that reads its shapes in each run is right; one that reads them only in the first
    run is wrong."""
    monkeypatch.setenv("ANY_SHAPE", shapes)
    result = pytester.runpytest_subprocess(
        f"--byoc-target={FIXTURES}/targets/any_shape.py:target", f"--byoc-ir={ir}", f"--byoc-python={PYTHON}",
        "--byoc-operators=nn.relu", "-p", "no:cacheprovider", "--byoc-report=out",
        "-k", "test_thoroughly and host_between", timeout=300,
    )
    report = json.loads(pytester.path.joinpath("out", "report.json").read_text())
    assert (result.ret, [f["check"] for f in report["failures"]]) == (
        (pytest.ExitCode.OK, []) if shapes == "each" else (pytest.ExitCode.TESTS_FAILED, ["dynamic"])
    )


@pytest.mark.once
@pytest.mark.parametrize("level", ["standard", "smoke"])
def test_chains_of_operators_are_examined(pytester: pytest.Pytester, ir: str, level: str) -> None:
    """Two transposes in a row are merged by a wrong rule: neither alone is wrong."""
    target = apply(FAULTS["transpose_pair_order"], pytester.path)
    result = pytester.runpytest_subprocess(
        f"--byoc-target={target / '__init__.py'}:target", f"--byoc-ir={ir}", f"--byoc-python={PYTHON}",
        "--byoc-operators=transpose,nn.relu", "-p", "no:cacheprovider", "--byoc-report=out",
        f"--byoc-level={level}", "-k", "test_followed", timeout=300,
    )
    if level == "smoke":
        assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
        return
    result.assert_outcomes(passed=1, failed=1)
    (failure,) = json.loads(pytester.path.joinpath("out", "report.json").read_text())["failures"]
    assert failure["case"] == "followed[transpose]"
    nodes = json.loads(Path(failure["graph"]).read_text())["nodes"]
    assert [n["op"] for n in nodes] == ["transpose", "transpose"]


@pytest.fixture
def unsaved(session: TargetSession, monkeypatch: pytest.MonkeyPatch) -> TargetSession:
    """Returns the session in Relay and without workers; it reports failures but saves no bundle."""
    session.examiner.workers.ir = session.record.ir = "relay"
    monkeypatch.setattr(session.examiner, "describe", lambda *_: Description())
    monkeypatch.setattr(session.failures, "_write_bundle", lambda *_: "")
    return session


def failing(*checks: str) -> Verdict:
    findings = tuple(Finding(check, "wrong-result", "run", "differs", f"{check} fails.") for check in checks)
    graph = default_case("nn.relu", "float32").graph
    return Verdict(graph, findings[0].outcome, findings, (True,), 1)


@pytest.mark.parametrize(
    ("checks", "waived", "held"),
    [
        (("views", "threads", "memory"), (), ("views", "threads", "memory")),
        (("views", "threads", "memory"), ("views",), ("threads", "memory")),
        (("views", "threads", "memory"), ("views", "threads"), ("memory",)),
        (("views", "threads", "memory"), ("threads",), ("views", "memory")),
        (("views", "threads", "memory"), ("views", "threads", "memory"), ()),
        # Consequences of a wrong value are neither waived nor listed separately.
        (("numerics", "rerun", "batches"), ("numerics",), ()),
        (("numerics", "rerun", "batches"), (), ("numerics",)),
    ],
)
def test_a_waiver_excuses_only_its_own_check(
    unsaved: TargetSession, checks: tuple[str, ...], waived: tuple[str, ...], held: tuple[str, ...]
) -> None:
    """Each failing check with a cause of its own is a separate failure."""

    class Waived(Excuses):
        def find(self, record: TargetRecord, verdict: Verdict, case: str) -> Excused | None:
            check = verdict.findings[0].check
            return Excused("waived", case, check, verdict.outcome, "") if check in waived else None

    unsaved.failures.excuses, unsaved.failures.shrink_above = Waived(None, None, False), 1
    verdict = failing(*checks)
    assert unsaved.failures.excused(verdict, "case") == (not held)
    assert {e.check for e in unsaved.record.excused.values()} == set(waived)
    if held:
        with pytest.raises(ConformanceFailure) as raised:
            unsaved.fail(verdict, "case")
        assert [failure.check for failure in unsaved.record.failures.values()] == list(held)
        assert all(f"check {check}" in str(raised.value) for check in held)
        assert raised.value.verdict.findings[0].check == held[0]
        assert len(likely_causes(unsaved.record.failures.values())) == len(held)


def test_checks_that_the_shrunk_graph_does_not_fail_are_reported(
    unsaved: TargetSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("examine", "look_briefly"):
        monkeypatch.setattr(unsaved.examiner, name, lambda *_: failing("numerics"))
    with pytest.raises(ConformanceFailure, match="fails other checks too: memory, batches"):
        unsaved.fail(failing("numerics", "memory", "batches"), "case")
    (failure,) = unsaved.record.failures.values()
    assert failure.besides == ["memory", "batches"]
    lines = [line for line, _ in terminal.summary(unsaved.record)]
    assert "   the graph it was found in fails other checks too: memory, batches" in lines


@pytest.mark.once
def test_a_pattern_whose_check_raises_fails(tmp_path: Path, ir: str) -> None:
    """Such a pattern does not count as one that never matches: models with its graphs cannot be
    partitioned."""
    fault = Fault(
        "check_raises", 16, "the check of some patterns raises", ("nn.dense",), None,
        (
            Patch("support.py", "    if step.kernel not in DTYPES:",
                  '    if step.kernel == "matmul":\n        raise KeyError("matmul")\n'
                  "    if step.kernel not in DTYPES:"),
        ),
    )
    path = apply(fault, tmp_path) / "__init__.py"
    settings = replace(make_settings(tmp_path, 120.0), operators=("nn.dense", "nn.relu"))
    session = TargetSession(settings, declaration(f"{path}:target", ir))
    session.open()
    try:
        name = next(n for n in session.patterns.names() if "dense" in n)
        suite = Suite(session)
        with pytest.raises(ConformanceFailure, match="KeyError") as failure:
            suite.check_pattern(name)
        assert failure.value.verdict.findings[0].check == "offload"
    finally:
        session.close()


def test_executors_that_the_target_does_not_declare_are_left_out(pytester: pytest.Pytester, ir: str) -> None:
    named = '["graph"]' if ir == "relay" else '["vm"]'
    pytester.makepyprojecttoml(
        '[tool.pytest-byoc.targets.mine]\npartition = "pytest_byoc.examples.example_c:target"\n'
        f"executors = {named}\n"
    )
    result = pytester.runpytest_subprocess(
        "--byoc-target=mine", f"--byoc-python={PYTHON}", f"--byoc-ir={ir}", "--byoc-operators=nn.relu,add",
        "-p", "no:cacheprovider", "-k", "(test_thoroughly or test_structure) and (long_chain or diamond)",
        "--byoc-report=out", timeout=300,
    )
    assert result.ret == 0
    report = json.loads((pytester.path / "out" / "report.json").read_text())
    notes = "\n".join(report["not_checked"])
    assert ("executor vm: the target does not declare it" in notes) == (ir == "relay")
    assert ("check aot: AOT is not among the target's executors" in notes) == (ir == "relay")
