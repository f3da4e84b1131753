"""Plain evaluations of comparisons, logic, bit operations, and selection by a condition."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np


def _each(f: Any) -> Any:
    """Applies f to Python numbers, element by element; integers are cut to the bits of their
    dtype."""

    def evaluate(arrays: Any, attrs: Any, outs: Any, add: Any) -> np.ndarray:
        out = outs[0]
        lists = [np.asarray(a).ravel().tolist() for a in np.broadcast_arrays(*arrays)]
        results = [f(*values) for values in zip(*lists)]
        if out.dtype == "bool":
            return np.array(results, bool).reshape(out.shape)
        cut = [(v + 2**63) % 2**64 - 2**63 for v in results]
        return np.array(cut, np.int64).astype(out.dtype).reshape(out.shape)

    return evaluate


def _where(arrays: Any, attrs: Any, outs: Any, add: Any) -> np.ndarray:
    condition, a, b = np.broadcast_arrays(*arrays)
    y = b.copy()
    y[condition] = a[condition]
    return y


PLAIN: dict[str, Any] = {
    "equal": _each(operator.eq),
    "not_equal": _each(operator.ne),
    "less": _each(operator.lt),
    "less_equal": _each(operator.le),
    "greater": _each(operator.gt),
    "greater_equal": _each(operator.ge),
    "logical_and": _each(lambda a, b: a and b),
    "logical_or": _each(lambda a, b: a or b),
    "logical_xor": _each(lambda a, b: a is not b),
    "logical_not": _each(operator.not_),
    "bitwise_and": _each(operator.and_),
    "bitwise_or": _each(operator.or_),
    "bitwise_xor": _each(operator.xor),
    "bitwise_not": _each(lambda a: not a if isinstance(a, bool) else -1 - a),
    "left_shift": _each(lambda a, n: a * 2**n),
    "right_shift": _each(lambda a, n: a // 2**n),
    "isnan": _each(math.isnan),
    "isinf": _each(math.isinf),
    "isfinite": _each(math.isfinite),
    "where": _where,
}
