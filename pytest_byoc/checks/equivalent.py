"""Checks graphs that compute the same: each is within its bound, and near the graph's own results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterator

from ..core.finding import Finding
from .base import EQUIVALENTS, FEW, Check, Variant, of_other
from .evidence_interface import Evidence

if TYPE_CHECKING:
    from ..runs import TargetRun
    from ..runs.partitioning import Same

#: The kind of graphs on which levels standard and full make the check although they make few others.
REWRITTEN = "rewritten"


def fact(number: int) -> str:
    """Returns the key of the facts on an equivalent graph. number: its position."""
    return "equivalent_%d" % number


def observe(run: TargetRun) -> None:
    if not run.equivalents:
        return
    # If the graph itself fails, this raises the same exception again, which is reported once.
    run.first_run(run.executors[0])
    regions = len(run.ir.partition_facts(run.partitioned())["regions"])
    tried: set[str] = set()
    for number, same in enumerate(run.equivalents):
        if same.change not in tried and _observe(run, number, same, regions):
            tried.add(same.change)
        if len(tried) == run.tried_equivalents:
            return
    if not tried:
        run.not_checked(
            "the target offloads nothing of the graphs that compute the same, or TVM cannot build them"
        )


def _observe(run: TargetRun, number: int, same: Same, regions: int) -> bool:
    """Returns whether the graph could be tried: TVM builds it, and the target offloads something; if it is
    to cut a region, there are more of them than in the graph itself."""
    graph, constants = same.other.graph, same.other.constants
    module = run.lowered_same(same)
    if module is None:
        return False
    partitioned = run.partition(module)
    found = len(run.ir.partition_facts(partitioned)["regions"])
    if not found or (same.cuts and found <= regions):
        return False
    executor = run.executors[0]

    def runs(module: Any) -> list[Any]:
        return run.run_each(module, executor, run.target.opt_level, [same.other.inputs])

    made = True
    with run.using(executor):
        outputs = run.unless_tvm_fails(
            runs, partitioned, lambda: run.lowered_other(graph, constants), "when %s" % same.change
        )
        made = outputs is not None
        for arrays in outputs or ():
            run.record(fact(number), {"set": 0, "arrays": arrays})
    return made


def judge(evidence: Evidence) -> Iterator[Finding]:
    first = {executor: v["arrays"] for executor, v in evidence.target.facts("outputs") if v["set"] == 0}
    for number, (change, other) in enumerate(evidence.equivalents):
        for executor, value in evidence.target.facts(fact(number)):
            how = "when %s (%s executor)" % (change, executor)
            findings = list(other.compare("equivalent", "wrong-value", 0, value["arrays"], how))
            yield from findings
            if not findings and executor in first:
                yield from evidence.near_itself("equivalent", other, first[executor], value["arrays"], how)


def variants(evidence: Evidence) -> Iterator[Variant]:
    for number, (_, other) in enumerate(evidence.equivalents):
        # Nothing is expected of a graph that has not been tried.
        if other.expected:
            for variant in of_other(other):
                yield Variant(variant.changes, variant.expected, (fact(number),))


CHECK = Check(
    id="equivalent",
    rule="Graphs that compute the same are partitioned, compiled and run with the same inputs: TVM itself "
    "runs operators in the middle of the graph, so that a region becomes two; the batch is computed in two "
    "parts; elements are moved and moved back; sums of integers are taken in another order; a value is "
    "computed for each of its readers; operands are swapped; zero is added. Each result is within its bound. "
    "Where no bound can judge an element, both results are near each other, as LLVM's are. Each level has a "
    "number of these changes for a graph.",
    why="Faults that depend on where a region begins and ends, on the order of operands, on the batch; wrong "
    "numbers where the bound tells nothing.",
    where=f"{FEW}; at standard also a random graph of each operator, and graphs that no bound can judge",
    observe=observe,
    judge=judge,
    made_on=FEW,
    owns=True,
    partition_stage=True,
    repartitions=True,
    needs=(EQUIVALENTS,),
    variants=variants,
    on_kinds=(REWRITTEN,),
)
