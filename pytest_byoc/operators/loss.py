"""Losses: negative log likelihood and cross entropy."""

from __future__ import annotations

from typing import Sequence

from ..core.graph import TensorType
from .record import (
    DATA,
    FRESH,
    LEAD,
    Attrs,
    Classes,
    Operand,
    Operator,
    Parameter,
    TypeRuleError,
    call,
)


def _nll_shape(x: TensorType) -> tuple[int, ...]:
    """Returns the shape of the targets, [batch, ...] for predictions [batch, classes, ...]."""
    return x.shape[:1] + x.shape[2:]


def _nll_operands(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
    classes = x.shape[1]
    return (
        Operand(LEAD, x),
        Operand(FRESH, TensorType(_nll_shape(x), chosen["target_dtype"]), 0, classes - 1),
        # Weights are positive, since the mean divides by their sum.
        Operand(FRESH, TensorType((classes,), x.dtype), 0.25, 2.0),
    )


def _nll_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    x, targets, weights = types
    integers = targets.dtype in ("int32", "int64")
    if x.rank < 2 or targets.shape != _nll_shape(x) or not integers:
        raise TypeRuleError("the predictions %s do not fit targets %s" % (x, targets))
    if weights != TensorType(x.shape[1:2], x.dtype):
        raise TypeRuleError("the predictions %s do not fit weights %s" % (x, weights))
    return (TensorType(targets.shape if attrs["reduction"] == "none" else (), x.dtype),)


def _ignored(x: TensorType, chosen: Attrs) -> Classes:
    return {"default": (-100,), "class": tuple(range(min(3, x.shape[1])))}


def _labels(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
    return Operand(LEAD, x), Operand(DATA, x, 0.0, 1.0)


def _entropy_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    if types[0].rank != 2 or types[1] != types[0]:
        raise TypeRuleError("%s and %s must have one type of rank 2" % (types[0], types[1]))
    return (TensorType((), types[0].dtype),)


_SHAPES = ((3, 5), (1, 7), (4, 1), (2, 29))

OPERATORS: tuple[Operator, ...] = (
    # Always with weights: they are optional in Relax, but not in Relay.
    Operator(
        name="nn.nll_loss",
        infer=_nll_infer,
        shapes=((3, 5), (4, 2), (2, 6, 7), (2, 3, 4, 5), (1, 4, 1)),
        accuracy="sums of n: gamma(n + 1), 3 roundings of the division",
        accepts=lambda x: x.rank > 1 and x.shape[1] > 1 and x.size > 0,
        operands=_nll_operands,
        parameters=(
            Parameter("reduction", {"mean": ("mean",), "sum": ("sum",), "none": ("none",)}),
            Parameter("ignore_index", _ignored),
            Parameter("target_dtype", {"int32": ("int32",), "int64": ("int64",)}, attribute=False),
        ),
        relay=call("nn.nll_loss"),
        relax=call("nn.nll_loss"),
    ),
    # Relay's operator supports rank 2 only.
    Operator(
        name="nn.cross_entropy_with_logits",
        infer=_entropy_infer,
        shapes=_SHAPES,
        accuracy="sum of n products: gamma(n), 3 roundings of the division",
        accepts=lambda x: x.rank == 2 and x.size > 0,
        operands=_labels,
        relay=call("nn.cross_entropy_with_logits"),
        relax=call("nn.cross_entropy_with_logits"),
    ),
    # Relax has no such operator.
    Operator(
        name="nn.cross_entropy",
        infer=_entropy_infer,
        shapes=_SHAPES,
        accuracy="logarithm 4 ulp; sum of n products: gamma(n), 3 roundings of the division",
        accepts=lambda x: x.rank == 2 and x.size > 0,
        operands=_labels,
        domain=(0.0625, 1.0),
        relay=call("nn.cross_entropy"),
    ),
)
