"""Convolutions in two dimensions, and rules for any number of spatial axes."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any, Callable, Sequence

from ..core.graph import TensorType
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

#: Letters of the spatial axes in a layout, by the number of spatial axes.
SPATIAL = {1: "W", 2: "HW", 3: "DHW"}

DOT = "dot product of K = I/groups * kernel: gamma(K), Higham, ASNA 2nd ed., (3.5)"

#: Windows by the number of spatial axes, by class. `kernel_size` leaves out those that do not fit.
KERNEL_SIZES: dict[int, Classes] = {
    1: {"odd": ((3,), (5,)), "pointwise": ((1,),), "even": ((2,), (4,))},
    2: {
        "square": ((3, 3), (2, 2), (5, 5)),
        "pointwise": ((1, 1),),
        "uneven": ((1, 3), (3, 1), (2, 3), (3, 2)),
    },
    3: {
        "cube": ((2, 2, 2), (3, 3, 3)),
        "pointwise": ((1, 1, 1),),
        "uneven": ((1, 2, 3), (3, 1, 2), (2, 3, 1), (1, 3, 1)),
    },
}
STRIDES: dict[int, Classes] = {
    1: {"unit": ((1,),), "strided": ((2,), (3,))},
    2: {"unit": ((1, 1),), "strided": ((2, 2),), "uneven": ((1, 2), (2, 1), (3, 2))},
    3: {"unit": ((1, 1, 1),), "strided": ((2, 2, 2),), "uneven": ((1, 2, 3), (3, 1, 2), (2, 1, 1))},
}
DILATIONS: dict[int, Classes] = {
    1: {"dilated": ((2,), (3,))},
    2: {"dilated": ((2, 2),), "uneven": ((1, 2), (2, 1), (3, 2))},
    3: {"dilated": ((2, 2, 2),), "uneven": ((1, 2, 1), (1, 1, 2), (2, 1, 1), (2, 3, 1))},
}
#: Padding by the number of spatial axes: the elements added before each axis, then those after
#: each.
PADDINGS: dict[int, Classes] = {
    1: {"none": ((0, 0),), "symmetric": ((1, 1), (2, 2)), "asymmetric": ((0, 2), (2, 1), (1, 0))},
    2: {
        "none": ((0, 0, 0, 0),),
        "symmetric": ((1, 1, 1, 1), (2, 1, 2, 1)),
        "asymmetric": ((0, 1, 2, 3), (3, 2, 1, 0), (1, 0, 0, 0), (0, 0, 0, 2)),
    },
    3: {
        "none": ((0, 0, 0, 0, 0, 0),),
        "symmetric": ((1, 1, 1, 1, 1, 1), (0, 1, 2, 0, 1, 2)),
        "asymmetric": ((0, 1, 2, 2, 0, 1), (2, 0, 1, 1, 0, 0), (1, 0, 0, 0, 0, 0), (0, 0, 0, 0, 2, 1)),
    },
}


# --- layouts ---------------------------------------------------------------------------------


def layouts(n: int) -> Classes:
    """Returns the layouts of an image with n spatial axes: channels first, channels last."""
    both = ("NC" + SPATIAL[n], "N" + SPATIAL[n] + "C")
    return {layout.lower(): (layout,) for layout in both}


@lru_cache(maxsize=64)
def image_axes(layout: str) -> tuple[int, ...]:
    """Returns the positions of batch, channel and the spatial axes, in this order, in a layout."""
    return tuple(layout.index(a) for a in "NC" + SPATIAL[len(layout) - 2])


def image(x: TensorType, layout: str) -> tuple[int, int, tuple[int, ...]]:
    """Returns (batch, channels, spatial sizes); raises TypeRuleError if the rank does not fit."""
    if x.rank != len(layout):
        raise TypeRuleError("%s does not have the layout %s" % (x, layout))
    batch, channels, *sizes = (x.shape[a] for a in image_axes(layout))
    return batch, channels, tuple(sizes)


def laid_out(batch: int, channels: int, sizes: Sequence[int], layout: str) -> tuple[int, ...]:
    """Returns the shape of an image in a layout."""
    dims = dict(zip("NC" + SPATIAL[len(sizes)], (batch, channels) + tuple(sizes)))
    return tuple(dims[a] for a in layout)


def weight_shape(o: int, i: int, kernel: Sequence[int], layout: str) -> tuple[int, ...]:
    dims = dict(zip("OI" + SPATIAL[len(kernel)], (o, i) + tuple(kernel)))
    return tuple(dims[a] for a in layout)


# --- parameters ------------------------------------------------------------------------------


def data_layout(x: TensorType, chosen: Attrs) -> Classes:
    return layouts(x.rank - 2)


def kernel_size(x: TensorType, chosen: Attrs) -> Classes:
    """Returns kernels no larger than the image; a pointwise kernel always fits."""
    _, _, sizes = image(x, chosen["data_layout"])

    def fits(kernel: Sequence[int]) -> bool:
        return all(k <= size for k, size in zip(kernel, sizes))

    return {name: tuple(k for k in v if fits(k)) for name, v in KERNEL_SIZES[len(sizes)].items()}


def groups(x: TensorType, chosen: Attrs) -> Classes:
    _, c, _ = image(x, chosen["data_layout"])
    divisors = tuple(g for g in range(2, c) if c % g == 0)
    return {"one": (1,), "grouped": divisors, "depthwise": (c,) if c > 1 else ()}


def channels(x: TensorType, chosen: Attrs) -> Classes:
    g = chosen["groups"]
    if g == 1:
        return {"plain": (4, 1, 5, 3)}
    # The number of output channels is a multiple of the number of groups.
    return {"multiplier_one": (g,), "multiplied": (2 * g,)}


def strides(x: TensorType, chosen: Attrs) -> Classes:
    return STRIDES[x.rank - 2]


def padding(x: TensorType, chosen: Attrs) -> Classes:
    return PADDINGS[x.rank - 2]


def dilation(x: TensorType, chosen: Attrs) -> Classes:
    _, _, sizes = image(x, chosen["data_layout"])

    def fits(d: Sequence[int]) -> bool:
        return all((k - 1) * f < size for k, f, size in zip(chosen["kernel_size"], d, sizes))

    dilated = {k: tuple(d for d in v if fits(d)) for k, v in DILATIONS[len(sizes)].items()}
    return {"unit": ((1,) * len(sizes),), **dilated}


def kernel_layout(x: TensorType, chosen: Attrs) -> Classes:
    """Returns the kernel layout that belongs to the data's layout: OI first, or IO last."""
    spatial = SPATIAL[x.rank - 2]
    layout = "OI" + spatial if chosen["data_layout"].endswith("W") else spatial + "IO"
    return {layout.lower(): (layout,)}


