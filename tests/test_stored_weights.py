"""Tests of the files that hold the large weights of a model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from fixtures.models import MODELS
from pytest_byoc.config.models import Model
from pytest_byoc.examination.workers import Workers
from pytest_byoc.suite.model_import import load
from pytest_byoc.worker.stored_weights import LARGE, Weights, large

from .conftest import PYTHON, declaration, make_settings


@pytest.mark.once
def test_equal_weights_are_stored_once(tmp_path: Path) -> None:
    weights = Weights(str(tmp_path / "weights"))
    array = np.arange(12, dtype="float32").reshape(3, 4)
    path = weights.store(array)
    assert weights.store(array.copy()) == path and weights.store(array.T) != path
    assert weights.store(array.reshape(4, 3)) != path and weights.store(array.view("int32")) != path
    assert np.array_equal(np.load(path), array) and len(list((tmp_path / "weights").iterdir())) == 4


@pytest.mark.once
def test_only_large_arrays_of_numpys_own_dtypes_are_stored() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    count = LARGE // 4
    assert large(np.zeros(count, "float32")) and not large(np.zeros(count - 1, "float32"))
    assert not large(np.zeros(LARGE, ml_dtypes.bfloat16))


def test_weights_are_in_files_and_not_in_the_module(ir: str, tmp_path: Path) -> None:
    array = np.random.default_rng(1).standard_normal((512, 1024)).astype("float32")
    weights = [numpy_helper.from_array(array, "w"), numpy_helper.from_array(array[0, :8].copy(), "small")]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["y"]), helper.make_node("Mul", ["small", "small"], ["z"]),
    ]
    x, y, z = (
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in (("x", [1, 512]), ("y", [1, 1024]), ("z", [8]))
    )
    graph = helper.make_graph(nodes, "product", [x], [y, z], weights)
    path = tmp_path / "product.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), str(path))
    workers = Workers(make_settings(tmp_path, 120.0), declaration("example_c", ir))
    workers.open()
    try:
        imported = load(workers, Model("product", path), tmp_path)
        stored = [a for a in imported.constants.values() if isinstance(a, np.memmap)]
        # Relay's dense has its weights transposed.
        assert len(stored) == 1 and np.isclose(stored[0].sum(), array.sum())
        assert sum(a.nbytes for a in stored) == array.nbytes > 20 * imported.file.stat().st_size
    finally:
        workers.close()


@pytest.mark.once
def test_a_model_that_is_too_large_for_the_host_is_not_judged(pytester: pytest.Pytester) -> None:
    pytester.path.joinpath("mlp.onnx").write_bytes(MODELS["mlp"]().SerializeToString())
    pytester.makeconftest(
        "from pytest_byoc.suite import model_memory\nmodel_memory.free_bytes = lambda: 100_000\n"
    )
    result = pytester.runpytest_subprocess(
        "--byoc-target=example_c", f"--byoc-python={PYTHON}", "--byoc-model=mlp.onnx", "-rs",
        "-p", "no:cacheprovider", timeout=300,
    )
    result.assert_outcomes(skipped=1)
    assert "need about 0 GiB of the host's memory, of which 0 GiB are free" in result.stdout.str()
