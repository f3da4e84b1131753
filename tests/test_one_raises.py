"""Tests that an exception from one operator's record, one pattern or ONNX's node tests does not
affect the rest of a session."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from pytest_byoc.core.job_report import JobReport
from pytest_byoc.suite import unusable_operators
from pytest_byoc.worker.pattern_tables import _nodes

from .conftest import PYTHON

pytestmark = pytest.mark.once

#: In the host, exp's type rule raises, and so does the search for one pattern's graphs.
CONFTEST = """
from dataclasses import replace
from pytest_byoc.suite import patterns
from pytest_byoc.operators import OPERATORS

def strange(types, attrs):
    raise RuntimeError("no exp here")

OPERATORS["exp"] = replace(OPERATORS["exp"], infer=strange)
search = patterns.search

def searched(pattern, *others):
    if pattern.name.endswith("dense_bias"):
        raise RuntimeError("no such search")
    return search(pattern, *others)

patterns.search = searched
"""


def test_the_rest_is_tested_and_the_report_names_the_exceptions(pytester: pytest.Pytester, ir: str) -> None:
    pytester.makeconftest(CONFTEST)
    result = pytester.runpytest_subprocess(
        "--byoc-target=example_c", f"--byoc-python={PYTHON}", f"--byoc-ir={ir}", "--byoc-report=out",
        "--byoc-operators=exp,nn.relu,add,nn.dense,nn.bias_add", "--byoc-level=smoke", "-p", "conftest",
        "-k", "(test_operator and float32]) or dense_bias] or diamond or test_region", timeout=400,
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    failed = [line for line in result.outlines if line.startswith("FAILED")]
    assert len(failed) == 1 and "dense_bias] - RuntimeError" in failed[0]
    result.stdout.fnmatch_lines(["E*RuntimeError: no such search"])
    report = json.loads(pytester.path.joinpath("out", "report.json").read_text())
    not_checked = report["not_checked"]
    assert "operator exp: its cases could not be generated: RuntimeError: no exp here" in not_checked
    assert report["outcomes"]["pass"] >= 5
    assert {c["operator"] for c in report["cells"]} >= {"nn.relu", "add", "nn.dense"}


class _Workers:
    """Stands for the workers of a TVM that returns these messages for operators; None ends its
    process."""

    ir = "relay"

    def __init__(self, tvm: str, says: Mapping[str, str | None]) -> None:
        self.versions, self.says, self.requests = {"tvm": tvm}, says, 0

    def ask_reference(self, job: dict[str, Any]) -> JobReport:
        self.requests += 1
        report = JobReport()
        for entry in job["graphs"]:
            name = entry["graph"]["nodes"][0]["op"]
            if self.says.get(name, "") is None:
                report.end = {"stage": "lower", "hung": False, "signal": "SIGSEGV", "status": None}
                break
            report.messages.append({"fact": "types", "executor": None, "value": self.says.get(name, [])})
        else:
            report.end = {"stage": "lower", "hung": False, "signal": None, "status": 0}
        return report


def test_operators_that_a_tvm_lacks_are_found() -> None:
    names = ["abs", "exp", "nn.relu", "add", "tanh"]
    workers = _Workers("1.6.0", {"exp": "AttributeError: no exp\n", "nn.relu": None, "tanh": "no tanh"})
    assert unusable_operators.unusable_operators(workers, names) == {  # type: ignore[arg-type]
        "exp": "this TVM cannot express it: AttributeError: no exp",
        "nn.relu": "this TVM cannot express it: the process died (SIGSEGV)",
        "tanh": "this TVM cannot express it: no tanh",
    }
    assert workers.requests == 2


def test_the_measured_tvm_is_not_surveyed_again() -> None:
    workers = _Workers("0.16.dev0", {"exp": "not asked"})
    assert unusable_operators.unusable_operators(workers, ["exp"]) == {}  # type: ignore[arg-type]
    assert workers.requests == 0


def test_a_pattern_that_cannot_be_read_is_described_as_such() -> None:
    class CallPattern:
        args = None

        @property
        def op(self) -> None:
            raise TypeError("of another TVM")

    (node,) = _nodes(CallPattern())
    assert node == {"is": "other", "class": "CallPattern that can't be read (TypeError: of another TVM)"}


def test_onnx_node_tests_whose_survey_fails_are_not_checked(
    pytester: pytest.Pytester, ir: str
) -> None:
    pytester.makeconftest(
        "from pytest_byoc.suite import onnx_nodes\n"
        "def survey(workers, folder, activity):\n    raise RuntimeError('no import')\n"
        "onnx_nodes.survey = survey\n"
    )
    result = pytester.runpytest_subprocess(
        "--byoc-target=example_c", f"--byoc-python={PYTHON}", f"--byoc-ir={ir}", "-p", "conftest",
        "--byoc-operators=nn.relu", "-k", "test_operator and scalar]", timeout=400,
    )
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["*ONNX's node tests: no import*"])
