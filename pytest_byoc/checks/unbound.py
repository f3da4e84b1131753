"""Checks graphs whose constants are inputs of main instead."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Iterator

from ..core.finding import Finding
from .base import FEW, Check, Variant
from .evidence_interface import Evidence

if TYPE_CHECKING:
    from ..runs import TargetRun


def observe(run: TargetRun) -> None:
    if not run.graph.constants:
        return
    partitioned = run.unbound()
    # A target need not offload anything of such a graph.
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


def variants(evidence: Evidence) -> Iterator[Variant]:
    inputs = {**evidence.inputs[0], **evidence.constants}
    graph = evidence.graph.unbound().to_dict()
    yield Variant({"graph": graph, "inputs": [inputs], "constants": {}}, evidence.expected[:1])


CHECK = Check(
    id="unbound",
    rule="The graph with its constants as inputs of `main` is compiled and run, with the nodes that the "
    "target offloads, if any, and the results are within the same bound.",
    why="Codegens that need the values of weights when they compile.",
    where=f"{FEW} with constants",
    observe=observe,
    judge=judge,
    made_on=FEW,
    owns=True,
    partition_stage=True,
    repartitions=True,
    variants=variants,
    facts=("unbound",),
    at_smoke=("large_weight",),
)
