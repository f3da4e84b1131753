"""The texts of the terminal, of failure.txt, of the Markdown summary and of the page, each as a whole.

`pytest --inline-snapshot=fix tests/test_snapshots.py` writes them as they are now; read the difference.
"""

from __future__ import annotations

import datetime
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inline_snapshot import snapshot

from pytest_byoc.core.finding import WRONG_RESULT, Finding
from pytest_byoc.core.graph import Graph, TensorType
from pytest_byoc.evidence import difference
from pytest_byoc.evidence.speed import Speed, Times
from pytest_byoc.examination.description import Description, Text
from pytest_byoc.examination.outcome import (
    ERROR,
    INCONCLUSIVE,
    NOT_OFFLOADED,
    PASS,
    REFERENCE_WRONG,
    Verdict,
)
from pytest_byoc.gate.problems import Gate
from pytest_byoc.gate.waivers import Waivers
from pytest_byoc.generation.builder import Builder
from pytest_byoc.record.listed import Excused, Failure
from pytest_byoc.record.target_record import TargetRecord
from pytest_byoc.report import bundle, check_table, html, json_report, summary, terminal
from pytest_byoc.report.text import FailureText

#: The records are made here, in Relay whichever IR is tested.
pytestmark = pytest.mark.once

FOLDER = "byoc-failures/mine-relay-1"
SESSION = {
    "started": "2026-01-02T03:04:05Z", "finished": "2026-01-02T04:04:06Z", "host": {"pytest-byoc": "0"},
    "sources": "ab" * 32, "files": [{"what": "waivers", "path": "w.toml", "sha256": "cd" * 32}],
}


def one(op: str, shape: tuple[int, ...] = (2, 3)) -> Graph:
    b = Builder(seed=1)
    return b.graph(b.simple(op, b.input(TensorType(shape, "float32"))))


def added() -> Graph:
    """Returns a graph that adds a constant to a result of nn.relu; both are outputs."""
    b = Builder(seed=1)
    x, c = b.input(TensorType((2, 3), "float32")), b.constant(TensorType((3,), "float32"))
    y = b.simple("nn.relu", x)
    return b.graph(b.node("add", [y, c], {})[0], y)


def chain() -> Graph:
    b = Builder(seed=1)
    x = b.input(TensorType((2, 3), "float32"))
    for op in ("nn.relu", "exp", "nn.relu", "exp"):
        x = b.simple(op, x)
    return b.graph(x)


def wrong(graph: Graph) -> Verdict:
    """Returns a verdict by which the last row of the first output is wrong in two runs."""
    mask = np.array([[False] * 3, [True] * 3])
    details = {
        "output": 0, "name": graph.outputs[0], "index": [1, 0], "expected": 1.5, "bound": 0.25, "actual": 3.0,
        "llvm": 1.5, "outside": 3, "elements": 6, "executor": "graph", "mask": difference.pack(mask),
        "layout": "", "how": "in the first run",
    }
    text = f"output 0 (%{graph.outputs[0]}) is outside its error bound in the first run: at [1, 0] it is 3.0."
    first = Finding("numerics", WRONG_RESULT, "compare", "wrong-value", text, details)
    second = replace(first, details={**details, "how": "in the second run"})
    other = Finding("views", WRONG_RESULT, "run", "views", "a run whose inputs are views raised ValueError.")
    offloaded = (False,) * (len(graph.nodes) - 1) + (True,)
    placement = (None,) * (len(graph.nodes) - 1) + (0,)
    findings, notes = (first, second, other), ("opt_level 3 was used",)
    return Verdict(graph, WRONG_RESULT, findings, offloaded, 1, notes, None, placement, 48)


def raised(graph: Graph) -> Verdict:
    frame = {
        "file": "mine/codegen.py", "line": 12, "function": "lower", "text": "raise ValueError(axis)",
        "ours": False, "tvm": False,
    }
    exception = {"type": "ValueError", "message": "no axis 7", "frames": [frame]}
    text = "the target raised ValueError while partitioning: no axis 7"
    finding = Finding("process", ERROR, "partition", "exception", text, {"exception": exception})
    return Verdict(graph, ERROR, (finding,), (False,) * len(graph.nodes))


