"""Writes the summary in Markdown, for the page of a CI job (--byoc-summary)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ..core import files
from ..core.irs import IR_TITLES
from ..examination import stages
from ..examination.outcome import OUTCOMES
from ..gate.problems import Gate, shown
from ..gate.waivers import Waivers
from ..record.likely_causes import Cause, likely_causes
from ..record.target_record import COUNTS, TargetRecord, is_offloaded
from . import terminal
from .markdown import escaped, table
from .words import cause_title

#: Largest number of rows of a table and items of a list; a job's page may have 1 MiB.
_ROWS = 100


def write(path: Path, text: str) -> None:
    """Writes the file, or appends to it if it is $GITHUB_STEP_SUMMARY, which other steps share."""
    shared = os.environ.get("GITHUB_STEP_SUMMARY")
    if shared and Path(shared).resolve() == path.resolve():
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
    else:
        files.replace(path, text.encode())


def markdown(
    records: Sequence[TargetRecord], gate: Gate, waivers: Waivers | None, exit_code: int
) -> str:
    """Returns the whole summary; it ends with a line break."""
    lines: list[str] = []
    for record in records:
        if record.graphs:
            lines += _target(record)
    if not lines:
        lines = ["## pytest-byoc", "", "No graph was examined."]
    excused = list(terminal.excused_lines(records, waivers))
    if excused:
        lines += ["", "### Expected failures", "", *_block(excused)]
    if gate.problems:
        lines += ["", "### What fails the gate", ""]
        for problem in gate.problems:
            lines.append(f"- {escaped(problem.text)}")
            lines += [f"  - {escaped(item)}" for item in shown(problem.items, _ROWS)]
    if gate.notes:
        lines += ["", *[f"- {escaped(note)}" for note in gate.notes]]
    verdict = {
        0: "passed", 1: "failed", 2: "was interrupted",
        stages.EXIT_PARTITION_ONLY: "passed as far as it could be checked: partition stage only",
    }.get(exit_code, f"ended with {exit_code}")
    return "\n".join([*lines, "", f"The session **{verdict}**.", ""])


def _target(record: TargetRecord) -> Iterator[str]:
    versions = ", ".join(f"{k} {v}" for k, v in record.versions.items())
    yield f"## pytest-byoc: {escaped(record.target)}, {IR_TITLES.get(record.ir, record.ir)}"
    yield ""
    share = f"{record.offload_share():.0%}"
    if record.partition_only:
        yield f"**{escaped(stages.in_words(record.partition_only))}**"
        yield ""
    yield f"{escaped(versions)}; {record.graphs} graphs, {share} of the operators offloaded."
    yield ""
    outcomes = ((name, str(record.outcomes[name])) for name in OUTCOMES if record.outcomes[name])
    yield from table(("outcome", "graphs:"), outcomes)
    if record.failures:
        yield ""
        found = likely_causes(record.failures.values())
        head = ("likely cause", "outcome", "stage", "check", "tests:", "smallest graph found in")
        yield from table(head, map(_cause, found[:_ROWS]))
        if len(found) > _ROWS:
            yield ""
            yield f"and {len(found) - _ROWS} more causes (the report has them all)"
    rows = [(k, c) for k, c in sorted(record.cells.items()) if is_offloaded(c)]
    # Failing cells come first, since the end of the table may be cut off.
    rows.sort(key=lambda row: not row[1]["failed"])
    if rows:
        yield ""
        yield f"<details><summary>{len(rows)} offloaded cells (operator and dtype)</summary>"
        yield ""
        yield from table(
            ("operator", "dtype", *(f"{count}:" for count in COUNTS)),
            (map(escaped, (*cell, *(str(c[count]) for count in COUNTS))) for cell, c in rows[:_ROWS]),
        )
        if len(rows) > _ROWS:
            yield ""
            yield f"and {len(rows) - _ROWS} more, none of which failed"
        yield ""
        yield "</details>"


def _cause(cause: Cause) -> Iterable[str]:
    """Returns the cells of a cause's row."""
    f = cause.representative
    return map(escaped, (cause_title(cause), f.outcome, f.stage, f.check, str(cause.tests), f.case))


def _block(lines: Sequence[str]) -> list[str]:
    """Returns lines as a block of code, with a fence longer than any inside."""
    fence = "```"
    while any(fence in line for line in lines):
        fence += "`"
    return [fence + "text", *shown(lines, 2 * _ROWS), fence]
