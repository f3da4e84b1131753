"""Checks the graph with a dynamic batch dimension, run for several batch sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterator

from ..core.finding import Finding
from .base import FEW, LARGER, Check, Variant
from .evidence_interface import Evidence

if TYPE_CHECKING:
    from ..runs import TargetRun

#: The executor of both IRs that runs tensors of dynamic shape.
EXECUTOR = "vm"


def observe(run: TargetRun) -> None:
    if run.larger is None or not run.can_use(EXECUTOR):
        return
    # If the graph itself fails, this raises the same exception again, which is reported once.
    run.first_run(run.executors[0])
    module = run.open_module()
    if module is None:
        return
    partitioned = run.partition(module)
    # A target need not offload anything of a graph with a dynamic batch.
    if not run.ir.partition_facts(partitioned)["regions"]:
        return
    sizes = [run.inputs[0], run.larger.inputs, run.inputs[0]]

    def runs(module: Any) -> list[Any]:
        return run.run_each(module, EXECUTOR, run.target.opt_level, sizes)

    with run.using(EXECUTOR):
        outputs = run.unless_tvm_fails(
            runs, partitioned, run.open_module, "with a dynamic batch, %s executor" % EXECUTOR
        )
        if outputs is not None:
            for number, arrays in enumerate(outputs):
                run.record("dynamic", {"set": number % 2, "arrays": arrays})


def judge(evidence: Evidence) -> Iterator[Finding]:
    if evidence.larger is None:
        return
    for executor, value in evidence.target.facts("dynamic"):
        judged = (evidence, evidence.larger)[value["set"]]
        yield from judged.compare(
            "dynamic", "wrong-value", 0, value["arrays"],
            "when it is compiled with a dynamic batch and run with a batch of %d (%s executor)"
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
    rule="The graph with a dynamic batch (`Any` in Relay, a variable in Relax) is compiled for the VM, with "
    "the nodes that the target offloads, if any. It runs with its own batch, a larger one and its own again, "
    "and each result is within its bound.",
    why="Dynamic extents read as 1, or as those of the first call; operators that are offloaded and then "
    "refused by the codegen.",
    where=f"{FEW} with a batch",
    observe=observe,
    judge=judge,
    made_on=FEW,
    owns=True,
    partition_stage=True,
    repartitions=True,
    needs=(LARGER,),
    variant=variant,
    facts=("dynamic",),
)