def saved(failure: Failure) -> Failure:
    failure.graph, failure.bundle = f"{FOLDER}/graph.json", FOLDER
    failure.command = f"pytest --byoc-target=mine:partition --byoc-replay={FOLDER}/graph.json"
    return failure


def recorded() -> TargetRecord:
    """Returns the record of a failing session, with an example of all that a summary shows."""
    record = TargetRecord("mine", "relay", {"tvm": "0.16", "python": "3.8"}, precision="adds in float16")
    relu = one("nn.relu")
    passed = Verdict(relu, PASS, (), (True,), 1, boundary_bytes=48, smallest=1, checks_made=("numerics",))
    for i in range(18):
        record.add(passed, f"nn.relu[float32-{i}]")
    for case, seconds in (("nn.relu[float32]", 1e-6), ("nn.relu[float32-large]", 4e-6)):
        times, llvm = Times(seconds, 0.9 * seconds, 1.2 * seconds), Times(2e-6, 1.9e-6, 2.1e-6)
        record.add(replace(passed, speed=Speed("graph", times, llvm, 1 << 20, 1 << 19)), case)
    whole = Verdict(added(), PASS, (), (True, True), 2, boundary_bytes=96, smallest=1, merges=True)
    record.add(whole, "chain")
    for i in range(3):
        record.add(Verdict(one("exp"), NOT_OFFLOADED, (), (False,)), f"exp[float32-{i}]")
    record.add(Verdict(one("sqrt"), INCONCLUSIVE, (), (True,), 1, ("no bound",)), "sqrt[float32]")
    text = "LLVM's build raised TVMError"
    record.add(Verdict(one("erf"), REFERENCE_WRONG, (), (False,), 0, (text,)), "erf[float32]")
    for case in ("diamond", "random[add]"):
        record.add(wrong(added()), case)
        saved(record.fail(wrong(added()), case)[0])
    record.add(raised(one("tan")), "tan[float32]")
    saved(record.fail(raised(one("tan")), "tan[float32]")[0])
    message = "output 0 (%v0) differs"
    reason, day = "not deterministic", "2031-01-02"
    waived = Excused("waived", "abs[float32]", "rerun", WRONG_RESULT, message, reason, "#7", day, line=4)
    known = Excused("known", "floor[float32]", "numerics", WRONG_RESULT, message)
    for excused, op in ((waived, "abs"), (known, "floor")):
        record.excuse(excused, one(op))
    record.patterns = {"mine.relu": "", "mine.bias": "no operator fits"}
    record.not_checked = ["pattern mine.bias is never matched: no operator fits", "check threads: not made"]
    record.corpus = {"regressions/pad_7": "pass", "byoc-failures/mine-relay-2": "pass: removed"}
    record.onnx = {"test_relu": "pass", "test_abs": "inconclusive: no bound is known"}
    return record


def judged() -> Gate:
    gate = Gate()
    gate.fail("mine: 1 graph of the corpus can't be used", ["regressions/bad: no JSON"])
    gate.note("w.toml: the entries in line 9 were not judged, since tests that it may be for were not run")
    return gate


WAIVERS = Waivers(Path("w.toml"), datetime.date(2030, 6, 1))


