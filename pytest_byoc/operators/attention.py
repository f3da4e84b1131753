"""Attention: Relax's nn.attention, with or without a bias.

The query has the shape [batch, queries, heads, dim], key and value have the shape
[batch, keys, heads, dim].
"""

from __future__ import annotations

from typing import Any, Sequence

from ..core.graph import TensorType
from .record import (
    DATA,
    LEAD,
    Attrs,
    Classes,
    Lowering,
    Operand,
    Operator,
    Parameter,
    TypeRuleError,
)

_SHAPES = ((2, 3, 2, 4), (1, 5, 3, 8), (2, 1, 3, 4), (1, 7, 2, 1), (1, 4, 1, 6))
_ACCURACY = "scores: gamma(dim + 5); softmax; sum of keys: gamma(keys): see reference_kernels/attention.py"


def _keys(x: TensorType, chosen: Attrs) -> Classes:
    n = x.shape[1]
    return {"more": (n + 2, 2 * n + 3), "same": (n,), "fewer": (n - 1,) if n > 2 else (), "one": (1,)}


def _value_dim(x: TensorType, chosen: Attrs) -> Classes:
    return {"same": (x.shape[3],), "other": (x.shape[3] + 2, 5)}


def _bias_shape(x: TensorType, chosen: Attrs) -> Classes:
    """Returns shapes that broadcast to [batch, heads, queries, keys] by Relax's type rule."""
    (b, s, n, _), t = x.shape, chosen["keys"]
    return {
        "full": ((b, n, s, t),),
        "shared": ((1, 1, s, t),),
        "per_batch": ((b, 1, 1, t),),
        "per_head": ((1, n, s, t),),
        "per_key": ((1, 1, 1, t),),
    }


def _operands(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
    b, _, n, h = x.shape
    key = TensorType((b, chosen["keys"], n, h), x.dtype)
    value = TensorType((b, chosen["keys"], n, chosen["value_dim"]), x.dtype)
    return Operand(LEAD, x), Operand(DATA, key), Operand(DATA, value)


def _bias_operands(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
    return _operands(x, chosen) + (Operand(DATA, TensorType(chosen["bias_shape"], x.dtype)),)


def _infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    q, k, v = types[:3]
    if any(t.dtype != q.dtype for t in types) or any(t.rank != 4 for t in types):
        raise TypeRuleError("the operands %s must have one dtype and four axes" % ", ".join(map(str, types)))
    b, s, n, h = q.shape
    t = k.shape[1]
    if k.shape != (b, t, n, h) or v.shape[:3] != (b, t, n):
        raise TypeRuleError(
            "query %s, key %s and value %s have shapes that do not fit each other" % (q, k, v)
        )
    for bias in types[3:]:
        if bias.shape[3] != t or any(d not in (1, e) for d, e in zip(bias.shape, (b, n, s))):
            raise TypeRuleError("the bias %s does not fit scores of the shape %s" % (bias, (b, n, s, t)))
    return (TensorType((b, s, n, v.shape[3]), q.dtype),)


def _attention(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    return ns.nn.attention(*args, scale=attrs["scale"], causal_mask=attrs["causal_mask"])


def _attention_bias(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    return ns.nn.attention_bias(*args, scale=attrs["scale"], causal_mask=attrs["causal_mask"])



def _scale(x: TensorType, chosen: Attrs) -> Classes:
    """Returns scales of the scores; None stands for one over the root of dim.

    With another scale TVM 0.27 lowers attention of half precision to float32, whatever its type.
    The attribute window_size is left out, since TVM's LLVM build rejects it.
    """
    wide = x.dtype in ("float32", "float64")
    return {"default": (None,), **({"other": (0.31234567, 1.0)} if wide else {})}


_SCALE = Parameter("scale", _scale)
#: With TopLeft, query i attends to keys up to i; with BottomRight up to i + |queries - keys|.
_MASK = Parameter(
    "causal_mask", {"none": (None,), "top_left": ("TopLeft",), "bottom_right": ("BottomRight",)}
)
_KEYS = Parameter("keys", _keys, attribute=False)
_VALUE_DIM = Parameter("value_dim", _value_dim, attribute=False)

# nn.attention_var_len is left out: TVM has no implementation of its own ("Legalization of
# attention_var_len op is not supported yet").
OPERATORS: tuple[Operator, ...] = (
    Operator(
        name="nn.attention",
        infer=_infer,
        shapes=_SHAPES,
        accuracy=_ACCURACY,
        accepts=lambda x: x.rank == 4 and x.size > 0,
        operands=_operands,
        parameters=(_SCALE, _MASK, _KEYS, _VALUE_DIM),
        relax=Lowering("nn.attention", _attention),
    ),
    Operator(
        name="nn.attention_bias",
        infer=_infer,
        shapes=_SHAPES,
        accuracy=_ACCURACY,
        accepts=lambda x: x.rank == 4 and x.size > 0,
        operands=_bias_operands,
        parameters=(
            _SCALE,
            _MASK,
            _KEYS,
            _VALUE_DIM,
            Parameter("bias_shape", _bias_shape, attribute=False),
        ),
        relax=Lowering("nn.attention_bias", _attention_bias),
    ),
)
