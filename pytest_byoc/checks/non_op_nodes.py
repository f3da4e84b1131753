"""Checks graphs with nodes that call no operator: an if, a call_tir, tuples passed on whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterator

from ..core.finding import Finding
from .base import FEW, Check, Variant
from .evidence_interface import Evidence

if TYPE_CHECKING:
    from ..runs import TargetRun

#: The executor of both IRs that runs such nodes.
EXECUTOR = "vm"


def observe(run: TargetRun) -> None:
    if not run.can_use(EXECUTOR):
        return
    # If the graph itself fails, this raises the same exception again, which is reported once.
    run.first_run(run.executors[0])
    form = run.with_non_op_nodes()
    if form is None:
        return
    partitioned = run.partition(form.module)
    # A target need not offload anything of such a graph.
    if not run.ir.partition_facts(partitioned)["regions"]:
        run.not_checked("the target offloads nothing of the graph %s" % form.what)
        return

    def runs(module: Any) -> list[Any]:
        return run.run_each(module, EXECUTOR, run.target.opt_level, form.inputs)

    def again() -> Any:
        other = run.with_non_op_nodes()
        return other and other.module

    with run.using(EXECUTOR):
        outputs = run.unless_tvm_fails(runs, partitioned, again, form.what)
        for which, arrays in enumerate(outputs or []):
            run.record("non_op_nodes", {"what": form.what, "set": which, "arrays": arrays})


def judge(evidence: Evidence) -> Iterator[Finding]:
    for executor, value in evidence.target.facts("non_op_nodes"):
        yield from evidence.compare(
            "non-op-nodes", "wrong-value", value["set"], value["arrays"],
            "%s (%s executor)" % (value["what"], executor),
        )


def variants(evidence: Evidence) -> Iterator[Variant]:
    yield Variant({"executor": EXECUTOR}, evidence.expected)


CHECK = Check(
    id="non-op-nodes",
    rule="The graph is put into both branches of an `if`, each with its own inputs (Relay, under the VM), or "
    "its operators outside of all regions are lowered to `call_tir` before partitioning (Relax). Where an "
    "operator reads a tuple of inputs (Relay), or a tuple of all results of another operator, the tuple is "
    "passed on whole instead. The target compiles and runs the nodes of that graph that it offloads, if any, "
    "and the results are within the same bound.",
    why="Passes and codegens that assume that every node is a call of an operator, or that every tuple is "
    "built where it is read.",
    where=f"{FEW}; in Relax only those of which TVM runs some nodes, or with such a tuple inside of a region",
    observe=observe,
    judge=judge,
    made_on=FEW,
    owns=True,
    partition_stage=True,
    repartitions=True,
    variants=variants,
    facts=("non_op_nodes",),
)