def test_the_terminal_of_a_failing_session() -> None:
    record = recorded()
    lines = (*terminal.summary(record), *terminal.gate([record], judged(), WAIVERS))
    assert "\n".join(line for line, _ in lines) == snapshot("""\
target mine, Relay (tvm 0.16, python 3.8)
the target declares lower precision, which widens the error bounds: it adds in float16
1 pattern of 2 never matched, so not tested (the report has the reasons):
  mine.bias: no operator fits

operator  dtype    generated  offloaded  passed  failed  inconclusive
abs       float32          0          0       0       1             0
add       float32          3          3       1       2             0
floor     float32          0          0       0       1             0
nn.relu   float32         23         21      21       0             0
sqrt      float32          1          1       0       0             1
tan       float32          1          0       0       1             0

29 graphs: 21 pass, 2 wrong-result, 1 error, 3 not-offloaded, 1 inconclusive, 1 reference-wrong
25 subgraphs; 78% of the operators generated were offloaded
cut into more subgraphs than needed: 1 graph, for example chain into 2 instead of 1
speed of 2 graphs: 1.25 times LLVM's time in the median; slower than LLVM in 1, most in nn.relu[float32-large] (4.0 µs, LLVM 2.0 µs)
never offloaded in any dtype, so not judged (2 operators):
  erf, exp
ONNX node tests: 1 inconclusive, 1 pass (the report has the reasons)

TVM's own LLVM build is wrong or fails (not held against the target): 1
  erf[float32]: LLVM's build raised TVMError

not checked:
  check threads: not made

corpus: 2 pass
these failed before and pass now, so they were removed:
  byoc-failures/mine-relay-2

2 likely causes of 3 failing tests, the most frequent first:
1. add + nn.relu: wrong-result in compare, check numerics
   output 0 (%v1) is outside its error bound in the first run: at [1, 0] it is 3.0.
   probably one cause, 2 tests, 2 operators
   found in diamond, random[add]
   pytest --byoc-target=mine:partition --byoc-replay=byoc-failures/mine-relay-1/graph.json
2. tan: error in partition, check process
   the target raised ValueError while partitioning: no axis 7
   found in tan[float32]
   the graph needs operand 0: axis -1 > 1; operand 0: axis -2 > 1; rank=2
   pytest --byoc-target=mine:partition --byoc-replay=byoc-failures/mine-relay-1/graph.json
mine: 1 failure waived:
  w.toml:4 check rerun: abs[float32]
    not deterministic, #7, until 2031-01-02
mine: 1 failure known from the baseline:
  floor[float32]: wrong-result (check numerics)
w.toml: the entries in line 9 were not judged, since tests that it may be for were not run
mine: 1 graph of the corpus can't be used
  regressions/bad: no JSON\
""")


def test_failure_txt(tmp_path: Path) -> None:
    verdict, original = wrong(added()), wrong(chain())
    (failure, _) = TargetRecord("mine", "relay", {}).fail(verdict, "diamond")
    saved(failure).each_needed, failure.besides = True, ["threads"]
    after = "def @main(%x0) {\n  %0 = nn.relu(%x0);\n  @mine_0(%0)\n}"
    module = Text("after partitioning", "after_partitioning.relay", after)
    described = Description((module, Text("source", "source/mine_0.c", "int x;")), "export has failed")
    texts = FailureText("mine", "relay", "/usr/bin/python3")
    text = texts.new(verdict, original, failure, "diamond", described)
    declaration: dict[str, Any] = {"name": "mine", "reference": "mine:partition"}
    versions = {"tvm": "0.16"}
    bundle.write(
        tmp_path, verdict, text, declaration, "relay", ["graph"], 3, 30.0, versions, description=described
    )
    assert (tmp_path / "failure.txt").read_text() == snapshot("""\
add + nn.relu: output 0 (%v1) is outside its error bound in the first run: at [1, 0] it is 3.0.
wrong: the last row
likewise: in the second run
also: a run whose inputs are views raised ValueError.

wrong-result in stage compare, check numerics (target mine, Relay)
the graph of the case fails other checks too: threads

graph (2 operators, shrunk from 4; each is needed):
  inputs:
    %x0: float32[2,3] in [-2, 2], seed 1009
  constants:
    %c0: float32[3] in [-2, 2], seed 1040
  nodes:
    %v0: float32[2,3] = nn.relu(%x0)
    %v1: float32[2,3] = add(%v0, %c0)
  outputs: %v1, %v0
offloaded: add (1 subgraph)
note: opt_level 3 was used
after partitioning:
  def @main(%x0) {
    %0 = nn.relu(%x0);
    @mine_0(%0)
  }
generated source: source/mine_0.c

found in: diamond
saved in: byoc-failures/mine-relay-1
repeat:   pytest --byoc-target=mine:partition --byoc-replay=byoc-failures/mine-relay-1/graph.json
or, without pytest-byoc: /usr/bin/python3 byoc-failures/mine-relay-1/reproduce.py

There are no further texts of the compilation: export has failed.
There is no data.npz: no evidence of the examination was kept.
There is no reproduce.py: it reads data.npz, which is missing.
There is no graph.onnx: no evidence of the examination was kept.
""")


