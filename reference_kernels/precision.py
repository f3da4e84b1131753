"""What a target declares of its arithmetic: where it is of lower precision than the graph's dtypes.

A kernel is called inside `computing(precision)`; the functions of `bounded` that know how sums are made and
operands of products are read ask `current()`. Outside of it nothing is lower than the dtypes say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Precision:
    """accumulate_dtype: by the dtype of the elements, the float16 or bfloat16 in which their sums and
    the products summed are rounded. contraction_dtype: "tfloat32", "bfloat16" or "float16", to which
    float32 operands of contractions are rounded (to nearest). flush_subnormals: subnormal operands and
    results may become zero. function_ulps: by operator, the ulps of its dtype a function's result may
    be off, beyond what its kernel grants. function_errors: by operator, what it may be off besides, whatever
    its size.
    """

    accumulate_dtype: Mapping[str, str] = field(default_factory=dict)
    contraction_dtype: str | None = None
    flush_subnormals: bool = False
    function_ulps: Mapping[str, float] = field(default_factory=dict)
    function_errors: Mapping[str, float] = field(default_factory=dict)


#: Nothing declared.
FULL = Precision()

_current: ContextVar[Precision] = ContextVar("precision", default=FULL)


def current() -> Precision:
    """What was declared of the node whose kernel is running."""
    return _current.get()


@contextmanager
def computing(precision: Precision) -> Iterator[None]:
    """Inside, kernels give bounds for a target of this precision."""
    token = _current.set(precision)
    try:
        yield
    finally:
        _current.reset(token)
