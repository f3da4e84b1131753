"""Structures of blocks that models of today consist of, written in TVM's primitive operators.

They are attention, rotary embedding, norms, gated layers, caches and quantised layers, in the forms in
which exporters write them. Targets fuse them by patterns, and leave parts of them to TVM (classes 6,
10, 16, 23, 31, 43).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from .expressions import Field, Row, Value, add_table, call, constant, first, node, row, x

#: Batch, heads, length and depth of what attention reads; the numbers of keys and of their heads are
#: other ones.
_BATCH, _HEADS, _LENGTH, _DEPTH, _KEYS = 1, 4, 3, 6, 5
#: The permutation that exchanges the heads and the length.
_SWAPPED = (0, 2, 1, 3)


def _number(value: float) -> Value:
    return constant(low=value, high=value)


def _attention(
    query: Value, keys: Value, values: Value, *, mask: Value | None = None, divided: bool = False
) -> Value:
    """Returns softmax(query · keysᵀ · scale + mask) · values."""
    scores: Value = node("matmul", query, call("transpose", keys, axes=(0, 1, 3, 2)))
    scores = node("divide", scores, _number(2.5)) if divided else node("multiply", scores, _number(0.4))
    if mask is not None:
        scores = node("add", scores, mask)
    return node("matmul", call("nn.softmax", scores, axis=-1), values)


def _causal(queries: int, keys: int) -> Value:
    """Returns a mask that hides the keys behind each query, the last query seeing all."""
    places = product(range(queries), range(keys))
    return constant(queries, keys, data=[-1e4 if k > q + keys - queries else 0.0 for q, k in places])


def _heads(length: int, number: int = _HEADS) -> Value:
    return x(_BATCH, number, length, _DEPTH)


def _masked() -> Iterator[Row]:
    """Scores are multiplied or divided by a number, and masked in several ways."""
    masks: tuple[Value | None, ...] = (
        None, x(_BATCH, 1, 1, _KEYS), x(_LENGTH, _KEYS), x(1, _HEADS, 1, _KEYS), _causal(_LENGTH, _KEYS)
    )
    for number, mask in enumerate(masks):
        made = _attention(_heads(_LENGTH), _heads(_KEYS), _heads(_KEYS), mask=mask, divided=number % 2 == 1)
        yield row(made, needs=["matmul", "nn.softmax"])


def _of_batches() -> Iterator[Row]:
    """The heads are the batch of a product; once all lengths are equal, and the scores not scaled."""
    for length, keys_length, depth, scaled in ((3, 5, 6, True), (4, 4, 4, True), (4, 4, 4, False)):
        query, keys, values = (x(4, n, depth) for n in (length, keys_length, keys_length))
        scores: Value = call("nn.batch_matmul", query, keys, transpose_b=True)
        scores = node("multiply", scores, _number(0.5)) if scaled else scores
        made = call("nn.batch_matmul", call("nn.softmax", scores, axis=-1), values, transpose_b=False)
        yield row(made, needs=["nn.batch_matmul", "nn.softmax"])


def _grouped() -> Iterator[Row]:
    """Each head of keys and values is read by several heads of queries."""
    # A tile has the same shape as a repetition, and its heads in another order.
    makers: tuple[tuple[str, int, dict[str, Any]], ...] = (
        ("repeat", 2, {"repeats": 2, "axis": 1}), ("repeat", 4, {"repeats": 4, "axis": 1}),
        ("tile", 2, {"reps": (1, 2, 1, 1)}),
    )
    for maker, times, given in makers:
        keys, values = (call(maker, _heads(_KEYS, _HEADS // times), **given) for _ in range(2))
        yield row(_attention(_heads(_LENGTH), keys, values), needs=["matmul", "nn.softmax"])
    wide = (_BATCH, 2, 2, _KEYS, _DEPTH)
    keys, values = (
        call("reshape", call("broadcast_to", value, shape=wide), newshape=(_BATCH, _HEADS, _KEYS, _DEPTH))
        for value in (x(_BATCH, 2, 1, _KEYS, _DEPTH), x(_BATCH, 2, 1, _KEYS, _DEPTH))
    )
    yield row(_attention(_heads(_LENGTH), keys, values, divided=True), needs=["matmul", "nn.softmax"])


def _cached() -> Iterator[Row]:
    """Keys and values of one token are appended to a cache, and the caches are results."""
    keys, values = (node("concatenate", _heads(_KEYS - 1), _heads(1), axis=2) for _ in range(2))
    yield row(_attention(_heads(1), keys, values), keys, values, needs=["matmul", "nn.softmax"])


def _from_one_layer() -> Iterator[Row]:
    """Queries, keys and values are cut from the result of one layer."""
    layer = call("nn.dense", x(_LENGTH, 8), units=3 * _HEADS * _DEPTH)
    parts = node("split", layer, indices_or_sections=3, axis=1)
    divided = (call("reshape", Field(parts, at), newshape=(1, _LENGTH, _HEADS, _DEPTH)) for at in range(3))
    query, keys, values = (call("transpose", value, axes=_SWAPPED) for value in divided)
    made = call("transpose", _attention(query, keys, values), axes=_SWAPPED)
    merged = call("reshape", made, newshape=(_LENGTH, _HEADS * _DEPTH))
    yield row(call("nn.dense", merged, units=8), needs=["nn.dense", "matmul"])


def _rotary() -> Iterator[Row]:
    """The two halves of each vector are rotated, or its neighbours, or only one part of it."""
    shape = (_BATCH, _LENGTH, _HEADS, 8)
    angles = ((1, _LENGTH, 1, 8), (_LENGTH, 1, 8))
    for number, (exchanged, angle) in enumerate(product((False, True), angles)):
        value = x(*shape)
        cos, sin = (constant(*angle, low=-1.0, high=1.0) for _ in range(2))
        halves = node("split", value, indices_or_sections=2, axis=3)
        low, high = Field(halves, 0), Field(halves, 1)
        minus = node("multiply", high, _number(-1.0)) if number % 2 else call("negative", high)
        rotated = node("concatenate", *((low, minus) if exchanged else (minus, low)), axis=3)
        total = node("add", node("multiply", value, cos), node("multiply", rotated, sin))
        yield row(total, needs=["multiply", "add"])
    # Neighbours are rotated together.
    value = x(*shape)
    left, right = (
        call("strided_slice", value, axes=(3,), strides=(2,), begin=(at,), end=(8,)) for at in (0, 1)
    )
    cos, sin = (constant(1, _LENGTH, 1, 4, low=-1.0, high=1.0) for _ in range(2))
    both = (
        node("subtract", node("multiply", left, cos), node("multiply", right, sin)),
        node("add", node("multiply", right, cos), node("multiply", left, sin)),
    )
    parts = (call("expand_dims", part, axis=4, num_newaxis=1) for part in both)
    pairs = node("concatenate", *parts, axis=4)
    yield row(call("reshape", pairs, newshape=shape), needs=["multiply", "add"])
    # A half is rotated, the other half is passed on.
    value = x(*shape)
    begin: dict[str, Any] = {"axes": (3,), "strides": (1,)}
    part, rest = (
        call("strided_slice", value, begin=(at,), end=(at + 4,), **begin) for at in (0, 4)
    )
    left, right = (call("strided_slice", part, begin=(at,), end=(at + 2,), **begin) for at in (0, 2))
    cos, sin = (x(1, _LENGTH, 1, 2, low=-1.0, high=1.0) for _ in range(2))
    one = node("subtract", node("multiply", left, cos), node("multiply", right, sin))
    other = node("add", node("multiply", right, cos), node("multiply", left, sin))
    yield row(node("concatenate", one, other, rest, axis=3), needs=["multiply", "add"])


def _norms() -> Iterator[Row]:
    """A value is divided by its root mean square, or standardised, along the last axis, another one, or
    within groups; a residual is added before, and returned too."""
    for axis, shape, gamma in (
        (2, (2, 3, 8), (8,)), (1, (2, 4, 4), (4, 1)), (2, (2, 4, 4), (4,)), (2, (2, 3, 1), (3, 1))
    ):
        value, scale = x(*shape, low=0.5, high=2.0), constant(*gamma)
        for epsilon in (1e-5, 0.25):
            square = call("mean", node("multiply", value, value), axis=(axis,), keepdims=True)
            root = call("rsqrt", node("add", square, _number(epsilon)))
            yield row(node("multiply", node("multiply", value, root), scale), needs=["multiply", "add"])
        centred = node("subtract", value, call("mean", value, axis=(axis,), keepdims=True))
        spread = call("mean", node("multiply", centred, centred), axis=(axis,), keepdims=True)
        standard = node("divide", centred, call("sqrt", node("add", spread, _number(0.125))))
        shifted = node("add", node("multiply", standard, scale), constant(*gamma, low=-1.0))
        yield row(shifted, needs=["multiply", "subtract"])
    total = node("add", x(2, 3, 8), x(3, 8))
    square = call("mean", node("multiply", total, total), axis=(2,), keepdims=True)
    root = call("sqrt", node("add", square, _number(0.125)))
    yield row(node("multiply", node("divide", total, root), constant(8)), total, needs=["multiply", "add"])


def _gated() -> Iterator[Row]:
    """A gate is multiplied by its own operand, or by another layer of the same value; both are halves of
    one layer, in either order; GELU is written with erf, with tanh, and by a sigmoid."""

    def silu(value: Value) -> Value:
        return node("multiply", value, call("sigmoid", value))

    value = x(3, 8)
    gate, up = (call("nn.dense", value, units=5) for _ in range(2))
    yield row(call("nn.dense", node("multiply", silu(gate), up), units=8), needs=["nn.dense"])
    for at in (0, 1):
        halves = node("split", call("nn.dense", value, units=10), indices_or_sections=2, axis=1)
        yield row(node("multiply", silu(Field(halves, at)), Field(halves, 1 - at)), needs=["nn.dense"])
    for name in ("sigmoid", "tanh", "clip", "nn.relu"):
        gated, other = x(2, 3, 4), x(2, 3, 4)
        yield row(node("multiply", gated, call(name, gated)), node("multiply", call(name, gated), other))
    layer = call("nn.dense", value, units=6)
    one_and_erf = node("add", call("erf", node("multiply", layer, _number(0.70710678))), _number(1.0))
    yield row(node("multiply", node("multiply", layer, one_and_erf), _number(0.5)), needs=["nn.dense"])
    cube = node("multiply", node("multiply", layer, layer), layer)
    inner = node("add", layer, node("multiply", cube, _number(0.044715)))
    one_and_tanh = node("add", call("tanh", node("multiply", inner, _number(0.79788456))), _number(1.0))
    yield row(node("multiply", node("multiply", layer, _number(0.5)), one_and_tanh), needs=["nn.dense"])
    scaled = call("sigmoid", node("multiply", layer, _number(1.702)))
    yield row(node("multiply", layer, scaled), needs=["nn.dense"])
    # The bounds that exporters give to hard swish: 3 is added, and the sum is cut off at 6.
    moved = call("clip", node("add", layer, _number(3.0)), a_min=0.0, a_max=6.0)
    yield row(node("multiply", layer, node("divide", moved, _number(6.0))), needs=["nn.dense"])


def _by_hand() -> Iterator[Row]:
    """A softmax is written out, with its maximum or without."""
    value = x(3, 5)
    for shifted in (value, node("subtract", value, call("max", value, axis=(1,), keepdims=True))):
        power = call("exp", shifted)
        yield row(node("divide", power, call("sum", power, axis=(1,), keepdims=True)))


def register() -> None:
    """Adds the structures of this file."""
    makers = (_masked, _of_batches, _grouped, _cached, _from_one_layer)
    add_table("attentions", (made for make in makers for made in make()))
    add_table("rotary_embeddings", _rotary())
    add_table("norms_by_hand", _norms())
    add_table("gated_layers", _gated())
    add_table("softmax_by_hand", _by_hand())
    # Their lengths are open when a model is compiled: the check `dynamic` leaves them open.
    appended = node("concatenate", x(2, 4, 3), x(2, 1, 3), axis=1)
    add_table("appended", [row(first(appended), appended)], in_full=True)
    heads = call("transpose", call("reshape", x(2, 5, 6), newshape=(2, 5, 2, 3)), axes=(0, 2, 1, 3))
    read = first(call("reshape", heads, newshape=(4, 5, 3)))
    add_table("heads_split", [call("reshape", read, newshape=(2, 2, 15))], in_full=True)