def _kernel_layout_2d(x: TensorType, chosen: Attrs) -> Classes:
    if chosen["data_layout"] == "NHWC" and 1 < chosen["groups"] == x.shape[3]:
        return {"hwoi": ("HWOI",), "hwio": ("HWIO",)}
    others: Classes = {"ohwi": ("OHWI",), "hwio": ("HWIO",)}
    if chosen["data_layout"] == "NHWC":
        others = {"ohwi": ("OHWI",), "oihw": ("OIHW",), "hwoi": ("HWOI",) if chosen["groups"] == 1 else ()}
    return {**kernel_layout(x, chosen), **others}


def counts_channels(attrs: Attrs) -> bool:
    """Returns whether O is the number of input channels and I the number of results of each.

    This is so for the layout HWOI of a depthwise convolution.
    """
    return attrs["kernel_layout"] == "HWOI" and attrs["groups"] > 1


def _multiplies(layout: str, chosen: Attrs) -> bool:
    return layout == "HWOI" and 1 < chosen["groups"] < chosen["channels"]


def _unbuilt_layout(layout: str, chosen: Attrs) -> bool:
    """Returns whether TVM does not compile this layout of a weight in Relay.

    It compiles OIHW with NCHW, HWIO with NHWC, and HWOI with NHWC for depthwise convolutions.
    Relay's type rule accepts all layouts, and in Relax TVM compiles all of them.
    """
    if chosen["data_layout"] == "NCHW":
        return layout != "OIHW"
    return layout != "HWIO" and not (layout == "HWOI" and chosen["groups"] > 1)


def parameters(
    layout: Callable[[TensorType, Attrs], Classes] = data_layout,
    in_groups: Callable[[TensorType, Attrs], Classes] = groups,
    kernel: Callable[[TensorType, Attrs], Classes] = kernel_layout,
) -> tuple[Parameter, ...]:
    """Returns a convolution's parameters, each after those it depends on."""
    return (
        Parameter("data_layout", layout),
        Parameter("kernel_size", kernel_size),
        Parameter("groups", in_groups),
        Parameter("channels", channels),
        Parameter("kernel_layout", kernel),
        Parameter("padding", padding),
        Parameter("strides", strides),
        Parameter("dilation", dilation),
    )


# --- operands and type rule ------------------------------------------------------------------


