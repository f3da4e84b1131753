"""Decides on the verdict of a graph from the evidence, by the truth table of `outcome`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..checks import CHECKS, selection
from ..core.finding import WRONG_RESULT, Finding
from ..core.job_report import JobReport
from ..evidence.comparison import compare
from ..evidence.evidence import Evidence
from ..evidence.judging import Judgement
from ..evidence.output_findings import array_type
from .outcome import (
    CRASH,
    ERROR,
    HANG,
    INCONCLUSIVE,
    NOT_OFFLOADED,
    ORACLE_SUSPECT,
    PASS,
    REFERENCE_WRONG,
    Verdict,
)
from .signature import exception_text, signature

#: The circumstances in which a process runs while a check is made, by the check's id.
_HOW = {c.id: c.how for c in CHECKS}
#: The least share of output elements that the bound has to judge; with less, the graph is
#: inconclusive.
JUDGED_SHARE = 0.5


def decide(evidence: Evidence, judgement: Judgement) -> Verdict:
    """Returns the verdict for the evidence on a graph and the findings of the checks."""
    reported = [*_process_findings(evidence), *judgement.findings]
    # Several runs may show the same error.
    findings = sorted({(f.identity, f.message): f for f in reported}.values(), key=_rank)
    offloaded, placement = evidence.offloaded(), evidence.placement()
    notes: list[str] = []
    fault_of_llvm = reference_fault(evidence)
    if fault_of_llvm:
        notes.append(fault_of_llvm)
        findings = [f for f in findings if not _shared_with_reference(f, evidence)]
        if not any(offloaded):
            # No region computes anything, so the target can't be the cause of wrong values.
            findings = [f for f in findings if f.stage == "partition" or f.check == "regions"]
    verdict = Verdict(
        evidence.graph, PASS, tuple(findings), offloaded, len(evidence.regions), tuple(notes), evidence,
        placement, evidence.boundary_bytes(), evidence.not_checked(), evidence.smallest(), evidence.merges,
        evidence.speed, evidence.checks_made(),
    )
    if evidence.earlier is not None and not findings:
        earlier = evidence.earlier
        return replace(
            verdict, notes=earlier.notes, not_checked=earlier.not_checked, checks_made=earlier.checks,
            taken_over=True,
        )
    if evidence.lost:
        return replace(verdict, outcome=INCONCLUSIVE, findings=(), notes=(evidence.lost,))
    if findings:
        return replace(verdict, outcome=findings[0].outcome)
    if judgement.suspicions:
        return replace(verdict, outcome=ORACLE_SUSPECT, notes=(*notes, *judgement.suspicions))
    if fault_of_llvm:
        return replace(verdict, outcome=REFERENCE_WRONG)
    if not any(offloaded):
        return replace(verdict, outcome=NOT_OFFLOADED)
    if evidence.partition_only and not any(evidence.target.facts("inlined")):
        return replace(verdict, outcome=INCONCLUSIVE, notes=(*notes, *verdict.not_checked))
    if evidence.judged_share() < JUDGED_SHARE:
        return replace(verdict, outcome=INCONCLUSIVE)
    return verdict


def causes(verdict: Verdict) -> list[Verdict]:
    """Returns copies of a failing verdict, one for each cause, whose finding comes first.

    If a check that every graph needs to pass fails (one without `Check.owns`), all other findings
    may follow from it, so there is one cause. Otherwise each failing check with `Check.owns`
    (memory, threads …) has a cause of its own.
    """
    if not verdict.findings or verdict.findings[0].check not in selection.OWNERS:
        return [verdict]
    first = verdict.findings[0]
    apart: dict[str, Finding] = {first.check: first}
    said = {signature(first).says}
    for finding in verdict.findings[1:]:
        says = signature(finding).says
        # An exception that is raised again in a later stage has the same cause. If partitioning has
        # changed the computation, all later runs give wrong results.
        follows = finding.outcome == WRONG_RESULT and first.check == selection.INLINE_BACK
        if not follows and not (says and says in said):
            apart.setdefault(finding.check, finding)
        said.add(says)
    return [
        replace(verdict, outcome=f.outcome, findings=(f, *(o for o in verdict.findings if o is not f)))
        for f in apart.values()
    ]


def _rank(finding: Finding) -> tuple[int, int]:
    """Returns the key by which findings are sorted, so that causes come before effects.

    The order is: findings on the partitioned module, together with crashes and hangs; exceptions
    and findings of the checks without `Check.owns`; findings of the others, in their order.
    """
    own = selection.RANK[finding.check] if finding.check in selection.OWNERS else 0
    partitioning = finding.stage in ("lower", "partition") and finding.check not in selection.REPARTITIONING
    if partitioning or (finding.outcome in (CRASH, HANG) and not own):
        return 0, own
    return (2, own) if own else (1, 0)


def _process_findings(evidence: Evidence) -> list[Finding]:
    """Returns findings on crashes, hangs, exceptions and programs left running.

    They are those of the target worker and the loader, which run vendor code.
    """
    findings = []
    for report, where in ((evidence.target, ""), (evidence.loader, "roundtrip")):
        for message in report.raised():
            raised = message["raised"]
            how = f" under the {message['executor']} executor" if message.get("executor") else ""
            if where:
                alone = " with TVM's runtime alone" if evidence.runtime_only else ""
                how = f" in a fresh process (the loader{alone}){how}"
            check = where or ("offload" if message["stage"] == "partition" else "process")
            if _ran_before(message, report):
                check, how = "rerun", f"{how} though the first run did not"
            if message.get("check") in selection.OWNERS:
                check = message["check"]
            findings.append(
                Finding(
                    check,
                    ERROR, message["stage"], raised["type"],
                    f"{message['stage']} raised {raised['type']}{how}{exception_text(raised['message'])}"
                    + out_of_memory(raised, report),
                    {
                        "exception": raised, "executor": message.get("executor"),
                        **({"printed": message["printed"]} if "printed" in message else {}),
                    },
                )
            )
        process = "fresh process" if where else "process"
        if report.died is not None:
            findings.insert(0, _death(report, where, process))
        else:
            findings += _left_running(evidence, report, process)
    return findings


#: Explanations of the stages whose names do not explain themselves.
_WHEN = {"exit": ", at its end", "unload": ", when the artifact was unloaded"}


def _death(report: JobReport, where: str, process: str) -> Finding:
    """Returns the finding on a crash or hang of a worker's process.

    where: the check that reports it, unless a check with `Check.owns` was running; "" stands for
    `process`. process: the process in words.
    """
    end, died = report.end, report.died
    assert end is not None and died is not None
    stage = end["stage"]
    how = _HOW.get(report.last_check)
    circumstances = f"{f' {how}' if how else ''}{_WHEN.get(stage, '')}"
    if died == "hung":
        outcome, text = HANG, f"the {process} hung in the stage {stage}{circumstances} and was killed"
        if "told" in end:
            text = f"the artifact hung in the stage {stage}{circumstances}, as the runner says"
            text += f": {end['told']}" if end["told"] else ""
        elif end.get("limit"):
            text += f": the limit of a stage is {end['limit']:g} s"
            shorter = ", shorter than --byoc-timeout since the target has hung before"
            text += shorter if end.get("shortened") else " (--byoc-timeout)"
    elif end.get("used_up"):
        outcome = CRASH
        text = f"the {process} {_USED_UP.format(end['memory'] >> 20)}, and died in the stage {stage}"
        text += f"{circumstances}: {died}"
    else:
        outcome, text = CRASH, f"the {process} died in the stage {stage}{circumstances}: {died}"
    keys = ("printed", "peak_kib", "frames", "stack", "native")
    return Finding(
        report.last_check if report.last_check in selection.OWNERS else where or "process",
        outcome, stage, died, f"{text}.", {key: end[key] for key in keys if key in end},
    )


_USED_UP = "ran out of the {} MiB of address space that a graph may use (--byoc-memory)"


def out_of_memory(raised: dict[str, Any], report: JobReport) -> str:
    """Returns a note on an exception that the limit of the address space has caused, or ""."""
    limit = report.end["memory"] >> 20 if report.end and report.end.get("memory") else 0
    if limit and ("MemoryError" in raised["type"] or "bad_alloc" in raised["message"]):
        return f" (the process {_USED_UP.format(limit)})"
    return ""


def _left_running(evidence: Evidence, report: JobReport, process: str) -> list[Finding]:
    """Returns a finding if a process that had ended well left programs running."""
    left = [p for p in report.left_running if p["name"] not in evidence.left_by_tvm]
    if not left:
        return []
    stage = next((p["stage"] for p in left if p["stage"]), "") or "exit"
    programs = "; ".join(p["program"] for p in left)
    text = (
        f"the {process} has ended, and programs started in its stage {stage} went on running until they "
        f"were killed: {programs}."
    )
    return [Finding("process", ERROR, stage, "left-running", text, {"programs": programs})]


def _ran_before(message: dict[str, Any], report: JobReport) -> bool:
    """Returns whether the check rerun raised while running, after the executor's first run."""
    ran = {executor for executor, _ in report.facts("outputs")}
    return message.get("check") == "rerun" and message["stage"] == "run" and message["executor"] in ran


