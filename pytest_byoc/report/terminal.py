"""Builds the summary at the end of a session, as lines for the terminal."""

from __future__ import annotations

import statistics
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ..core.irs import IR_TITLES
from ..examination import stages
from ..examination.outcome import NOT_OFFLOADED, ORACLE_SUSPECT, OUTCOMES, REFERENCE_WRONG
from ..gate.problems import Gate, shown
from ..gate.waivers import Waivers
from ..record.likely_causes import Cause, likely_causes
from ..record.listed import Excused, Failure
from ..record.measured import ratios
from ..record.target_record import COUNTS, TargetRecord, is_offloaded
from . import model_lines
from .words import besides_patterns, cause_extent, cause_title, counted

#: Number of cases under one heading, and of causes that are shown in full.
LISTED, IN_FULL = 10, 20
#: Number of cases that one failure names.
SHOWING = 4
#: An operator and dtype with at least ENOUGH nodes, of which less than the share HARDLY was
#: offloaded, is listed, and so is an operator with a share HARDLY of its cases not offloaded: their
#: rows in the table look judged and are not.
ENOUGH, HARDLY = 10, 0.1


def summary(record: TargetRecord) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the lines on one target, each with the markup for pytest's terminal writer."""
    plain: dict[str, Any] = {}
    versions = ", ".join(f"{k} {v}" for k, v in record.versions.items())
    yield f"target {record.target}, {IR_TITLES.get(record.ir, record.ir)} ({versions})", {"bold": True}
    if record.precision:
        text = "the target declares lower precision, which widens the error bounds: it "
        yield text + record.precision, plain
    if record.partition_only:
        yield stages.in_words(record.partition_only), {"yellow": True, "bold": True}
    yield from _unmatched(record)
    yield "", plain
    if record.cells:
        yield from _table(record)
        yield "", plain
    counts = ", ".join(f"{record.outcomes[o]} {o}" for o in OUTCOMES if record.outcomes[o])
    yield f"{counted(record.graphs, 'graph')}: {counts or 'none examined'}", plain
    if record.cells:
        yield (
            f"{counted(record.regions, 'subgraph')}; "
            f"{record.offload_share():.0%} of the operators generated were offloaded",
            plain,
        )
    if record.taken_over:
        yield f"taken over from the earlier session: {counted(record.taken_over, 'graph')}", plain
    if record.not_taken_over:
        yield f"nothing is taken over from the earlier session: {record.not_taken_over}", {"yellow": True}
    if record.above_smallest and record.merges:
        w = record.worst_split
        yield (
            f"cut into more subgraphs than needed: {counted(record.above_smallest, 'graph')}, for "
            f"example {w['case']} into {w['subgraphs']} instead of {w['smallest']}",
            plain,
        )
    if record.speed:
        yield _speed(record), plain
    for model in record.models:
        yield from ((line, plain) for line in model_lines.in_words(model))
    yield from _not_offloaded(record)
    if any(not result.startswith("left out") for result in record.onnx.values()):
        yield from _onnx(record)
    for outcome, title in (
        (REFERENCE_WRONG, "TVM's own LLVM build is wrong or fails (not held against the target)"),
        (ORACLE_SUSPECT, "pytest-byoc's own oracle is in doubt here (not held against the target)"),
    ):
        notes = record.notes.get(outcome, [])
        if notes:
            yield "", plain
            yield f"{title}: {len(notes)}", {"yellow": True}
            for note in notes[:5]:
                yield f"  {note[:220]}", plain
            if len(notes) > 5:
                yield f"  … and {len(notes) - 5} more (see the report)", plain
    others = besides_patterns(record.not_checked, record.unmatched())
    if others:
        yield "", plain
        yield "not checked:", plain
        for text in others:
            yield f"  {text}", plain
    yield from _corpus(record)
    if record.failures:
        yield "", plain
        yield from causes(record.failures.values())


