"""The graph with its batch left open, run for several batch sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterator

from ..core.finding import Finding
from .base import FEW, LARGER, Check, Variant
from .evidence import Evidence

if TYPE_CHECKING:
    from ..runs import TargetRun

#: The executor of both IRs that runs what has no fixed shape.
EXECUTOR = "vm"


def observe(run: TargetRun) -> None:
    if run.larger is None or not run.can_use(EXECUTOR):
        return
    # Raises again, and is told once, where the graph itself fails.
    run.first_run(run.executors[0])
    module = run.open_module()
    if module is None:
        return
    partitioned = run.partition(module)
    # Where it takes none of it, there is nothing to judge: that is its right.
    if not run.ir.partition_facts(partitioned)["regions"]:
        return
    sizes = [run.inputs[0], run.larger.inputs, run.inputs[0]]

    def runs(module: Any) -> list[Any]:
        return run.run_each(module, EXECUTOR, run.target.opt_level, sizes)

    with run.using(EXECUTOR):
        made = run.unless_tvm_fails(
            runs, partitioned, run.open_module, "with its batch left open, %s executor" % EXECUTOR
        )
        if made is not None:
            for number, arrays in enumerate(made):
                run.record("dynamic", {"set": number % 2, "arrays": arrays})


def judge(evidence: Evidence) -> Iterator[Finding]:
    if evidence.larger is None:
        return
    for executor, value in evidence.target.facts("dynamic"):
        judged = (evidence, evidence.larger)[value["set"]]
        yield from judged.compare(
            "dynamic", "wrong-value", 0, value["arrays"],
            "with its batch left open, run for a batch of %d (%s executor)"
            % (judged.graph.inputs[0].type.shape[0], executor),
        )


def variant(evidence: Evidence) -> Variant | None:
    if evidence.larger is None:
        return None
    both = (evidence, evidence.larger)
    changes = {
        "inputs": [e.inputs[0] for e in both],
        "batched": evidence.graph.differing(evidence.larger.graph),
        "executor": EXECUTOR,
    }
    return Variant(changes, [e.expected[0] for e in both])


CHECK = Check(
    id="dynamic",
    rule="The same graph with its batch left open (`Any` in Relay, a variable in Relax), under the VM: what "
    "the target takes of it builds, and runs for its batch, a larger one and its own again, each within its "
    "bound; it need not take any of it.",
    why="Open extents read as 1 or as those of the first call; claimed, and refused by the codegen.",
    where="few graphs with a batch",
    observe=observe,
    judge=judge,
    made=FEW,
    owns=True,
    partition_stage=True,
    repartitions=True,
    needs=(LARGER,),
    variant=variant,
    facts=("dynamic",),
)