def reference_fault(evidence: Evidence) -> str | None:
    """Describes a fault of TVM's own build of the graph; None if it is right or was not made."""
    for report in (evidence.reference, evidence.confirmation, evidence.deployed):
        if report.died == "hung" and "hung" not in (evidence.target.died, evidence.loader.died):
            # LLVM's build may only have been slow, and the bound can judge without it.
            continue
        if report.died:
            assert report.end is not None
            return f"TVM's own LLVM build: the process {report.ended} in the stage {report.end['stage']}"
        for message in report.raised():
            return (
                f"TVM's own LLVM build raises in the stage {message['stage']}: "
                f"{message['raised']['type']}{exception_text(message['raised']['message'])}"
            )
    for which in range(len(evidence.inputs)):
        pairs = (pair for outputs in evidence.all_reference_outputs(which) for pair in enumerate(outputs))
        for i, array in pairs:
            bounded = evidence.expected[which][i]
            wanted = str(evidence.graph.type_of(evidence.graph.outputs[i]))
            if array_type(array) != wanted:
                return f"TVM's own LLVM build returns a {array_type(array)} as output {i}, expected {wanted}"
            if array.shape != bounded.shape or compare(array, bounded).outside.any():
                name = evidence.graph.outputs[i]
                return f"TVM's own LLVM build is outside the bound in output {i} (%{name})"
    return None


def _shared_with_reference(finding: Finding, evidence: Evidence) -> bool:
    """Returns whether TVM's own build fails in the same way, so that the fault is TVM's."""
    if finding.outcome == WRONG_RESULT:
        return False
    # The reference worker reads no artifact, so LLVM's is read by the loader alone.
    from_artifact = finding.check == "process" and finding.stage == "load"
    check = "roundtrip" if from_artifact else finding.check
    loaded = check == "roundtrip" or (check in selection.RELOADS and finding.stage != "partition")
    for report in [evidence.deployed] if loaded else [evidence.reference, evidence.confirmation]:
        if finding.outcome in (CRASH, HANG):
            same = report.died and report.end is not None and report.end["stage"] == finding.stage
            if same and (not loaded or _in_loader(report.last_check) == check):
                return True
        elif any(
            m["stage"] == finding.stage and m["raised"]["type"] == finding.kind
            # LLVM's artifact may fail in another check than the target's.
            and (not loaded or _in_loader(m.get("check", "")) == check)
            for m in report.raised()
        ):
            return True
    return False


def _in_loader(check: str) -> str:
    """Returns the check that reports a failure of the loader. check: the one that was running."""
    return check if check in selection.OWNERS else "roundtrip"
