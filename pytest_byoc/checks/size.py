"""The artifact holds its weights once, whatever was compiled before it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Iterator

from ..core.finding import Finding
from .base import CHOSEN, Check
from .evidence import Evidence

if TYPE_CHECKING:
    from ..runs import TargetRun

#: Bytes of constants below which the artifact's other parts hide them.
LEAST = 1 << 16
#: How much of them the artifact may hold, bytes it may be larger by besides: of the two libraries
#: compared each has four segments, each of whole pages of 4096 bytes.
FACTOR = 1.5
PAGES = 4 * 4096


def observe(run: TargetRun) -> None:
    weights = sum(a.nbytes for a in run.constants.values())
    if weights < LEAST:
        return
    partitioned = run.unbound()
    if partitioned is not None and _offloaded(run, partitioned) != _offloaded(run, run.partitioned()):
        run.not_checked("with its weights as inputs the target takes something else: nothing to compare to")
        return
    for executor in run.executors:
        with run.using(executor):
            found = os.path.getsize(run.export(executor))
            if partitioned is None:
                continue
            try:
                without = os.path.getsize(run.write(partitioned, executor))
            except Exception as e:
                run.not_checked(
                    "with its weights as inputs the graph is not built (%s): nothing to compare to"
                    % type(e).__name__
                )
                continue
            # Once more, behind those two: what a codegen has seen before is none of this one's.
            again = os.path.getsize(run.write(run.partitioned(), executor))
            sizes = {"weights": weights, "found": found, "without": without, "again": again}
            run.record("size", dict(sizes, kept_by_tvm=run.ir.CONSTANTS_KEPT))


def _offloaded(run: TargetRun, module: Any) -> list[str]:
    """What is offloaded, whichever region it is in: what a codegen links in goes with that."""
    return sorted(call for region in run.ir.partition_facts(module)["regions"] for call in region["calls"])


def judge(evidence: Evidence) -> Iterator[Finding]:
    for executor, value in evidence.target.facts("size"):
        if value["again"] > value["found"] + PAGES:
            yield Finding(
                "size", "error", "export", "grows",
                "the artifact (%s executor) has %d bytes, and compiled once more in the same process %d: it "
                "holds what was compiled before." % (executor, value["found"], value["again"]),
                dict(value, executor=executor),
            )
        limit = value["without"] + (FACTOR + value["kept_by_tvm"]) * value["weights"] + PAGES
        if value["found"] > limit:
            yield Finding(
                "size", "error", "export", "too-large",
                "the artifact (%s executor) has %d bytes, of which %d are those of the same graph with its "
                "weights as inputs. The weights have %d: %.2f times of them is in it (%d by TVM itself)."
                % (
                    executor, value["found"], value["without"], value["weights"],
                    (value["found"] - value["without"]) / value["weights"], value["kept_by_tvm"],
                ),
                dict(value, executor=executor, limit=limit),
            )


CHECK = Check(
    id="size",
    rule="The artifact is no larger than that of the graph with its constants as inputs, 1.5 times the "
    "constants (Relax: 2.5), and 16 KiB; compiled once more in the same process it is as large.",
    why="Weights stored by the codegen and by TVM, or kept for what is compiled next.",
    where="chosen graphs with 64 KiB of constants",
    observe=observe,
    judge=judge,
    made=CHOSEN,
    owns=True,
)
