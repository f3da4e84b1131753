"""Tests of whole models: how they are named, imported and raised, and how their failures are narrowed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from fixtures.faults import FAULTS, apply
from fixtures.models import MODELS
from pytest_byoc.config.errors import SettingsError
from pytest_byoc.config.models import Model, models
from pytest_byoc.core.graph import Graph, Node, TensorType
from pytest_byoc.core.parts import part
from pytest_byoc.examination.workers import Workers
from pytest_byoc.generation import data
from pytest_byoc.generation.builder import Builder
from pytest_byoc.oracle import evaluation, sampling
from pytest_byoc.report.model_lines import size
from pytest_byoc.suite import culprit
from pytest_byoc.suite.model_facts import multiply_adds
from pytest_byoc.suite.model_graphs import pieces
from pytest_byoc.suite.model_import import Imported, NotImported, load

from .conftest import PYTHON, declaration, make_settings

#: Networks with all operators of the fixtures, which are imported in seconds.
SOME = ("squeezenet", "mobilenet_v1", "ssd_vgg", "lstm_unrolled", "bert_layer", "decoder_step",
        "mobilenet_v1_int8")


def saved(folder: Path, name: str) -> Path:
    path = folder / f"{name}.onnx"
    path.write_bytes(MODELS[name]().SerializeToString())
    return path


# --- names -------------------------------------------------------------------------------------


def test_models_are_named_by_their_files(tmp_path: Path) -> None:
    (tmp_path / "nets").mkdir()
    for name in ("b.onnx", "a.json", "notes.txt"):
        (tmp_path / "nets" / name).touch()
    (tmp_path / "made.py").touch()
    found = models(["nets", "made.py:net"], tmp_path, tmp_path)
    assert [(m.name, m.path.name, m.function) for m in found] == [
        ("a", "a.json", ""), ("b", "b.onnx", ""), ("net", "made.py", "net")
    ]


def test_a_table_says_more_of_a_model(tmp_path: Path) -> None:
    (tmp_path / "a.onnx").touch()
    text = '[tool.pytest-byoc.models.a]\nshapes = { x = [1, 3] }\nranges = { x = [0, 255] }\n'
    text += '[tool.pytest-byoc.models.other]\npath = "a.onnx"\ninputs = ["x"]\n'
    (tmp_path / "pyproject.toml").write_text(text)
    (a,) = models(["a.onnx"], tmp_path, tmp_path)
    assert a.shapes == {"x": [1, 3]} and a.ranges == {"x": (0.0, 255.0)}
    (other,) = models(["other"], tmp_path, tmp_path)
    assert other == Model("other", tmp_path / "a.onnx", inputs=("x",))


@pytest.mark.parametrize(
    ("value", "table", "message"),
    [
        ("no.onnx", "", "there is no file"),
        ("pyproject.toml", "", r"expected a file \*.onnx or \*.json"),
        (".", "", r"the folder has no file \*.onnx"),
        ("a", "[tool.pytest-byoc.models.a]\nshape = 3", "unknown setting shape; known are path, inputs"),
        ("a", "[tool.pytest-byoc.models.a]\nranges = { x = 3 }", "ranges must be a table of"),
        ("a", "[tool.pytest-byoc]\nmodels = 3", "models must be a table"),
    ],
)
def test_models_that_cannot_be_named(tmp_path: Path, value: str, table: str, message: str) -> None:
    (tmp_path / "pyproject.toml").write_text(table)
    with pytest.raises(SettingsError, match=message):
        models([value], tmp_path, tmp_path)


def test_two_models_of_one_name(tmp_path: Path) -> None:
    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.onnx").touch()
    with pytest.raises(SettingsError, match="two models have the name a"):
        models(["x", "y"], tmp_path, tmp_path)


# --- import ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def workers(ir: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    settings = make_settings(tmp_path_factory.mktemp("models"), timeout=120.0)
    opened = Workers(settings, declaration("example_c", ir))
    opened.open()
    yield opened
    opened.close()


@pytest.mark.parametrize("name", SOME)
def test_a_network_becomes_a_graph_that_computes_the_same(
    workers: Workers, tmp_path: Path, name: str
) -> None:
    runtime = pytest.importorskip("onnxruntime")
    path = saved(tmp_path, name)
    imported = load(workers, Model(name, path), tmp_path)
    assert not imported.reason
    inputs = imported.inputs(0)
    found = evaluation.evaluate(imported.graph, {**imported.constants, **inputs})
    session = runtime.InferenceSession(path.read_bytes())
    names = [i.name for i in session.get_inputs()]
    expected = session.run(None, dict(zip(names, inputs.values())))
    for bounded, array in zip(found, expected, strict=True):
        np.testing.assert_allclose(bounded.value, array, rtol=1e-3, atol=2e-2 * np.abs(array).max())


def test_open_axes_are_given_extents(workers: Workers, tmp_path: Path) -> None:
    path = saved(tmp_path, "decoder_open")
    imported = load(workers, Model("d", path), tmp_path)
    assert imported.chosen and set(imported.chosen.values()) <= {1, 7}
    shapes = {s.name: list(s.type.shape) for s in imported.graph.inputs}
    longer = {n: [9 if e == 7 else e for e in shape] for n, shape in shapes.items()}
    again = load(workers, Model("d", path, shapes=longer), tmp_path)
    assert {s.name: list(s.type.shape) for s in again.graph.inputs} == longer


#: Python files that return models: TVM's own modules, with and without parameters, and an ONNX model.
MADE = {
    "relax": """\
