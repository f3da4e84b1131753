"""Sessions with several faults: what is listed, shrunk, saved and left out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fixtures.faults import Fault, Patch, apply
from pytest_byoc.suite.known_failures import IN_A_ROW

from .conftest import PYTHON

#: Mistakes of a codegen, one of which shows in every graph.
FAULTY = Fault(
    "several", 0, "views, a batch, a dtype that the table lacks, a macro", (), None,
    (
        Patch("relay.py", "(char*)tensor->data + tensor->byte_offset;", "(char*)tensor->data;"),
        # Under Relay's VM TVM's own build does so too.
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
    found: Mapping[str, Any] = json.loads(pytester.path.joinpath("out", "report.json").read_text())
    return found


def causes_of(pytester: pytest.Pytester) -> set[tuple[str, str]]:
    """Check and kind of each likely cause."""
    report = report_of(pytester)
    failures = {f["id"]: f for f in report["failures"]}
    firsts = [failures[cause["failures"][0]] for cause in report["causes"]]
    return {(f["check"], f["details"]["kind"]) for f in firsts}


#: Of FAULTY, what is found in the cases that are chosen.
KINDS = {
    ("views", "differs"), ("process", "KeyError"), ("process", "RuntimeError"), ("numerics", "wrong-value"),
}
_SUMMARY = " short test summary info ".center(80, "=")
OPERATORS = "--byoc-operators=nn.relu,add,exp,sqrt,nn.conv2d"
CHOSEN = (
    "test_operator and (int8 or (float32] and not conv2d) or (conv2d and (mixed_1 or strided))"
    " or (relu and shape) or (sqrt and nan))"
)


def test_four_mistakes_are_four_causes(pytester: pytest.Pytester, tmp_path: Path, ir: str) -> None:
    target = apply(FAULTY, tmp_path)
    result = run(pytester, ir, target, OPERATORS, "-k", CHOSEN)
    assert causes_of(pytester) == KINDS, result.stdout.str()
    report = report_of(pytester)
    assert sum(c["tests"] for c in report["causes"]) == result.parseoutcomes()["failed"]
    views = next(c for c in report["causes"] if report_check(report, c) == "views")
    # Two operators are shrunk and saved, the others are counted. In Relay most are run by the graph executor
    # alone, which no view reaches.
    if ir == "relax":
        assert len(views["failures"]) == 2
        assert {"add", "nn.relu", "exp"} <= set(views["operators"])
    (batch,) = (f for f in report["failures"] if f["check"] == "numerics")
    assert batch["traits"] == ["operand 0: axis -4 > 1"]
    result.stdout.fnmatch_lines(["*4 likely causes of * failing tests, the most frequent first:"])
    # A test's line in the short summary says what is wrong with its graph.
    summary = result.outlines[result.outlines.index(_SUMMARY) + 1 : -1]
    assert summary and all(line.startswith("FAILED ") for line in summary)
    assert not any("wrong-result in stage" in line for line in summary)


def report_check(report: Mapping[str, Any], cause: Mapping[str, Any]) -> str:
    (check,) = {f["check"] for f in report["failures"] if f["id"] in cause["failures"]}
    return str(check)


@pytest.mark.once
def test_processes_of_xdist_find_the_same_causes(pytester: pytest.Pytester, tmp_path: Path, ir: str) -> None:
    target = apply(FAULTY, tmp_path)
    result = run(pytester, ir, target, OPERATORS, "-k", CHOSEN, "-n", "2")
    assert causes_of(pytester) == KINDS, result.stdout.str()
    assert sum(c["tests"] for c in report_of(pytester)["causes"]) == result.parseoutcomes()["failed"]


@pytest.mark.once
def test_after_so_many_causes_the_session_ends(pytester: pytest.Pytester, tmp_path: Path, ir: str) -> None:
    target = apply(FAULTY, tmp_path)
    result = run(pytester, ir, target, OPERATORS, "-k", CHOSEN, "--byoc-max-causes=1")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert len(report_of(pytester)["causes"]) == 1
    result.stdout.fnmatch_lines(
        ["*not all was checked: * tests did not begin (1 cause of failures known); mend some of these*"]
    )
    outcomes = result.parseoutcomes()
    assert outcomes["failed"] == 1 and outcomes.get("skipped", 0) <= 1


@pytest.mark.once
def test_after_so_many_tests_that_tell_nothing_new_the_session_ends(
    pytester: pytest.Pytester, tmp_path: Path, ir: str
) -> None:
    """One cause fails nearly all tests: what comes first has shown the others by then."""
    target = apply(FAULTY, tmp_path)
    result = run(
        pytester, ir, target, "--byoc-operators=nn.relu,add", "-k", "test_operator and float32",
        "--byoc-max-causes=2",
    )
    report = report_of(pytester)
    assert [c["tests"] for c in report["causes"]] == [2 * IN_A_ROW + 2]
    said = f"{2 * IN_A_ROW} tests in a row failed by nothing but causes known before"
    result.stdout.fnmatch_lines([f"*not all was checked: * tests did not begin ({said}); mend some*"])
    assert f"the tests that did not begin: {said}" in report["not_checked"]


@pytest.mark.once
@pytest.mark.parametrize("given", ["0", "-1", "few"])
def test_a_number_of_causes_is_positive(pytester: pytest.Pytester, ir: str, given: str) -> None:
    result = pytester.runpytest_subprocess("--byoc-target=example_c", f"--byoc-max-causes={given}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*--byoc-max-causes must be a positive int, found '{given}'*"])


@pytest.mark.once
def test_a_given_test_tells_and_saves_the_smallest_graph_once(
    pytester: pytest.Pytester, tmp_path: Path, ir: str
) -> None:
    """Hypothesis calls the test again and again; what it ends with is what counts."""
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
