"""Resampling of images."""

from __future__ import annotations

from typing import Any, Sequence

from ..core.graph import TensorType
from .record import (
    FLOATS,
    FRESH,
    LEAD,
    NUMBERS,
    Attrs,
    Classes,
    Lowering,
    Operand,
    Operator,
    Parameter,
    TypeRuleError,
    call,
)

_ACCURACY = "coordinates in float32, weights rounded, gamma(taps): see reference_kernels/resize.py"
_FIRST = {1: "NCW", 2: "NCHW", 3: "NCDHW"}
_LAST = {1: "NWC", 2: "NHWC", 3: "NDHWC"}


def spatial(rank: int, layout: str) -> tuple[int, ...]:
    """Returns the positions of depth, height and width, as far as the rank has them."""
    return tuple(range(1, rank - 1)) if layout.endswith("C") else tuple(range(2, rank))


def _sizes(x: TensorType, layout: str) -> tuple[int, ...]:
    return tuple(x.shape[a] for a in spatial(x.rank, layout))


def _resized(x: TensorType, layout: str, size: Sequence[int]) -> TensorType:
    axes = spatial(x.rank, layout)
    if len(axes) != len(size) or len(layout) != x.rank or min(size) < 1:
        raise TypeRuleError("%s in the layout %s cannot be resized to %s" % (x, layout, size))
    shape = list(x.shape)
    for a, n in zip(axes, size):
        shape[a] = n
    return TensorType(tuple(shape), x.dtype)


def _layout(dims: int) -> Parameter:
    return Parameter("layout", {"channels_first": (_FIRST[dims],), "channels_last": (_LAST[dims],)})


# --- image.resize ----------------------------------------------------------------------------


