"""Tests of models with an operator that has no record: LLVM in float64 beside float32 judges them."""

from __future__ import annotations

import base64
import json
import struct
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from fixtures.faults import FAULTS, apply
from pytest_byoc.config.models import Model
from pytest_byoc.core.job_report import JobReport
from pytest_byoc.evidence.comparison import compare, share_judged
from pytest_byoc.ir.float64 import in_float64
from pytest_byoc.reference_kernels import FULL, Precision
from pytest_byoc.suite.float64_models import FACTOR, SETS, NotJudged, expected
from pytest_byoc.suite.model_import import Imported, _graph

from .test_whole_models import session

#: Models of a matrix product and tanh, which example_c offloads, and behind them: of Relay an operator
#: without a record, of Relax a TIR function of its own; each also with numbers that judge nothing, and in
#: float64.
MADE = {
    "relax": """\
def made(dtype, large=0.0):
    from tvm import relax, te
    tensor = getattr(relax, "TensorStructInfo", None) or relax.TensorType
    x, w = relax.Var("x", tensor([3, 16], dtype)), relax.Var("w", tensor([16, 5], dtype))
    builder = relax.BlockBuilder()
    with builder.function("main", [x, w]):
        with builder.dataflow():
            hidden = builder.emit(relax.op.tanh(relax.op.matmul(x, w)))
            if large:
                hidden = builder.emit(relax.op.multiply(hidden, relax.const(large, dtype)))
                hidden = builder.emit(relax.op.sin(hidden))
            own = builder.emit_te(
                lambda a: te.compute(a.shape, lambda i, j: a[i, j] * te.exp(a[i, 0])), hidden,
                primfunc_name_hint="own",
            )
            out = builder.emit_output(relax.op.add(own, hidden))
        builder.emit_func_output(out)
    return builder.get()
""",
    "relay": """\
def made(dtype, large=0.0):
    import tvm
    from tvm import relay
    x, w = relay.var("x", shape=(3, 16), dtype=dtype), relay.var("w", shape=(5, 16), dtype=dtype)
    hidden = relay.tanh(relay.nn.dense(x, w))
    if large:
        hidden = relay.sin(hidden * relay.const(large, dtype))
    upper = relay.op._make.trilu(hidden, relay.const(0), True)
    return tvm.IRModule.from_expr(relay.Function([x, w], upper))
""",
}
FUNCTIONS = """
def model():
    return made("float32")

def chaotic():
    return made("float32", 3e8)

def wide():
    return made("float64")
"""
UNKNOWN = {"relax": "own", "relay": "trilu"}


def written(folder: Path, ir: str) -> Path:
    path = folder / "made.py"
    path.write_text(MADE[ir] + FUNCTIONS)
    return path


def hardmax(folder: Path) -> Path:
    """Saves an ONNX model whose last operator has no record in either IR."""
    sides = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 16]) for name in ("x", "y")]
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Add", ["r", "x"], ["a"]),
        helper.make_node("Hardmax", ["a"], ["y"], axis=-1),
    ]
    graph = helper.make_graph(nodes, "hardmax", sides[:1], sides[1:])
    path = folder / "hardmax.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


# --- the module in float64 -----------------------------------------------------------------------


def tensor_text(array: np.ndarray, code: int, bits: int) -> str:
    """Returns a tensor as TVM writes it."""
    head = struct.pack("<QQiiiBBH", 0xDD5E40F096B4A13F, 0, 1, 0, array.ndim, code, bits, 1)
    extents = struct.pack(f"<{array.ndim}q", *array.shape)
    return base64.b64encode(head + extents + struct.pack("<q", array.nbytes) + array.tobytes()).decode()


