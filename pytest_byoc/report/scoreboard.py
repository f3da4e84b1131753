"""Writes a scoreboard that vendors can publish: the cells of several targets in Markdown, and a badge."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from ..core.graph import DTYPES
from ..core.irs import IR_TITLES
from ..examination.stages import EXIT_PARTITION_ONLY
from ..record.target_record import is_offloaded, is_passing
from .html import clean
from .markdown import escaped, table
from .operator_table import STATES, state_of

_NUMBERS = {dtype: number for number, dtype in enumerate(DTYPES)}
#: Colours of a badge: of a session that passed with all cells, that passed, and that failed.
_GOOD, _FAIR, _BAD = "#2e7d32", "#9e6a03", "#b3261e"
#: Pixels of a character and around a text of a badge, as wide as a usual sans-serif font of 11 px.
_CHARACTER, _AROUND = 6.6, 6


@dataclass(frozen=True)
class Entry:
    """The record of one target (of report.json) with its session. exit: the session's exit code."""

    record: Mapping[str, Any]
    level: str
    day: str
    exit: int

    @property
    def title(self) -> str:
        ir = self.record["ir"]
        return f"{self.record['target']} ({IR_TITLES.get(ir, ir or 'unusable')})"

    @property
    def cells(self) -> Mapping[tuple[str, str], Mapping[str, Any]]:
        return {(c["operator"], c["dtype"]): c for c in self.record["cells"]}

    @property
    def offloaded(self) -> int:
        return sum(map(is_offloaded, self.record["cells"]))

    @property
    def passing(self) -> int:
        """Returns the number of cells that pass, as --byoc-fail-under counts them."""
        return sum(map(is_passing, self.record["cells"]))


def entries(reports: Iterable[Mapping[str, Any]]) -> list[Entry]:
    """Returns the targets of several reports, by name and IR."""
    found = []
    for report in reports:
        level, day = report["settings"].get("level", ""), report["session"].get("finished", "")[:10]
        for target in report.get("targets", [report]):
            found.append(Entry(clean(target), str(level), day, report["gate"]["exit"]))
    return sorted(found, key=lambda e: (e.record["target"], e.record["ir"]))


def markdown(found: Sequence[Entry]) -> str:
    """Returns the page."""
    return "\n".join([*_lines(found), ""])


def _lines(found: Sequence[Entry]) -> Iterator[str]:
    yield "# Conformance of TVM codegens"
    yield ""
    yield from table(
        (
            "target", "TVM", "level", "cells that pass:", "patterns matched:", "likely causes of failures:",
            "verdict", "date",
        ),
        map(_row, found),
    )
    yield ""
    yield "A cell is an operator with a dtype of its result, of those that the target offloads."
    yield ""
    yield from table(
        ("operator", "dtype", *(escaped(e.title) for e in found)),
        ((escaped(op), escaped(dtype), *(_sign(e, op, dtype) for e in found)) for op, dtype in _cells(found)),
    )
    yield ""
    yield "; ".join(f"{sign} {meaning}" for sign, meaning in STATES.values()) + "; empty: not generated."
    yield ""
    yield "Made by [pytest-byoc](https://github.com/pytest-byoc/pytest-byoc)."


def _row(entry: Entry) -> tuple[str, ...]:
    record = entry.record
    patterns = record["patterns"]
    matched = f"{sum(not reason for reason in patterns.values())} of {len(patterns)}" if patterns else ""
    causes = record.get("causes")
    verdict = {0: "passed", EXIT_PARTITION_ONLY: "passed, partition stage alone"}.get(entry.exit, "failed")
    return (
        escaped(entry.title), escaped(str(record["versions"].get("tvm", ""))), escaped(entry.level),
        f"{entry.passing} of {entry.offloaded}", matched,
        str(len(record["failures"] if causes is None else causes)), verdict, escaped(entry.day),
    )


def _cells(found: Sequence[Entry]) -> list[tuple[str, str]]:
    """Returns the cells that any target offloads, by operator and dtype."""
    keys = {key for entry in found for key, cell in entry.cells.items() if is_offloaded(cell)}
    return sorted(keys, key=lambda key: (key[0], _NUMBERS.get(key[1], len(_NUMBERS)), key[1]))


def _sign(entry: Entry, operator: str, dtype: str) -> str:
    cell = entry.cells.get((operator, dtype))
    return "" if cell is None else STATES[state_of(cell)][0]


def badge(found: Sequence[Entry]) -> str:
    """Returns an SVG with the share of the cells that pass."""
    passing, offloaded = (sum(getattr(e, name) for e in found) for name in ("passing", "offloaded"))
    failed = any(e.exit not in (0, EXIT_PARTITION_ONLY) for e in found)
    colour = _BAD if failed else _GOOD if passing == offloaded else _FAIR
    left = f"BYOC {found[0].title}" if len(found) == 1 else f"BYOC, {len(found)} targets"
    right = f"{passing} of {offloaded} cells pass"
    a, b = (round(len(text) * _CHARACTER + 2 * _AROUND) for text in (left, right))
    return str(
        Markup(
            '<svg xmlns="http://www.w3.org/2000/svg" width="{w}" height="20" role="img" '
            'aria-label="{left}: {right}">'
            "<title>{left}: {right}</title>"
            '<rect width="{w}" height="20" rx="3" fill="#444"/>'
            '<path d="M{a} 0h{c}a3 3 0 0 1 3 3v14a3 3 0 0 1-3 3h-{c}z" fill="{colour}"/>'
            '<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">'
            '<text x="{at}" y="14">{left}</text><text x="{there}" y="14">{right}</text></g></svg>\n'
        ).format(left=left, right=right, w=a + b, a=a, c=b - 3, colour=colour, at=a / 2, there=a + b / 2)
    )