def _size(x: TensorType, chosen: Attrs) -> Classes:
    old = _sizes(x, chosen["layout"])
    k = len(old)
    between = tuple(d + (d + 1) // 2 for d in old)
    # Along one axis alone the factor is an integer: kernels for such factors may look at one axis.
    mixed: Classes = {
        "integral_first": ((2 * old[0], *between[1:]),), "integral_last": ((*between[:-1], 2 * old[-1]),),
    }
    # Some new sizes share a factor with the old ones, some do not.
    return {
        "doubled": (tuple(2 * d for d in old),),
        "larger": (tuple(d + 1 + (i + k) % 3 for i, d in enumerate(old)),),
        "smaller": (tuple(max(1, d - 1 - i % 2) for i, d in enumerate(old)),),
        "tripled": (tuple((3 if i == k - 1 else 2) * d for i, d in enumerate(old)),),
        "uneven": (tuple(d * 2 - 1 if i % 2 else max(2, d // 2) for i, d in enumerate(old)),),
        "same": (old,),
        "single": ((1,) + tuple(d + 2 for d in old[1:]),),
        **(mixed if k > 1 else {}),
    }


def _method(x: TensorType, chosen: Attrs) -> Classes:
    # TVM truncates interpolated integers, other implementations round them: integers are only
    # selected by "nearest_neighbor". TVM 0.16 selects float64 values by way of float32.
    real = x.dtype in FLOATS
    return {
        "linear": ("linear",) if real else (),
        "nearest": ("nearest_neighbor",) if x.dtype != "float64" else (),
        "cubic": ("cubic",) if real else (),
    }


def _crop_method(x: TensorType, chosen: Attrs) -> Classes:
    return {"bilinear": ("bilinear",), "nearest": ("nearest_neighbor",) if x.dtype != "float64" else ()}


def _mode(x: TensorType, chosen: Attrs) -> Classes:
    # Aligning the corners of a size of 1 divides 0 by 0.
    corners = min(chosen["size"]) > 1
    classes: dict[str, Sequence[Any]] = {
        "half_pixel": ("half_pixel",),
        "align_corners": ("align_corners",) if corners else (),
        "asymmetric": ("asymmetric",),
        "pytorch_half_pixel": ("pytorch_half_pixel",),
        "tf_half_pixel_for_nn": ("tf_half_pixel_for_nn",) if "nearest" in chosen["method"] else (),
    }
    # TVM 0.16 and 0.27 read the region of interest of three dimensions in the wrong order, and they
    # divide by zero for a size of 1.
    if x.rank < 5:
        classes["tf_crop_and_resize"] = ("tf_crop_and_resize",) if corners else ()
    return classes


def _rounding(x: TensorType, chosen: Attrs) -> Classes:
    if "nearest" not in chosen["method"]:
        return {"unset": ("",)}
    classes: dict[str, Sequence[Any]] = {"unset": ("",), "floor": ("floor",)}
    multiple = any(n % d == 0 for n, d in zip(chosen["size"], _sizes(x, chosen["layout"])))
    # TVM 0.16 rounds down, whatever the attribute says, if the new size is a multiple of the old
    # one.
    mode = chosen["coordinate_transformation_mode"]
    # With tf_half_pixel_for_nn all coordinates are ties where the size stays the same.
    if (mode == "asymmetric" and multiple) or mode == "tf_half_pixel_for_nn":
        return classes
    return {
        **classes,
        "round": ("round",),
        "round_prefer_floor": ("round_prefer_floor",),
        "round_prefer_ceil": ("round_prefer_ceil",),
        "ceil": ("ceil",),
    }


def _if_cubic(name: str, classes: Classes) -> Parameter:
    first = next(iter(classes))
    default = {first: classes[first]}
    return Parameter(name, lambda x, chosen: classes if chosen["method"] == "cubic" else default)


def _cropping(chosen: Attrs) -> bool:
    return bool(chosen["coordinate_transformation_mode"] == "tf_crop_and_resize")


def _roi(x: TensorType, chosen: Attrs) -> Classes:
    k = len(chosen["size"])
    if not _cropping(chosen):
        return {"none": ((0.0,) * 2 * k,)}
    inside = tuple(0.15 + 0.1 * i for i in range(k)) + tuple(0.95 - 0.1 * i for i in range(k))
    beyond = tuple(-0.2 - 0.1 * i for i in range(k)) + tuple(1.3 + 0.1 * i for i in range(k))
    return {"inside": (inside,), "beyond": (beyond,), "backwards": (inside[k:] + inside[:k],)}


def _extrapolation(x: TensorType, chosen: Attrs) -> Classes:
    if not _cropping(chosen):
        return {"zero": (0.0,)}
    return {"zero": (0.0,), "other": (1.5,) if x.dtype in FLOATS else (3.0,)}


def _check_method(x: TensorType, attrs: Attrs) -> None:
    # As in _method.
    if x.dtype not in FLOATS and "nearest" not in attrs["method"]:
        raise TypeRuleError(
            "%s has no floats to interpolate: the method must be nearest, found %s" % (x, attrs["method"])
        )


def _resize_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    _check_method(types[0], attrs)
    return (_resized(types[0], attrs["layout"], attrs["size"]),)


def _resize(dims: int, shapes: Any, relax: Lowering | None = None) -> Operator:
    name = "image.resize%dd" % dims
    exclude = {"no": (0,), "yes": (1,)}
    if dims == 3:
        del exclude["yes"]  # TVM 0.16 and 0.27 mix up the axes
    return Operator(
        name=name,
        infer=_resize_infer,
        shapes=shapes,
        accuracy=_ACCURACY,
        accepts=lambda x: x.rank == dims + 2 and 0 < x.size <= 500,
        dtypes=NUMBERS,
        parameters=(
            _layout(dims),
            Parameter("size", _size),
            Parameter("method", _method),
            Parameter("coordinate_transformation_mode", _mode),
            Parameter("rounding_method", _rounding),
            _if_cubic("cubic_alpha", {"half": (-0.5,), "three_quarters": (-0.75,), "odd": (-0.31234567,)}),
            _if_cubic("cubic_exclude", exclude),
            Parameter("roi", _roi),
            Parameter("extrapolation_value", _extrapolation),
        ),
        relay=call(name),
        relax=relax,
    )


# --- nn.upsampling ---------------------------------------------------------------------------


def _scale(name: str, axis: int) -> Parameter:
    """Returns a parameter of scales that give whole new sizes: TVM derives scales from sizes."""

    def classes(x: TensorType, chosen: Attrs) -> Classes:
        n = _sizes(x, chosen["layout"])[axis]
        fractions = tuple(s for s in (1.5, 2.5, 1.25) if n * s == int(n * s))
        return {
            "two": (2.0,),
            "one": (1.0,),
            "three": (3.0,),
            "fraction": fractions,
            "half": (0.5,) if n % 2 == 0 and n > 2 else (),
        }

    return Parameter(name, classes)


def _methods(*names: str) -> Parameter:
    def classes(x: TensorType, chosen: Attrs) -> Classes:
        # As in _method.
        nearest: dict[str, Sequence[Any]] = {"nearest": ("nearest_neighbor",) if x.dtype != "float64" else ()}
        return {**nearest, **{n: (n,) if x.dtype in FLOATS else () for n in names}}

    return Parameter("method", classes)


def scaled(shape: Sequence[int], attrs: Attrs) -> tuple[int, ...]:
    """Returns the new sizes of depth, height and width, as far as the rank has them."""
    names = ("scale_d", "scale_h", "scale_w")[5 - len(shape) :]
    axes = spatial(len(shape), attrs["layout"])
    return tuple(int(shape[a] * attrs[name] + 0.5) for a, name in zip(axes, names))


def _upsampling_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    x = types[0]
    if x.rank != len(attrs["layout"]):
        raise TypeRuleError("%s does not have the layout %s" % (x, attrs["layout"]))
    _check_method(x, attrs)
    return (_resized(x, attrs["layout"], scaled(x.shape, attrs)),)


def _corners(x: TensorType, chosen: Attrs) -> Classes:
    return {"no": (False,), "yes": (True,) if min(scaled(x.shape, chosen)) > 1 else ()}


def _upsampling_mode(x: TensorType, chosen: Attrs) -> Classes:
    corners = min(scaled(x.shape, chosen)) > 1
    return {
        "half_pixel": ("half_pixel",),
        "align_corners": ("align_corners",) if corners else (),
        "asymmetric": ("asymmetric",),
    }


# --- image.crop_and_resize -------------------------------------------------------------------


def _crop_operands(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
    n = chosen["boxes"]
    # Some boxes lie partly outside of the image.
    return (
        Operand(LEAD, x),
        Operand(FRESH, TensorType((n, 4), "float32"), -0.1, 1.1),
        Operand(FRESH, TensorType((n,), "int32"), 0, x.shape[0] - 1),
    )


def _crop_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    x, boxes, indices = types
    good = boxes.shape == (indices.shape or (0,))[:1] + (4,) and boxes.dtype == "float32"
    if not good or indices.rank != 1 or indices.dtype != "int32":
        raise TypeRuleError("the boxes %s do not fit the indices of images %s" % (boxes, indices))
    y = _resized(x, attrs["layout"], attrs["crop_size"])
    return (TensorType(boxes.shape[:1] + y.shape[1:], x.dtype),)


def _crop_relay(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    return ns.image.crop_and_resize(*args, **attrs)


# The shapes cover: a batch above 1, extents that all differ, an extent of 1.
_TWO = ((1, 3, 5, 4), (2, 2, 4, 7), (1, 4, 3, 5), (2, 1, 6, 5), (1, 2, 1, 7))
_THREE = ((1, 2, 3, 4, 5), (2, 1, 4, 3, 6), (1, 3, 5, 2, 4))

OPERATORS: tuple[Operator, ...] = (
    _resize(1, ((1, 3, 5), (2, 2, 7), (1, 4, 6), (3, 5, 4))),
    _resize(2, _TWO, relax=call("image.resize2d")),
    _resize(3, _THREE, relax=call("image.resize3d")),
    # Relax has no upsampling, no crop_and_resize, and no resize in one dimension.
    Operator(
        name="nn.upsampling",
        infer=_upsampling_infer,
        shapes=_TWO,
        accuracy=_ACCURACY,
        accepts=lambda x: x.rank == 4 and 0 < x.size <= 400,
        dtypes=NUMBERS,
        parameters=(
            _layout(2),
            _scale("scale_h", 0),
            _scale("scale_w", 1),
            _methods("bilinear", "bicubic"),
            Parameter("align_corners", _corners),
        ),
        relay=call("nn.upsampling"),
    ),
    Operator(
        name="nn.upsampling3d",
        infer=_upsampling_infer,
        shapes=_THREE,
        accuracy=_ACCURACY,
        accepts=lambda x: x.rank == 5 and 0 < x.size <= 300,
        dtypes=NUMBERS,
        parameters=(
            _layout(3),
            _scale("scale_d", 0),
            _scale("scale_h", 1),
            _scale("scale_w", 2),
            _methods("trilinear"),
            Parameter("coordinate_transformation_mode", _upsampling_mode),
        ),
        relay=call("nn.upsampling3d"),
    ),
    Operator(
        name="image.crop_and_resize",
        infer=_crop_infer,
        shapes=((2, 3, 5, 4), (2, 2, 4, 7), (3, 4, 3, 5), (2, 1, 6, 5)),
        accuracy=_ACCURACY,
        accepts=lambda x: x.rank == 4 and x.shape[0] > 1 and 0 < x.size <= 500,
        operands=_crop_operands,
        parameters=(
            _layout(2),
            Parameter("boxes", {"two": (2,), "one": (1,), "several": (3,)}, attribute=False),
            Parameter("crop_size", {"larger": ((6, 9),), "smaller": ((2, 3),), "uneven": ((7, 2),)}),
            Parameter("method", _crop_method),
            Parameter("extrapolation_value", {"zero": (0.0,), "other": (1.5, -0.25)}),
        ),
        relay=Lowering("image.crop_and_resize", _crop_relay),
    ),
)