def test_dtypes_and_constants_become_float64() -> None:
    rows = np.arange(6).reshape(2, 3) / 4
    smaller = {"float16": (2, 16), "bfloat16": (4, 16), "float32": (2, 32)}
    dtypes = [*smaller, "float32x4", "float64", "int32", "a float32", "float8_e4m3"]
    given = {
        "nodes": [{"attrs": {"dtype": name}} for name in dtypes],
        "constants": [
            *(
                tensor_text(rows.astype(ml_dtypes.bfloat16 if name == "bfloat16" else name), *kind)
                for name, kind in smaller.items()
            ),
            tensor_text(rows.astype("int32"), 0, 32),
        ],
    }
    found = json.loads(in_float64(json.dumps(given)))
    assert [node["attrs"]["dtype"] for node in found["nodes"]] == [
        *["float64"] * 3, "float64x4", "float64", "int32", "a float32", "float8_e4m3",
    ]
    *floats, integers = found["constants"]
    assert floats == [tensor_text(rows, 2, 64)] * 3
    assert integers == given["constants"][-1]


# --- what is allowed -----------------------------------------------------------------------------


class Reference:
    """Workers whose reference worker has run a model with given results for each set of inputs."""

    executors = ("vm",)

    def __init__(self, narrow: Any, wide: Any, precision: Precision = FULL) -> None:
        self.precision = precision
        self._facts = {"as_it_is": narrow, "float64": wide}

    def ask_reference(self, job: Any) -> JobReport:
        assert len(job["inputs"]) == SETS
        return JobReport([{"fact": k, "executor": "vm", "value": v} for k, v in self._facts.items()])


def of(narrow: np.ndarray, wide: np.ndarray, last: float = 0.0, precision: Precision = FULL) -> Any:
    """Returns the expected output for the first set of inputs. last: added to the last set's narrow output,
    which has no other part in it."""
    sets = [[narrow.copy()] for _ in range(SETS)]
    if last:
        sets[-1][0] += np.float32(last)
    types = [f"{narrow.dtype}[{narrow.size}]"]
    value = {"reason": "no record", "inputs": {"x": "float32[2]"}, "outputs": types}
    imported = Imported(_graph("m", value)[0], {}, Path("model"), "no record", {})
    reference: Any = Reference(sets, [[wide]] * SETS, precision)
    ((output,), (other,)) = expected(reference, imported, [imported.inputs(0), imported.inputs(1)])
    assert (output.error == other.error).all()
    return output


def test_a_multiple_of_the_largest_distance_is_allowed() -> None:
    wide = np.array([1.0, 2.0, -4.0])
    narrow = (wide + [0, 1e-4, 0]).astype("float32")
    allowed = of(narrow, wide)
    near = FACTOR * np.abs(narrow - wide).max()
    assert not compare((wide + 0.99 * near).astype("float32"), allowed).outside.any()
    assert compare((wide + 1.01 * near).astype("float32"), allowed).outside.all()
    # The largest distance may be one of another set of inputs.
    assert (of(narrow, wide, last=1e-2).error > 50 * allowed.error).all()


def test_one_rounding_is_allowed_where_llvm_is_exact() -> None:
    wide = np.array([1.0, 3.0, 0.0])
    allowed = of(wide.astype("float32"), wide)
    next_ = np.nextafter(wide.astype("float32"), np.float32(9))
    assert not compare(next_, allowed).outside.any()
    assert compare(np.nextafter(next_[:2], np.float32(9)), of(next_[:2], wide[:2])).outside.sum() == 0
    assert compare(next_ + np.float32(1e-6), allowed).outside.all()


def test_elements_on_which_llvm_disagrees_with_itself_are_not_judged() -> None:
    wide = np.array([np.inf, 1e300, np.nan, 2.0])
    allowed = of(np.array([np.inf, np.inf, np.nan, 2.0], "float32"), wide)
    assert allowed.ambiguous.tolist() == [False, True, False, False]
    assert compare(np.array([5.0, 5.0, 5.0, 2.0], "float32"), allowed).outside.tolist() == [
        True, False, True, False,
    ]
    integers = of(np.array([1, 2, 3], "int32"), np.array([1, 2, 4], "int32"))
    assert integers.ambiguous.tolist() == [False, False, True]
    assert compare(np.array([1, 3, 9], "int32"), integers).outside.tolist() == [False, True, False]
    assert share_judged([integers]) == pytest.approx(2 / 3)


