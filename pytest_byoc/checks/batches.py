"""A graph for a small batch, a large one and the small one again, in one process."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Iterator

from ..core.finding import Finding
from .base import FEW, LARGER, Check, Variant, of_other
from .evidence import Evidence

if TYPE_CHECKING:
    from ..runs import LoaderRun, TargetRun


def observe(run: TargetRun) -> None:
    """Compiles the graph for the large batch, then for its own again; it has been compiled before."""
    if run.larger is None:
        return
    larger, constants = run.larger.graph, run.larger.constants
    if not run.ir.partition_facts(run.partitioned_other(larger, constants))["regions"]:
        run.not_checked("the target takes nothing of the graph for a larger batch")
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
                run.hand({"larger": path, "again": again, "inputs": run.larger.inputs})


def reload(run: LoaderRun) -> None:
    for executor in run.loadable:
        handed = run.handed(executor)
        if handed is None:
            continue
        with run.using(executor):
            run.stage("load")
            first = run.load(executor)
            larger, again = (run.load_from(handed[name], executor) for name in ("larger", "again"))
            run.stage("run")
            for small in (None, first, again):
                if small is not None:
                    run.record("batch_small", small.run(run.inputs[0])[0])
                run.record("batch_large", larger.run(handed["inputs"])[0])


def judge(evidence: Evidence) -> Iterator[Finding]:
    """The large ones first: theirs is the artifact that another one stands in for."""
    if evidence.larger is not None:
        batch = evidence.larger.graph.inputs[0].type.shape[0]
        for executor, arrays in evidence.loader.facts("batch_large"):
            yield from evidence.larger.compare(
                "batches", "other-batch", 0, arrays,
                "for a batch of %d, compiled and run in turn with the graph's own (%s executor)"
                % (batch, executor),
            )
    yield from evidence.repeats(
        "batches", "run", "differs", evidence.loader.facts("batch_small"),
        "a run in turn with another batch size (%s executor)",
    )


def variant(evidence: Evidence) -> Variant | None:
    return of_other(evidence.larger)


CHECK = Check(
    id="batches",
    rule="Compiled in one process for its batch, a larger one, its own again; run in one process large, "
    "small, large, small again, large: the large one's results are within their bound, the small one's "
    "equal the first bit by bit.",
    why="Engines and code kept under a key without the batch.",
    where="few graphs with a batch",
    observe=observe,
    reload=reload,
    judge=judge,
    made=FEW,
    owns=True,
    repartitions=True,
    needs=(LARGER,),
    variant=variant,
    facts=("batch_large",),
)
