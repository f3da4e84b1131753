"""Tests of sessions with several faults: which failures are listed, shrunk, saved and left out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fixtures.faults import Fault, Patch, apply
from pytest_byoc.suite.known_failures import DYING, IN_A_ROW

from .conftest import FIXTURES, PYTHON

#: Faults of a codegen, one of which shows in every graph.
FAULTY = Fault(
    "several", 0, "views, a batch, a dtype that the table lacks, a macro", (), None,
    (
        Patch("relay.py", "(char*)tensor->data + tensor->byte_offset;", "(char*)tensor->data;"),
        # TVM's own build does so too under Relay's VM.
        Patch("__init__.py", '    name = "example_c"\n', '    name = "example_c"\n    strict_views = True\n'),
        Patch("relax.py", "(char*)tensor->data + tensor->byte_offset;", "(char*)tensor->data;"),
        Patch("kernels.py", 'x = offset([in_steps[k] for k in "NCHW"],\n               ["n", f"(oc',
              'x = offset([0 if k == "N" else in_steps[k] for k in "NCHW"],\n               ["n", f"(oc'),
        Patch("support.py", '_ALL = ("float32", "float64", "int32")',
              '_ALL = ("float32", "float64", "int32", "int8")'),
        Patch("kernels.py", '    if kernel in ("exp", "tanh", "sqrt"):',
              '    if kernel == "sqrt":\n        return f"FAULTY_SQRT({x})"\n'
              '    if kernel in ("exp", "tanh", "sqrt"):'),
    ),
)


def run(pytester: pytest.Pytester, ir: str, target: Path, *args: str) -> pytest.RunResult:
    return pytester.runpytest_subprocess(
        f"--byoc-target={target / '__init__.py'}:target", f"--byoc-ir={ir}", f"--byoc-python={PYTHON}",
        "-p", "no:cacheprovider", "--byoc-report=out", "--byoc-level=smoke", *args, timeout=600,
    )


def report_of(pytester: pytest.Pytester) -> Mapping[str, Any]:
    data: Mapping[str, Any] = json.loads(pytester.path.joinpath("out", "report.json").read_text())
    return data


def causes_of(pytester: pytest.Pytester) -> set[tuple[str, str]]:
    """Returns check and kind of each likely cause."""
    report = report_of(pytester)
    failures = {f["id"]: f for f in report["failures"]}
    firsts = [failures[cause["failures"][0]] for cause in report["causes"]]
    return {(f["check"], f["details"]["kind"]) for f in firsts}


#: The failures of FAULTY in the selected cases, as (check, kind).
KINDS = {
    ("views", "differs"), ("process", "KeyError"), ("process", "RuntimeError"), ("numerics", "wrong-value"),
}
_SUMMARY = " short test summary info ".center(80, "=")
OPERATORS = "--byoc-operators=nn.relu,add,exp,sqrt,nn.conv2d"
SELECTED = (
    "test_operator and (int8 or (float32] and not conv2d) or (conv2d and (mixed_1 or strided))"
    " or (relu and shape) or (sqrt and nan))"
)


@pytest.mark.once
def test_four_faults_are_four_causes(pytester: pytest.Pytester, tmp_path: Path, ir: str) -> None:
    target = apply(FAULTY, tmp_path)
    result = run(pytester, ir, target, OPERATORS, "-k", SELECTED)
    assert causes_of(pytester) == KINDS, result.stdout.str()
    report = report_of(pytester)
    assert sum(c["tests"] for c in report["causes"]) == result.parseoutcomes()["failed"]
    views = next(c for c in report["causes"] if report_check(report, c) == "views")
    # Two operators are shrunk and saved, the others are counted. In Relay most cases are run by the
    # graph executor only, which no view reaches.
    if ir == "relax":
        assert len(views["failures"]) == 2
        assert {"add", "nn.relu", "exp"} <= set(views["operators"])
    (batch,) = (f for f in report["failures"] if f["check"] == "numerics")
    assert batch["traits"] == ["operand 0: axis -4 > 1"]
    result.stdout.fnmatch_lines(["*4 likely causes of * failing tests, the most frequent first:"])
    # A test's line in the short summary describes the error in its graph.
    summary = result.outlines[result.outlines.index(_SUMMARY) + 1 : -1]
    assert summary and all(line.startswith("FAILED ") for line in summary)
    assert not any("wrong-result in stage" in line for line in summary)


def report_check(report: Mapping[str, Any], cause: Mapping[str, Any]) -> str:
    (check,) = {f["check"] for f in report["failures"] if f["id"] in cause["failures"]}
    return str(check)


@pytest.mark.once
def test_processes_of_xdist_find_the_same_causes(pytester: pytest.Pytester, tmp_path: Path, ir: str) -> None:
    target = apply(FAULTY, tmp_path)
    result = run(pytester, ir, target, OPERATORS, "-k", SELECTED, "-n", "2")
    assert causes_of(pytester) == KINDS, result.stdout.str()
    assert sum(c["tests"] for c in report_of(pytester)["causes"]) == result.parseoutcomes()["failed"]


@pytest.mark.once
def test_max_causes_ends_the_session(pytester: pytest.Pytester, tmp_path: Path, ir: str) -> None:
    target = apply(FAULTY, tmp_path)
    result = run(pytester, ir, target, OPERATORS, "-k", SELECTED, "--byoc-max-causes=1")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert len(report_of(pytester)["causes"]) == 1
    result.stdout.fnmatch_lines(
        ["*not everything was checked: * tests did not begin (1 cause of failures known); repair *"]
    )
    outcomes = result.parseoutcomes()
    assert outcomes["failed"] == 1 and outcomes.get("skipped", 0) <= 1


@pytest.mark.once
def test_the_session_ends_after_many_failures_without_a_new_cause(
    pytester: pytest.Pytester, tmp_path: Path, ir: str
) -> None:
    """One cause fails nearly all tests; the first of them have shown the other causes by then."""
    target = apply(FAULTY, tmp_path)
    result = run(
        pytester, ir, target, "--byoc-operators=nn.relu,add", "-k", "test_operator and float32",
        "--byoc-max-causes=2",
    )
    report = report_of(pytester)
    assert [c["tests"] for c in report["causes"]] == [2 * IN_A_ROW + 2]
    reason = f"{2 * IN_A_ROW} tests in a row failed only by causes that were known before"
    result.stdout.fnmatch_lines([f"*not everything was checked: * tests did not begin ({reason}); *"])
    assert f"the tests that did not begin: {reason}" in report["not_checked"]


@pytest.mark.once
@pytest.mark.parametrize("given", ["0", "-1", "few"])
def test_max_causes_must_be_positive(pytester: pytest.Pytester, ir: str, given: str) -> None:
    result = pytester.runpytest_subprocess("--byoc-target=example_c", f"--byoc-max-causes={given}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*--byoc-max-causes must be a positive whole number, found '{given}'*"])


@pytest.mark.once
def test_a_hypothesis_test_reports_and_saves_only_the_smallest_graph(
    pytester: pytest.Pytester, tmp_path: Path, ir: str
) -> None:
    """Hypothesis calls the test repeatedly; only its final example counts."""
    target = apply(FAULTY, tmp_path)
    pytester.makepyfile(
        """
        from hypothesis import given
        import pytest_byoc as byoc

        @given(graph=byoc.graphs(operators=["nn.relu", "sqrt"], max_nodes=3))
        def test_given(byoc_check, graph):
            byoc_check(graph)
        """
    )
    result = run(pytester, ir, target, ".")
    result.assert_outcomes(failed=1)
    (failure,) = report_of(pytester)["failures"]
    assert failure["count"] == 1 and failure["case"].endswith("::test_given")
    graph = json.loads(Path(failure["graph"]).read_text())
    assert len(graph["nodes"]) == 1
    (folder,) = (pytester.path / "out" / "byoc-failures").iterdir()
    assert {"graph.json", "reproduce.py", "failure.txt"} <= {p.name for p in folder.iterdir()}
    text = result.stdout.str()
    assert "again" not in text.split("= FAILURES")[1].split("= byoc =")[0]
    assert "graph (1 operator" in text and f"saved in: {folder}" in text


@pytest.mark.once
@pytest.mark.parametrize("how, outcome, cause", [
    ("crash", "crash", "SIGSEGV"),
    ("raises", "error", "RuntimeError: the device is not there"),
])
def test_a_target_that_dies_on_all_it_offloads_ends_the_session_soon(
    pytester: pytest.Pytester, ir: str, how: str, outcome: str, cause: str
) -> None:
    """One likely cause is told, with operators of several tests, and why no more were run."""
    done = pytester.runpytest_subprocess(
        f"--byoc-target={FIXTURES / 'targets' / 'dying.py'}:{how}", f"--byoc-ir={ir}",
        f"--byoc-python={PYTHON}", "--byoc-report=out", "--byoc-level=smoke", timeout=600,
    )
    assert done.ret == pytest.ExitCode.TESTS_FAILED
    failed = done.parseoutcomes()["failed"]
    assert DYING <= failed < 3 * DYING
    done.stdout.fnmatch_lines([
        f"*no graph has come to a result, and {DYING} tests in a row failed only by causes *",
    ])
    report = report_of(pytester)
    assert len(report["causes"]) == 1 and len(report["causes"][0]["operators"]) > 3
    assert all(f["outcome"] == outcome and cause in f["message"] for f in report["failures"])
