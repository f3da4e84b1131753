"""Convolutions, pooling, normalisations, attention and resampling by ONNX's reference evaluator."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .onnx_node import run, run_all


def _first(x: np.ndarray, layout: str) -> np.ndarray:
    """Transposes to channels first, the only layout of ONNX."""
    spatial = layout.strip("NC")
    return np.transpose(x, [layout.index(c) for c in "NC" + spatial])


def _back(y: np.ndarray, layout: str) -> np.ndarray:
    spatial = layout.strip("NC")
    return np.transpose(y, [("NC" + spatial).index(c) for c in layout])


def _weight(w: np.ndarray, layout: str, order: str) -> np.ndarray:
    return np.transpose(w, [layout.index(c) for c in order + layout.strip("OI")])


def _oihw(w: np.ndarray, a: dict[str, Any]) -> np.ndarray:
    w = _weight(w, a["kernel_layout"], "OI")
    if a["kernel_layout"] == "HWOI" and a["groups"] > 1:
        return w.reshape(-1, 1, *w.shape[2:])
    return w


def _steps(a: dict[str, Any]) -> dict[str, Any]:
    return {
        "strides": list(a["strides"]), "dilations": list(a["dilation"]), "pads": list(a["padding"]),
        "group": a["groups"], "kernel_shape": list(a["kernel_size"]),
    }


def _conv(arrays: list[Any], a: dict[str, Any], outs: Any) -> Any:
    x, w = _first(arrays[0], a["data_layout"]), _oihw(arrays[1], a)
    return _back(run("Conv", [x, w], **_steps(a)), a["data_layout"])


def _transposed(arrays: list[Any], a: dict[str, Any], outs: Any) -> Any:
    if a["groups"] != 1:
        return None  # the evaluator supports one group only
    x, w = _first(arrays[0], a["data_layout"]), _weight(arrays[1], a["kernel_layout"], "IO")
    steps = {**_steps(a), "output_padding": list(a["output_padding"])}
    if x.ndim == 3:
        # The evaluator needs at least two dimensions; one of them is the image's only row.
        single = {"strides": 1, "dilations": 1, "kernel_shape": 1, "output_padding": 0}
        steps.update({k: [v, *steps[k]] for k, v in single.items()})
        steps["pads"] = [0, steps["pads"][0], 0, steps["pads"][1]]
        y = run("ConvTranspose", [x[:, :, None], w[:, :, None]], **steps)[:, :, 0]
    else:
        y = run("ConvTranspose", [x, w], **steps)
    return _back(y, a["data_layout"])


def _conv_integer(arrays: list[Any], a: dict[str, Any], outs: Any) -> Any:
    x, w, zx, zw = arrays[:4]
    if zx.size > 1 or zw.size > 1 or a.get("out_layout"):
        return None
    images = _first(x, a["data_layout"]), _oihw(w, a)
    points = [zx.reshape(()).astype(x.dtype), zw.reshape(()).astype(w.dtype)]
    return _back(run("ConvInteger", [*images, *points], 10, **_steps(a)), a["data_layout"])


def _deformable(arrays: list[Any], a: dict[str, Any], outs: Any) -> Any:
    # ONNX also interpolates before the first pixel; results agree only for places inside the image.
    if a["padding"] != (0, 0, 0, 0) or a["data_layout"] != "NCHW" or a["kernel_layout"] != "OIHW":
        return None
    x, offset, w = arrays
    if 1 in x.shape[2:]:
        return None  # a division by the size less 1
    arrays[1] = np.clip(offset, 0, 0.9)
    return run("DeformConv", [x, w, arrays[1]], offset_group=a["deformable_groups"], **_steps(a))


def _pool(op: str) -> Any:
    def evaluate(arrays: list[Any], a: dict[str, Any], outs: Any) -> Any:
        # Evaluators disagree on the elements that count in these cases. Where the padding behind an
        # only axis differs from that before it, this one returns too small a result.
        half = len(a["padding"]) // 2
        uneven = half == 1 and a["padding"][0] != a["padding"][1]
        if a["ceil_mode"] or a.get("count_include_pad") or uneven:
            return None
        y = run(
            op, [_first(arrays[0], a["layout"])], kernel_shape=list(a["pool_size"]),
            strides=list(a["strides"]), dilations=list(a["dilation"]), pads=list(a["padding"]),
        )
        return _back(y, a["layout"])

    return evaluate


def _scaled(a: dict[str, Any], scale: np.ndarray, shift: np.ndarray) -> list[np.ndarray]:
    return [
        scale if a["scale"] else np.ones_like(scale), shift if a["center"] else np.zeros_like(shift)
    ]


def _batch(arrays: list[Any], a: dict[str, Any], outs: Any) -> Any:
    x, scale, shift, mean, variance = arrays
    moved = np.moveaxis(x, a["axis"], 1)
    operands = [moved, *_scaled(a, scale, shift), mean, variance]
    if a["training"]:
        y, *statistics = run_all("BatchNormalization", operands, 3, 15, epsilon=a["epsilon"], training_mode=1)
        # ONNX's attributes are float32: the batch's own statistics are computed back from the
        # result.
        kept = float(np.float32(0.9))
        renewed = (
            0.9 * old + 0.1 * (new - kept * old) / (1 - kept)
            for old, new in zip((mean, variance), statistics, strict=True)
        )
        return np.moveaxis(y, 1, a["axis"]), *renewed
    y = run("BatchNormalization", operands, 15, epsilon=a["epsilon"])
    return np.moveaxis(y, 1, a["axis"]), mean, variance


def _layer(arrays: list[Any], a: dict[str, Any], outs: Any) -> Any:
    x, scale, shift = arrays
    axes = [i % x.ndim for i in a["axes"]]
    if axes != list(range(axes[0], x.ndim)):
        return None
    return run("LayerNormalization", [x, *_scaled(a, scale, shift)], 17, axis=axes[0], epsilon=a["epsilon"])


def _instance(arrays: list[Any], a: dict[str, Any], outs: Any) -> Any:
    x, scale, shift = arrays
    moved = np.moveaxis(x, a["axis"], 1)
    y = run("InstanceNormalization", [moved, *_scaled(a, scale, shift)], 6, epsilon=a["epsilon"])
    return np.moveaxis(y, 1, a["axis"])


def _group(arrays: list[Any], a: dict[str, Any], outs: Any) -> Any:
    x, scale, shift = arrays
    if a["axis"] % x.ndim != 1:
        return None
    operands = [x, *_scaled(a, scale, shift)]
    return run("GroupNormalization", operands, 21, num_groups=a["num_groups"], epsilon=a["epsilon"])


def _lrn(arrays: list[Any], a: dict[str, Any], outs: Any) -> Any:
    x = np.moveaxis(arrays[0], a["axis"], 1)
    named = {k: a[k] for k in ("size", "alpha", "beta", "bias")}
    # The evaluator normalises as many channels as there are images.
    images = [run("LRN", [np.stack([image] * len(image))], 13, **named)[0] for image in x]
    return np.moveaxis(np.stack(images), 1, a["axis"])


def _rms(arrays: list[Any], a: dict[str, Any], outs: Any) -> Any:
    x, weight = arrays
    axes = [i % x.ndim for i in a["axes"]]
    if axes != list(range(axes[0], x.ndim)):
        return None
    return run("RMSNormalization", [x, weight], 23, axis=axes[0], epsilon=a["epsilon"])


def _attention(arrays: list[Any], a: dict[str, Any], outs: Any) -> Any:
    if a["causal_mask"] == "BottomRight" or (a["causal_mask"] and len(arrays) > 3):
        return None
    attrs: dict[str, Any] = {"is_causal": int(a["causal_mask"] is not None)}
    if a["scale"] is not None:
        attrs["scale"] = a["scale"]
    # ONNX keeps the heads before the sequence.
    operands = [v.swapaxes(1, 2) for v in arrays[:3]] + arrays[3:]
    return run("Attention", operands, 23, **attrs).swapaxes(1, 2)


#: Coordinate modes that ONNX defines as TVM does.
_MODES = ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel")


def _resize(arrays: list[Any], a: dict[str, Any], outs: Any) -> Any:
    mode, nearest = a["coordinate_transformation_mode"], a["method"] == "nearest_neighbor"
    if mode not in _MODES or (nearest and not a["rounding_method"]):
        return None
    if mode == "pytorch_half_pixel" and 1 in a["size"]:
        return None  # PyTorch's one pixel is the first for TVM, one before it for ONNX
    x = _first(arrays[0], a["layout"])
    rounding = {"round": "round_prefer_floor", "": "floor"}.get(a["rounding_method"], a["rounding_method"])
    sizes = np.array([*x.shape[:2], *a["size"]], np.int64)
    y = run(
        "Resize", [x, None, None, sizes], coordinate_transformation_mode=mode,
        mode="nearest" if nearest else a["method"], cubic_coeff_a=a["cubic_alpha"],
        exclude_outside=int(a["cubic_exclude"]), nearest_mode=rounding,
    )
    return _back(y, a["layout"])


def _grid_sample(arrays: list[Any], a: dict[str, Any], outs: Any) -> Any:
    x, grid = arrays
    if a["method"] == "bicubic":
        # Cubic samples outside the image differ: ONNX reflects coordinates before it reflects
        # pixels.
        arrays[1] = grid = np.clip(grid, -0.95, 0.95)
    return run(
        "GridSample", [x, np.moveaxis(grid, 1, -1)], 20, align_corners=int(a["align_corners"]),
        mode={"bilinear": "linear", "bicubic": "cubic"}.get(a["method"], a["method"]),
        padding_mode=a["padding_mode"],
    )


def _affine_grid(arrays: list[Any], a: dict[str, Any], outs: Any) -> Any:
    n, (h, w) = len(arrays[0]), a["target_shape"]
    y = run("AffineGrid", [arrays[0], np.array([n, 1, h, w], np.int64)], 20, align_corners=1)
    return np.moveaxis(y, -1, 1)


def _l2(arrays: list[Any], a: dict[str, Any], outs: Any) -> Any:
    """Leaves out epsilon, and returns None where epsilon would change the result."""
    (x,) = arrays
    axes = range(x.ndim) if a["axis"] is None else [i % x.ndim for i in a["axis"]]
    flat = np.moveaxis(x, list(axes), range(-len(axes), 0))
    rows = flat.reshape(*flat.shape[: x.ndim - len(axes)], math.prod(flat.shape[x.ndim - len(axes) :]))
    if (np.sum(rows**2, axis=-1) <= a["eps"]).any():
        return None
    y = run("LpNormalization", [rows], 1, axis=-1, p=2)
    return np.moveaxis(y.reshape(flat.shape), range(-len(axes), 0), list(axes))


EVALUATE: dict[str, Any] = {
    **{f"nn.conv{n}d": _conv for n in (1, 2, 3)},
    **{f"nn.conv{n}d_transpose": _transposed for n in (1, 2, 3)},
    "qnn.conv2d": _conv_integer,
    "nn.deformable_conv2d": _deformable,
    **{f"nn.max_pool{n}d": _pool("MaxPool") for n in (1, 3)},
    **{f"nn.avg_pool{n}d": _pool("AveragePool") for n in (1, 3)},
    "nn.batch_norm": _batch,
    "nn.layer_norm": _layer,
    "nn.instance_norm": _instance,
    "nn.group_norm": _group,
    "nn.rms_norm": _rms,
    "nn.lrn": _lrn,
    "nn.l2_normalize": _l2,
    "nn.attention": _attention,
    "nn.attention_bias": _attention,
    **{f"image.resize{n}d": _resize for n in (1, 2, 3)},
    "image.grid_sample": _grid_sample,
    "image.affine_grid": _affine_grid,
}
