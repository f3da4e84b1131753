"""Adapts graphs to another dtype, for targets that do not offload float32."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...core.graph import Graph, Node, Source, TensorType
from ...operators import OPERATORS
from ...operators.record import FLOATS, default_range
from .parts import Unlike, again, by_parts

_FLOAT32 = "float32"
#: Attributes that give a dtype.
_DTYPES = ("dtype", "out_dtype")


def in_dtype(dtype: str, graph: Graph, ir: str) -> Graph | None:
    """Returns the graph with `dtype` in place of float32. A part stays unchanged if an operator
    does not accept the dtype, or if it cannot hold the given elements; None if all parts do."""
    return by_parts(graph, lambda part: _converted(part, dtype))


def _converted(graph: Graph, dtype: str) -> Graph:
    def source(given: Source) -> Source:
        if given.type.dtype != _FLOAT32:
            return given
        type_, (low, high) = replace(given.type, dtype=dtype), (given.low, given.high)
        if dtype in FLOATS:
            if dtype == "float16" and given.data is not None and not _are_halves(given.data):
                raise Unlike
            return replace(given, type=type_)
        least, most = default_range(dtype)
        # A source's range is cut to the dtype's default range, or becomes it if too narrow.
        low, high = max(least, min(low, most)), max(min(high, most), least)
        if high - low < 1:
            low, high = least, most
        return replace(given, type=type_, low=low, high=high, data=_integers(given.data, least < 0))

    def attrs(node: Node, operands: Sequence[TensorType]) -> dict[str, Any]:
        if operands[0].dtype == dtype and dtype not in OPERATORS[node.op].dtypes:
            raise Unlike
        if OPERATORS[node.op].contraction and operands[0].dtype not in (dtype, _FLOAT32):
            # Sums of narrow products, which the dtype need not hold.
            raise Unlike
        return {k: dtype if k in _DTYPES and v == _FLOAT32 else v for k, v in node.attrs.items()}

    return again(graph, source, attrs)


def _are_halves(data: Any) -> bool:
    """Returns whether each given element is a string or small enough for float16."""
    if isinstance(data, (list, tuple)):
        return all(map(_are_halves, data))
    return isinstance(data, str) or abs(data) <= float(np.finfo(np.float16).max)


def _integers(data: Any, signed: bool) -> Any:
    """Returns given elements, rounded. Raises Unlike for a string, and for an element above 127 or
    below -128 (below 0 if not `signed`)."""
    if data is None:
        return None
    if isinstance(data, (list, tuple)):
        return [_integers(element, signed) for element in data]
    if isinstance(data, str) or not (-128 if signed else 0) <= round(data) <= 127:
        raise Unlike
    return round(data)
