"""Tests of the summary in the terminal: notes on rarely offloaded operators, and many failures."""

from __future__ import annotations

from dataclasses import replace

from pytest_byoc.examination.outcome import CRASH
from pytest_byoc.record.target_record import TargetRecord
from pytest_byoc.report import html, terminal

from .test_report import Page, chain, report, wrong


def test_rarely_offloaded_operators_are_listed() -> None:
    """Such a row of the table would look judged, although only two of forty nodes match."""
    record = TargetRecord("t", "relay", {})
    counts = (("nn.batch_norm", 26, 2), ("add", 40, 4), ("nn.dense", 9, 0), ("abs", 9, 0))
    for op, generated, offloaded in counts:
        cell = {"generated": generated, "offloaded": offloaded, "passed": offloaded, "failed": 0}
        record.cells[op, "float32"] = {**cell, "inconclusive": 0}
    record.cells["nn.dense", "float32"]["failed"] = 1
    lines = [line for line, _ in terminal.summary(record)]
    at = lines.index("hardly ever offloaded, so hardly judged:")
    assert lines[at + 1] == "  nn.batch_norm (float32: 2 of 26)"
    assert lines[at + 2].startswith("never offloaded in any dtype") and lines[at + 3] == "  abs"


def test_cases_without_offload_are_counted_for_offloaded_operators() -> None:
    record = TargetRecord("t", "relay", {})
    for op, dtype in (("add", "float32"), ("add", "int32"), ("abs", "float32")):
        offloaded = int((op, dtype) == ("add", "float32"))
        record.cells[op, dtype] = {
            "generated": 1, "offloaded": offloaded, "passed": offloaded, "failed": 0, "inconclusive": 0,
        }
    record.cases = {
        "add[float32]": "pass", "add[float32-empty]": "not-offloaded", "add[float32-large]": "not-offloaded",
        "add[int32]": "not-offloaded", "abs[float32]": "not-offloaded", "diamond": "not-offloaded",
    }
    lines = [line for line, _ in terminal.summary(record)]
    at = next(i for i, line in enumerate(lines) if line.startswith("at least a tenth of the cases"))
    assert lines[at + 1] == "  add (2 of 3)" and lines[at + 2].startswith("never offloaded in these dtypes")


def test_the_summary_names_the_cases_of_a_failure() -> None:
    """The classes in the names of the cases show what they have in common."""
    record, other = TargetRecord("t", "relay", {}), TargetRecord("t", "relay", {})
    cases = [f"nn.relu[float32-class_{i}]" for i in range(7)]
    for one, some in ((record, cases[:4]), (other, cases[2:])):
        for case in some:
            one.fail(wrong(chain(1)), case)
    record.merge(other.take())
    (failure,) = record.failures.values()
    assert failure.cases == cases and failure.count == 9
    lines = [line for line, _ in terminal.summary(record)]
    assert f"   found in {', '.join(cases[:4])}, and 3 more" in lines
    page = "".join(Page(html.render(report(record))).words)
    assert all(case in page for case in cases)


def test_the_message_is_that_of_the_process_that_saved_the_failure() -> None:
    """The order of the records makes no difference."""
    first, second = TargetRecord("t", "relay", {}), TargetRecord("t", "relay", {})
    first.fail(wrong(chain(1), "of the graph that is saved."), "early")
    failure, _ = second.fail(wrong(chain(1), "of another graph."), "late")
    failure.case = "early"
    one, other = first.take(), second.take()
    for order in ((one, other), (other, one)):
        whole = TargetRecord("t", "relay", {})
        for part in order:
            whole.merge(part)
        (failure,) = whole.failures.values()
        assert (failure.message, failure.count) == ("of the graph that is saved.", 2)
        assert failure.cases == ["early", "late"]


def test_the_terminal_lists_causes_by_frequency() -> None:
    """A bug that shows in every graph does not hide the others: each has a line of its own, and all
    are named."""
    record = TargetRecord("mine", "relay", {"tvm": "0.16"})
    for i in range(30):
        record.fail(wrong(chain(1), f"message {i}.", kind=f"kind {i}"), f"case {i}")
    late = replace(wrong(chain(1), "the late one."), outcome=CRASH)
    for case in ("late", "later"):
        record.fail(late, case)
    lines = [line for line, _ in terminal.summary(record)]
    assert "31 likely causes of 32 failing tests, the most frequent first:" in lines
    assert [line for line in lines if line[:2] == "1."] == ["1. nn.relu: crash in compare, check numerics"]
    assert sum("message" in line for line in lines) == terminal.IN_FULL - 1
    at = lines.index("11 more, with details in the report:")
    assert "".join(lines[at + 1 :]).count("nn.relu (1 test)") == 11
