"""Applies all rules of the gate to the records of a session."""

from __future__ import annotations

from collections.abc import Sequence

from ..config.settings import Settings
from ..examination.outcome import PASS
from ..record.target_record import TargetRecord, is_offloaded, is_passing
from . import waiver_rules
from .baseline import Baseline
from .baseline_comparison import compare
from .planned import Selection
from .problems import Gate
from .waivers import Waiver, Waivers


def judge(
    settings: Settings,
    records: Sequence[TargetRecord],
    selections: Sequence[Selection],
    waivers: Waivers | None,
    baseline: Baseline | None,
) -> tuple[Gate, list[Waiver]]:
    """Returns the gate with its problems, and the waivers that the session needs instead of its
    own."""
    gate = Gate()
    for record, selection in zip(records, selections):
        if settings.strict_corpus:
            strict_corpus(gate, record)
        if not record.graphs:
            if any("::" not in case for case in selection.finished):
                reasons = [text for text in record.not_checked if text.startswith("operator ")]
                gate.fail(f"{record.target}: no graph was examined: the session fails", reasons)
            continue
        if not record.outcomes[PASS]:
            gate.fail(
                f"{record.target}: no graph passed: the session fails, whatever the outcomes of its tests"
            )
        if settings.fail_under is not None:
            fail_under(gate, record, settings.fail_under)
        if baseline is not None:
            compare(gate, record, baseline, selection.not_run(), settings)
    if waivers is None:
        return gate, []
    return gate, waiver_rules.judge(gate, waivers, settings, records, selections)


def strict_corpus(gate: Gate, record: TargetRecord) -> None:
    """Applies --byoc-strict-corpus: a graph that can't be used fails the session."""
    unusable = [f"{name}: {text}" for name, text in record.corpus.items() if text.startswith("unusable")]
    if unusable:
        graphs = "1 graph" if len(unusable) == 1 else f"{len(unusable)} graphs"
        gate.fail(f"{record.target}: {graphs} of the corpus can't be used", unusable)


def fail_under(gate: Gate, record: TargetRecord, percent: float) -> None:
    """Applies --byoc-fail-under to the offloaded cells and the target's patterns. A cell (operator,
    dtype) is offloaded if one of its nodes was offloaded, or failed before that could be seen. It
    passes if one of its nodes was offloaded in a graph that passed, and it has no failure, waived
    or not. A pattern passes if a graph was matched by it."""
    offloaded = {key: c for key, c in sorted(record.cells.items()) if is_offloaded(c)}
    short = {key: c for key, c in offloaded.items() if not is_passing(c)}
    unmatched = record.unmatched()
    total = len(offloaded) + len(record.patterns)
    passing = total - len(short) - len(unmatched)
    # The share is rounded down: one that is too small must not look sufficient.
    share = f", {10000 * passing // total / 100:g} %" if total else ""
    patterns = " and patterns" if record.patterns else ""
    text = (
        f"{record.target}: {passing} of {total} offloaded cells (operator and dtype){patterns} "
        f"pass{share}; --byoc-fail-under asks for {percent:g} %"
    )
    if total and 100 * passing >= percent * total:
        gate.note(text)
        return
    cells = [
        f"{op} {dtype}: " + (f"{c['failed']} failed" if c["failed"] else "none of its graphs passed")
        for (op, dtype), c in short.items()
    ]
    gate.fail(text, [*cells, *(f"pattern {name}: never matched" for name in unmatched)])
