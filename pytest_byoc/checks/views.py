"""Checks that an input which begins inside of a larger buffer is read from its byte_offset on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterator

from ..core.finding import Finding
from ..ir import dlpack
from .base import EVERY, Check
from .evidence_interface import Evidence

if TYPE_CHECKING:
    from ..core.job_report import JobReport
    from ..runs import LoaderRun, TargetRun


#: Why no input can be a view. The key: whether there are inputs that only the target's code reads.
_WHY_NONE = {
    False: "no input is read by the target's own code only: TVM's kernels refuse an offset",
    True: "no views are made of inputs of bool and bfloat16",
}


def observe(run: TargetRun) -> None:
    """Leaves, for the loader, the names of the inputs that only the target's own code reads.

    Other inputs can't be views: TVM's kernels may ignore an offset, and some of them refuse it.
    """
    symbols = [region["symbol"] for region in run.regions()["regions"]]
    for executor in run.executors:
        with run.using(executor):
            executable = run.executable(executor)
            own = [symbol for symbol in symbols if not executable.is_tvms([symbol])]
            read = run.ir.modules.read_by_regions(run.partitioned(), own)
            run.pass_on([s.name for at, s in enumerate(run.graph.inputs) if at in read])


def reload(run: LoaderRun) -> None:
    inputs = run.inputs[0]
    for executor in run.loadable:
        with run.using(executor):
            executable = run.load(executor)
            if not executable.takes_views:
                run.not_checked("the %s executor copies its inputs: no view reaches the target" % executor)
                continue
            read = [name for name in inputs if name in (run.passed_on(executor) or ())]
            views = [name for name in read if dlpack.can_place(inputs[name])]
            if not views:
                run.not_checked(_WHY_NONE[bool(read)])
                continue
            run.stage("run")
            try:
                outputs = executable.hold(inputs, dlpack.view, placed=views)[1]
            except Exception as e:
                # TVM's own kernels, as in LLVM's artifact, assert that there is no offset.
                if "byte_offset" not in str(e) and "elem_offset" not in str(e):
                    raise
                run.not_checked("an input is also read by a kernel of TVM, which refuses views")
                continue
            run.record("viewed", executable.arrays(outputs))


def judge(evidence: Evidence) -> Iterator[Finding]:
    """Yields findings where runs on views differ from the first run.

    Outputs that LLVM's own artifact gets wrong too are left out, unless the target declares
    `strict_views`.
    """
    tvms = set() if evidence.strict_views else set(_differing(evidence.deployed))
    for finding in evidence.repeats(
        "views", "run", "differs", evidence.loader.facts("viewed"),
        "a run whose inputs are views with a byte_offset and strides (%s executor)",
    ):
        if (finding.details["executor"], finding.details.get("output")) not in tvms:
            yield finding


def _differing(report: JobReport) -> Iterator[tuple[str, int]]:
    """Yields (executor, output's position) where a run on views differs from the one before."""
    plain = dict(report.facts("reloaded"))
    for executor, arrays in report.facts("viewed"):
        for i, (before, viewed) in enumerate(zip(plain.get(executor, ()), arrays)):
            if before.tobytes() != viewed.tobytes():
                yield executor, i


CHECK = Check(
    id="views",
    rule="With inputs that are views with a `byte_offset` and explicit strides, the outputs are the same bit "
    "by bit.",
    why="Runtimes that read from `DLTensor.data` without the offset, or refuse dense tensors with explicit "
    "strides.",
    where=f"{EVERY}, inputs that only the target's own code reads and that are neither bool nor bfloat16; "
    "where TVM's own LLVM build reads views wrongly too (Relay's VM), it counts only for a target that "
    "declares strict_views",
    how="with inputs that are views with a byte_offset and strides",
    observe=observe,
    reload=reload,
    judge=judge,
    owns=True,
    tvm_too=True,
)
