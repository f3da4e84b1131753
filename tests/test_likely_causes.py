"""Tests of likely causes, without TVM: which failures share one, and how a known one is
recognised."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from pytest_byoc.config.effort import Effort
from pytest_byoc.core.finding import WRONG_RESULT, Finding
from pytest_byoc.core.graph import Graph, TensorType
from pytest_byoc.examination.outcome import CRASH, ERROR, Verdict
from pytest_byoc.examination.signature import normalised, traits
from pytest_byoc.generation.builder import Builder
from pytest_byoc.generation.systematic import cases, default_case
from pytest_byoc.record.likely_causes import EVERYWHERE, likely_causes, recognised
from pytest_byoc.record.target_record import TargetRecord
from pytest_byoc.suite.shrinking import Shrinking

pytestmark = pytest.mark.once

IR = "relay"


def wrong(graph: Graph, check: str = "numerics", kind: str = "wrong-value") -> Verdict:
    finding = Finding(check, WRONG_RESULT, "compare", kind, "output 0 is wrong.")
    return Verdict(graph, WRONG_RESULT, (finding,), (True,) * len(graph.nodes), 1)


def raising(graph: Graph, message: str, kind: str = "KeyError") -> Verdict:
    exception: Mapping[str, Any] = {"type": kind, "message": message, "frames": []}
    finding = Finding("process", ERROR, "build", kind, f"build raised {message}", {"exception": exception})
    return Verdict(graph, ERROR, (finding,), (True,) * len(graph.nodes), 1)


def of(operator: str, label: str = "float32") -> Graph:
    return next(c.graph for c in cases([operator], IR) if c.id == f"{operator}[{label}]")


def conv(shape: tuple[int, ...] = (1, 1, 1, 1), **attrs: Any) -> Graph:
    builder = Builder(seed=1)
    x = builder.input(TensorType(shape, "float32"))
    w = builder.constant(TensorType((1, shape[1], 1, 1), "float32"))
    simplest = default_case("nn.conv2d", "float32", IR).graph.nodes[0].attrs
    given = {**simplest, "channels": 1, "kernel_size": (1, 1), **attrs}
    return builder.graph(*builder.node("nn.conv2d", [x, w], given))


def record(*verdicts: Verdict) -> TargetRecord:
    recorded = TargetRecord("mine", IR, {})
    for i, verdict in enumerate(verdicts):
        recorded.fail(verdict, f"case {i}")
    return recorded


def number(*verdicts: Verdict) -> int:
    return len(likely_causes(record(*verdicts).failures.values()))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("12 bytes at 0x7f00aa of %v3", "40 bytes at 0xdeadbeef of %x12"),
        ("/tmp/tmpa1b2/lib0.cc:12:7: error: 'FOO' was not declared",
         "/tmp/tmp_zz/lib13.cc:9:31: error: 'FOO' was not declared"),
        ("shapes (1, 2, 3) and [4] do not fit", "shapes (5,) and [4, 4] do not fit"),
        ("expected 1.5, got nan in x0", "expected -2e-05, got -inf in v17"),
        ("KeyError: 'T.float32'", "KeyError: 'T.bfloat16'"),
        ("no kernel for my_subgraph_12", "no kernel for my_subgraph_4_of_fused"),
    ],
)
def test_normalised_messages_drop_numbers_names_and_temporary_paths(one: str, other: str) -> None:
    symbols = ("my_subgraph_12", "my_subgraph_4_of_fused")
    assert normalised(one, symbols) == normalised(other, symbols)


def test_normalised_messages_keep_their_differences() -> None:
    messages = (
        "lib0.cc:3:9: fatal error: dmlc/logging.h: No such file or directory",
        "lib0.cc:9:4: error: 'FOO' was not declared", "lib0.cc:9:4: error: 'BAR' was not declared",
        "no rule for nn.relu", "no rule for nn.gelu", "no kernel for int", "no kernel for float32x4_t",
        "/opt/vendor/a.so is missing",
        "/opt/vendor/b.so is missing",
    )
    assert len(set(map(normalised, messages))) == len(messages)


def test_faults_of_one_convolution_are_distinct_failures() -> None:
    batch, dilated = conv((2, 1, 1, 1)), conv(dilation=(1, 2))
    layout = conv(data_layout="NHWC", kernel_layout="HWIO")
    faults = record(*map(wrong, (batch, dilated, layout)))
    assert len(faults.failures) == 3
    assert [f.traits for f in faults.failures.values()] == [
        ["operand 0: axis -4 > 1"], ["dilation=[1, 2]"], ['data_layout="NHWC"'],
    ]
    assert len(likely_causes(faults.failures.values())) == 3


def test_different_messages_are_different_failures() -> None:
    """A missing header and an error in a macro are two failures, though both are one exception of
    one operator."""
    relu = of("nn.relu")
    missing = raising(relu, "a.cc:1:9: fatal error: dmlc/logging.h: No such file", "CompileError")
    macro = raising(relu, "a.cc:7:2: error: 'FOO' was not declared", "CompileError")
    assert len(record(missing, macro).failures) == 2 and number(missing, macro) == 2
    assert not missing.fails_like(macro)
    again = raising(relu, "b.cc:9:1: error: 'FOO' was not declared", "CompileError")
    assert macro.fails_like(again) and len(record(macro, again).failures) == 1


def test_one_message_over_operators_is_one_cause() -> None:
    failed = record(*(raising(of(op), f"no kernel for {op} of int8") for op in ("add", "nn.relu", "exp")))
    (cause,) = likely_causes(failed.failures.values())
    assert len(failed.failures) == cause.tests == 3 and cause.operators == ["add", "exp", "nn.relu"]


def test_one_check_over_operators_is_one_cause_with_its_smallest_graph() -> None:
    operators = ("nn.softmax", "nn.relu", "add")
    failed = record(*(wrong(of(op), "views", "differs") for op in operators))
    (cause,) = likely_causes(failed.failures.values())
    assert cause.representative.operators == ["nn.relu"]


def test_wrong_values_of_one_operator_are_one_cause() -> None:
    dtypes = ("float32", "float64", "float16")
    assert number(*(wrong(of("exp", d)) for d in dtypes)) == 1
    assert number(*(wrong(of(op)) for op in ("exp", "tanh", "add"))) == 3


def test_equal_wrong_values_of_many_operators_are_one_cause() -> None:
    everywhere = ("exp", "tanh", "add", "sigmoid", "nn.relu")
    assert len(everywhere) == EVERYWHERE and number(*(wrong(of(op)) for op in everywhere)) == 1
    assert number(*(wrong(of(op, "float64")) for op in everywhere[:3])) == 1
    assert number(*(wrong(of(op, "float64")) for op in everywhere[:2])) == 2


def test_causes_do_not_depend_on_the_order_of_failures() -> None:
    verdicts = [wrong(of(op)) for op in ("exp", "tanh", "add")] + [wrong(of("exp"), "views", "differs")] * 2
    there, back = record(*verdicts), record(*reversed(verdicts))
    ids = [[c.id for c in likely_causes(r.failures.values())] for r in (there, back)]
    assert ids[0] == ids[1] and likely_causes(there.failures.values())[0].representative.check == "views"


def recognised_operators(known: list[Verdict], new: Verdict) -> str | None:
    """Returns the operators of the known failure by which a verdict is recognised, or None."""
    recorded = record(*known)
    failure = recognised(list(recorded.failures.values()), new, IR)
    return failure and "+".join(failure.operators)


def test_a_failure_is_recognised_by_the_traits_of_its_shrunk_graph() -> None:
    batch = wrong(conv((2, 1, 1, 1)))
    assert recognised_operators([batch], wrong(conv((3, 4, 5, 6)))) == "nn.conv2d"
    assert recognised_operators([batch], wrong(conv((1, 4, 5, 6), dilation=(1, 2)))) is None
    assert recognised_operators([batch], wrong(of("nn.dense"))) is None
    assert recognised_operators([batch], wrong(conv((2, 1, 1, 1)), "rerun")) is None
    # A large error is not explained by a known small one.
    inexact = wrong(conv(), kind="inexact")
    assert recognised_operators([inexact], wrong(conv((2, 1, 1, 1)))) is None
    assert recognised_operators([wrong(conv())], wrong(conv((2, 1, 1, 1)), kind="inexact")) is not None


def test_a_finding_is_known_once_two_operators_have_shown_it() -> None:
    one, two, three = (wrong(of(op), "views", "differs") for op in ("exp", "tanh", "add"))
    assert recognised_operators([one], two) is None and recognised_operators([one, two], three) == "exp"
    # A wrong value says nothing about its cause.
    assert recognised_operators([wrong(of("exp")), wrong(of("tanh"))], wrong(of("add"))) is None


def test_wrong_values_of_several_operators_are_not_recognised() -> None:
    builder = Builder(seed=1)
    x = builder.input(TensorType((2, 3), "float32"))
    both = builder.graph(builder.simple("tanh", builder.simple("exp", x)))
    assert recognised_operators([wrong(of("exp"))], wrong(both)) is None
    known = raising(of("exp"), "no table for exp")
    assert recognised_operators([known], raising(both, "no table for exp")) == "exp"


def test_traits_are_differences_from_the_simplest_case() -> None:
    assert traits(conv(), IR) == set()
    assert {"dtype=float64"} <= traits(of("nn.relu", "float64"), IR)
    constant = traits(of("add", "float32-constant_operand"), IR)
    assert "operand 1 is a constant" in constant
    assert "operand 1 is operand 0" in traits(of("add", "float32-same_operand"), IR)
    assert "operand 0 has large elements" in traits(of("nn.relu", "float32-large_values"), IR)


def test_causes_of_several_processes_are_merged() -> None:
    verdicts = [wrong(of(op), "views", "differs") for op in ("exp", "tanh")]
    one, other = record(*verdicts), record(verdicts[1], replace(verdicts[1]))
    whole = TargetRecord("mine", IR, {})
    for part in (one, other):
        whole.merge(part.take())
    (cause,) = likely_causes(whole.failures.values())
    assert cause.tests == 4 and cause.operators == ["exp", "tanh"] and cause.dtypes == ["float32"]


class CrashingExaminer:
    """Stands for an examiner of a target whose process dies on every graph in the stage `stage`,
    printing `printed`; under malloc's check of block ends (overrun) it prints `guarded`."""

    def __init__(self, stage: str, printed: str, guarded: str) -> None:
        self.stage, self.printed, self.guarded = stage, printed, guarded

    def examine(self, graph: Graph, effort: Effort | None = None) -> Verdict:
        text = f"the process died in the stage {self.stage}: SIGSEGV."
        crashes = [Finding("process", CRASH, self.stage, "SIGSEGV", text, {"printed": self.printed})]
        if effort is not None and "overrun" in effort.checks:
            crashes.append(Finding("overrun", CRASH, "unload", "SIGABRT", "", {"printed": self.guarded}))
        return Verdict(graph, CRASH, tuple(crashes), (True,), 1)

    def look_briefly(self, graph: Graph, effort: Effort, finding: Finding) -> Verdict:
        return self.examine(graph, effort)


@pytest.mark.parametrize(
    ("stage", "printed", "guarded", "expected"),
    [
        ("run", "", "free(): invalid pointer\n", True),
        ("run", "", "vendor: assertion failed\n", False),
        ("run", "", "", False),
        # A heap that a run under one executor has corrupted is detected while the next one is
        # built.
        ("build", "malloc(): unaligned tcache chunk detected\n", "", True),
        ("run", "corrupted size vs. prev_size\n", "", True),
        ("build", "", "free(): invalid pointer\n", False),
    ],
)
def test_a_crash_by_a_write_out_of_bounds_is_reported_as_such(
    stage: str, printed: str, guarded: str, expected: bool
) -> None:
    examiner: Any = CrashingExaminer(stage, printed, guarded)
    original = examiner.examine(of("nn.relu"))
    shrunk, _ = Shrinking(examiner, IR, original, lambda verdict: None).run()
    assert shrunk.findings[0].message.startswith("something is written behind (or before)") == expected
    assert "the process died in the stage" in shrunk.findings[0].message
    assert shrunk.fails_like(original)
