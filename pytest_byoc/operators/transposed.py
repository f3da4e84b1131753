"""Transposed convolutions, gradients of convolutions, and dilation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Sequence

from ..core.graph import TensorType
from .convolution import (
    DILATIONS,
    DOT,
    KERNEL_SIZES,
    PADDINGS,
    STRIDES,
    channels,
    conv_infer,
    groups,
    image,
    is_image,
    laid_out,
    layouts,
    parameters,
    relax,
    relay,
    weight_dims,
    weight_shape,
)
from .record import (
    DATA,
    LEAD,
    NUMBERS,
    SIGNED,
    WEIGHT,
    Attrs,
    Classes,
    Lowering,
    Operand,
    Operator,
    Parameter,
    TypeRuleError,
    among,
    some,
)

# --- transposed convolutions -----------------------------------------------------------------

_OUTPUT_PADDINGS: dict[int, Classes] = {
    1: {"none": ((0,),), "padded": ((1,), (2,))},
    2: {"none": ((0, 0),), "padded": ((1, 1),), "uneven": ((0, 1), (1, 0), (2, 1))},
    3: {"none": ((0, 0, 0),), "padded": ((1, 1, 1),), "uneven": ((0, 1, 2), (2, 0, 1), (1, 0, 0))},
}


def _channels_first(x: TensorType, chosen: Attrs) -> Classes:
    return {name: v for name, v in layouts(x.rank - 2).items() if not v[0].endswith("C")}


def _input_first(x: TensorType, chosen: Attrs) -> Classes:
    layout = "IO" + chosen["data_layout"][2:]
    return {layout.lower(): (layout,)}


def _kernel_layout_2d(x: TensorType, chosen: Attrs) -> Classes:
    if chosen["data_layout"] == "NCHW":
        return {"iohw": ("IOHW",), "oihw": ("OIHW",)}
    return {"hwio": ("HWIO",), "hwoi": ("HWOI",), "ihwo": ("IHWO",), "iohw": ("IOHW",)}


def _strides(x: TensorType, chosen: Attrs) -> Classes:
    """Returns strides that exceed the output's padding, as TVM requires."""
    extra = chosen["output_padding"]
    valid: dict[str, Sequence[Any]] = {}
    for name, values in STRIDES[len(extra)].items():
        valid[name] = tuple(v for v in values if all(s > e for s, e in zip(v, extra)))
    return valid


def _reach(chosen: Attrs) -> list[int]:
    """Returns by how many elements the kernel's window exceeds one element along each axis."""
    kernel = chosen["kernel_size"]
    return [(k - 1) * d for k, d in zip(kernel, chosen.get("dilation", (1,) * len(kernel)))]


def _padding(x: TensorType, chosen: Attrs) -> Classes:
    """Returns paddings that remove at most the elements the kernel adds, and not all elements."""
    reach, n = _reach(chosen), x.rank - 2
    _, _, sizes = image(x, chosen["data_layout"])

    def fits(p: Sequence[int]) -> bool:
        axes = zip(sizes, reach, p[:n], p[n:])
        return all(before <= r and after <= r and s + r > before + after for s, r, before, after in axes)

    return {name: tuple(p for p in values if fits(p)) for name, values in PADDINGS[n].items()}


