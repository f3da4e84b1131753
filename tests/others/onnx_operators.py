"""Functions, logic, reductions, data movement and quantisation by ONNX's reference evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np

from .onnx_node import run, run_all


def _same(op: str, version: int = 19, **attrs: Any) -> Any:
    """Returns an evaluation with the same operands and none of the operator's attributes."""
    return lambda arrays, a, outs: run(op, arrays, version, **attrs)


def _shift(direction: str) -> Any:
    # ONNX shifts unsigned integers only; the drawn operands are not negative.
    def evaluate(arrays: list[Any], a: Any, outs: Any) -> Any:
        if any((v < 0).any() for v in arrays):
            return None
        unsigned = [v.astype(np.uint32) for v in arrays]
        return run("BitShift", unsigned, direction=direction).astype(outs[0].dtype)

    return evaluate


def _position(op: str) -> Any:
    def evaluate(arrays: list[Any], a: dict[str, Any], outs: Any) -> Any:
        if a["axis"] is None or len(a["axis"]) != 1 or a["exclude"]:
            return None
        last, keep = int(a["select_last_index"]), int(a["keepdims"])
        return run(op, arrays, axis=a["axis"][0], keepdims=keep, select_last_index=last)

    return evaluate


def _truth(op: str) -> Any:
    """Evaluates all or any as the least or the largest of zeros and ones."""

    def evaluate(arrays: list[Any], a: dict[str, Any], outs: Any) -> Any:
        if a["exclude"]:
            return None
        axes = None if a["axis"] is None else np.array(a["axis"])
        return run(op, [arrays[0].astype(np.int32), axes], 18, keepdims=int(a["keepdims"])).astype(bool)

    return evaluate


def _reverse(arrays: list[Any], a: dict[str, Any], outs: Any) -> Any:
    start, end = np.array([-1]), np.array([np.iinfo(np.int64).min])
    return run("Slice", [arrays[0], start, end, np.array([a["axis"]]), np.array([-1])])


def _cumsum(arrays: list[Any], a: dict[str, Any], outs: Any) -> Any:
    if a["axis"] is None:
        return None
    x = arrays[0].astype(outs[0].dtype)
    return run("CumSum", [x, np.array(a["axis"])], exclusive=int(a["exclusive"]))


def _gather(arrays: list[Any], a: dict[str, Any], outs: Any) -> Any:
    """Returns None for the shapes on which the evaluator's GatherElements fails."""
    x, index = arrays
    others = [i for i in range(x.ndim) if i != a["axis"] % x.ndim]
    if x.shape[a["axis"]] > 16 or any(x.shape[i] != index.shape[i] for i in others):
        return None
    return run("GatherElements", arrays, axis=a["axis"] % x.ndim)


def _take(arrays: list[Any], a: dict[str, Any], outs: Any) -> Any:
    x, index = arrays
    if a["axis"] is None or a["batch_dims"]:
        return None
    if ((index < 0) | (index >= x.shape[a["axis"]])).any():
        return None
    return run("Gather", [x, index], axis=a["axis"])


def _gather_nd(arrays: list[Any], a: dict[str, Any], outs: Any) -> Any:
    x, index = arrays
    at = index if a["index_last"] else np.moveaxis(index, 0, -1)
    return run("GatherND", [x, at], batch_dims=0) if not a["batch_dims"] else None


_MODES = {"update": "none", "add": "add", "mul": "mul", "min": "min", "max": "max"}


def _scatter_elements(arrays: list[Any], a: dict[str, Any], outs: Any) -> Any:
    how = _MODES.get(a["reduction"])
    return how and run("ScatterElements", arrays, 18, axis=a["axis"], reduction=how)


def _scatter_nd(arrays: list[Any], a: dict[str, Any], outs: Any) -> Any:
    x, index, updates = arrays
    at = index if a["index_last"] else np.moveaxis(index, 0, -1)
    return run("ScatterND", [x, at, updates], 18, reduction=_MODES[a["mode"]])