def module():
    from tvm import relax
    tensor = getattr(relax, "TensorStructInfo", None) or relax.TensorType
    x, w = relax.Var("x", tensor([2, 3], "float32")), relax.Var("w", tensor([3, 4], "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x, w]):
        with builder.dataflow():
            out = builder.emit_output(relax.op.nn.relu(relax.op.matmul(x, w)))
        builder.emit_func_output(out)
    return builder.get()

def clipped():
    from tvm import relax
    tensor = getattr(relax, "TensorStructInfo", None) or relax.TensorType
    x = relax.Var("x", tensor([2, 3], "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(relax.op.clip(x, 0, 6))
        builder.emit_func_output(out)
    return builder.get()
""",
    "relay": """\
def module():
    import tvm
    from tvm import relay
    x, w = relay.var("x", shape=(2, 3)), relay.var("w", shape=(4, 3))
    return tvm.IRModule.from_expr(relay.Function([x, w], relay.nn.relu(relay.nn.dense(x, w))))

def clipped():
    import tvm
    from tvm import relay
    x = relay.var("x", shape=(2, 3))
    return tvm.IRModule.from_expr(relay.Function([x], relay.clip(x, 0, 6)))
""",
}
WITH_WEIGHTS = """
def with_weights():
    import numpy
    shape = (3, 4) if IR == "relax" else (4, 3)
    return module(), {"w": numpy.full(shape, 0.5, "float32")}

def as_json():
    import pathlib, tvm
    path = pathlib.Path(__file__).with_name("net.json")
    path.write_text(str(tvm.ir.save_json(module())))
    return module()

def number():
    return 3
"""


def test_functions_that_return_models(workers: Workers, tmp_path: Path, ir: str) -> None:
    path = tmp_path / "made.py"
    path.write_text(f"IR = {ir!r}\n{MADE[ir]}{WITH_WEIGHTS}")

    def of(function: str, **more: object) -> Imported:
        return load(workers, Model("m", path, function, **more), tmp_path)  # type: ignore[arg-type]

    plain = of("module")
    assert [s.name for s in plain.graph.inputs] == ["x", "w"] and not plain.constants
    (weights,) = of("with_weights").constants.values()
    assert (weights == 0.5).all()
    (drawn,) = of("module", inputs=("x",)).constants.values()
    assert 0.1 < drawn.std() < 2
    assert of("as_json").graph.operators == plain.graph.operators
    by_json = load(workers, Model("m", tmp_path / "net.json"), tmp_path)
    assert by_json.graph.operators == plain.graph.operators
    assert of("clipped").graph.operators == ("clip",)  # whose bounds are no tensors in Relax
    ranged = of("module", ranges={"x": (0.0, 255.0)}).graph.inputs[0]
    assert (ranged.low, ranged.high) == (0.0, 255.0)
    for function, more, message in (
        ("number", {}, "the model is a int, expected an IRModule"),
        ("nothing", {}, "has no attribute nothing"),
        ("module", {"inputs": ("y",)}, "has no input y; it has x, w"),
        ("module", {"ranges": {"y": (0, 1)}}, "ranges name y; its inputs are x, w"),
    ):
        with pytest.raises(NotImported, match=message):
            of(function, **more)


def test_models_that_cannot_be_imported(workers: Workers, tmp_path: Path) -> None:
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no model")
    with pytest.raises(NotImported, match="is no ONNX model that can be read"):
        load(workers, Model("broken", broken), tmp_path)
    (tmp_path / "broken.json").write_text("{}")
    with pytest.raises(NotImported, match="is no module that TVM"):
        load(workers, Model("broken", tmp_path / "broken.json"), tmp_path)
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
    node = helper.make_node("Frobnicate", ["x"], ["y"], domain="com.vendor")
    graph = helper.make_graph([node], "g", [value], [out])
    unknown = tmp_path / "unknown.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("com.vendor", 1)]), unknown)
    with pytest.raises(NotImported, match=r"does not import the model: .*Frobnicate"):
        load(workers, Model("unknown", unknown), tmp_path)


ROWS = TensorType((2, 3), "float32")


# --- parts, samples, culprits --------------------------------------------------------------------


def chain(length: int) -> Graph:
    """Returns a chain of multiplications by constants and additions of the input."""
    b = Builder(seed=5)
    x = value = b.input(ROWS)
    for number in range(length):
        other = b.constant(ROWS, 0.5, 1.0) if number % 2 else x
        (value,) = b.node("multiply" if number % 2 else "add", [value, other], {})
    return b.graph(value)


def test_a_part_reads_and_returns_what_others_make_and_read() -> None:
    graph = chain(6)
    middle = part(graph, {2, 3})
    assert [s.name for s in middle.inputs] == [graph.nodes[1].outputs[0], graph.inputs[0].name]
    assert middle.outputs == graph.nodes[3].outputs and len(middle.constants) == 1
    both = part(graph, {0, 1, 4, 5})
    assert both.outputs == (graph.nodes[1].outputs[0], graph.nodes[5].outputs[0])


def test_samples_allow_less_than_the_derived_bound_and_more_than_rounding() -> None:
    random, b = np.random.default_rng(3), Builder(seed=5)
    rows = value = b.input(TensorType((2, 16), "float32"))
    layers = [(random.standard_normal((16, 16)) / 4).astype("float32") for _ in range(30)]
    for layer in layers:
        weight = b.constant(TensorType((16, 16), "float32"), data=layer.tolist())
        (value,) = b.node("nn.dense", [value, weight], {"units": 16, "out_dtype": "float32"})
    graph = b.graph(value)
    arrays = {**data.constants(graph), **data.inputs(graph, 0)}
    ((allowed,), known) = sampling.expected(graph, arrays)
    assert (allowed.error < known[value].error / 1e6).all()
    result = arrays[rows]
    for layer in layers:
        result = result @ layer.T
    assert (np.abs(result - allowed.value) <= allowed.error).all()
    assert not (np.abs(result + np.abs(result).max() * 1e-3 - allowed.value) <= allowed.error).any()


def test_the_first_wrong_node_is_found_with_the_nodes_that_it_needs() -> None:
    graph = chain(20)
    inputs, constants = [data.inputs(graph, n) for n in (0, 1)], data.constants(graph)
    known = [evaluation.values(graph, {**constants, **given}) for given in inputs]
    wrong = graph.nodes[13]

    def fails(few: Graph, given: object, own: object) -> bool:
        # It is wrong only behind the node before it.
        return {wrong.outputs, graph.nodes[12].outputs} <= {n.outputs for n in few.nodes}

    found = culprit.find(graph, inputs, constants, known, fails)
    assert found is not None and found.position == 13
    assert [n.outputs for n in found.graph.nodes] == [graph.nodes[12].outputs, wrong.outputs]
    assert set(found.inputs[0]) == {s.name for s in found.graph.inputs}
    assert culprit.find(graph, inputs, constants, known, lambda *_: False) is None


def test_large_graphs_are_cut_into_pieces() -> None:
    graph = chain(20)
    cut = list(pieces(graph))
    assert [len(piece.nodes) for piece in cut] == [8, 8, 4]
    assert cut[1].inputs[0].name == cut[0].outputs[0] == graph.nodes[7].outputs[0]


def node(op: str, shapes: Sequence[tuple[int, ...]], **attrs: Any) -> tuple[Graph, Node]:
    b = Builder(seed=5)
    inputs = [b.input(TensorType(shape, "float32")) for shape in shapes]
    (out, *_) = b.node(op, inputs, attrs)
    graph = b.graph(out)
    return graph, graph.nodes[0]


@pytest.mark.parametrize(
    ("op", "shapes", "attrs", "expected"),
    [
        ("nn.dense", [(2, 5), (7, 5)], {"units": 7, "out_dtype": "float32"}, 2 * 7 * 5),
        ("nn.conv2d", [(1, 4, 6, 6), (8, 4, 3, 3)], {"groups": 1, "channels": 8}, 8 * 16 * 36),
        ("nn.conv2d", [(1, 4, 6, 6), (4, 1, 3, 3)], {"groups": 4, "channels": 4}, 4 * 16 * 9),
        ("nn.relu", [(2, 3)], {}, 0),
    ],
)
def test_multiply_adds(op: str, shapes: Any, attrs: dict[str, Any], expected: int) -> None:
    if op == "nn.conv2d":
        attrs = {
            "data_layout": "NCHW", "kernel_layout": "OIHW", "kernel_size": (3, 3), "strides": (1, 1),
            "padding": (0, 0, 0, 0), "dilation": (1, 1), "out_dtype": "float32", **attrs,
        }
    assert multiply_adds(*node(op, shapes, **attrs)) == expected


def test_numbers_in_words() -> None:
    assert [size(n) for n in (0, 7, 999, 1000, 12_345, 1_500_000, 4.1e9)] == [
        "0", "7", "999", "1k", "12.3k", "1.5M", "4.1G"
    ]


# --- sessions ------------------------------------------------------------------------------------


def session(pytester: pytest.Pytester, ir: str, target: str, *arguments: str) -> pytest.RunResult:
    return pytester.runpytest_subprocess(
        f"--byoc-target={target}", f"--byoc-python={PYTHON}", f"--byoc-ir={ir}", "-p", "no:cacheprovider",
        *arguments, timeout=300,
    )


def test_a_model_passes(pytester: pytest.Pytester, ir: str) -> None:
    path = saved(pytester.path, "lstm_unrolled")
    result = session(pytester, ir, "example_c", f"--byoc-model={path}", "-v", "--byoc-report=out")
    assert result.ret == 0
    result.stdout.fnmatch_lines([
        "*test_model[[]lstm_unrolled[]] PASSED*",
        "model[[]lstm_unrolled[]]: pass; 87 of 8* operators offloaded, 100% of *k multiply-adds, in 1 s*h;*",
    ])
    result.assert_outcomes(passed=1)
    (model,) = json.loads((pytester.path / "out" / "report.json").read_text())["models"]
    assert (model["outcome"], model["offloaded"], model["subgraphs"]) == ("pass", 87, 1)
    assert "model[lstm_unrolled]" in (pytester.path / "out" / "report.html").read_text()


@pytest.mark.once
def test_a_wrong_kernel_among_many_layers_is_named(pytester: pytest.Pytester, ir: str) -> None:
    path = saved(pytester.path, "mobilenet_v1")
    target = apply(FAULTS["conv2d_pad_scaled"], pytester.path) / "__init__.py"
    result = session(pytester, ir, f"{target}:target", f"--byoc-model={path}")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.re_match_lines([
        r"In model\[mobilenet_v1\]: the first wrong result is that of nn.conv2d \(%v0\), operator 1 of \d",
        r"graph \(1 operator, simpler than the one of the case\):",
        r"found in: model\[mobilenet_v1\]",
    ])


@pytest.mark.once
def test_a_model_that_cannot_be_imported_is_in_the_reports(pytester: pytest.Pytester, ir: str) -> None:
    (pytester.path / "broken.onnx").write_bytes(b"no model")
    models = (f"--byoc-model={path}" for path in ("broken.onnx", saved(pytester.path, "mlp")))
    result = session(pytester, ir, "example_c", *models, "--byoc-report=out")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["model[[]broken[]]: not-imported; why is told by its test"])
    broken, mlp = json.loads((pytester.path / "out" / "report.json").read_text())["models"]
    assert "is no ONNX model that can be read" in broken["not_imported"]
    assert mlp["outcome"] == "pass"
    assert "not-imported" in (pytester.path / "out" / "report.html").read_text()


@pytest.mark.once
def test_models_that_cannot_be_run(pytester: pytest.Pytester, ir: str) -> None:
    (pytester.path / "broken.onnx").write_bytes(b"no model")
    result = session(pytester, ir, "example_c", "--byoc-model=broken.onnx")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["model broken (*broken.onnx): * is no ONNX model that can be read*"])
    result = session(pytester, ir, "example_c", "--byoc-model=nothing.onnx")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result = pytester.runpytest_subprocess("--byoc-model=broken.onnx")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "--byoc-model needs --byoc-target" in result.stderr.str()