def _operands(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
    _, c, _ = image(x, chosen["data_layout"])
    outer = chosen["channels"] // chosen["groups"]
    shape = weight_shape(outer, c, chosen["kernel_size"], chosen["kernel_layout"])
    return Operand(LEAD, x), Operand(WEIGHT, TensorType(shape, x.dtype))


def infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    """Returns the type of the result, the inverse of a convolution's arithmetic.

    An axis of n elements gets (n - 1) * stride + window - padding + output_padding.
    """
    x, w = types
    batch, c, sizes = image(x, attrs["data_layout"])
    outer, inner, _ = weight_dims(w, x, attrs)
    if inner != c or c % attrs["groups"] or outer * attrs["groups"] != attrs["channels"]:
        raise TypeRuleError("the weight %s does not fit %d channels in %d groups" % (w, c, attrs["groups"]))
    n = len(sizes)
    pads = [a + b for a, b in zip(attrs["padding"][:n], attrs["padding"][n:])]
    axes = zip(sizes, attrs["strides"], _reach(attrs), pads, attrs["output_padding"])
    out = [(size - 1) * s + r + 1 - p + e for size, s, r, p, e in axes]
    if min(out) < 1:
        raise TypeRuleError("the padding %s leaves no element of %s" % (attrs["padding"], x))
    return (TensorType(laid_out(batch, attrs["channels"], out, attrs["data_layout"]), x.dtype),)


#: Parameters data_layout and kernel_layout by the number of spatial axes. Only in two dimensions
#: does Relay transpose other layouts before it compiles.
_CHANNELS_FIRST = Parameter("data_layout", _channels_first)
_INPUT_FIRST = Parameter("kernel_layout", _input_first)
_LAYOUTS: dict[int, tuple[Parameter, Parameter]] = {
    1: (_CHANNELS_FIRST, _INPUT_FIRST),
    2: (
        Parameter("data_layout", lambda x, chosen: layouts(2)),
        Parameter("kernel_layout", _kernel_layout_2d),
    ),
    3: (_CHANNELS_FIRST, _INPUT_FIRST),
}


#: Layouts in two dimensions that Relax supports, but that TVM 0.27 does not compile.
_UNBUILT_RELAX = {
    "data_layout": among("NHWC"), "kernel_layout": among("OIHW", "HWIO", "HWOI", "IHWO"),
}


#: Shapes of a lead operand with many products in each sum, by the number of spatial axes.
_LARGE = {1: (1, 257, 21), 2: (1, 67, 9, 11), 3: (1, 67, 3, 5, 4)}


def _transposed(n: int, shapes: tuple[tuple[int, ...], ...]) -> Operator:
    name = "conv%dd_transpose" % n
    layout, kernel_layout = _LAYOUTS[n]
    unit: Classes = {"unit": ((1,) * n,)}
    in_relay: dict[str, Sequence[Any]] = {"dilation": unit["unit"]}
    if n == 3:
        in_relay["groups"] = (1,)
    return Operator(
        name="nn." + name,
        contraction=True,
        infer=infer,
        shapes=shapes,
        large=_LARGE[n],
        accuracy=DOT,
        accepts=is_image(n),
        operands=_operands,
        dtypes=NUMBERS,
        parameters=(
            layout,
            Parameter("kernel_size", KERNEL_SIZES[n]),
            Parameter("groups", groups),
            Parameter("channels", channels),
            kernel_layout,
            Parameter("dilation", {**unit, **DILATIONS[n]}),
            Parameter("padding", _padding),
            # Stands before the strides, which must be larger.
            Parameter("output_padding", _OUTPUT_PADDINGS[n]),
            Parameter("strides", _strides),
        ),
        relay=replace(relay(name), only=in_relay),
        relax=replace(relax(name), unbuilt=_UNBUILT_RELAX if n == 2 else {}),
    )


# --- the gradient of nn.conv2d ---------------------------------------------------------------


def _one_or_depthwise(x: TensorType, chosen: Attrs) -> Classes:
    # With groups of several channels TVM 0.16 uses the gradients of the wrong channels.
    return {name: v for name, v in groups(x, chosen).items() if name != "grouped"}


def _gradient_operands(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
    _, c, _ = image(x, chosen["data_layout"])
    outer, kernel = chosen["channels"], chosen["kernel_size"]
    weight = TensorType(weight_shape(outer, c // chosen["groups"], kernel, "OIHW"), x.dtype)
    return Operand(DATA, conv_infer([x, weight], chosen)[0]), Operand(LEAD, x)


def _gradient_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    grad, x = types
    _, c, _ = image(x, attrs["data_layout"])
    shape = weight_shape(
        attrs["channels"], c // attrs["groups"], attrs["kernel_size"], attrs["kernel_layout"]
    )
    weight = TensorType(shape, x.dtype)
    if (grad,) != conv_infer([x, weight], attrs):
        raise TypeRuleError(
            "%s is not the gradient of a convolution of %s with a weight %s" % (grad, x, weight)
        )
    return (weight,)


# --- dilate ----------------------------------------------------------------------------------


def _gaps(x: TensorType, chosen: Attrs) -> Classes:
    r = x.rank
    return {
        "last": ((1,) * (r - 1) + (2,),),
        "first": ((3,) + (1,) * (r - 1),) if r > 1 else (),
        "all": ((2,) * r, (3,) * r),
        "uneven": (tuple(1 + (i + 1) % 3 for i in range(r)),) if r > 1 else (),
        "none": ((1,) * r,),
    }


def _gap_value(x: TensorType, chosen: Attrs) -> Classes:
    if x.dtype in SIGNED or x.dtype == "uint8":
        return {"zero": (0.0,), "other": (3.0,)}
    return {"zero": (0.0,), "other": (0.31234567, -1.5)}


def _dilate_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    (x,) = types
    if len(attrs["strides"]) != x.rank or min(attrs["strides"]) < 1:
        raise TypeRuleError("%s cannot be dilated by %s" % (x, attrs["strides"]))
    shape = tuple((d - 1) * s + 1 for d, s in zip(x.shape, attrs["strides"]))
    return (TensorType(shape, x.dtype),)


def _dilate(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    return ns.nn.dilate(args[0], attrs["strides"], attrs["dilation_value"])


OPERATORS: tuple[Operator, ...] = (
    _transposed(1, ((1, 4, 9), (2, 4, 7), (1, 3, 67), (3, 1, 5), (1, 6, 1))),
    _transposed(2, ((1, 4, 5, 7), (2, 4, 6, 3), (1, 3, 4, 9), (3, 1, 4, 5), (1, 6, 1, 7))),
    _transposed(
        3, ((1, 4, 3, 5, 4), (2, 4, 2, 3, 4), (1, 3, 4, 2, 7), (3, 1, 2, 4, 3), (1, 6, 1, 3, 2))
    ),
    Operator(
        name="nn.conv2d_backward_weight",
        infer=_gradient_infer,
        shapes=((1, 4, 7, 6), (2, 4, 5, 8), (1, 3, 9, 5), (3, 1, 4, 5), (1, 6, 1, 7)),
        large=(1, 4, 7, 131),
        accuracy="dot product of K = batch * height * width of the gradient: gamma(K), Higham, (3.5)",
        accepts=is_image(2),
        operands=_gradient_operands,
        dtypes=NUMBERS,
        # TVM compiles it by expressing it with other operators, which it does for this layout only.
        parameters=parameters(_channels_first, _one_or_depthwise)
        + (Parameter("grad_layout", {"nchw": ("NCHW",)}),),
        relay=replace(relay("conv2d_backward_weight"), optional=()),
    ),
    Operator(
        name="nn.dilate",
        infer=_dilate_infer,
        shapes=((2, 3, 5), (7,), (1,), (4, 67), (1, 3, 5, 4), (2, 1, 3, 1, 2)),
        accuracy="exact with the value between the elements rounded to the dtype",
        accepts=some,
        dtypes=NUMBERS,
        parameters=(Parameter("strides", _gaps), Parameter("dilation_value", _gap_value)),
        relay=Lowering("nn.dilate", _dilate),
    ),
)
