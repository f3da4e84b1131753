"""Tests of targets whose regions cannot be built here: only the partition stage is checked, and the
report says so."""

from __future__ import annotations

import json
import subprocess
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_byoc.core.finding import Finding
from pytest_byoc.core.graph import TensorType
from pytest_byoc.examination.outcome import Verdict
from pytest_byoc.examination.partitions import Partition
from pytest_byoc.examination.stages import Stages
from pytest_byoc.generation.builder import Builder
from pytest_byoc.generation.systematic import default_case
from pytest_byoc.storage import corpus

from .conftest import PYTHON, RELU_AND_SIGN

GRAPH = default_case("nn.relu", "float32").graph
PARTITION = Partition((0,), 1, frozenset())

#: example_c's partition function for a codegen that does not exist; `wrong` replaces sign by
#: nn.relu.
_RELAY = """\
import tvm
from tvm import relay
from pytest_byoc.examples.example_c import target as example

class Wrong(relay.ExprMutator):
    def visit_call(self, call):
        new = super().visit_call(call)
        return relay.nn.relu(new.args[0]) if getattr(call.op, "name", "") == "sign" else new

def ghost(mod):
    mod = example.partition(mod)
    for var, function in mod.functions.items():
        if "Compiler" in (function.attrs.keys() if function.attrs else ()):
            mod[var] = function.with_attr("Compiler", "ghost")
    return mod

def wrong(mod):
    main = mod["main"]
    main = relay.Function(main.params, Wrong().visit(main.body))
    return ghost(relay.transform.InferType()(tvm.IRModule.from_expr(main)))
"""
_RELAX = """\
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator
from pytest_byoc.examples.example_c import target as example

@mutator
class Wrong(PyExprMutator):
    def visit_call_(self, call):
        new = self.visit_expr_post_order(call)
        return relax.op.nn.relu(new.args[0]) if getattr(call.op, "name", "") == "relax.sign" else new

def ghost(mod):
    mod = example.partition(mod)
    functions = dict(mod.functions.items())
    for var, function in functions.items():
        if isinstance(function, relax.Function) and "Codegen" in list(function.attrs.keys()):
            functions[var] = function.with_attr("Codegen", "ghost")
    return tvm.IRModule(functions)

def reordered(mod):
    mod = example.partition(mod)
    functions = dict(reversed(list(mod.functions.items())))
    return tvm.IRModule(functions, attrs=mod.attrs, global_infos=mod.global_infos)

def wrong(mod):
    main = Wrong(mod).visit_expr(mod["main"])
    return ghost(tvm.IRModule({mod.get_global_var("main"): main}))
"""


#: Two operators, which become two regions.
_TWO = """\
import pytest_byoc as byoc

def test_two(byoc_check):
    rows, row = byoc.TensorType((3, 5), "float32"), byoc.TensorType((4,), "float32")
    nodes = (
        byoc.Node("nn.relu", inputs=("x0",), attrs={}, outputs=("v0",), types=(rows,)),
        byoc.Node("exp", inputs=("x1",), attrs={}, outputs=("v1",), types=(row,)),
    )
    byoc_check(byoc.Graph((byoc.Source("x0", rows), byoc.Source("x1", row)), (), nodes, ("v0", "v1")))
"""


def run(pytester: pytest.Pytester, ir: str, target: str, *args: str) -> tuple[Any, dict[str, Any]]:
    """Runs a session on a graph of nn.relu and one of sign; returns pytest's result and the
    report."""
    pytester.makepyfile(phantom=_RELAY if ir == "relay" else _RELAX, test_graphs=RELU_AND_SIGN)
    result = pytester.runpytest_subprocess(
        f"--byoc-target={target}", f"--byoc-python={PYTHON}", f"--byoc-ir={ir}",
        "--byoc-level=smoke", "--byoc-report=out", "-p", "no:cacheprovider", "test_graphs.py",
        *args, timeout=300,
    )
    return result, json.loads(pytester.path.joinpath("out", "report.json").read_text())


def test_without_a_codegen_the_partition_stage_is_checked(pytester: pytest.Pytester, ir: str) -> None:
    result, report = run(pytester, ir, "phantom.py:ghost")
    result.assert_outcomes(passed=1, skipped=1)
    assert result.ret == 6 == report["gate"]["exit"]
    assert f"no codegen for its regions here ({ir}.ext.ghost)" in report["partition_only"]
    result.stdout.fnmatch_lines(
        ["*partition stage only: the stages codegen, build, export, load and run were not run*"]
    )
    page = pytester.path.joinpath("out", "report.html").read_text()
    assert "Passed as far as it could be checked: partition stage only" in page


@pytest.mark.once
def test_stages_partition_is_a_success_without_a_codegen(pytester: pytest.Pytester, ir: str) -> None:
    result, report = run(pytester, ir, "phantom.py:ghost", "--byoc-stages=partition")
    assert (result.ret, report["outcomes"]["pass"]) == (pytest.ExitCode.OK, 1)
    assert report["partition_only"] == "as --byoc-stages=partition says"


@pytest.mark.once
def test_stages_all_fails_without_a_codegen(pytester: pytest.Pytester, ir: str) -> None:
    result, report = run(pytester, ir, "phantom.py:ghost", "--byoc-stages=all", "-k", "relu")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert [f["outcome"] for f in report["failures"]] == ["error"]


