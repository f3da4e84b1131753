"""The measurement of a graph as a report has it, and the ratio of the target's time to LLVM's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ..evidence.speed import Speed, Times
from ..examination.outcome import Verdict


def as_dict(case: str, verdict: Verdict, speed: Speed) -> dict[str, Any]:
    """Returns a measurement as plain data (`speed` in report.schema.json)."""
    peaks = {
        "target_peak_bytes": speed.target_peak, "llvm_peak_bytes": speed.llvm_peak,
        "tuned_peak_bytes": speed.tuned_peak,
    }
    return {
        "case": case, "operators": list(verdict.graph.operators), "executor": speed.executor,
        "subgraphs": verdict.regions, "boundary_bytes": verdict.boundary_bytes,
        **_us("target", speed.target), **_us("llvm", speed.llvm),
        **(_us("tuned", speed.tuned) if speed.tuned is not None else {}),
        **({"not_tuned": speed.not_tuned} if speed.not_tuned else {}),
        **{name: peak for name, peak in peaks.items() if peak is not None},
    }


def _us(name: str, times: Times) -> dict[str, Any]:
    """Returns median and quartiles in microseconds, with four digits."""
    median, low, high = (float(f"{s * 1e6:.4g}") for s in (times.median, times.low, times.high))
    return {f"{name}_us": median, f"{name}_quartiles_us": [low, high]}


class Ratio(NamedTuple):
    """The target's time divided by LLVM's. low, high: the ratios of their opposite quartiles."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, measured: Mapping[str, Any]) -> Ratio | None:
        """Returns the ratio of a measurement; None if a time is 0. Reports of earlier releases have no
        quartiles."""
        (target, target_low, target_high), (llvm, llvm_low, llvm_high) = (
            (measured[f"{name}_us"], *measured.get(f"{name}_quartiles_us", [measured[f"{name}_us"]] * 2))
            for name in ("target", "llvm")
        )
        if min(target_low, llvm_low) <= 0:
            return None
        return cls(target / llvm, target_low / llvm_high, target_high / llvm_low)

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.low:.2f} to {self.high:.2f})"


def ratios(measurements: Iterable[Mapping[str, Any]]) -> dict[str, Ratio]:
    """Returns the ratio of each case that has one."""
    return {str(m["case"]): ratio for m in measurements if (ratio := Ratio.of(m))}
