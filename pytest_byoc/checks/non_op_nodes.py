"""Nodes that call no operator, beside and around what the target takes, change nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterator

from ..core.finding import Finding
from .base import FEW, Check, Variant
from .evidence import Evidence

if TYPE_CHECKING:
    from ..runs import TargetRun

#: The executor of both IRs that runs them.
EXECUTOR = "vm"


def observe(run: TargetRun) -> None:
    if not run.can_use(EXECUTOR):
        return
    # Raises again, and is told once, where the graph itself fails.
    run.first_run(run.executors[0])
    form = run.with_non_op_nodes()
    if form is None:
        return
    partitioned = run.partition(form.module)
    # Where it takes none of it, there is nothing to judge: that is its right.
    if not run.ir.partition_facts(partitioned)["regions"]:
        run.not_checked("the target takes nothing of the graph %s" % form.what)
        return

    def runs(module: Any) -> list[Any]:
        return run.run_each(module, EXECUTOR, run.target.opt_level, form.inputs)

    def again() -> Any:
        other = run.with_non_op_nodes()
        return other and other.module

    with run.using(EXECUTOR):
        made = run.unless_tvm_fails(runs, partitioned, again, form.what)
        for which, arrays in enumerate(made or []):
            run.record("non_op_nodes", {"what": form.what, "set": which, "arrays": arrays})


def judge(evidence: Evidence) -> Iterator[Finding]:
    for executor, value in evidence.target.facts("non_op_nodes"):
        yield from evidence.compare(
            "non-op-nodes", "wrong-value", value["set"], value["arrays"],
            "%s (%s executor)" % (value["what"], executor),
        )


def variant(evidence: Evidence) -> Variant:
    return Variant({"executor": EXECUTOR}, evidence.expected)


CHECK = Check(
    id="non-op-nodes",
    rule="The graph in both branches of an `if`, each of inputs of its own (Relay, under the VM), or with "
    "what is left to TVM lowered to `call_tir` beforehand (Relax); or, where an operator takes a tuple of "
    "inputs (Relay), or of all that another one gives, with that tuple as it is: what the target takes of "
    "it builds, runs and is within the same bound; it need not take any of it.",
    why="Passes and codegens that take every node for a call of an operator, or every tuple to be written "
    "out where it is taken.",
    where="few graphs; in Relax of those the ones of which TVM runs some, or with such a tuple inside of a "
    "region",
    observe=observe,
    judge=judge,
    made=FEW,
    owns=True,
    partition_stage=True,
    repartitions=True,
    variant=variant,
    facts=("non_op_nodes",),
)
