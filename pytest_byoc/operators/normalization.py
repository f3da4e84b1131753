"""Normalisations, and dropout at inference."""

from __future__ import annotations

from typing import Any, Sequence

from ..core.graph import TensorType
from .record import (
    BIAS,
    LEAD,
    OWN,
    WEIGHT,
    Attrs,
    Classes,
    Lowering,
    Operand,
    Operator,
    Parameter,
    TypeRuleError,
    call,
    normalize_axis,
    same_type_along,
    some,
)

_ACCURACY = "running error analysis of mean and variance by either usual formula: see reference_kernels/"
#: The float32 numbers nearest to 1e-5, 0.0123456 and 0.3123457: Relay rounds attributes to float32,
#: even in float64 graphs.
_EPSILONS = {"default": (9.999999747378752e-06,), "other": (0.012345599941909313, 0.3123457133769989)}
_EPSILON = Parameter("epsilon", _EPSILONS)
_CENTER = Parameter("center", {"yes": (True,), "no": (False,)})
_SCALE = Parameter("scale", {"yes": (True,), "no": (False,)})


def _expect(types: Sequence[TensorType], shape: tuple[int, ...], op: str) -> None:
    """Raises TypeRuleError unless all later operands have that shape and the first one's dtype."""
    for t in types[1:]:
        if t != TensorType(shape, types[0].dtype):
            raise TypeRuleError(
                "%s of %s needs parameters of the shape %s, found %s" % (op, types[0], shape, t)
            )


def _affine(x: TensorType, shape: tuple[int, ...]) -> tuple[Operand, ...]:
    """Returns the operands x, gamma and beta; `shape` is that of gamma and beta."""
    t = TensorType(shape, x.dtype)
    return Operand(LEAD, x), Operand(WEIGHT, t), Operand(BIAS, t)


