"""Checks the graph with open extents of its inputs, run for several sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterator

from ..core.finding import Finding
from ..core.openings import shapes_in_words, sizes_in_words
from .base import FEW, OPENINGS, Check, Variant
from .evidence_interface import Evidence

if TYPE_CHECKING:
    from ..runs import TargetRun
    from ..runs.partitioning import Opened

#: The executor of both IRs that runs tensors of dynamic shape.
EXECUTOR = "vm"
#: The kind of graphs on which levels standard and full make the check although they make few others.
OPENED = "opened"


def fact(number: int) -> str:
    """Returns the key of the facts on an opening. number: its position."""
    return "dynamic_%d" % number


def observe(run: TargetRun) -> None:
    if not run.openings or not run.can_use(EXECUTOR):
        return
    # If the graph itself fails, this raises the same exception again, which is reported once.
    run.first_run(run.executors[0])
    left = run.tried_openings
    for number, opening in enumerate(run.openings):
        left -= _observe(run, number, opening)
        if not left:
            return
    if left == run.tried_openings:
        run.not_checked("the target offloads nothing of the graph with open extents, or TVM cannot build it")


def _observe(run: TargetRun, number: int, opening: Opened) -> bool:
    """Returns whether the opening could be tried: TVM builds it, and the target offloads something."""
    module = run.open_module(opening)
    if module is None:
        return False
    partitioned = run.partition(module)
    # A target need not offload anything of a graph with open extents.
    if not run.ir.partition_facts(partitioned)["regions"]:
        return False
    sizes = [run.inputs[0], opening.larger.inputs, run.inputs[0]]

    def runs(module: Any) -> list[Any]:
        return run.run_each(module, EXECUTOR, run.target.opt_level, sizes)

    made = True
    with run.using(EXECUTOR):
        outputs = run.unless_tvm_fails(
            runs, partitioned, lambda: run.open_module(opening), "with open extents, %s executor" % EXECUTOR,
        )
        made = outputs is not None
        for arrays, which in zip(outputs or (), ("small", "large", "small")):
            run.record(fact(number), {"set": which, "arrays": arrays})
    return made


def judge(evidence: Evidence) -> Iterator[Finding]:
    for number, opening in enumerate(evidence.openings):
        shapes = shapes_in_words(evidence.graph, opening.extents)
        for executor, value in evidence.target.facts(fact(number)):
            judged = evidence if value["set"] == "small" else opening.larger
            yield from judged.compare(
                "dynamic", "wrong-value", 0, value["arrays"],
                "when it is compiled with open extents (%s) and run with %s (%s executor)"
                % (shapes, sizes_in_words(judged.graph, opening.extents), executor),
            )


def variants(evidence: Evidence) -> Iterator[Variant]:
    for number, opening in enumerate(evidence.openings):
        # Nothing is expected of an opening that has not been tried.
        if opening.larger.expected:
            both = (evidence, opening.larger)
            changes = {
                "graph": opening.graph.to_dict(),
                "inputs": [e.inputs[0] for e in both],
                "opened": [list(e) for e in opening.extents],
                "executor": EXECUTOR,
            }
            yield Variant(changes, [e.expected[0] for e in both], (fact(number),))


CHECK = Check(
    id="dynamic",
    rule="The graph with open extents of its inputs (`Any` in Relay, variables in Relax) is compiled for the "
    "VM, with the nodes that the target offloads, if any. It runs with its own extents, larger ones and its "
    "own again, and each result is within its bound. Open are all axes that can be; two inputs by one "
    "variable (n and n+1); or one axis alone. Each level has a number of these openings for a graph.",
    why="Open extents read as 1, as another axis, as the batch, or as those of the first call; memory for "
    "the first call's; operators that are offloaded and then refused by the codegen.",
    where=f"{FEW} with inputs; at standard also the first case of each operator, and a random graph of each",
    observe=observe,
    judge=judge,
    made_on=FEW,
    owns=True,
    partition_stage=True,
    repartitions=True,
    needs=(OPENINGS,),
    variants=variants,
    on_kinds=(OPENED,),
)