def test_the_summary_in_markdown() -> None:
    assert summary.markdown([recorded()], judged(), WAIVERS, 1) == snapshot("""\
## pytest-byoc: mine, Relay

tvm 0.16, python 3.8; 29 graphs, 78% of the operators offloaded.

| outcome | graphs |
| --- | ---: |
| pass | 21 |
| wrong-result | 2 |
| error | 1 |
| not-offloaded | 3 |
| inconclusive | 1 |
| reference-wrong | 1 |

| likely cause | outcome | stage | check | tests | smallest graph found in |
| --- | --- | --- | --- | ---: | --- |
| add + nn.relu | wrong-result | compare | numerics | 2 | diamond |
| tan | error | partition | process | 1 | tan\\[float32\\] |

<details><summary>6 offloaded cells (operator and dtype)</summary>

| operator | dtype | generated | offloaded | passed | failed | inconclusive |
| --- | --- | ---: | ---: | ---: | ---: | ---: |
| abs | float32 | 0 | 0 | 0 | 1 | 0 |
| add | float32 | 3 | 3 | 1 | 2 | 0 |
| floor | float32 | 0 | 0 | 0 | 1 | 0 |
| tan | float32 | 1 | 0 | 0 | 1 | 0 |
| nn.relu | float32 | 23 | 21 | 21 | 0 | 0 |
| sqrt | float32 | 1 | 1 | 0 | 0 | 1 |

</details>

### Expected failures

```text
mine: 1 failure waived:
  w.toml:4 check rerun: abs[float32]
    not deterministic, #7, until 2031-01-02
mine: 1 failure known from the baseline:
  floor[float32]: wrong-result (check numerics)
```

### What fails the gate

- mine: 1 graph of the corpus can't be used
  - regressions/bad: no JSON

- w.toml: the entries in line 9 were not judged, since tests that it may be for were not run

The session **failed**.
""")


class Visible(HTMLParser):
    """The text of a page, a line for each block and row; `|` stands between cells."""

    HIDDEN = ("script", "style", "title")
    BLOCKS = (
        "h1", "h2", "h3", "p", "li", "dt", "dd", "tr", "pre", "summary", "section", "nav", "ul", "dl",
        "table", "details", "svg", "footer", "caption", "output",
    )  # fmt: skip

    def __init__(self, page: str) -> None:
        super().__init__()
        self._parts: list[str] = []
        self._hidden = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden = tag in self.HIDDEN
        if tag in self.BLOCKS:
            self._parts.append("\n")
        elif tag in ("td", "th", "text", "abbr", "i", "a"):
            self._parts.append(" | ")

    def handle_endtag(self, tag: str) -> None:
        self._hidden = False
        if tag in self.BLOCKS:
            self._parts.append("\n")

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self._parts.append(data)

    @property
    def text(self) -> str:
        lines = (" ".join(line.split()).strip("| ") for line in "".join(self._parts).split("\n"))
        return "\n".join(line for line in lines if line)


