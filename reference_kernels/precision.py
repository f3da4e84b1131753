"""The precision that a target declares for its arithmetic where it is lower than the dtypes.

A kernel is called inside `computing(precision)`. The functions of `bounded` that model sums and the
operands of products read it with `current()`. Outside of `computing`, the precision is that of the
dtypes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Precision:
    """The precision declared for a node's target; a field at its default declares nothing.

    accumulate_dtype: maps the dtype of the elements to the dtype ("float16" or "bfloat16") to which
        each product and each partial sum of them is rounded.
    contraction_dtype: "tfloat32", "bfloat16" or "float16", to which the float32 operands of
        contractions and convolutions are rounded to nearest.
    flush_subnormals: True if subnormal operands and results may become zero.
    function_ulps: maps an operator's name to the ulps (2 u each, relative to the result) by which
        its result may be off in addition to the error that its kernel grants.
    function_errors: maps an operator's name to the absolute error that its finite results may have
        in addition, whatever their size; for quantised results it is a number of steps.
    """

    accumulate_dtype: Mapping[str, str] = field(default_factory=dict)
    contraction_dtype: str | None = None
    flush_subnormals: bool = False
    function_ulps: Mapping[str, float] = field(default_factory=dict)
    function_errors: Mapping[str, float] = field(default_factory=dict)


#: The precision of a target that declares nothing.
FULL = Precision()

_current: ContextVar[Precision] = ContextVar("precision", default=FULL)


def current() -> Precision:
    """Returns the precision declared for the running kernel; `FULL` outside of `computing`."""
    return _current.get()


@contextmanager
def computing(precision: Precision) -> Iterator[None]:
    """Sets the precision that `current` returns inside the `with` block."""
    token = _current.set(precision)
    try:
        yield
    finally:
        _current.reset(token)
