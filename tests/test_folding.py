"""Tests that constants folded into each other and into weights stay inside the bound, but wrong
ones do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pytest_byoc.core.graph import Graph, TensorType
from pytest_byoc.evidence.comparison import compare
from pytest_byoc.generation import data
from pytest_byoc.generation.builder import Builder
from pytest_byoc.oracle import evaluation

CHANNEL = TensorType((1, 4, 1, 1), "float32")


def inside(graph: Graph, actual: Any) -> bool:
    arrays = {**data.inputs(graph, 0), **data.constants(graph)}
    (expected,) = evaluation.evaluate(graph, arrays)
    return not compare(np.asarray(actual, "float32"), expected).outside.any()


def arrays_of(graph: Graph) -> dict[str, np.ndarray]:
    return {**data.inputs(graph, 0), **data.constants(graph)}


def test_two_added_constants_may_be_folded_into_one() -> None:
    """The constants' sum has a rounding error larger than that of x + c1 or of the result."""
    t = TensorType((67,), "float32")
    b = Builder(seed=3)
    c1, c2 = b.constant(t, 1000.0, 2000.0), b.constant(t, -5.0, 5.0)
    x = b.input(t, -2000.0, -1000.0)
    graph = b.graph(b.node("add", (b.node("add", (x, c1), {})[0], c2), {})[0])
    a = arrays_of(graph)
    folded = a[x] + (a[c1] + a[c2])
    assert not np.array_equal(folded, (a[x] + a[c1]) + a[c2])
    assert inside(graph, folded)
    assert not inside(graph, a[x] + a[c1])


def scaled_dense(batch_norm: bool) -> tuple[Graph, dict[str, np.ndarray], str, str]:
    b = Builder(seed=5)
    x = b.input(TensorType((64, 32), "float32"))
    w = b.constant(TensorType((4, 32), "float32"))
    y = b.node("nn.dense", (x, w), {"units": 4, "out_dtype": "float32"})[0]
    row = TensorType((4,), "float32")
    s = b.constant(row, 0.3, 3.0)
    if batch_norm:
        beta, mean, variance = b.constant(row), b.constant(row), b.constant(row, 0.5, 2.0)
        attrs = {"axis": 1, "epsilon": 1e-5, "center": True, "scale": True}
        z = b.node("nn.batch_norm", (y, s, beta, mean, variance), attrs)[0]
    else:
        z = b.node("multiply", (y, s), {})[0]
    graph = b.graph(z)
    return graph, arrays_of(graph), w, s


def test_a_scale_may_be_folded_into_weights() -> None:
    graph, a, w, s = scaled_dense(False)
    folded = a["x0"] @ (a[w] * a[s][:, None]).T
    assert inside(graph, folded)
    assert not inside(graph, folded * np.float32(1.0001))


def test_batch_normalisation_may_be_folded_into_weights() -> None:
    graph, a, w, s = scaled_dense(True)
    beta, mean, variance = a["c2"], a["c3"], a["c4"]
    factor = a[s] / np.sqrt(variance + np.float32(1e-5))
    folded = a["x0"] @ (a[w] * factor[:, None]).T + (beta - mean * factor)
    assert inside(graph, folded)
    assert not inside(graph, folded * np.float32(1.001))


@pytest.mark.parametrize("op", ["add", "multiply"])
def test_values_that_are_not_constant_do_not_widen_the_bound(op: str) -> None:
    t = TensorType((67,), "float32")
    b = Builder(seed=3)
    x, y, z = b.input(t), b.input(t), b.input(t)
    graph = b.graph(b.node(op, (b.node(op, (x, y), {})[0], z), {})[0])
    (bound,) = evaluation.evaluate(graph, arrays_of(graph))
    u = 2.0**-24
    assert (bound.error <= 4 * u * (np.abs(bound.value) + 4.0) + 1e-30).all()
