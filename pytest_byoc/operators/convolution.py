"""Convolutions."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

from ..graph import TensorType
from .record import (
    LEAD,
    NUMBERS,
    OUT_DTYPE,
    WEIGHT,
    Attrs,
    Classes,
    Lowering,
    Operand,
    Operator,
    Parameter,
    TypeRuleError,
    out_dtype,
)

#: Axes of (batch, channel, height, width) in a layout.
AXES = {"NCHW": (0, 1, 2, 3), "NHWC": (0, 3, 1, 2)}


def _layout(x: TensorType, chosen: Attrs) -> Classes:
    return {"nchw": ("NCHW",), "nhwc": ("NHWC",)}


def _nchw(x: TensorType, layout: str) -> Tuple[int, ...]:
    return tuple(x.shape[a] for a in AXES[layout])


def _kernel_size(x: TensorType, chosen: Attrs) -> Classes:
    _, _, h, w = _nchw(x, chosen["data_layout"])

    def fits(*kernels: Tuple[int, int]) -> Tuple[Tuple[int, int], ...]:
        return tuple(k for k in kernels if k[0] <= h and k[1] <= w)

    # (1, 1) fits always; 3x3 is the default where it fits.
    return {
        "square": fits((3, 3), (2, 2), (5, 5)),
        "pointwise": ((1, 1),),
        "uneven": fits((1, 3), (3, 1), (2, 3), (3, 2)),
    }


def _dilation(x: TensorType, chosen: Attrs) -> Classes:
    _, _, h, w = _nchw(x, chosen["data_layout"])
    kh, kw = chosen["kernel_size"]
    fits = tuple(
        d for d in ((2, 2), (1, 2), (2, 1), (3, 2)) if (kh - 1) * d[0] < h and (kw - 1) * d[1] < w
    )
    return {
        "unit": ((1, 1),),
        "dilated": tuple(d for d in fits if d[0] == d[1]),
        "uneven": tuple(d for d in fits if d[0] != d[1]),
    }


def _channels(x: TensorType, chosen: Attrs) -> Classes:
    g = chosen["groups"]
    if g == 1:
        return {"plain": (4, 1, 5, 3)}
    # A depthwise convolution makes a multiple of its channels.
    return {"multiplier_one": (g,), "multiplied": (2 * g,)}


def _groups(x: TensorType, chosen: Attrs) -> Classes:
    _, c, _, _ = _nchw(x, chosen["data_layout"])
    divisors = tuple(g for g in range(2, c) if c % g == 0)
    return {"one": (1,), "grouped": divisors, "depthwise": (c,) if c > 1 else ()}


def _kernel_layout(x: TensorType, chosen: Attrs) -> Classes:
    if chosen["data_layout"] == "NCHW":
        return {"oihw": ("OIHW",)}
    # TVM's depthwise kernels for NHWC are HWOI; with a channel multiplier it compiles HWIO alone.
    depthwise = 1 < chosen["groups"] == x.shape[3] == chosen["channels"]
    return {"hwoi": ("HWOI",)} if depthwise else {"hwio": ("HWIO",)}


def _weight_shape(o: int, i: int, k: Tuple[int, int], layout: str) -> Tuple[int, ...]:
    dims = {"O": o, "I": i, "H": k[0], "W": k[1]}
    return tuple(dims[axis] for axis in layout)


def _conv2d_operands(x: TensorType, chosen: Attrs) -> Tuple[Operand, ...]:
    _, c, _, _ = _nchw(x, chosen["data_layout"])
    shape = _weight_shape(
        chosen["channels"], c // chosen["groups"], chosen["kernel_size"], chosen["kernel_layout"]
    )
    return Operand(LEAD, x), Operand(WEIGHT, TensorType(shape, x.dtype))


def conv_out(n: int, k: int, stride: int, pad: int, dilation: int) -> int:
    """Output length along one axis: Dumoulin and Visin, "A guide to convolution arithmetic"."""
    out = (n + pad - dilation * (k - 1) - 1) // stride + 1
    if out < 1:
        raise TypeRuleError("a window of %d does not fit into %d" % (dilation * (k - 1) + 1, n + pad))
    return out


def conv2d_shape(x: TensorType, w: TensorType, attrs: Attrs) -> Tuple[int, ...]:
    """Output shape of a 2D convolution of x with w. Raises TypeRuleError."""
    if x.rank != 4 or w.rank != 4:
        raise TypeRuleError("a 2D convolution takes two tensors of rank 4, not %s and %s" % (x, w))
    n, c, h, wd = _nchw(x, attrs["data_layout"])
    dims = dict(zip(attrs["kernel_layout"], w.shape))
    if dims["I"] * attrs["groups"] != c or dims["O"] % attrs["groups"]:
        raise TypeRuleError("weight %s does not fit %d channels in %d groups" % (w, c, attrs["groups"]))
    top, left, bottom, right = attrs["padding"]
    (sh, sw), (dh, dw) = attrs["strides"], attrs["dilation"]
    out = {
        "N": n,
        "C": dims["O"],
        "H": conv_out(h, dims["H"], sh, top + bottom, dh),
        "W": conv_out(wd, dims["W"], sw, left + right, dw),
    }
    return tuple(out[a] for a in attrs["data_layout"])


def _conv2d_infer(types: Sequence[TensorType], attrs: Attrs) -> Tuple[TensorType, ...]:
    x, w = types
    if x.dtype != w.dtype:
        raise TypeRuleError("nn.conv2d of %s and %s" % (x.dtype, w.dtype))
    return (TensorType(conv2d_shape(x, w, attrs), attrs.get("out_dtype", x.dtype)),)


def _relay(ns: Any, args: List[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    kernel_layout = attrs["kernel_layout"]
    return ns.nn.conv2d(
        args[0],
        args[1],
        strides=attrs["strides"],
        padding=attrs["padding"],
        dilation=attrs["dilation"],
        groups=attrs["groups"],
        channels=attrs["channels"],
        kernel_size=attrs["kernel_size"],
        data_layout=attrs["data_layout"],
        kernel_layout=kernel_layout,
        **out_dtype(attrs, types)
    )


def _relax(ns: Any, args: List[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    keep: Dict[str, Any] = {
        k: attrs[k] for k in ("strides", "padding", "dilation", "groups", "data_layout", "kernel_layout")
    }
    return ns.nn.conv2d(args[0], args[1], **keep, **out_dtype(attrs, types))


OPERATORS: Tuple[Operator, ...] = (
    Operator(
        name="nn.conv2d",
        infer=_conv2d_infer,
        # H, W and C all differ; batch above 1; one size that is no multiple of a vector.
        shapes=((1, 4, 7, 6), (2, 4, 5, 8), (1, 3, 9, 5), (3, 1, 4, 5), (1, 6, 1, 7)),
        accuracy="dot product of K = I/groups*kh*kw: gamma(K), Higham, ASNA 2nd ed., (3.5)",
        accepts=lambda x: x.rank == 4 and x.size > 0,
        operands=_conv2d_operands,
        dtypes=NUMBERS,
        parameters=(
            Parameter("data_layout", _layout),
            Parameter("kernel_size", _kernel_size),
            Parameter("groups", _groups),
            Parameter("channels", _channels),
            Parameter("kernel_layout", _kernel_layout),
            Parameter(
                "padding",
                {
                    "none": ((0, 0, 0, 0),),
                    "symmetric": ((1, 1, 1, 1), (2, 1, 2, 1)),
                    "asymmetric": ((0, 1, 2, 3), (3, 2, 1, 0), (1, 0, 0, 0), (0, 0, 0, 2)),
                },
            ),
            Parameter(
                "strides",
                {"unit": ((1, 1),), "strided": ((2, 2),), "uneven": ((1, 2), (2, 1), (3, 2))},
            ),
            Parameter("dilation", _dilation),
            OUT_DTYPE,
        ),
        relay=Lowering("nn.conv2d", _relay),
        relax=Lowering("nn.conv2d", _relax),
    ),
)