def _unmatched(record: TargetRecord) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields lines on the patterns that no graph was matched by: the target's code for them was not
    tested."""
    unmatched = record.unmatched()
    if not unmatched:
        return
    number = counted(len(unmatched), "pattern")
    text = f"{number} of {len(record.patterns)} never matched, so not tested (the report has the reasons):"
    yield text, {"yellow": True, "bold": True}
    for name, reason in list(unmatched.items())[:LISTED]:
        yield f"  {name}: {reason}"[:220], {"yellow": True}
    if len(unmatched) > LISTED:
        yield f"  … and {len(unmatched) - LISTED} more", {"yellow": True}


def causes(failures: Iterable[Failure]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields lines on the likely causes; causes with most tests come first. The first IN_FULL
    causes are shown with the message and command of their smallest graph, the others by title."""
    found = likely_causes(failures)
    tests = counted(sum(c.tests for c in found), "failing test")
    order = ", the most frequent first" if len(found) > 1 else ""
    yield f"{counted(len(found), 'likely cause')} of {tests}{order}:", {"red": True, "bold": True}
    for number, cause in enumerate(found[:IN_FULL], 1):
        yield from _cause(number, cause)
    if len(found) > IN_FULL:
        yield f"{len(found) - IN_FULL} more, with details in the report:", {"red": True}
        yield from _wrapped([f"{cause_title(c)} ({counted(c.tests, 'test')})" for c in found[IN_FULL:]])


def _cause(number: int, cause: Cause) -> Iterator[tuple[str, dict[str, Any]]]:
    f = cause.representative
    yield f"{number}. {cause_title(cause)}: {f.outcome} in {f.stage}, check {f.check}", {"red": True}
    yield f"   {f.message.splitlines()[0][:200]}", {}
    if cause.tests > 1:
        yield from _wrapped([f"probably one cause, {cause_extent(cause)}"], "   ")
    if cause.cases:
        yield f"   found in {', '.join(shown(cause.cases, SHOWING))}", {}
    if f.traits:
        yield from _wrapped([f"the graph needs {'; '.join(f.traits)}"], "   ")
    if f.besides:
        yield f"   the graph it was found in fails other checks too: {', '.join(f.besides)}", {}
    yield f"   {f.command}", {}


def excuse(excused: Excused) -> str:
    """Returns why a failure is expected, as pytest shows it beside an xfail."""
    if excused.kind == "known":
        return f"known from the baseline: {excused.case} (check {excused.check})"
    return f"waived: {excused.reason}"


