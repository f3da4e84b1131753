"""Prepares the table and the plot of a target's speed beside LLVM's."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..record.measured import Ratio

#: Width and height of the plot, and the space around it, in pixels.
SIZE, MARGIN = 420.0, 58.0


def section(measured: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Returns what the section on speed shows; None without a measurement. The rows in which the target
    is relatively slowest come first."""
    known = ((ratio, s) for s in measured if (ratio := Ratio.of(s)))
    rows = sorted(known, key=lambda row: (-row[0].median, row[1]["case"]))
    if not rows:
        return None
    faster = sum(ratio.high < 1 for ratio, _ in rows)
    slower = sum(ratio.low > 1 for ratio, _ in rows)
    return {
        "rows": [_row(ratio, s) for ratio, s in rows],
        "graphs": len(rows), "faster": faster, "slower": slower, "equal": len(rows) - faster - slower,
        "has_peaks": any("target_peak_bytes" in s for _, s in rows),
        "has_tuned": any("tuned_us" in s for _, s in rows),
        "plot": _plot(rows),
    }


def _row(ratio: Ratio, s: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "case": s["case"], "executor": s.get("executor", ""), "style": _style(ratio),
        "target": _with_spread(s, "target"), "llvm": _with_spread(s, "llvm"),
        "tuned": _with_spread(s, "tuned") if "tuned_us" in s else "",
        "ratio": f"{ratio.median:.2f}", "span": f"{ratio.low:.2f} to {ratio.high:.2f}",
        "subgraphs": s.get("subgraphs"), "boundary": s.get("boundary_bytes"),
        "target_peak": s.get("target_peak_bytes"), "llvm_peak": s.get("llvm_peak_bytes"),
    }


def _style(ratio: Ratio) -> str:
    return "fail" if ratio.low > 1 else "pass" if ratio.high < 1 else "none"


def _with_spread(s: Mapping[str, Any], name: str) -> str:
    """Returns a time in microseconds, with half the distance of the quartiles in percent."""
    median = s[f"{name}_us"]
    low, high = s.get(f"{name}_quartiles_us", (median, median))
    return f"{median:,.1f} ±{50 * (high - low) / median:.0f} %" if median else "0"


def _plot(rows: Sequence[tuple[Ratio, Mapping[str, Any]]]) -> dict[str, Any]:
    """Returns the positions of points (LLVM's time, target's time) in a square with logarithmic axes, which
    the graphs that take equally long divide by a diagonal."""
    times = [s[name] for _, s in rows for name in ("target_us", "llvm_us")]
    first, last = math.floor(math.log10(min(times))), math.ceil(math.log10(max(times)))
    last = max(last, first + 1)

    def at(us: float) -> float:
        return MARGIN + SIZE * (math.log10(us) - first) / (last - first)

    ticks = [(at(10.0**power), _time(10.0**power)) for power in range(first, last + 1)]
    points = [
        {
            "x": f"{at(s['llvm_us']):.1f}", "y": f"{_flipped(at(s['target_us'])):.1f}",
            "style": _style(ratio), "title": f"{s['case']}: {ratio} times LLVM's time",
        }
        for ratio, s in reversed(rows)
    ]
    return {
        "side": SIZE + 2 * MARGIN, "start": MARGIN, "end": MARGIN + SIZE, "points": points,
        "ticks": [{"x": f"{x:.1f}", "y": f"{_flipped(x):.1f}", "text": text} for x, text in ticks],
    }


def _flipped(position: float) -> float:
    """Returns the vertical position, which counts from the top."""
    return SIZE + 2 * MARGIN - position


def _time(us: float) -> str:
    for limit, unit in ((1e6, "s"), (1e3, "ms"), (1.0, "µs")):
        if us >= limit:
            return f"{us / limit:g} {unit}"
    return f"{us * 1e3:g} ns"
