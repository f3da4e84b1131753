"""Says what a session tells of whole models, for the terminal and the page."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .words import counted


def size(number: float) -> str:
    """Returns a number with three digits and the prefix of its power of 1000."""
    power = min(int(math.log10(number) // 3), 4) if number >= 1000 else 0
    return f"{number / 1000**power:.3g}{' kMGT'[power]}".replace(" ", "")


#: The most lines in the terminal on operators that are left to TVM, and on values that cross a boundary.
_MOST_LEFT, _MOST_CUTS = 12, 3
#: The most obstacles of one operator that are named.
_OBSTACLES = 4


def in_words(model: Mapping[str, Any]) -> list[str]:
    """Returns what is told of a model, as lines."""
    of, inside = model["operators"], model["offloaded"]
    text = f"{model['case']}: {model['outcome']}"
    if model.get("not_imported"):
        return [f"{text}; why is told by its test"]
    time = [f"  {speed}"] if (speed := speed_in_words(model.get("speed"))) else []
    if model["no_bound"]:
        return [f"{text}; {no_bound(model)}", *time]
    text += f"; {inside} of {of} operators offloaded"
    if model["multiply_adds"]:
        share = model["multiply_adds_offloaded"] / model["multiply_adds"]
        text += f", {share:.0%} of {size(model['multiply_adds'])} multiply-adds"
    text += f", in {counted(model['subgraphs'], 'subgraph')}"
    if model["smallest"] < model["subgraphs"]:
        text += f" ({model['smallest']} would do)"
    lines = [f"{text}; {size(model['boundary_bytes'])}B cross their boundaries in a run", *time]
    left = [f"  left to TVM: {text}" for text in _left(model["left"])]
    lines += [*left[:_MOST_LEFT], *_more(len(left) - _MOST_LEFT)]
    lines += [f"  crosses a boundary: {_cut(cut)}" for cut in model.get("cuts", ())[:_MOST_CUTS]]
    if model["extents"]:
        chosen = ", ".join(f"{name} = {extent}" for name, extent in model["extents"].items())
        how = f"; {model['open_extents']}" if model["open_extents"] else ""
        lines.append(f"  extents that were open: {chosen}{how}")
    return lines


def _more(number: int) -> Iterator[str]:
    if number > 0:
        yield f"  left to TVM: {number} more in report.json"


def _left(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns a text for each operator and each reason for which it is left to TVM."""
    alike: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for entry in entries:
        alike.setdefault((entry["operator"], entry["why"]), []).append(entry)
    texts = []
    for (operator, why), some in sorted(alike.items(), key=lambda item: -sum(e["count"] for e in item[1])):
        # A report of an earlier version has no obstacles.
        named = [(entry["obstacle"], entry["count"]) for entry in some if entry.get("obstacle")]
        obstacles = [f"{what} ({count})" if some[1:] else what for what, count in named[:_OBSTACLES]]
        more = [f"{len(named) - _OBSTACLES} more"] if len(named) > _OBSTACLES else []
        parts = (f"{operator} ({sum(e['count'] for e in some)})", why, "; ".join([*obstacles, *more]))
        texts.append(": ".join(filter(None, parts)))
    return texts


def _cut(cut: Mapping[str, Any]) -> str:
    alike = f" and {cut['count'] - 1} alike" if cut["count"] > 1 else ""
    ends = f"from {_ends([cut['from']])} to {_ends(cut['to'])}"
    return f"%{cut['value']} {cut['type']}{alike}, {size(cut['bytes'])}B: {ends}"


def _ends(ends: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(
        end["operator"] if end["region"] is None else f"{end['operator']} (S{end['region'] + 1})"
        for end in ends
    )


def speed_in_words(speed: Mapping[str, Any] | None) -> str:
    """Returns the time of a run and its peak of memory, with those of LLVM's builds; "" for None."""
    if speed is None:
        return ""
    builds = [(name, words) for name, words in _BUILDS.items() if f"{name}_us" in speed]
    times = [f"{words}{time(speed[f'{name}_us'])}{_ratio(speed, name)}" for name, words in builds]
    peaks = [
        f"{words}{size(speed[f'{name}_peak_bytes'])}B"
        for name, words in builds if f"{name}_peak_bytes" in speed
    ]
    parts = ["a run takes " + ", ".join(times)]
    parts += [f"peak memory {', '.join(peaks)}"] if peaks else []
    parts += [f"no time of tuned LLVM: {speed['not_tuned']}"] if speed.get("not_tuned") else []
    return "; ".join(parts)


#: The artifacts of a measurement, in words before its numbers.
_BUILDS = {"target": "", "llvm": "LLVM ", "tuned": "tuned LLVM "}


def time(us: float) -> str:
    """Returns a time with three digits and a unit. us: in microseconds."""
    unit, limit = next(((u, n) for u, n in (("s", 1e6), ("ms", 1e3)) if us >= n), ("µs", 1.0))
    return f"{us / limit:.3g} {unit}"


def _ratio(speed: Mapping[str, Any], name: str) -> str:
    """Returns the target's time as a multiple of LLVM's."""
    llvm = speed[f"{name}_us"]
    return f" ({speed['target_us'] / llvm:.2f}x)" if name != "target" and llvm else ""


def no_bound(model: Mapping[str, Any]) -> str:
    """Returns how a model is judged that has an operator without a bound, and why it has; "" for others."""
    if not model.get("no_bound"):
        return ""
    return f"{model.get('judged') or 'no bound is known'}: {model['no_bound']}"


def rows(models: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Returns the rows of the page's table of models."""
    found = []
    for model in models:
        total = model.get("multiply_adds", 0)
        share = f"{model['multiply_adds_offloaded'] / total:.0%} of {size(total)}" if total else ""
        found.append({
            "case": model["case"], "outcome": model["outcome"],
            "offloaded": f"{model['offloaded']} of {model['operators']}", "multiply_adds": share,
            "subgraphs": model["subgraphs"], "smallest": model.get("smallest", model["subgraphs"]),
            "boundary": f"{size(model.get('boundary_bytes', 0))}B",
            "left": _left(model["left"]),
            "cuts": [
                {**cut, "maker": _ends([cut["from"]]), "readers": _ends(cut["to"])}
                for cut in model.get("cuts", ())
            ],
            "drawing": model.get("drawing"),
            "no_bound": model.get("not_imported") or no_bound(model),
            "speed": speed_in_words(model.get("speed")),
        })
    return found
