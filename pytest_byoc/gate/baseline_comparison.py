"""Compares a session with a baseline: regressions fail the session, earlier failures do not."""

from __future__ import annotations

from ..config.settings import Settings, as_mapping
from ..examination.outcome import FAILURES, NOT_OFFLOADED, PASS
from ..record.measured import ratios
from ..record.target_record import TargetRecord
from .baseline import Baseline, TargetBaseline
from .planned import NotRun
from .problems import Gate


def compare(
    gate: Gate, record: TargetRecord, baseline: Baseline, not_run: NotRun, settings: Settings
) -> None:
    """Adds regressions to the gate as problems, improvements and cases without comparison as
    notes."""
    before = baseline.of(record.target, record.ir)
    name = f"{record.target}, compared with {baseline.path.name}"
    worse = _worse(record, before)
    if worse:
        gate.fail(f"{name}: worse", worse)
    if settings.slower is not None:
        _speed(gate, name, record, before, settings.slower)
    missing = [case for case in before.cases if case not in record.cases]
    skipped = [case for case in missing if not_run.may_hold(case)]
    if not skipped:
        lost = [
            f"{op} {dtype}"
            for op, dtype in sorted(before.offloaded & set(record.cells))
            if not any(record.cells[op, dtype][k] for k in ("offloaded", "failed"))
        ]
        if lost:
            gate.fail(f"{name}: offloaded before, and no longer anywhere (operator and dtype)", lost)
    fixed = [c for c, o in before.cases.items() if o in FAILURES and record.cases.get(c) == PASS]
    common = len(before.cases) - len(missing)
    gate.note(f"{name}: {common} cases in common, {len(worse)} worse, {len(fixed)} fixed")
    if skipped:
        gate.note(
            f"{name}: {len(skipped)} of its cases were not run, so cells were not compared"
        )
    gone = len(missing) - len(skipped)
    if gone:
        gate.note(f"{name}: {gone} of its cases are not generated any more")
    unjudged = [
        f"{case}: passed, now {now}"
        for case, outcome in before.cases.items()
        if outcome == PASS and (now := record.cases.get(case, PASS)) not in (PASS, NOT_OFFLOADED, *FAILURES)
    ]
    if unjudged:
        gate.note(
            f"{name}: {len(unjudged)} cases that passed can't be judged now (not held against the target), "
            f"{unjudged[0]}"
        )
    ours = as_mapping(settings)
    for key in ("level", "max_examples", "max_nodes", "timeout", "memory_bytes"):
        now_set = ours[key]
        then = baseline.settings.get(key, now_set)
        if then != now_set:
            gate.note(f"{name}: the baseline has {key} {then}, this session has {now_set}")
    tvm = before.versions.get("tvm"), record.versions.get("tvm")
    if tvm[0] != tvm[1]:
        gate.note(f"{name}: the baseline has tvm {tvm[0]}, this session has {tvm[1]}")


def _speed(gate: Gate, name: str, record: TargetRecord, before: TargetBaseline, percent: float) -> None:
    """Applies --byoc-slower: fails where a run's time, divided by LLVM's, has grown by more than that
    percentage and by more than both measurements vary."""
    now, then = ratios(record.speed), before.speed
    common = sorted(now.keys() & then.keys())
    if not common:
        gate.fail(f"{name}: no graph was measured in both sessions, so --byoc-slower could compare none")
        return
    slower = [
        f"{case}: {now[case]} times LLVM's time, before {then[case]}"
        for case in common
        if now[case].low > then[case].high
        and now[case].median > then[case].median * (1 + percent / 100)
    ]
    if slower:
        gate.fail(f"{name}: slower by more than {percent:g} %, relative to LLVM", slower)
    gate.note(f"{name}: speed compared in {len(common)} cases, {len(slower)} slower")


def _worse(record: TargetRecord, before: TargetBaseline) -> list[str]:
    found = []
    for case, outcome in record.cases.items():
        then = before.cases.get(case)
        if outcome == NOT_OFFLOADED and then == PASS:
            found.append(f"{case}: passed, now {outcome}")
        for check in record.failed_checks.get(case, ()):
            if (case, check) in record.excused:
                continue
            was = {PASS: "passed", None: "not in the baseline"}.get(then, str(then))
            if case in before.checks:
                was += f" (check {', '.join(before.checks[case])})"
            found.append(f"{case}: {was}, now {outcome} (check {check})")
    return found
