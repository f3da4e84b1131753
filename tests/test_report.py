"""Tests of report.html, its drawing, and the records behind it. They need no TVM."""

from __future__ import annotations

import functools
import json
import re
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any

import jsonschema
import pytest

from pytest_byoc.checks import CHECKS
from pytest_byoc.core.finding import WRONG_RESULT, Finding
from pytest_byoc.core.graph import Graph, TensorType
from pytest_byoc.core.job_report import JobReport
from pytest_byoc.evidence.evidence import Evidence
from pytest_byoc.evidence.placement import type_bytes
from pytest_byoc.evidence.speed import Speed, Times
from pytest_byoc.examination.outcome import NOT_OFFLOADED, PASS, Verdict
from pytest_byoc.generation.builder import Builder
from pytest_byoc.record.failure import MOST_NODES, details, shown
from pytest_byoc.record.listed import Excused
from pytest_byoc.record.process_output import printed_lines
from pytest_byoc.record.target_record import TargetRecord
from pytest_byoc.report import drawing, html, json_report, schema, terminal, view

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{ 7*7 }}\x1b[31m\x00\u202e</style>"
SESSION = {
    "started": "2026-01-02T03:04:05Z", "finished": "2026-01-02T04:04:06Z", "host": {"pytest-byoc": "0"},
    "sources": "ab" * 32, "files": [],
}


def chain(n: int) -> Graph:
    b = Builder(seed=1)
    x = b.input(TensorType((2, 3), "float32"))
    for _ in range(n):
        x = b.simple("nn.relu", x)
    return b.graph(x)


def diamond() -> Graph:
    """Returns a graph with an edge past a layer, a constant, two results of a node, an input as
    output."""
    b = Builder(seed=1)
    x = b.input(TensorType((2, 6), "float32"))
    c = b.constant(TensorType((), "float32"))
    y = b.node("add", [x, c], {})[0]
    p, q = b.node("split", [b.simple("nn.relu", y)], {"axis": 1, "indices_or_sections": (3,)})
    return b.graph(b.node("add", [p, q], {})[0], y, x)


def wrong(graph: Graph, message: str = "it is wrong.", kind: str = "wrong-value") -> Verdict:
    numbers = {
        "output": 0, "name": "v", "index": [0, 1], "expected": 1.5, "bound": 0.25, "actual": float("nan"),
        "llvm": 1.25, "outside": 2, "elements": 6,
    }
    finding = Finding("numerics", WRONG_RESULT, "compare", kind, message, numbers)
    placement = tuple(i % 2 or None for i in range(len(graph.nodes)))
    offloaded = tuple(p is not None for p in placement)
    return Verdict(graph, WRONG_RESULT, (finding,), offloaded, 2, (), None, placement)


def closed(part: Any) -> Any:
    """Returns a part of the schema that accepts no property which it does not describe."""
    if isinstance(part, list):
        return [closed(item) for item in part]
    if not isinstance(part, dict):
        return part
    result = {name: value if name in ("if", "then") else closed(value) for name, value in part.items()}
    return {**result, "additionalProperties": False} if "properties" in part else result


@functools.cache
def closed_schema() -> jsonschema.Draft202012Validator:
    result = closed(json.loads(schema.PATH.read_text()))
    # The top level has all properties of a target, and others.
    target = result["$defs"]["target"]
    del target["additionalProperties"]
    names = dict.fromkeys(target["properties"], True)
    result["properties"]["targets"]["items"].update(properties=names, additionalProperties=False)
    result["properties"].update(names)
    return jsonschema.Draft202012Validator(result)


def undescribed(written: dict[str, Any]) -> list[str]:
    """Returns the properties of a report that report.schema.json does not describe."""
    return [f"{error.json_path}: {error.message}" for error in closed_schema().iter_errors(written)]


def report(*records: TargetRecord, exit_code: int = 1) -> dict[str, Any]:
    found = json_report.build(records, "derandomized", {"max_examples": 8, "timeout": 30.0}, SESSION)
    found["gate"] = {"exit": exit_code, "problems": [{"text": "a problem", "items": ["one"]}], "notes": ["n"]}
    # As it is read back from the file.
    written = dict(json.loads(json.dumps(found)))
    assert schema.problems(written) == [] and undescribed(written) == []
    return written


def filled(name: str = "mine") -> TargetRecord:
    record = TargetRecord(name, "relay", {"tvm": "0.16"})
    for i in range(1000):
        record.add(Verdict(chain(1), PASS, (), (True,), 1, boundary_bytes=48), f"nn.relu[{i}]")
    record.add(Verdict(diamond(), NOT_OFFLOADED, (), (False,) * 4), "case")
    record.fail(wrong(diamond()), "a case")
    record.patterns = {"good": "", "bad": "no operator fits", "late": "an earlier one takes its graphs"}
    record.not_checked = [
        "pattern bad is never matched: no operator fits",
        "pattern late is never matched in its table: an earlier one takes its graphs",
        "the vm executor",
    ]
    return record


class Page(HTMLParser):
    """Parses a page into tags, attributes and text; fails if a tag closes another than the last."""

    VOID = ("meta", "input", "img", "link", "br", "hr", "base")
    LOOSE = ("tr", "td", "th", "li", "thead", "tbody")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID + self.LOOSE and not self.get_starttag_text().endswith("/>"):  # type: ignore[union-attr]
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.LOOSE:
            assert self._open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_a_page_of_many_graphs_is_small() -> None:
    text = html.render(report(filled()))
    assert len(text) < 200_000
    page = Page(text)
    words = "".join(page.words)
    assert "1,001 graphs examined" in words.replace("\u202f", ",")
    assert [a for t, a in page.tags if t in ("link", "img", "iframe") or "src" in a] == []


def test_a_page_with_many_cells_and_failures_is_below_2_mb() -> None:
    """The record has 200 operators in 13 dtypes, and 200 failures."""
    record = filled()
    for i in range(200):
        record.cells.update({(f"op{i}", f"float{j}"): dict.fromkeys(record.cells["add", "float32"], 1)
                             for j in range(13)})
        record.fail(wrong(diamond(), kind=f"kind {i}"), f"case {i}")
    text = html.render(report(record))
    assert 200_000 < len(text.encode()) < 2_000_000
    Page(text)


def test_hostile_text_is_escaped() -> None:
    record = filled(HOSTILE)
    record.fail(wrong(chain(1), HOSTILE, HOSTILE), HOSTILE)
    record.not_checked.append(HOSTILE)
    record.cells[HOSTILE, HOSTILE] = dict.fromkeys(record.cells["add", "float32"], 3)
    excused = Excused("waived", HOSTILE, HOSTILE, "crash", HOSTILE, HOSTILE, "javascript:alert(1)", HOSTILE)
    record.excused[HOSTILE, HOSTILE] = excused
    data = report(record)
    for failure in data["failures"]:
        failure["bundle"] = "javascript:alert(3)//byoc-failures/x"
        failure["shown"]["nodes"][0]["op"] = failure["shown"]["inputs"][0]["name"] = HOSTILE
        failure["texts"] = [{"what": HOSTILE, "file": HOSTILE, "text": HOSTILE}]
        failure["tried"] = failure["details"]["where"] = HOSTILE
        failure["details"]["picture"] = {"rows": [HOSTILE, "012"], "group": 1}
        failure["details"]["likewise"] = [HOSTILE]
        failure["details"]["raised"] = {"file": HOSTILE, "line": 1, "function": HOSTILE, "text": HOSTILE,
                                        "message": HOSTILE}
    text = html.render(data)
    page = Page(text)
    assert [t for t, _ in page.tags].count("script") == 1 and [t for t, _ in page.tags].count("style") == 1
    assert not [a for _, a in page.tags if any(k.startswith("on") for k in a)]
    assert all((a["href"] or "").startswith("#") for t, a in page.tags if t == "a")
    assert not re.search(r"[\x00-\x08\x0b-\x1f\u202e]", text)
    assert "{{ 7*7 }}" in "".join(page.words)
    policy = next(a["content"] for _, a in page.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None and "script-src 'sha256-" in policy and "default-src 'none'" in policy


def test_two_targets_share_a_page() -> None:
    text = html.render(report(filled("one"), filled("two")))
    page = Page(text)
    ids = [a["id"] for _, a in page.tags if "id" in a]
    assert len(ids) == len(set(ids))
    assert {(a["href"] or "")[1:] for t, a in page.tags if t == "a"} >= {"t0-coverage", "t1-coverage"}
    assert all((a["href"] or "#")[1:] in ids for t, a in page.tags if t == "a")


@pytest.mark.parametrize(
    ("exit_code", "word"),
    [(0, "Passed"), (1, "Failed"), (2, "Interrupted"), (5, "Nothing was run"), (3, "Ended with 3")],
)
def test_verdict_in_words(exit_code: int, word: str) -> None:
    for record in (filled(), TargetRecord("empty", "relax", {})):
        assert word in html.render(report(record, exit_code=exit_code))


@pytest.mark.parametrize("graph", [chain(1), chain(12), diamond()], ids=["one", "chain", "diamond"])
def test_boxes_do_not_overlap_and_edges_go_down(graph: Graph) -> None:
    layout = drawing.layout(*drawing.boxes_of(shown(wrong(graph), "relay")))
    tops = layout.tops()
    for layer, top, below in zip(layout.layers, tops, tops[1:]):
        boxes = [layout.boxes[i] for i in layer]
        assert all(a.x + a.width < b.x for a, b in pairwise(boxes))
        assert all(b.x >= 0 and top + b.height < below for b in boxes)
    assert all(layout.boxes[e.source].layer + 1 == layout.boxes[e.target].layer for e in layout.edges)
    kinds = [b.kind for b in layout.boxes]
    assert kinds.count("node") == len(graph.nodes) and kinds.count("output") == len(graph.outputs)
    # Operands enter a box in their order, at separate positions.
    ends = [e.end for e in layout.edges if layout.boxes[e.target].title == "add"]
    assert all(0 < e < 1 for e in ends) and len(set(ends)) == (2 if ends else 0)


def test_nodes_of_one_subgraph_have_one_class() -> None:
    text = str(drawing.svg(shown(wrong(diamond()), "relay")))
    assert text.count('class="node r1"') == 2


def test_a_graph_too_large_to_draw_is_named() -> None:
    assert shown(wrong(chain(MOST_NODES + 1)), "relay") == {"operators": MOST_NODES + 1}
    record = filled()
    record.fail(wrong(chain(MOST_NODES + 1)), "large")
    assert "too many to draw" in html.render(report(record))


def test_numbers_that_json_lacks_are_strings() -> None:
    converted = details(wrong(chain(1)))
    assert converted["actual"] == "nan" and converted["expected"] == 1.5
    json.dumps(converted, allow_nan=False)


def test_placement_and_bytes_passed_between_regions() -> None:
    """Each of several equal calls in two subgraphs is counted once; a node whose layout the target
    changed is found by its operator."""
    regions = [
        {"calls": ["nn.relu -> float32[2,3]"], "passed": ["float32[2,3]", "bool[4]"]},
        {
            "calls": ["nn.relu -> float32[3,2]", "nn.relu -> float32[2,3]"],
            "passed": ["float16[n,2]", "object"],
        },
    ]
    fact = {"fact": "regions", "executor": None,
            "value": {"regions": regions, "nodes": ["nn.relu -> float32[2,3]"] * 4}}
    evidence = Evidence(chain(4), [], {}, [], JobReport([fact]), JobReport())
    assert evidence.placement() == (0, 1, 1, None)
    assert evidence.offloaded() == (True, True, True, False)
    assert evidence.boundary_bytes() == 24 + 4 + 4
    regions[0]["times"] = 2
    assert evidence.placement() == (0, 0, 1, 1)
    assert evidence.boundary_bytes() == 2 * (24 + 4) + 4
    assert evidence.calls() == (
        ("nn.relu -> float32[2,3]",), ("nn.relu -> float32[2,3]",),
        ("nn.relu -> float32[2,3]", "nn.relu -> float32[3,2]"),
    )
    assert [type_bytes(t) for t in ("float8_e4m3fn[3]", "bfloat16[]", "tensor")] == [3, 2, 0]


def test_records_of_processes_are_merged() -> None:
    one, two = filled(), filled()
    both = json.loads(json.dumps(two.as_dict()))
    one.merge(both)
    merged = one.as_dict()
    assert merged["fragmentation"] == {
        "graphs_by_subgraphs": {"0": 2, "1": 2000}, "split": 0, "boundary_bytes": 2 * 48_000,
        "merges": False, "above_smallest": 0, "worst": {},
    }
    cells = {(c["operator"], c["dtype"]): c for c in merged["cells"]}
    assert cells["add", "float32"]["failed_by"] == {"numerics": 2}
    assert merged["failures"][0]["count"] == 2 and merged["failures"][0]["shown"]["operators"] == 4
    assert view.page(report(one))["targets"][0]["fragmentation"]["per_graph"] == 1.0


def test_subgraphs_above_the_least_number_and_speed_are_reported() -> None:
    def measured(case: str, regions: int, target: float) -> TargetRecord:
        record = TargetRecord("mine", "relay", {"tvm": "0.16"})
        times, llvm = (Times(seconds, seconds, seconds) for seconds in (target, 2e-6))
        verdict = Verdict(
            chain(4), PASS, (), (True,) * 4, regions, smallest=1, merges=regions < 4,
            speed=Speed("graph", times, llvm),
        )
        record.add(verdict, case)
        return record

    records = [measured("few", 2, 1e-6), measured("many", 4, 8e-6)]
    for one, two in (records, records[::-1]):
        one.merge(json.loads(json.dumps(two.as_dict())))
        merged = one.as_dict()
        worst = {"case": "many", "subgraphs": 4, "smallest": 1}
        assert merged["fragmentation"]["worst"] == worst and merged["fragmentation"]["merges"]
        assert [s["case"] for s in one.slower()][:1] == ["many"]
        assert [row["case"] for row in view.page(report(one))["targets"][0]["speed"]["rows"]][:1] == ["many"]
    # Without measurements and merged regions, neither is mentioned.
    alone = measured("alone", 4, 1e-6)
    alone.speed.clear()
    text = "\n".join(line for line, _ in terminal.summary(alone))
    assert "more subgraphs than needed" not in text and "speed" not in text
    assert "merges none" in html.render(report(alone)) and "-speed" not in html.render(report(alone))


def test_checks_are_listed_with_the_number_of_graphs_they_held_on() -> None:
    record = filled()
    record.add(Verdict(chain(1), PASS, (), (True,), 1, checks_made=("numerics", "rerun")), "other")
    data = report(record)
    data["settings"]["level"] = "smoke"
    rows = {row["id"]: row for row in view.page(data)["targets"][0]["checks"]}
    assert rows["rerun"]["held"] == 1 and rows["process"]["held"] == 1001
    assert rows["views"]["held"] == 0 and rows["views"]["not_made"] == "not made"
    assert rows["threads"]["not_made"] == "not made at level smoke"
    text = html.render(data)
    page = Page(text)
    named = {a["id"] for _, a in page.tags if "id" in a}
    links = {str(a["href"]).lstrip("#") for t, a in page.tags if t == "a" and str(a["href"]).startswith("#")}
    assert links <= named and {f"check-{check.id}" for check in CHECKS} <= links
    # A report of an earlier version lacks these counts.
    del data["held"]
    assert "not made" not in html.render(data)


def test_frames_of_the_plugin_are_not_shown() -> None:
    """The output of a process before it died is shown, and the frames of the target's code."""
    printed = """engine: no device
Fatal Python error: Segmentation fault

Current thread 0x00007f34f2003b80 (most recent call first):
  File "/here/vendor/partition.py", line 7 in partition
  File "/opt/lib/python3.11/site-packages/pytest_byoc/runs/target.py", line 291 in run
  File "/opt/lib/python3.11/site-packages/pytest_byoc/worker/__main__.py", line 39 in <module>

Extension modules: numpy.core._multiarray_umath
"""
    shown = [line.removeprefix("  | ") for line in printed_lines({"printed": printed})[2:]]
    assert shown[0] == "engine: no device" and "/vendor/partition.py" in shown[-1] and len(shown) == 5
    # TVM prints frames innermost first.
    printed = """!!!!!!! Segfault encountered !!!!!!!
  File "./signal/../sysdeps/unix/sysv/linux/x86_64/libc_sigaction.c", line 0, in 0x00007f807185a04f
  File "/here/vendor/engine.cc", line 12, in engine_run
  File "./Include/internal/pycore_ceval.h", line 73, in _PyEval_EvalFrame
  File "Python/ceval.c", line 6434, in _PyEval_Vector
  File "<unknown>", line 0, in _start
"""
    shown = [line.removeprefix("  | ").strip() for line in printed_lines({"printed": printed})]
    assert shown == [
        "", "the native stack, as TVM tells it, innermost first:",
        'File "/here/vendor/engine.cc", line 12, in engine_run',
    ]
    assert printed_lines({"printed": ""}) == []
