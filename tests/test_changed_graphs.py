"""Tests of partition functions that change graphs but offload nothing: the change is judged."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .conftest import PYTHON, RELU_AND_SIGN

#: Each function partitions for example_c, which offloads nn.relu but not sign, and changes calls of
#: sign.
_TARGET = """\
import tvm
from pytest_byoc.examples.example_c import target as example

def with_sine(mod):
    return example.partition(replaced(mod, sine))

def single(mod):
    several = isinstance(mod["main"].ret_type if hasattr(mod["main"], "ret_type") else None, tvm.ir.TupleType)
    tuples = "TupleType", "TupleStructInfo"
    several |= type(getattr(mod["main"], "ret_struct_info", None)).__name__ in tuples
    return example.partition(mod if several else replaced(mod, sine))

def rounded(mod):
    return example.partition(replaced(mod, floor))

def with_sine_in_place(mod):
    mod.update(replaced(mod, sine))
    return example.partition(mod)

def renamed(mod):
    if replaced(mod, sine) is mod:
        return example.partition(mod)
    return tvm.IRModule({tvm.ir.GlobalVar("entry"): mod["main"]})

def retyped(mod):
    return example.partition(replaced(mod, as_float64))

def replaced(mod, change):
    \"\"\"The module itself where nothing calls sign.\"\"\"
    changed = with_calls_changed(mod, change)
    return mod if tvm_equal(changed["main"], mod["main"]) else changed
"""
_RELAY = """\
from tvm import relay

def sine(call):
    return relay.sin(call)

def floor(call):
    return relay.floor(call)

def as_float64(call):
    return relay.cast(call, "float64")

def tvm_equal(a, b):
    return tvm.ir.structural_equal(a, b)

def with_calls_changed(mod, change):
    class Changing(relay.ExprMutator):
        def visit_call(self, call):
            new = super().visit_call(call)
            return change(new) if getattr(call.op, "name", "") == "sign" else new

    main = mod["main"]
    main = relay.Function(main.params, Changing().visit(main.body))
    return relay.transform.InferType()(tvm.IRModule.from_expr(main))
"""
_RELAX = """\
import tvm_ffi
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

def sine(call):
    return relax.op.sin(call)

def floor(call):
    return relax.op.floor(call)

def as_float64(call):
    return relax.op.astype(call, "float64")

def tvm_equal(a, b):
    return tvm_ffi.structural_equal(a, b)

@mutator
class Changing(PyExprMutator):
    def __init__(self, mod, change):
        super().__init__(mod)
        self.change = change

    def visit_call_(self, call):
        new = self.visit_expr_post_order(call)
        if getattr(call.op, "name", "") != "relax.sign":
            return new
        return self.builder_.normalize(self.change(self.builder_.emit(new)))

def with_calls_changed(mod, change):
    main = Changing(mod, change).visit_expr(mod["main"])
    return tvm.IRModule({mod.get_global_var("main"): main})
"""


def run(
    pytester: pytest.Pytester, ir: str, function: str, *args: str
) -> tuple[Any, dict[str, Any]]:
    """Runs a session at smoke with one of the functions, on a graph of each operator unless other
    arguments are given. Returns pytest's result and the report."""
    pytester.makepyfile(wreck=_TARGET + (_RELAY if ir == "relay" else _RELAX), test_graphs=RELU_AND_SIGN)
    result = pytester.runpytest_subprocess(
        f"--byoc-target=wreck.py:{function}", f"--byoc-python={PYTHON}", f"--byoc-ir={ir}",
        "--byoc-level=smoke", "--byoc-report=out", "-q", "-p", "no:cacheprovider",
        *(args or ("test_graphs.py",)), timeout=300,
    )
    return result, json.loads(pytester.path.joinpath("out", "report.json").read_text())


@pytest.mark.parametrize("function", ["with_sine", "with_sine_in_place"])
def test_a_change_of_the_value_is_a_failure(pytester: pytest.Pytester, ir: str, function: str) -> None:
    result, report = run(pytester, ir, function)
    result.assert_outcomes(passed=1, failed=1)
    (failure,) = report["failures"]
    assert (failure["check"], failure["outcome"], failure["operators"]) == (
        "inline-back", "wrong-result", ["sign"],
    )
    assert "of which nothing is offloaded" in failure["message"]


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("renamed", "without the function main; it has entry"),
        ("retyped", "the type of main: it was given (float32[3,5]) -> float32[3,5], and returned"),
    ],
)
def test_a_renamed_or_retyped_main_is_an_error(
    pytester: pytest.Pytester, ir: str, function: str, words: str
) -> None:
    result, report = run(pytester, ir, function)
    result.assert_outcomes(passed=1, failed=1)
    (failure,) = report["failures"]
    assert (failure["outcome"], failure["stage"], failure["operators"]) == ("error", "partition", ["sign"])
    assert words in failure["message"]


def test_a_change_that_keeps_the_value_is_no_failure(pytester: pytest.Pytester, ir: str) -> None:
    """The graph is judged but does not count as a pass, because nothing was offloaded."""
    result, report = run(pytester, ir, "rounded")
    result.assert_outcomes(passed=1, skipped=1)
    assert (result.ret, report["failures"]) == (pytest.ExitCode.OK, [])
    assert (report["outcomes"]["pass"], report["outcomes"]["not-offloaded"]) == (1, 1)


def test_a_change_made_only_to_single_graphs_is_detected(
    pytester: pytest.Pytester, ir: str
) -> None:
    """The suite puts several graphs into one module."""
    result, report = run(pytester, ir, "single", "--byoc-operators=sign,nn.relu", "-k", "test_operator")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    # Sine of integers does not exist: Relax raises in partitioning, Relay in LLVM's build.
    outcomes = {(f["check"], f["outcome"]) for f in report["failures"]}
    assert ("inline-back", "wrong-result") in outcomes
    assert {tuple(f["operators"]) for f in report["failures"]} == {("sign",)}
