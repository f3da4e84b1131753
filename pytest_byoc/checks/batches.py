"""Checks that a graph for its batch and for a larger one can be compiled and run in one process."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Iterator

from ..core.finding import Finding
from .base import FEW, LARGER, Check, Variant, of_other
from .evidence_interface import Evidence

if TYPE_CHECKING:
    from ..runs import LoaderRun, TargetRun


def observe(run: TargetRun) -> None:
    """Compiles the graph for the large batch, then for its own batch a second time."""
    if run.larger is None:
        return
    larger, constants = run.larger.graph, run.larger.constants
    if not run.ir.partition_facts(run.partitioned_other(larger, constants))["regions"]:
        run.not_checked("the target offloads nothing of the graph for a larger batch")
        return
    for executor in run.executors:
        with run.using(executor):
            run.first_run(executor)
            path = run.unless_tvm_fails(
                partial(run.write, executor=executor),
                run.partitioned_other(larger, constants), partial(run.lowered_other, larger, constants),
                "for a larger batch, %s executor" % executor,
            )
            if path is not None:
                again = run.write(run.partitioned_other(run.graph, run.constants), executor)
                run.pass_on({"larger": path, "again": again, "inputs": run.larger.inputs})


def reload(run: LoaderRun) -> None:
    for executor in run.loadable:
        passed_on = run.passed_on(executor)
        if passed_on is None:
            continue
        with run.using(executor):
            run.stage("load")
            first = run.load(executor)
            larger, again = (run.load_from(passed_on[name], executor) for name in ("larger", "again"))
            run.stage("run")
            for small in (None, first, again):
                if small is not None:
                    run.record("batch_small", small.run(run.inputs[0])[0])
                run.record("batch_large", larger.run(passed_on["inputs"])[0])


def judge(evidence: Evidence) -> Iterator[Finding]:
    """Judges the runs with the large batch first.

    If a target mixes up the batches, it runs the code of one artifact for another; the wrong
    outputs for the large batch then name the failure.
    """
    if evidence.larger is not None:
        batch = evidence.larger.graph.inputs[0].type.shape[0]
        for executor, arrays in evidence.loader.facts("batch_large"):
            yield from evidence.larger.compare(
                "batches", "other-batch", 0, arrays,
                "for a batch of %d, compiled and run alternately with the graph's own batch (%s executor)"
                % (batch, executor),
            )
    yield from evidence.repeats(
        "batches", "run", "differs", evidence.loader.facts("batch_small"),
        "a run that alternates with runs of another batch size (%s executor)",
    )


def variants(evidence: Evidence) -> Iterator[Variant]:
    return of_other(evidence.larger)


CHECK = Check(
    id="batches",
    rule="The graph is compiled in one process for its batch, for a larger one, and for its own again; the "
    "artifacts are run in one process in the order large, small, large, small (second compilation), large. "
    "The results for the large batch are within their bound, those for the small one equal the first run's "
    "bit by bit.",
    why="Engines and code cached under a key that lacks the batch.",
    where=f"{FEW} with a batch",
    observe=observe,
    reload=reload,
    judge=judge,
    made_on=FEW,
    owns=True,
    repartitions=True,
    needs=(LARGER,),
    variants=variants,
    facts=("batch_large",),
)