def _tile(arrays: list[Any], a: dict[str, Any], outs: Any) -> Any:
    (x,) = arrays
    rank = max(x.ndim, len(a["reps"]))
    x = x.reshape((1,) * (rank - x.ndim) + x.shape)
    return run("Tile", [x, np.array((1,) * (rank - len(a["reps"])) + tuple(a["reps"]), np.int64)])


def _one_hot(arrays: list[Any], a: dict[str, Any], outs: Any) -> Any:
    # ONNX counts negative indices from the end; the evaluator has no booleans.
    if (arrays[0] < 0).any() or outs[0].dtype == "bool":
        return None
    values = np.array([a["off_value"], a["on_value"]], outs[0].dtype)
    return run("OneHot", [arrays[0], np.array(a["depth"]), values], axis=a["axis"])


def _topk(arrays: list[Any], a: dict[str, Any], outs: Any) -> Any:
    (x,) = arrays
    k = x.shape[a["axis"]] if a["k"] < 1 else a["k"]
    order = int(not a["is_ascend"])
    results = run_all("TopK", [x, np.array([k])], 2, 11, axis=a["axis"], largest=order)
    which = {"values": results[:1], "indices": results[1:], "both": results}[a["ret_type"]]
    return tuple(y.astype(t.dtype) for y, t in zip(which, outs, strict=True))


def _sort(arrays: list[Any], a: dict[str, Any], outs: Any) -> Any:
    both = {**a, "k": 0, "ret_type": "values" if "dtype" not in a else "indices"}
    return _topk(arrays, both, outs)


def _triangle(upper: int) -> Any:
    return lambda arrays, a, outs: run("Trilu", [arrays[0], np.array(a["k"])], 14, upper=upper)


def _reverse_sequence(arrays: list[Any], a: dict[str, Any], outs: Any) -> Any:
    x, lengths = arrays
    time, batch = a["seq_axis"] % x.ndim, a["batch_axis"] % x.ndim
    if {time, batch} != {0, 1} or (lengths < 1).any() or (lengths > x.shape[time]).any():
        return None
    return run("ReverseSequence", [x, lengths.astype(np.int64)], time_axis=time, batch_axis=batch)


def _blocks(op: str) -> Any:
    def evaluate(arrays: list[Any], a: dict[str, Any], outs: Any) -> Any:
        attrs = {"mode": a["mode"]} if "mode" in a else {}
        x = arrays[0] if a["layout"] == "NCHW" else np.transpose(arrays[0], (0, 3, 1, 2))
        y = run(op, [x], 13, blocksize=a["block_size"], **attrs)
        return y if a["layout"] == "NCHW" else np.transpose(y, (0, 2, 3, 1))

    return evaluate


def _mirror_pad(arrays: list[Any], a: dict[str, Any], outs: Any) -> Any:
    pads = [w[0] for w in a["pad_width"]] + [w[1] for w in a["pad_width"]]
    if a["mode"] != "REFLECT":
        return None
    return run("Pad", [arrays[0], np.array(pads, np.int64)], mode="reflect")


def _prelu(arrays: list[Any], a: dict[str, Any], outs: Any) -> Any:
    x, alpha = arrays
    shape = [1] * x.ndim
    shape[a["axis"]] = -1
    return run("PRelu", [x, alpha.reshape(shape)])


def _nll(arrays: list[Any], a: dict[str, Any], outs: Any) -> Any:
    x, targets, weights = arrays
    attrs = {"reduction": a["reduction"], "ignore_index": a["ignore_index"]}
    return run("NegativeLogLikelihoodLoss", [x, targets.astype(np.int64), weights], 13, **attrs)


def _along(arrays: list[Any], a: dict[str, Any]) -> dict[str, Any]:
    return {} if max(v.size for v in arrays[1:3]) == 1 else {"axis": a["axis"]}


def _parameters(arrays: list[Any]) -> list[Any]:
    """Returns scale and zero point in the same shape."""
    flat = [v.reshape(()) if v.size == 1 else v.reshape(-1) for v in arrays[1:3]]
    return [np.ascontiguousarray(np.broadcast_to(v, np.broadcast(*flat).shape)) for v in flat]


def _quantize(arrays: list[Any], a: dict[str, Any], outs: Any) -> Any:
    s, z = _parameters(arrays)
    return run("QuantizeLinear", [arrays[0], s, z.astype(a["out_dtype"])], 21, **_along(arrays, a))


