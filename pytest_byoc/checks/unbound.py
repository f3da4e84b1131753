"""Constants that are inputs of main are taken as such, or left to TVM."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Iterator

from ..core.finding import Finding
from .base import FEW, Check, Variant
from .evidence import Evidence

if TYPE_CHECKING:
    from ..runs import TargetRun


def observe(run: TargetRun) -> None:
    if not run.graph.constants:
        return
    partitioned = run.unbound()
    # Where it takes none of it, there is nothing to judge: that is its right.
    if partitioned is None or not run.ir.partition_facts(partitioned)["regions"]:
        return
    inputs = {**run.inputs[0], **run.constants}
    for executor in run.executors:
        with run.using(executor):
            run.first_run(executor)
            arrays = run.unless_tvm_fails(
                partial(run.run_at, executor=executor, level=run.target.opt_level, inputs=inputs),
                partitioned, run.lowered_unbound, "with constants as inputs, %s executor" % executor,
            )
            if arrays is not None:
                run.record("unbound", arrays)


def judge(evidence: Evidence) -> Iterator[Finding]:
    for executor, arrays in evidence.target.facts("unbound"):
        yield from evidence.compare(
            "unbound", "wrong-value", 0, arrays,
            "with its constants as inputs of main (%s executor)" % executor,
        )


def variant(evidence: Evidence) -> Variant:
    inputs = {**evidence.inputs[0], **evidence.constants}
    graph = evidence.graph.unbound().to_dict()
    return Variant({"graph": graph, "inputs": [inputs], "constants": {}}, evidence.expected[:1])


CHECK = Check(
    id="unbound",
    rule="The same graph with its constants as inputs of `main`: what the target takes of it builds, runs "
    "and is within the same bound; it need not take any of it.",
    why="Weights read when they are compiled.",
    where="few graphs with constants",
    observe=observe,
    judge=judge,
    made=FEW,
    owns=True,
    partition_stage=True,
    repartitions=True,
    variant=variant,
    facts=("unbound",),
)