def test_the_visible_text_of_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    # Two checks stand for all of them.
    meanings = [m for m in check_table.MEANINGS if m["id"] in ("process", "numerics")]
    monkeypatch.setattr(check_table, "MEANINGS", meanings)
    settings = {"level": "standard", "max_examples": 8, "timeout": 30.0, "memory_bytes": 1 << 30}
    report = json_report.build([recorded()], "derandomized", settings, SESSION)
    report["gate"] = {"exit": 1, **judged().as_dict()}
    assert Visible(html.render(report)).text == snapshot("""\
pytest-byoc conformance report
mine Relay
TVM 0.16 · 2026-01-02 03:04:05 UTC · took 1 h 0 min · seed derandomized
Failed 29 graphs examined, 21 passed, 3 failed (2 likely causes). exit code 1
failures 2
operators 6
expected failures 2
subgraphs
speed
not checked 2
what the checks mean
versions, settings, hashes
What decided the exit code
mine: 2 likely causes of failures that nothing excuses
add + nn.relu: wrong-result in compare, check numerics (2 tests)
tan: error in partition, check process (1 test)
mine: 1 graph of the corpus can't be used
regressions/bad: no JSON
mine: 1 failure waived
mine: 1 failure known from the baseline
w.toml: the entries in line 9 were not judged, since tests that it may be for were not run
Outcomes
1 of 2 patterns were never matched, so the code for them was not tested: | why
✓ pass 21 72 %
✗ wrong-result 2 7 %
✗ error 1 3 %
· not-offloaded 3 10 %
? inconclusive 1 3 %
? reference-wrong 1 3 %
Failures by likely cause, each shrunk to the smallest graph that still fails
1. add + nn.relu wrong-result in compare, check numerics; probably one cause: 2 tests, 2 operators
add nn.relu
wrong-result add, nn.relu compare · check | numerics · 2 tests
nn.relu | %v0: float32[2,3]
add | S1 | %v1: float32[2,3]
input %x0 | float32[2,3]
constant %c0 | float32[3]
output 0 %v1
output 1 %v0
2 operators; coloured, S1 and on: offloaded subgraphs
the graph as text
inputs:
%x0: float32[2,3] in [-2, 2], seed 1009
constants:
%c0: float32[3] in [-2, 2], seed 1040
nodes:
%v0: float32[2,3] = nn.relu(%x0)
%v1: float32[2,3] = add(%v0, %c0)
outputs: %v1, %v0
output 0 (%v1) is outside its error bound in the first run: at [1, 0] it is 3.0.
wrong: the last row
and 1 more finding on this graph
a run whose inputs are views raised ValueError.
output 0 (%v1) at [1, 0]
expected | 1.5
bound | ± 0.25
target | 3.0
LLVM | 1.5
distance | 1.5, 6 times the bound
outside | 3 of 6 elements
red: wrong; a row is one along the last axis
likewise: in the second run
first met in
diamond
met in
diamond random[add]
identity
65adcd5b45 wrong-value
message for a waiver
output # (%) is outside its error bound in the first run: at [#] it is #.
bundle
byoc-failures/mine-relay-1
to repeat it
pytest --byoc-target=mine:partition --byoc-replay=byoc-failures/mine-relay-1/graph.json
2. tan error in partition, check process
error tan partition · check | process
tan | %v0: float32[2,3]
input %x0 | float32[2,3]
output 0 %v0
1 operator; nothing offloaded, or not known
the graph as text
inputs:
%x0: float32[2,3] in [-2, 2], seed 1009
nodes:
%v0: float32[2,3] = tan(%x0)
outputs: %v0
the target raised ValueError while partitioning: no axis 7
raised in mine/codegen.py:12, in lower
raise ValueError(axis)
no axis 7
first met in
tan[float32]
identity
d3a9b8cb0f exception
the graph needs
operand 0: axis -1 > 1; operand 0: axis -2 > 1; rank=2
message for a waiver
the target raised ValueError while partitioning: no axis #
bundle
byoc-failures/mine-relay-1
to repeat it
pytest --byoc-target=mine:partition --byoc-replay=byoc-failures/mine-relay-1/graph.json
Operators and dtypes 1 of 6 offloaded cells pass; 78 % of the generated operators were offloaded
✓ all offloaded nodes passed
◐ some passed, the rest could not be judged or shares a failing graph
? offloaded, but none passed
✗ failures
· generated, never offloaded
blank: not generated
only what does not pass
operator | f32
abs | ✗ 1
dtype | generated | offloaded | passed | failed | inconclusive | failed check
float32 | 0 | 0 | 0 | 1 | 0 | rerun (1)
add | ✗ 2
dtype | generated | offloaded | passed | failed | inconclusive | failed check
float32 | 3 | 3 | 1 | 2 | 0 | numerics (2)
floor | ✗ 1
dtype | generated | offloaded | passed | failed | inconclusive | failed check
float32 | 0 | 0 | 0 | 1 | 0 | numerics (1)
tan | ✗ 1
dtype | generated | offloaded | passed | failed | inconclusive | failed check
float32 | 1 | 0 | 0 | 1 | 0 | process (1)
nn.relu | ✓ 21
dtype | generated | offloaded | passed | failed | inconclusive | failed check
float32 | 23 | 21 | 21 | 0 | 0
sqrt | ? 1
dtype | generated | offloaded | passed | failed | inconclusive | failed check
float32 | 1 | 1 | 0 | 0 | 1
A cell counts nodes of graphs; ✗ counts failures. A row opens to show every number behind it.
2 operators of which nothing was offloaded
erf f32
exp f32
Checks
check | what must hold | held on | failures | cells | expected
process | No stage kills the process, raises, or takes longer than its limit. | 21 graphs | 1 | 1 | –
numerics | Every element that is not ambiguous is within its bound; shapes and dtypes are right. | 20 graphs | 1 | 2 | 1
Expected failures waived, or known from the baseline; they do not fail the session
case | check | outcome | reason | until | graphs
abs[float32] | rerun | wrong-result | not deterministic #7 | 2031-01-02 | 1
floor[float32] | numerics | wrong-result | known from the baseline | – | 1
Subgraphs of the 24 graphs of which something was offloaded
subgraphs
25, 1.04 a graph
operators in a subgraph
1.00
passed across their boundaries
48 bytes a graph and run
offloaded whole, yet in several
1 graph
in more than are needed
1 graph; worst: chain in 2 instead of 1
graphs by number of subgraphs
1 | | 23
2 | | 1
Speed of a run, the target's artifact and LLVM's at the same opt_level on the same device
1 µs | 1 µs
10 µs | 10 µs
LLVM is faster | the target is faster
LLVM | target
graphs measured
2
faster than LLVM
1
slower than LLVM
1
within what both vary
0
case | target / LLVM | target, µs | LLVM, µs | subgraphs | boundary | peak, target | peak, LLVM
nn.relu[float32-large] graph | 2.00 (1.71 to 2.53) | 4.0 ±15 % | 2.0 ±5 % | 1 | 48 bytes | 1.0 MiB | 512 KiB
nn.relu[float32] graph | 0.50 (0.43 to 0.63) | 1.0 ±15 % | 2.0 ±5 % | 1 | 48 bytes | 1.0 MiB | 512 KiB
Medians of up to seven measurements in turn; ± is half the distance of their quartiles, the span of a ratio comes from opposite quartiles. Boundary: bytes that a run passes into subgraphs and out of them. Peak: memory that loading and running adds to a process at most.
Not checked, not judged
check threads: not made
Patterns never matched 1 of 2
pattern | why
mine.bias | no operator fits
TVM's own LLVM build is wrong or fails; not held against the target: 1
erf[float32]: LLVM's build raised TVMError
Most elements cannot be judged: 1
sqrt[float32]: no bound
ONNX node tests: 1 pass, 1 inconclusive
test_abs: inconclusive: no bound is known
What the checks mean
process every graph
No stage kills the process, raises, or takes longer than its limit. It sees: Crashes, hangs, exceptions and calls of exit, in each stage.
numerics every graph
Every element that is not ambiguous is within its bound; shapes and dtypes are right. It sees: A wrong attribute, axis, layout, operand order or constant.
Session
tvm (workers)
0.16
python (workers)
3.8
started
2026-01-02 03:04:05 UTC
finished
2026-01-02 04:04:06 UTC
seed
derandomized
level
standard
max-examples
8
timeout
30 s
memory
1024 MiB
pytest-byoc
0
SHA-256
pytest-byoc's sources
abababababababababababababababababababababababababababababababab
waivers w.toml
cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd
Made from report.json, pytest-byoc/report/1. “Bound” is the largest error that a correct implementation in the graph's dtypes may have; the page needs no network and no script.\
""")