def _dequantize(arrays: list[Any], a: dict[str, Any], outs: Any) -> Any:
    s, z = _parameters(arrays)
    if a["out_dtype"] != "float32":
        return None
    z = z.astype(arrays[0].dtype)
    return run("DequantizeLinear", [arrays[0], s, z], 21, **_along(arrays, a))


def _integers(arrays: list[Any], a: dict[str, Any], outs: Any) -> Any:
    x, w, zx, zw = arrays[:4]
    if zx.size > 1 or zw.size > 1:
        return None
    points = [zx.reshape(()).astype(x.dtype), zw.reshape(()).astype(w.dtype)]
    return run("MatMulInteger", [x, np.swapaxes(w, -1, -2), *points], 10)


EVALUATE: dict[str, Any] = {
    **{n: _same(n.capitalize()) for n in ("acos", "asin", "atan", "cos", "sin", "tan", "sinh", "cosh")},
    **{n: _same(n.capitalize()) for n in ("acosh", "asinh", "atanh", "erf", "sign", "round")},
    "power": _same("Pow"),
    "mod": _same("Mod", fmod=1),
    "trunc_mod": _same("Mod", fmod=1),
    "isnan": _same("IsNaN"),
    "isinf": _same("IsInf"),
    "where": _same("Where"),
    "equal": _same("Equal"),
    "not_equal": lambda arrays, a, outs: ~run("Equal", arrays),
    "greater": _same("Greater"),
    "greater_equal": _same("GreaterOrEqual"),
    "less": _same("Less"),
    "less_equal": _same("LessOrEqual"),
    **{f"logical_{n}": _same(n.capitalize()) for n in ("and", "or", "xor", "not")},
    **{f"bitwise_{n}": _same("Bitwise" + n.capitalize()) for n in ("and", "or", "xor", "not")},
    "left_shift": _shift("LEFT"),
    "right_shift": _shift("RIGHT"),
    "nn.gelu": _same("Gelu", 20),
    "nn.gelu_tanh": _same("Gelu", 20, approximate="tanh"),
    "nn.selu": _same("Selu"),
    "nn.prelu": _prelu,
    "nn.relu6": lambda arrays, a, outs: run(
        "Clip", [arrays[0], *(np.array(v, arrays[0].dtype) for v in (0, 6))]
    ),
    "copy": _same("Identity"),
    "cast_like": _same("CastLike"),
    "nn.dropout": lambda arrays, a, outs: (run("Dropout", arrays), np.ones_like(arrays[0])),
    "argmax": _position("ArgMax"),
    "argmin": _position("ArgMin"),
    "all": _truth("ReduceMin"),
    "any": _truth("ReduceMax"),
    "reverse": _reverse,
    "broadcast_to_like": lambda arrays, a, outs: run("Expand", [arrays[0], np.array(arrays[1].shape)]),
    "logsumexp": lambda arrays, a, outs: run(
        "ReduceLogSumExp", [arrays[0], None if a["axis"] is None else np.array(a["axis"])],
        keepdims=int(a["keepdims"]),
    ),
    "cumsum": _cumsum,
    "einsum": lambda arrays, a, outs: run("Einsum", arrays, equation=a["equation"]),
    "matmul": _same("MatMul"),
    "take": _take,
    "gather": _gather,
    "gather_nd": _gather_nd,
    "scatter_elements": _scatter_elements,
    "scatter_nd": _scatter_nd,
    "tile": _tile,
    "one_hot": _one_hot,
    "topk": _topk,
    "sort": _sort,
    "argsort": _sort,
    "tril": _triangle(0),
    "triu": _triangle(1),
    "reverse_sequence": _reverse_sequence,
    "nn.space_to_depth": _blocks("SpaceToDepth"),
    "nn.depth_to_space": _blocks("DepthToSpace"),
    "nn.mirror_pad": _mirror_pad,
    "nn.nll_loss": _nll,
    "qnn.quantize": _quantize,
    "qnn.dequantize": _dequantize,
    "qnn.dense": _integers,
    "qnn.batch_matmul": _integers,
}