def test_what_llvm_in_float64_cannot_judge() -> None:
    ones = np.ones(4)
    with pytest.raises(NotJudged, match="too far apart"):
        of((ones * 3).astype("float32"), ones)
    with pytest.raises(NotJudged, match="returns float64 itself"):
        of(ones, ones)
    with pytest.raises(NotJudged, match="declares lower precision"):
        of(ones.astype("float32"), ones, precision=Precision(accumulate_dtype={"float32": "float16"}))


def test_a_reference_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    raised = {"type": "Failure", "message": "TVM does not infer its types in float64: no"}
    report = JobReport([{"raised": raised, "stage": "lower"}])
    monkeypatch.setattr(Reference, "ask_reference", lambda *_: report)
    with pytest.raises(NotJudged, match="does not infer its types in float64: no"):
        of(np.ones(4, "float32"), np.ones(4))


def test_the_value_of_the_option_that_names_a_model() -> None:
    assert Model("net", Path("/nets/net.onnx")).given == "/nets/net.onnx"
    assert Model("net", Path("/nets/made.py"), "net").given == "/nets/made.py:net"
    assert Model("mine", Path("/nets/net.onnx")).given == "mine"


# --- sessions ------------------------------------------------------------------------------------


def test_models_with_unknown_operators_are_judged(pytester: pytest.Pytester, ir: str) -> None:
    made, path = written(pytester.path, ir), hardmax(pytester.path)
    result = session(
        pytester, ir, "example_c", f"--byoc-model={made}:model", f"--byoc-model={path}", "--byoc-report=out",
    )
    assert result.ret == 0
    result.assert_outcomes(passed=2)
    by = "judged by LLVM in float64 beside float32"
    result.stdout.fnmatch_lines([
        f"model[[]model[]]: pass; {by}: operator {UNKNOWN[ir]} has no record",
        f"model[[]hardmax[]]: pass; {by}: the record of one_hot does not cover it*",
    ])
    models = json.loads((pytester.path / "out" / "report.json").read_text())["models"]
    assert [(m["judged"], m["outcome"]) for m in models] == [(by, "pass")] * 2
    assert by in (pytester.path / "out" / "report.html").read_text()


@pytest.mark.parametrize("fault", ["tanh_rational", "half_accumulator"])
def test_wrong_numbers_are_found(pytester: pytest.Pytester, ir: str, fault: str) -> None:
    target = f"{apply(FAULTS[fault], pytester.path) / '__init__.py'}:target"
    path = written(pytester.path, ir)
    result = session(pytester, ir, target, f"--byoc-model={path}:model")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([
        "model.model: output 0 (%out0) is outside its error bound*",
        "wrong-result in stage compare, check numerics*",
        f"note: judged by LLVM in float64 beside float32: operator {UNKNOWN[ir]} has no record",
        f"repeat: *--byoc-model={path}:model",
    ])
    result.stdout.no_fnmatch_line("or, without pytest-byoc*")
    # The graph stands for the model, and is not replayed by the next session.
    again = session(pytester, ir, target, f"--byoc-model={path}:model", "--collect-only", "-q")
    again.stdout.no_fnmatch_line("*corpus*")


def test_models_that_llvm_in_float64_cannot_judge(pytester: pytest.Pytester, ir: str) -> None:
    path = written(pytester.path, ir)
    result = session(
        pytester, ir, "example_c", f"--byoc-model={path}:chaotic", f"--byoc-model={path}:wide", "-rs"
    )
    # Nothing has passed.
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(skipped=2)
    unknown = f"inconclusive; no bound is known: operator {UNKNOWN[ir]} has no record, and LLVM in float64"
    result.stdout.fnmatch_lines([
        f"model[[]chaotic[]]: {unknown} judges nothing: *too far apart*",
        f"model[[]wide[]]: {unknown} judges nothing: it returns float64 itself*",
    ])