def _gamma_beta_relax(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> list[Any]:
    """Returns the operands with gamma 1 if `scale` is off, and beta 0 if `center` is off.

    Relax legalizes layer_norm, group_norm and instance_norm as if scale and center were on.
    """
    gamma = args[1] if attrs["scale"] else ns.ones(types[1].shape, types[1].dtype)
    beta = args[2] if attrs["center"] else ns.zeros(types[2].shape, types[2].dtype)
    return [args[0], gamma, beta]


def _rest(attrs: Attrs) -> Attrs:
    return {k: attrs[k] for k in ("epsilon", "center", "scale")}


# --- nn.batch_norm ---------------------------------------------------------------------------


def _batch_axis(x: TensorType, chosen: Attrs) -> Classes:
    """Returns the channel's axes; Relay supports no negative axis but -1."""
    r = x.rank
    return {
        "channel": (1,),
        "last": (r - 1,) if r > 2 else (),
        "negative": (-1,),
        "first": (0,),
        "other": tuple(range(2, r - 1)),
    }


def _training(x: TensorType, chosen: Attrs) -> Classes:
    """Returns the values of `training`; TVM 0.27 fails with it for a negative axis."""
    return {"no": (False,), "yes": (True,) if chosen["axis"] >= 0 else ()}


def _batch_operands(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
    t = TensorType((x.shape[chosen["axis"]],), x.dtype)
    return _affine(x, t.shape) + (Operand(BIAS, t), Operand(OWN, t, 0.25, 4.0))


def _batch_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    x = types[0]
    _expect(types, (x.shape[normalize_axis(attrs["axis"], x.rank)],), "nn.batch_norm")
    return (x, types[3], types[4])


def _batch_relay(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    return ns.nn.batch_norm(*args, axis=attrs["axis"], **_rest(attrs))


def _batch_relax(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    # Relax's default is True; graphs saved by earlier versions lack the attribute.
    return ns.nn.batch_norm(*args, **{"training": False, **attrs})


# --- nn.layer_norm, nn.rms_norm --------------------------------------------------------------


def _layer_axes(x: TensorType, chosen: Attrs) -> Classes:
    r = x.rank
    if x.dtype == "bfloat16":
        # For other axes the LLVM code of TVM 0.16 (Relay) returns garbage.
        return {"last": ((-1,),), "positive": ((r - 1,),)}
    return {
        "last": ((-1,),),
        "positive": ((r - 1,),),
        "inner": tuple((i,) for i in range(1, r - 1)),
        "negative": tuple((-i,) for i in range(2, r + 1)),
        "first": ((0,),) if r > 1 else (),
        "several": ((-2, -1), tuple(range(1, r)), tuple(range(r))) if r > 2 else (),
    }


def _axes_shape(x: TensorType, axes: Sequence[int]) -> tuple[int, ...]:
    """Returns the extents of the axes to normalise over.

    Raises TypeRuleError unless the axes are in ascending order and differ.
    """
    positions = [normalize_axis(a, x.rank) for a in axes]
    if not positions or sorted(set(positions)) != positions:
        raise TypeRuleError("the axes %s of %s must ascend, and one at least is needed" % (tuple(axes), x))
    return tuple(x.shape[a] for a in positions)


def _layer_operands(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
    return _affine(x, _axes_shape(x, chosen["axes"]))


def _layer_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    _expect(types, _axes_shape(types[0], attrs["axes"]), "nn.layer_norm")
    return (types[0],)


def _layer_relay(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    """Builds Relay's call, which supports one axis only.

    Several last axes are merged into one before the call, and the result is reshaped back.
    """
    x, axes = types[0], attrs["axes"]
    if len(axes) == 1:
        return ns.nn.layer_norm(*args, axis=axes[0], **_rest(attrs))
    length = types[1].size
    merged = ns.reshape(args[0], x.shape[: x.rank - len(axes)] + (length,))
    gamma, beta = (ns.reshape(a, (length,)) for a in args[1:])
    y = ns.nn.layer_norm(merged, gamma, beta, axis=-1, **_rest(attrs))
    return ns.reshape(y, x.shape)


def _layer_relax(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    operands = _gamma_beta_relax(ns, args, attrs, types)
    return ns.nn.layer_norm(*operands, axes=list(attrs["axes"]), **_rest(attrs))


def _rms_axes(x: TensorType, chosen: Attrs) -> Classes:
    """Returns axes to normalise over; TVM compiles only trailing axes, and not all axes at once."""
    r = x.rank
    return {
        "last": ((-1,),),
        "positive": ((r - 1,),),
        "several": ((-2, -1), tuple(range(1, r))) if r > 2 else (),
    }


def _rms_operands(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
    return _affine(x, _axes_shape(x, chosen["axes"]))[:2]


def _rms_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    _expect(types, _axes_shape(types[0], attrs["axes"]), "nn.rms_norm")
    return (types[0],)


def _rms_relax(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    return ns.nn.rms_norm(*args, axes=list(attrs["axes"]), epsilon=attrs["epsilon"])


# --- nn.group_norm, nn.instance_norm ---------------------------------------------------------


def _channel_axis(x: TensorType, chosen: Attrs) -> Classes:
    r = x.rank
    return {
        "channel": (1,),
        "minus_one": (-1,),
        "negative": tuple(-i for i in range(2, r)),
        "last": (r - 1,),
        "other": tuple(range(2, r - 1)),
    }


def _group_axis(x: TensorType, chosen: Attrs) -> Classes:
    return {**_channel_axis(x, chosen), "first": (0,)}


def _groups(x: TensorType, chosen: Attrs) -> Classes:
    c = x.shape[chosen["axis"]]
    return {
        "several": tuple(g for g in range(2, c) if c % g == 0),
        "one": (1,),
        "each": (c,) if c > 1 else (),
    }


def _channel_operands(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
    return _affine(x, (x.shape[chosen["axis"]],))


def _group_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    x = types[0]
    channels = x.shape[normalize_axis(attrs["axis"], x.rank)]
    if channels % attrs["num_groups"]:
        raise TypeRuleError("%d channels cannot be split into %d groups" % (channels, attrs["num_groups"]))
    _expect(types, (channels,), "nn.group_norm")
    return (x,)


def _instance_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    x = types[0]
    _expect(types, (x.shape[normalize_axis(attrs["axis"], x.rank)],), "nn.instance_norm")
    return (x,)


def _group_relax(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    """Builds Relax's call over all axes after the channels, which Relay's operator implies."""
    axes = list(range(normalize_axis(attrs["axis"], types[0].rank) + 1, types[0].rank))
    return ns.nn.group_norm(
        *_gamma_beta_relax(ns, args, attrs, types),
        num_groups=attrs["num_groups"],
        channel_axis=attrs["axis"],
        axes=axes,
        **_rest(attrs),
    )


def _instance_relax(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    """Builds Relax's call over all axes but the first and the channels, as Relay implies.

    Relax's legalization does not support a negative channel axis.
    """
    axis = normalize_axis(attrs["axis"], types[0].rank)
    axes = [i for i in range(1, types[0].rank) if i != axis]
    operands = _gamma_beta_relax(ns, args, attrs, types)
    return ns.nn.instance_norm(*operands, channel_axis=axis, axes=axes, **_rest(attrs))


# --- nn.l2_normalize, nn.lrn, nn.dropout -----------------------------------------------------


def _l2_axis(x: TensorType, chosen: Attrs) -> Classes:
    r = x.rank
    return {
        "all": (None,),
        "one": tuple((i,) for i in range(r)),
        "minus_one": ((-1,),),
        "negative": tuple((-i,) for i in range(2, r + 1)),
        "several": ((0, r - 1), (-1, 0), tuple(range(1, r))) if r > 2 else (),
    }


def _l2_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    for axis in attrs["axis"] or ():
        normalize_axis(axis, types[0].rank)
    return (types[0],)


def _l2_relay(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    axis = attrs["axis"]
    return ns.nn.l2_normalize(args[0], eps=attrs["eps"], axis=None if axis is None else list(axis))


def _dropout_relay(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    # nn.dropout returns the first item alone.
    return ns.expr.TupleWrapper(ns.nn.dropout_raw(args[0], attrs["rate"]), 2)


def _dropout_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    return (types[0], types[0])


#: At most about 60 elements are summed, since bounds grow with their number.
_SHAPES = ((2, 3, 5), (7,), (3, 29), (4, 1), (2, 3, 4, 5), (2, 1, 6, 1, 3))
_CHANNELS = ((2, 6, 4, 5), (3, 4, 7), (1, 8, 3, 3), (2, 1, 5, 4), (1, 4, 2, 3, 2))

OPERATORS: tuple[Operator, ...] = (
    # The second and the third result are the moving statistics.
    Operator(
        name="nn.batch_norm",
        infer=_batch_infer,
        shapes=((2, 6, 4, 5), (3, 7), (2, 6, 5), (2, 67), (4, 1), (1, 3, 2, 4, 2)),
        accuracy="gamma(9) of all terms of (x - mean) * scale + beta: see reference_kernels/normalization.py",
        accepts=lambda x: x.rank > 1 and x.size > 0,
        operands=_batch_operands,
        parameters=(
            Parameter("axis", _batch_axis),
            _EPSILON,
            _CENTER,
            _SCALE,
            # Training normalises by the batch's statistics and updates the moving ones.
            Parameter("training", _training),
        ),
        relay=Lowering("nn.batch_norm", _batch_relay, only={"training": (False,)}),
        relax=Lowering("nn.batch_norm", _batch_relax),
        used=1,
        tuple_result=True,
    ),
    Operator(
        name="nn.layer_norm",
        infer=_layer_infer,
        shapes=_SHAPES,
        accuracy=_ACCURACY,
        accepts=some,
        averages=True,
        operands=_layer_operands,
        parameters=(Parameter("axes", _layer_axes), _EPSILON, _CENTER, _SCALE),
        relay=Lowering("nn.layer_norm", _layer_relay),
        relax=Lowering("nn.layer_norm", _layer_relax),
    ),
    Operator(
        name="nn.group_norm",
        infer=_group_infer,
        shapes=_CHANNELS,
        accuracy=_ACCURACY,
        accepts=lambda x: x.rank > 2 and x.size > 0,
        averages=True,
        operands=_channel_operands,
        parameters=(
            Parameter("axis", _group_axis),
            Parameter("num_groups", _groups),
            _EPSILON,
            _CENTER,
            _SCALE,
        ),
        relay=call("nn.group_norm"),
        relax=Lowering("nn.group_norm", _group_relax),
    ),
    Operator(
        name="nn.instance_norm",
        infer=_instance_infer,
        shapes=_CHANNELS,
        accuracy=_ACCURACY,
        accepts=lambda x: x.rank > 2 and x.size > 0,
        averages=True,
        operands=_channel_operands,
        parameters=(Parameter("axis", _channel_axis), _EPSILON, _CENTER, _SCALE),
        relay=call("nn.instance_norm"),
        relax=Lowering("nn.instance_norm", _instance_relax),
    ),
    Operator(
        name="nn.rms_norm",
        infer=_rms_infer,
        shapes=tuple(s for s in _SHAPES if len(s) > 1),
        accuracy="sum of n squares: gamma(n + 5), 6 roundings",
        accepts=lambda x: x.rank > 1 and x.size > 0,
        averages=True,
        operands=_rms_operands,
        parameters=(Parameter("axes", _rms_axes), _EPSILON),
        relax=Lowering("nn.rms_norm", _rms_relax),
    ),
    # Relax has no such operator, nor a constant to write it with.
    Operator(
        name="nn.l2_normalize",
        infer=_l2_infer,
        shapes=_SHAPES,
        accuracy="sum of n squares: gamma(n + 5), 6 roundings",
        accepts=some,
        # The second eps is larger than the sum of squares of a small tensor.
        parameters=(
            Parameter("eps", {"usual": (9.999999747378752e-06,), "large": (3.1234567165374756,)}),
            Parameter("axis", _l2_axis),
        ),
        relay=Lowering("nn.l2_normalize", _l2_relay),
    ),
    # Relax has no such operator. TVM ignores norm_region and always normalises across channels.
    Operator(
        name="nn.lrn",
        infer=same_type_along,
        shapes=((2, 6, 4, 5), (1, 7, 3, 2), (2, 1, 1, 3), (1, 2, 5, 11)),
        accuracy="sum of squares: gamma(size + 6), power: 4 + 4 |beta log| roundings",
        accepts=lambda x: x.rank == 4 and x.size > 0,
        parameters=(
            Parameter("size", {"default": (5,), "small": (3,), "one": (1,), "large": (9,)}),
            Parameter("axis", {"channels_first": (1,), "channels_last": (3,)}),
            Parameter("bias", {"default": (2.0,), "other": (1.2345677614212036, 0.5)}),
            Parameter("alpha", {"default": (9.999999747378752e-06,), "other": (0.3123457133769989, 2.5)}),
            Parameter("beta", {"default": (0.75,), "other": (0.5, 1.0, 1.3700000047683716)}),
        ),
        relay=call("nn.lrn"),
    ),
    # TVM compiles it as at inference: it returns the operand and a mask of ones. Relay removes it if
    # nothing reads the mask.
    Operator(
        name="nn.dropout",
        infer=_dropout_infer,
        shapes=_SHAPES,
        accuracy="exact",
        accepts=some,
        parameters=(Parameter("rate", {"default": (0.5,), "other": (0.1234,), "none": (0.0,)}),),
        relay=Lowering("nn.dropout", _dropout_relay),
        relax=call("nn.dropout"),
        used=1,
        tuple_result=True,
    ),
)
