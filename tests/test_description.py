"""Tests of a failure's description: modules, sources and operators of the IR."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fixtures.faults import FAULTS, apply
from pytest_byoc.checks import bystanders
from pytest_byoc.core.finding import Finding
from pytest_byoc.core.graph import TensorType
from pytest_byoc.core.job_report import JobReport
from pytest_byoc.evidence.difference import pack
from pytest_byoc.examination.description import LINES, SHOWN, Description, Text, read
from pytest_byoc.generation.builder import Builder
from pytest_byoc.record import findings
from pytest_byoc.record.source import graph_text

from .conftest import PYTHON
from .test_difference import mask


def text_fact(fact: str, text: str, **more: Any) -> dict[str, Any]:
    value = {"text": text, "characters": len(text), **more}
    return {"fact": fact, "executor": None, "value": value}


@pytest.mark.once
def test_texts_are_written_to_files() -> None:
    raised = {"raised": {"type": "OSError", "message": "", "frames": []}, "stage": "build", "executor": None}
    description = read(
        JobReport(
            [
                text_fact("before", "one"), text_fact("after", "two"),
                text_fact("source", ";", kind="c", symbols=[]),
                text_fact("source", "int f;", kind="c", symbols=["../f", "g"]),
                text_fact("source", '{"nodes": []}', kind="vendor_json", symbols=[]),
                text_fact("source", "cut", kind="vendor", symbols=["h"]) | {"executor": "graph"}, raised,
            ]
        ),
        "relay",
    )
    names = [text.file for text in description.texts]
    assert names[:2] == ["before_partitioning.relay", "after_partitioning.relay"]
    assert names[2:] == ["source/_f.c", "source/1.json", "source/h.txt"]
    assert description.texts[2].what == "source of ../f, g"
    assert description.missing == "build raised OSError"
    assert read(JobReport([text_fact("before", "one")]), "relax").texts[0].file == "before_partitioning.py"


@pytest.mark.once
def test_long_texts_are_cut_with_a_note() -> None:
    fact = text_fact("after", "x" * 10)
    fact["value"]["characters"] = 5000
    assert "cut here: the text has 5000 characters" in read(JobReport([fact]), "relay").texts[0].text
    text = "\n".join(["line"] * 10_000)
    long = Description((Text("after partitioning", "after_partitioning.relay", text),))
    (shown,) = long.as_dicts()
    assert len(shown["text"]) < SHOWN + 200
    assert "cut here: all of it is in after_partitioning.relay" in shown["text"]
    lines = list(long.lines())
    assert len(lines) == LINES + 2
    assert lines[-1] == f"  … {10_000 - LINES} more lines in after_partitioning.relay"


@pytest.mark.once
def test_the_text_of_a_graph_names_the_operators_of_the_ir() -> None:
    b = Builder(seed=1)
    x, w = b.input(TensorType((2, 3), "float32")), b.constant(TensorType((4, 3), "float32"))
    graph = b.graph(b.simple("nn.relu", b.node("nn.dense", [x, w], {"units": 4})[0]))
    dense, relu = graph_text(graph, "relax").splitlines()[-3:-1]
    assert dense.endswith("nn.dense(%x0, %c0, units=4)  # Relax: permute_dims, matmul")
    assert relu.endswith("nn.relu(%v0)")
    assert "#" not in graph_text(graph, "relay")


def wrong(check: str, stage: str, how: str, output: int = 0) -> Finding:
    details = {"output": output, "how": how, "elements": 28, "outside": 21, "layout": ""}
    details["mask"] = pack(mask((4, 7), slice(1, None)))
    return Finding(check, "wrong-result", stage, "wrong-value", f"{check} is wrong {how}.", details)


@pytest.mark.once
def test_similar_findings_are_reported_once() -> None:
    several = [
        wrong("numerics", "compare", "with graph"), wrong("numerics", "compare", "with vm"),
        wrong("rerun", "compare", "in a second run"), wrong("numerics", "compare", "with graph", output=1),
        wrong("roundtrip", "load", "of graph's library"), wrong("roundtrip", "load", "of vm's library"),
        Finding("process", "crash", "exit", "SIGSEGV", "the process died."),
    ]
    assert findings.message_lines(several) == [
        "numerics is wrong with graph.",
        "wrong: every row but the first",
        "likewise: with vm; in a second run",
        "also: numerics is wrong with graph.",
        "also: roundtrip is wrong of graph's library.",
        "  likewise: of vm's library",
        "also: the process died.",
    ]
    assert findings.message_lines(several[-1:]) == ["the process died."]
    # Another check may catch the same exception.
    raised = Finding("offload", "error", "partition", "KeyError", "it raised.")
    assert findings.message_lines([raised, replace(raised, check="views")]) == ["it raised."]


@pytest.mark.once
def test_a_changed_text_is_reported_by_lines() -> None:
    assert bystanders.differing_lines("one\n  two\nthree", "one\n  2\nthree") == ["- two", "+ 2"]
    lines = bystanders.differing_lines("\n".join("abcdefghij"), "")
    assert lines[:2] == ["- a", "- b"] and lines[8:] == ["… and 2 lines more"]
    error = Finding("bystanders", "error", "partition", "x", "It is changed.", {"changes": ["- two", "+ 2"]})
    assert findings.message_lines([error]) == ["It is changed.", "  - two", "  + 2"]


def session(pytester: pytest.Pytester, ir: str, target: str, *args: str) -> tuple[Any, dict[str, Any]]:
    result = pytester.runpytest_subprocess(
        f"--byoc-target={target}", f"--byoc-python={PYTHON}", f"--byoc-ir={ir}", "--byoc-report=out",
        "--byoc-level=smoke", "-x", "-p", "no:cacheprovider", *args, timeout=300,
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    report = json.loads(pytester.path.joinpath("out", "report.json").read_text())
    (failure,) = report["failures"]
    assert report["held"].get(failure["check"], 0) <= report["outcomes"]["pass"]
    return result, failure


def test_a_failure_shows_modules_and_sources(pytester: pytest.Pytester, ir: str) -> None:
    fault = FAULTS["max_of_negatives"]
    target = f"{apply(fault, pytester.path) / '__init__.py'}:target"
    result, failure = session(pytester, ir, target, "--byoc-operators=max", "-k", "test_operator")
    folder, suffix = Path(failure["graph"]).parent, {"relay": ".relay", "relax": ".py"}[ir]
    before, after = (folder / f"{name}_partitioning{suffix}" for name in ("before", "after"))
    assert "example_c" not in before.read_text() and "example_c" in after.read_text()
    (source,) = (folder / "source").iterdir()
    assert source.suffix == ".c" and "int" in source.read_text()
    assert [text["file"] for text in failure["texts"]] == [
        before.name, after.name, f"source/{source.name}",
    ]
    assert failure["tried"] == ""
    printed = (folder / "failure.txt").read_text()
    for line in ("after partitioning:", f"generated source: source/{source.name}"):
        assert f"\n{line}\n" in printed
        result.stdout.fnmatch_lines([f"*{line}"])
    page = pytester.path.joinpath("out", "report.html").read_text()
    assert f"<summary>after partitioning <small>{after.name}" in page


ONLY_THERE = """
import sys

def partition(mod):
    if any(name.startswith("pytest_byoc.worker") for name in sys.modules):
        raise RuntimeError("only there")
    return mod
"""


@pytest.mark.once
def test_a_script_that_does_not_reproduce_the_failure_is_marked(pytester: pytest.Pytester, ir: str) -> None:
    pytester.path.joinpath("only.py").write_text(ONLY_THERE)
    options = ("--byoc-operators=exp", "-k", "test_operator")
    result, failure = session(pytester, ir, "only.py:partition", *options)
    note = "reproduce.py did not show this failure when it was tried: it ended with 'passed' and status 0."
    assert failure["tried"].startswith(note) and failure["command"] in failure["tried"]
    folder = Path(failure["graph"]).parent
    assert note in (folder / "failure.txt").read_text()
    assert note in " ".join((folder / "reproduce.py").read_text().split())
    result.stdout.fnmatch_lines([f"*{note}*"])
    assert note in pytester.path.joinpath("out", "report.html").read_text().replace("&#39;", "'")
    # Partitioning failed, so only the module before it can be shown.
    assert [text["what"] for text in failure["texts"]] == ["before partitioning"]
    assert "There are no further texts of the compilation: partition raised RuntimeError." in (
        folder / "failure.txt"
    ).read_text()
