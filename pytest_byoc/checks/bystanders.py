"""Checks that partitioning changes nothing that does not belong to the target.

That is: other functions, other targets' regions, attributes, and TVM's current target and
PassContext.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Iterator

from ..core.finding import Finding
from .base import CHOSEN, Check
from .evidence_interface import Evidence

if TYPE_CHECKING:
    from ..runs import TargetRun

_WORDS = {
    "function": "a second function of the module (with an operator that no codegen offloads)",
    "region": "a region of another target",
    "attribute": "an attribute of the module",
    "main_attribute": "an attribute of main",
    "type": "a type definition of the module",
    "global_info": "a global info of the module",
    "target": "TVM's current target",
    "pass_context": "TVM's current PassContext",
}


#: The largest number of changed lines that a finding shows, and of characters of each line.
_LINES, _WIDTH = 8, 200


def differing_lines(before: str, after: str) -> list[str]:
    """Returns the first lines that differ between two texts, each with "+" or "-" as in a diff."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
    changed = [line for line in lines if not line.startswith(("---", "+++", "@@"))]
    more = ["… and %d lines more" % (len(changed) - _LINES)] if len(changed) > _LINES else []
    return [line[0] + " " + line[1:].strip()[:_WIDTH] for line in changed[:_LINES]] + more


def observe(run: TargetRun) -> None:
    modules = run.ir.modules
    before = modules.with_bystanders(run.module(), run.lowered_again())
    there = modules.bystanders(before)
    after = modules.bystanders(run.partition(before))
    lost = [kind for kind in there if kind not in after]
    changed = [k for k in there if k in after and after[k] != there[k]]
    changes = {kind: differing_lines(there[kind], after[kind]) for kind in changed}
    now = run.ir.scopes()
    changed += [k for k in now if now[k] != run.scopes[k]]
    run.record("bystanders", {"lost": lost, "changed": changed, "changes": changes})


def judge(evidence: Evidence) -> Iterator[Finding]:
    for _, value in evidence.target.facts("bystanders"):
        for how, words in (("lost", "is gone after"), ("changed", "is changed by")):
            for kind in value[how]:
                yield Finding(
                    "bystanders", "error", "partition", "%s-%s" % (kind, how),
                    "%s %s partitioning." % (_WORDS[kind], words),
                    {"changes": value["changes"].get(kind, [])} if how == "changed" else {},
                )


CHECK = Check(
    id="bystanders",
    rule="Partitioning leaves unchanged: a second function, a region of another target, the module's other "
    "definitions (types, global infos), the attributes of the module and of `main`, and TVM's current "
    "target and `PassContext`.",
    why="Passes that rewrite or drop functions of others; scopes that are entered and never left.",
    observe=observe,
    judge=judge,
    made_on=CHOSEN,
    owns=True,
    partition_stage=True,
    at_smoke=("each_once",),
)
