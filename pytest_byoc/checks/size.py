"""Checks that the artifact holds its weights once, and none of a graph compiled before it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Iterator

from ..core.finding import Finding
from .base import CHOSEN, Check
from .evidence_interface import Evidence

if TYPE_CHECKING:
    from ..runs import TargetRun

#: The least bytes of constants: fewer are hidden by the artifact's other parts.
LEAST = 1 << 16
#: The largest size of the constants in the artifact, as a multiple of their bytes, and the bytes by
#: which the artifact may be larger besides: each library has four segments of whole pages of 4096
#: bytes.
FACTOR = 1.5
PAGES = 4 * 4096


def observe(run: TargetRun) -> None:
    weights = sum(a.nbytes for a in run.constants.values())
    if weights < LEAST:
        return
    partitioned = run.unbound()
    if partitioned is not None and _offloaded(run, partitioned) != _offloaded(run, run.partitioned()):
        run.not_checked(
            "with its weights as inputs the target offloads other nodes: nothing to compare with"
        )
        return
    kept = run.ir.constants_kept(run.partitioned())
    for executor in run.executors:
        with run.using(executor):
            found = os.path.getsize(run.export(executor))
            if partitioned is None:
                continue
            try:
                without = os.path.getsize(run.write(partitioned, executor))
            except Exception as e:
                run.not_checked(
                    "with its weights as inputs the graph can't be built (%s): nothing to compare with"
                    % type(e).__name__
                )
                continue
            # The artifact of a third compilation must not hold anything of the two before it.
            again = os.path.getsize(run.write(run.partitioned(), executor))
            sizes = {"weights": weights, "found": found, "without": without, "again": again}
            run.record("size", dict(sizes, kept_by_tvm=kept))


def _offloaded(run: TargetRun, module: Any) -> list[str]:
    """Returns the offloaded calls, sorted, whatever their regions.

    The size of the code that a codegen links in depends on them.
    """
    return sorted(call for region in run.ir.partition_facts(module)["regions"] for call in region["calls"])


def judge(evidence: Evidence) -> Iterator[Finding]:
    for executor, value in evidence.target.facts("size"):
        if value["again"] > value["found"] + PAGES:
            yield Finding(
                "size", "error", "export", "grows",
                "the artifact (%s executor) has %d bytes, and compiled once more in the same process %d: it "
                "holds parts of graphs that were compiled before."
                % (executor, value["found"], value["again"]),
                dict(value, executor=executor),
            )
        limit = value["without"] + (FACTOR + value["kept_by_tvm"]) * value["weights"] + PAGES
        if value["found"] > limit:
            yield Finding(
                "size", "error", "export", "too-large",
                "the artifact (%s executor) has %d bytes, and that of the same graph with its weights as "
                "inputs %d. The weights have %d bytes: the artifact holds them %.2f times (%d of these from "
                "TVM itself)."
                % (
                    executor, value["found"], value["without"], value["weights"],
                    (value["found"] - value["without"]) / value["weights"], value["kept_by_tvm"],
                ),
                dict(value, executor=executor, limit=limit),
            )


CHECK = Check(
    id="size",
    rule="The artifact is no larger than the sum of: the artifact of the graph with its constants as inputs, "
    "1.5 times the constants (Relax: 2.5), and 16 KiB. Compiled once more in the same process, it is larger "
    "by at most 16 KiB.",
    why="Weights that both the codegen and TVM store, or that the codegen puts into the next artifact too.",
    where=f"{CHOSEN} with at least 64 KiB of constants",
    observe=observe,
    judge=judge,
    made_on=CHOSEN,
    owns=True,
    at_smoke=("large_weight",),
)