def conv_operands(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
    _, c, _ = image(x, chosen["data_layout"])
    outer, inner = chosen["channels"], c // chosen["groups"]
    if counts_channels(chosen):
        outer, inner = c, outer // c
    shape = weight_shape(outer, inner, chosen["kernel_size"], chosen["kernel_layout"])
    return Operand(LEAD, x), Operand(WEIGHT, TensorType(shape, x.dtype))


def conv_out(n: int, k: int, stride: int, pad: int, dilation: int) -> int:
    """Returns the output length along one axis; raises TypeRuleError if the window does not fit.

    Source: Dumoulin and Visin, "A guide to convolution arithmetic".
    """
    out = (n + pad - dilation * (k - 1) - 1) // stride + 1
    if out < 1:
        raise TypeRuleError(
            "a window of %d elements does not fit into %d" % (dilation * (k - 1) + 1, n + pad)
        )
    return out


def weight_dims(w: TensorType, x: TensorType, attrs: Attrs) -> tuple[int, int, tuple[int, ...]]:
    """Returns O, I and the kernel's sizes, read from the weight w.

    Raises TypeRuleError if the rank or the kernel's sizes differ from the attributes, or the dtype
    differs from that of the data x.
    """
    layout = attrs["kernel_layout"]
    if w.rank != len(layout) or w.dtype != x.dtype:
        raise TypeRuleError("the weight %s does not fit %s" % (w, x))
    dims = dict(zip(layout, w.shape))
    kernel = tuple(dims[a] for a in SPATIAL[w.rank - 2])
    if kernel != tuple(attrs["kernel_size"]):
        raise TypeRuleError("the weight %s does not have the kernel size %s" % (w, attrs["kernel_size"]))
    return dims["O"], dims["I"], kernel


def conv_sizes(sizes: Sequence[int], kernel: Sequence[int], attrs: Attrs) -> tuple[int, ...]:
    """Returns the spatial sizes of the output."""
    n = len(sizes)
    pads = [a + b for a, b in zip(attrs["padding"][:n], attrs["padding"][n:])]
    steps = zip(sizes, kernel, attrs["strides"], pads, attrs["dilation"])
    return tuple(conv_out(*step) for step in steps)


def conv_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    x, w = types
    batch, c, sizes = image(x, attrs["data_layout"])
    outer, inner, kernel = weight_dims(w, x, attrs)
    if counts_channels(attrs) and outer == c == attrs["groups"]:
        outer, inner = outer * inner, 1
    if inner * attrs["groups"] != c or outer != attrs["channels"] or outer % attrs["groups"]:
        raise TypeRuleError("the weight %s does not fit %d channels in %d groups" % (w, c, attrs["groups"]))
    shape = laid_out(batch, outer, conv_sizes(sizes, kernel, attrs), attrs["data_layout"])
    return (TensorType(shape, attrs.get("out_dtype", x.dtype)),)


# --- lowering --------------------------------------------------------------------------------


def relay(name: str) -> Lowering:
    """Returns the lowering to Relay, where every parameter is an attribute of the same name.

    channels and kernel_size are optional, since Relay can infer them from the weight.
    """

    def lower(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
        keep = {k: v for k, v in attrs.items() if k != "out_dtype"}
        return getattr(ns.nn, name)(*args, **keep, **out_dtype(attrs, types))

    return Lowering("nn." + name, lower, optional=("channels", "kernel_size"))


def relax(name: str) -> Lowering:
    """Returns the lowering to Relax, which reads channels and kernel_size from the weight."""

    def lower(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
        omitted = ("channels", "kernel_size", "out_dtype")
        keep: dict[str, Any] = {k: v for k, v in attrs.items() if k not in omitted}
        return getattr(ns.nn, name)(args[0], args[1], **keep, **out_dtype(attrs, types))

    return Lowering("nn." + name, lower)


def is_image(n: int) -> Callable[[TensorType], bool]:
    """Returns a predicate for tensors that can be an image with n spatial axes."""
    return lambda x: x.rank == n + 2 and x.size > 0


OPERATORS: tuple[Operator, ...] = (
    Operator(
        name="nn.conv2d",
        contraction=True,
        followed_by=("nn.bias_add", "add", "nn.relu"),
        infer=conv_infer,
        # The shapes cover: H, W and C that all differ, a batch above 1, and an extent that is no
        # multiple of a vector's length.
        shapes=((1, 4, 7, 6), (2, 4, 5, 8), (1, 3, 9, 5), (3, 1, 4, 5), (1, 6, 1, 7)),
        large=(1, 67, 9, 11),
        accuracy=DOT,
        accepts=is_image(2),
        operands=conv_operands,
        dtypes=NUMBERS,
        parameters=(*parameters(kernel=_kernel_layout_2d), OUT_DTYPE),
        # CUTLASS and Arm's libraries use OHWI.
        relay=replace(relay("conv2d"), unbuilt={"kernel_layout": _unbuilt_layout}),
        # In Relax, O is always the number of results.
        relax=replace(relax("conv2d"), lacks={"kernel_layout": _multiplies}),
    ),
)
