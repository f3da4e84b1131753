"""Tests of the networks in fixtures/models: that they are small, repeatable, and alive to their ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto

from fixtures.models import MODELS

pytestmark = pytest.mark.once
#: The extent that stands for an open one.
OPEN = 5


def inputs(model: ModelProto, seed: int) -> dict[str, np.ndarray]:
    random, found = np.random.default_rng(seed), dict[str, np.ndarray]()
    for given in model.graph.input:
        tensor = given.type.tensor_type
        shape = [d.dim_value or OPEN for d in tensor.shape.dim]
        is_mask = tensor.elem_type == TensorProto.BOOL
        values = random.integers(0, 2, shape) > 0 if is_mask else random.normal(0, 1, shape)
        found[given.name] = values.astype(bool if is_mask else "float32")
    return found


@pytest.fixture(scope="module")
def runtime() -> Any:
    return pytest.importorskip("onnxruntime")


@pytest.mark.parametrize("name", MODELS)
def test_a_network_is_small_and_alive(name: str, runtime: Any) -> None:
    model = MODELS[name]()
    data = model.SerializeToString()
    assert data == MODELS[name]().SerializeToString()
    assert len(data) < 1_600_000
    session = runtime.InferenceSession(data)
    first, second = (session.run(None, inputs(model, seed)) for seed in (1, 2))
    for a, b in zip(first, second):
        assert np.isfinite(a).all() and a.std() > 1e-3
        # What goes in still tells what comes out.
        assert np.abs(a - b).max() > 1e-3


def test_the_decoder_in_steps_computes_what_it_computes_at_once(runtime: Any) -> None:
    """Keys and values of earlier tokens, kept in the cache, replace a pass over all of them."""
    prefill, step = (MODELS[name]() for name in ("decoder_prefill", "decoder_step"))
    steps = 7
    random = np.random.default_rng(4)
    angles = random.uniform(0, np.pi, (1, 1, steps, 4)).astype("float32")
    whole = {
        "x": random.normal(0, 1, (1, steps, 32)).astype("float32"),
        "cos": np.cos(angles), "sin": np.sin(angles),
        "mask": np.triu(np.full((1, 1, steps, steps), -1e9, "float32"), 1),
    }
    at_once = runtime.InferenceSession(MODELS["decoder_open"]().SerializeToString()).run(None, whole)
    before = {"x": whole["x"][:, :-1], "mask": whole["mask"][:, :, :-1, :-1]}
    before |= {k: whole[k][:, :, :-1] for k in ("cos", "sin")}
    _, keys, values = runtime.InferenceSession(prefill.SerializeToString()).run(None, before)
    last = {"x": whole["x"][:, -1:], "mask": whole["mask"][:, :, -1:], "keys": keys, "values": values}
    last |= {k: whole[k][:, :, -1:] for k in ("cos", "sin")}
    in_steps = runtime.InferenceSession(step.SerializeToString()).run(None, last)
    np.testing.assert_allclose(in_steps[0], at_once[0][:, -1:], atol=1e-5)
    np.testing.assert_allclose(in_steps[1], at_once[1], atol=1e-5)