def gate(
    records: Sequence[TargetRecord], found: Gate, waivers: Waivers | None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields lines on excused failures with their reasons, on remarks of the gate, and on its
    problems."""
    for line in excused_lines(records, waivers):
        yield line, {}
    for note in found.notes:
        yield note, {}
    for problem in found.problems:
        yield problem.text, {"red": True, "bold": True}
        for item in shown(problem.items, LISTED):
            yield f"  {item}", {"red": True}


def excused_lines(records: Sequence[TargetRecord], waivers: Waivers | None) -> Iterator[str]:
    """Yields lines on waived failures by entry, each with its reason, then on known ones."""
    for record in records:
        entries: dict[tuple[int, str, str], list[Excused]] = {}
        for e in record.excused.values():
            if e.kind == "waived":
                entries.setdefault((e.line, e.check, e.reason), []).append(e)
        if entries:
            n = sum(map(len, entries.values()))
            yield f"{record.target}: {counted(n, 'failure')} waived:"
        for (number, check, reason), es in sorted(entries.items()):
            where = f"{waivers.path.name if waivers else 'waiver'}:{number}" if number else "new"
            until = f"until {es[0].expires}" if es[0].expires else ""
            yield f"  {where} check {check}: {', '.join(shown((e.case for e in es), 3))}"
            yield "    " + ", ".join(filter(None, (reason, es[0].issue, until)))
        known = [e for e in record.excused.values() if e.kind == "known"]
        if known:
            yield f"{record.target}: {counted(len(known), 'failure')} known from the baseline:"
            for item in shown((f"{e.case}: {e.outcome} (check {e.check})" for e in known), LISTED):
                yield f"  {item}"


def _table(record: TargetRecord) -> Iterator[tuple[str, dict[str, Any]]]:
    head = ("operator", "dtype", *COUNTS)
    rows = [
        (op, dtype, *(str(cell[k]) for k in head[2:]))
        for (op, dtype), cell in sorted(record.cells.items())
        if is_offloaded(cell)
    ]
    if not rows:
        yield "no operator was offloaded", {"yellow": True}
        return
    widths = [max(len(r[i]) for r in [head, *rows]) for i in range(len(head))]

    def line(row: tuple[str, ...]) -> str:
        left = [row[i].ljust(widths[i]) for i in (0, 1)]
        return "  ".join(left + [row[i].rjust(widths[i]) for i in range(2, len(head))])

    yield line(head), {"bold": True}
    for row in rows:
        yield line(row), {"red": True} if row[5] != "0" else {}


def _not_offloaded(record: TargetRecord) -> Iterator[tuple[str, dict[str, Any]]]:
    never: dict[str, list[str]] = {}
    offloaded: set[str] = set()
    for (op, dtype), cell in sorted(record.cells.items()):
        if is_offloaded(cell):
            offloaded.add(op)
        else:
            never.setdefault(op, []).append(dtype)
    hardly = [
        f"{op} ({dtype}: {cell['offloaded']} of {cell['generated']})"
        for (op, dtype), cell in sorted(record.cells.items())
        if is_offloaded(cell)
        and cell["generated"] >= ENOUGH
        and cell["offloaded"] < HARDLY * cell["generated"]
    ]
    if hardly:
        yield "hardly ever offloaded, so hardly judged:", {}
        yield from _wrapped(hardly)
    refused = _refused(record)
    if refused:
        yield "at least a tenth of the cases not offloaded, so not judged (the report names them):", {}
        yield from _wrapped(refused)
    some = [f"{op} ({', '.join(dtypes)})" for op, dtypes in never.items() if op in offloaded]
    if some:
        yield "never offloaded in these dtypes, so not judged:", {}
        yield from _wrapped(some)
    others = [op for op in never if op not in offloaded]
    if others:
        yield f"never offloaded in any dtype, so not judged ({counted(len(others), 'operator')}):", {}
        yield from _wrapped(others)


def _refused(record: TargetRecord) -> list[str]:
    """Describes the operators with several cases, at least a share HARDLY, that were not offloaded
    in the dtypes that the target offloads. A single such case is usual: nearly every target refuses
    tensors without elements."""
    cells = {key for key, cell in record.cells.items() if is_offloaded(cell)}
    counts: dict[str, Counter[bool]] = {}
    for case, outcome in record.cases.items():
        op, _, label = case.partition("[")
        if (op, label.rstrip("]").partition("-")[0]) in cells:
            counts.setdefault(op, Counter())[outcome == NOT_OFFLOADED] += 1
    return [
        f"{op} ({n[True]} of {n.total()})" for op, n in sorted(counts.items())
        if n[True] > 1 and n[True] >= HARDLY * n.total()
    ]


def _wrapped(words: list[str], indent: str = "  ") -> Iterator[tuple[str, dict[str, Any]]]:
    # No line break may fall on a space inside a word.
    text = ", ".join(word.replace(" ", "\0") for word in words)
    for line in textwrap.wrap(
        text, 100, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
    ):
        yield line.replace("\0", " "), {}


def _corpus(record: TargetRecord) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields lines on the outcomes of the corpus, and on the graphs that no longer fail."""
    if not record.corpus:
        return
    counts = Counter(text.split(":")[0] for text in record.corpus.values())
    yield "", {}
    words = ", ".join(f"{n} {outcome}" for outcome, n in sorted(counts.items()))
    yield f"corpus: {words}", {}
    fixed = [name for name, text in record.corpus.items() if text.endswith(": removed")]
    if fixed:
        yield "these failed before and pass now, so they were removed:", {"green": True}
        yield from _wrapped(fixed)


def _speed(record: TargetRecord) -> str:
    """Compares the target's speed with LLVM's, in one line."""
    median = statistics.median(ratio.median for ratio in ratios(record.speed).values())
    text = f"speed of {counted(len(record.speed), 'graph')}: {median:.2f} times LLVM's time in the median"
    slower = record.slower()
    if slower:
        s = slower[0]
        text += (
            f"; slower than LLVM in {len(slower)}, most in {s['case']} "
            f"({s['target_us']:.1f} µs, LLVM {s['llvm_us']:.1f} µs)"
        )
    return text


def _onnx(record: TargetRecord) -> Iterator[tuple[str, dict[str, Any]]]:
    counts: dict[str, int] = {}
    for result in record.onnx.values():
        counts[result.split(":")[0]] = counts.get(result.split(":")[0], 0) + 1
    words = ", ".join(f"{n} {k}" for k, n in sorted(counts.items()))
    yield f"ONNX node tests: {words} (the report has the reasons)", {}
