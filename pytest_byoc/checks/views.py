"""Inputs that begin somewhere inside a larger buffer are read from there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterator

from ..core.finding import Finding
from ..ir import dlpack
from .base import Check
from .evidence import Evidence

if TYPE_CHECKING:
    from ..core.job_report import JobReport
    from ..runs import LoaderRun, TargetRun


#: Why there is no input that could be a view, by whether the target's regions read one by themselves.
_WHY_NONE = {
    False: "no input is read by code of the target's own alone: TVM's kernels take no offset",
    True: "of inputs of bool and bfloat16 no views are made",
}


def observe(run: TargetRun) -> None:
    """Leaves the names of the inputs that code of the target's alone reads: TVM's kernels may not look at
    offsets, and some of them refuse one."""
    symbols = [region["symbol"] for region in run.regions()["regions"]]
    for executor in run.executors:
        with run.using(executor):
            executable = run.executable(executor)
            own = [symbol for symbol in symbols if not executable.is_tvms([symbol])]
            read = run.ir.modules.read_by_regions(run.partitioned(), own)
            run.hand([s.name for at, s in enumerate(run.graph.inputs) if at in read])


def reload(run: LoaderRun) -> None:
    inputs = run.inputs[0]
    for executor in run.loadable:
        with run.using(executor):
            executable = run.load(executor)
            if not executable.takes_views:
                run.not_checked("the %s executor copies its inputs: no view reaches the target" % executor)
                continue
            read = [name for name in inputs if name in (run.handed(executor) or ())]
            views = [name for name in read if dlpack.can_place(inputs[name])]
            if not views:
                run.not_checked(_WHY_NONE[bool(read)])
                continue
            run.stage("run")
            try:
                outputs = executable.hold(inputs, dlpack.view, placed=views)[1]
            except Exception as e:
                # LLVM's artifact: TVM's own kernels assert that there is no offset.
                if "byte_offset" not in str(e) and "elem_offset" not in str(e):
                    raise
                run.not_checked("where an input is read by a kernel of TVM's too: those refuse views")
                continue
            run.record("viewed", executable.arrays(outputs))


def judge(evidence: Evidence) -> Iterator[Finding]:
    """What LLVM's own artifact gets wrong alike counts only if the target asks for it (`strict_views`)."""
    tvms = set() if evidence.strict_views else set(_differing(evidence.deployed))
    for finding in evidence.repeats(
        "views", "run", "differs", evidence.loader.facts("viewed"),
        "a run whose inputs are views with a byte_offset and strides (%s executor)",
    ):
        if (finding.details["executor"], finding.details.get("output")) not in tvms:
            yield finding


def _differing(report: JobReport) -> Iterator[tuple[str, int]]:
    """Executors and outputs in which a run on views is not what the run before was."""
    plain = dict(report.facts("reloaded"))
    for executor, arrays in report.facts("viewed"):
        for i, (before, viewed) in enumerate(zip(plain.get(executor, ()), arrays)):
            if before.tobytes() != viewed.tobytes():
                yield executor, i


CHECK = Check(
    id="views",
    rule="Inputs given as views with a `byte_offset`, their strides written out, give the same bit by bit.",
    why="`DLTensor.data` taken for the first element; dense tensors refused that state their strides.",
    where="every graph, inputs that code of the target's own alone reads and that are neither bool nor "
    "bfloat16; where TVM's own LLVM build reads views wrongly too (Relay's VM) it counts only for a "
    "target that declares strict_views",
    how="with inputs that are views with a byte_offset and strides",
    observe=observe,
    reload=reload,
    judge=judge,
    owns=True,
    tvm_too=True,
)
