"""The speed of a target on one graph, beside that of LLVM's build on the same device."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Times:
    """The seconds of several runs of an artifact: median, lower and upper quartile."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Times:
        """Returns the times of at least one measurement."""
        if len(seconds) == 1:
            return cls(seconds[0], seconds[0], seconds[0])
        low, median, high = statistics.quantiles(seconds, n=4, method="inclusive")
        return cls(median, low, high)


@dataclass(frozen=True)
class Speed:
    """A measurement of one graph.

    executor: the one that all artifacts were built for. target_peak, llvm_peak: the bytes that loading
    and running the artifact adds at most to a process; None if unknown. tuned, tuned_peak: the same of
    LLVM's build with a tuning log; None without one. not_tuned: why a log gave no such build; "" if it did,
    or if there is none.
    """

    executor: str
    target: Times
    llvm: Times
    target_peak: int | None = None
    llvm_peak: int | None = None
    tuned: Times | None = None
    tuned_peak: int | None = None
    not_tuned: str = ""
