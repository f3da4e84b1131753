"""Runs one ONNX node by ONNX's reference evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.helper
from onnx.reference import ReferenceEvaluator


def run(op: str, arrays: list[np.ndarray | None], version: int = 19, **attrs: Any) -> np.ndarray:
    """Returns the first output. None among `arrays` stands for an optional operand that is left
    out."""
    return run_all(op, arrays, 1, version, **attrs)[0]


def run_all(
    op: str, arrays: list[np.ndarray | None], outputs: int, version: int = 19, **attrs: Any
) -> tuple[np.ndarray, ...]:
    named = {f"x{i}": np.asarray(a) for i, a in enumerate(arrays) if a is not None}
    operands = ["" if a is None else f"x{i}" for i, a in enumerate(arrays)]
    results = [f"y{i}" for i in range(outputs)]
    node = onnx.helper.make_node(op, operands, results, **attrs)
    values = [
        onnx.helper.make_tensor_value_info(n, onnx.helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in named.items()
    ]
    declared = [onnx.helper.make_tensor_value_info(n, onnx.TensorProto.UNDEFINED, None) for n in results]
    graph = onnx.helper.make_graph([node], "one", values, declared)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", version)])
    outputs_ = ReferenceEvaluator(model).run(None, named)
    assert isinstance(outputs_, list)
    return tuple(np.asarray(y) for y in outputs_)