def test_a_wrong_region_is_found_without_a_codegen(
    pytester: pytest.Pytester, ir: str
) -> None:
    result, report = run(pytester, ir, "phantom.py:wrong")
    result.assert_outcomes(passed=1, failed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    (failure,) = report["failures"]
    assert (failure["check"], failure["outcome"]) == ("inline-back", "wrong-result")
    # The script shows the failure without a codegen, too, and passes once the target is repaired.
    command = [PYTHON, str(next(pytester.path.glob("out/byoc-failures/*/reproduce.py")))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    last = done.stdout.splitlines()[-1]
    assert done.returncode == 1 and last.startswith("FAILED: output v0 with the regions put back, built by")
    with pytester.path.joinpath("phantom.py").open("a") as f:
        f.write("\n\nwrong = ghost\n")
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.stdout.splitlines()[-1] == "passed", done.stdout + done.stderr


def test_functions_of_a_module_may_change_their_order(pytester: pytest.Pytester, ir: str) -> None:
    """Functions of another target may be reordered, too."""
    if ir == "relay":
        pytest.skip("a module of Relay's has no order")
    pytester.makepyfile(test_two=_TWO)
    result, report = run(
        pytester, ir, "phantom.py:reordered", "--byoc-stages=partition", "--byoc-level=full", "test_two.py",
    )
    assert result.ret == pytest.ExitCode.OK and report["held"]["bystanders"], result.stdout.str()


def test_a_name_without_a_codegen_in_tvm(pytester: pytest.Pytester, ir: str) -> None:
    result, report = run(pytester, ir, {"relay": "dnnl", "relax": "tensorrt"}[ir], "-k", "relu")
    result.assert_outcomes(passed=1, deselected=1)
    assert result.ret == 6 and "no codegen" in report["partition_only"]


def test_an_unusable_partition_function_of_tvm(pytester: pytest.Pytester, ir: str) -> None:
    """Its patterns are used instead; where they are unusable, too, there is one message."""
    if ir == "relax":
        pytest.skip("all those of Relax can be used")
    _, report = run(pytester, ir, "cmsis-nn", "-k", "relu")
    (note,) = [text for text in report["not_checked"] if "own partition function for cmsis-nn" in text]
    assert "NameError" in note and "the patterns registered under that name are used" in note
    result = pytester.runpytest_subprocess("--byoc-target=tensorrt", f"--byoc-python={PYTHON}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    words = "*TVM knows the name, but can partition nothing for it here*is not defined*"
    result.stderr.fnmatch_lines([words])


@pytest.mark.once
def test_unknown_stages_are_refused(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess("--byoc-target=example_c", "--byoc-stages=some")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*unknown stages 'some'; known are: all, partition*"])


@pytest.mark.once
@pytest.mark.parametrize(
    ("seen", "given_up"),
    [
        ("error error", True), ("crash error", True), ("hang crash error", True), ("crash crash", False),
        ("error pass", False), ("crash pass error", False), ("error wrong-result", False), ("", False),
    ],
)
def test_a_missing_runtime_is_distinguished_from_failures(seen: str, given_up: bool) -> None:
    """A graph that ends its process tells nothing about the others, each of which may report a
    missing runtime."""
    outcomes = seen.split()
    workers: Any = SimpleNamespace(partition_only="", named_in_tvm=True, ir="relay")
    offloaded: Any = SimpleNamespace(survey=lambda graphs: [PARTITION] * len(outcomes) + [None] * len(graphs))
    decided = Stages(workers, offloaded, None)
    for _, outcome in zip(decided.to_be_tried(), outcomes):
        finding = Finding("process", outcome, "run", "TVMError", "no runtime")
        decided.learn(Verdict(GRAPH, outcome, (finding,)))
    reason = workers.partition_only
    assert bool(reason) is given_up and ("no runtime" in reason) is given_up


#: A codegen that does not exist is given all additions, also those without elements.
_ADDITIONS = """\
from tvm import relax
from tvm.relax.dpl import is_op, wildcard

def additions(mod):
    pattern = is_op("relax.add")(wildcard(), wildcard())
    return relax.transform.FuseOpsByPattern([("ghost.add", pattern)], annotate_codegen=True)(mod)
"""


def test_a_module_that_tvm_cannot_load_from_json_is_not_held_against_the_target(
    pytester: pytest.Pytester, ir: str
) -> None:
    if ir == "relay":
        pytest.skip("TVM 0.16 loads constants without elements, which TVM 0.27 saves and does not load")
    empty = TensorType((2, 0), "float32")
    builder = Builder()
    added = builder.simple("add", builder.input(empty), builder.constant(empty))
    saved = corpus.save(pytester.path / "saved", builder.graph(added), "a test")
    pytester.makepyfile(phantom=_ADDITIONS)
    result = pytester.runpytest_subprocess(
        "--byoc-target=phantom.py:additions", f"--byoc-python={PYTHON}", f"--byoc-ir={ir}",
        f"--byoc-replay={saved}", "-p", "no:cacheprovider", timeout=300,
    )  # fmt: skip
    result.assert_outcomes(passed=1)
    why = "TVM alone fails too where modules are loaded from JSON (InternalError)"
    result.stdout.fnmatch_lines([f"*check ir-json: {why}"])
