"""Partitioning leaves what is not its own alone: other functions, other targets' regions, attributes, what is
current in TVM."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Iterator

from ..core.finding import Finding
from .base import CHOSEN, Check
from .evidence import Evidence

if TYPE_CHECKING:
    from ..runs import TargetRun

_WORDS = {
    "function": "a second function of the module (of an operator no codegen takes)",
    "region": "a region of another target",
    "attribute": "an attribute of the module",
    "main_attribute": "an attribute of main",
    "type": "a type definition of the module",
    "global_info": "a global info of the module",
    "target": "TVM's current target",
    "pass_context": "TVM's current PassContext",
}


#: Lines that are told of what has changed, and characters of each.
_LINES, _WIDTH = 8, 200


def differing_lines(before: str, after: str) -> list[str]:
    """The lines of a text that have changed, with a sign each, as diff has them."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
    found = [line for line in lines if not line.startswith(("---", "+++", "@@"))]
    more = ["… and %d lines more" % (len(found) - _LINES)] if len(found) > _LINES else []
    return [line[0] + " " + line[1:].strip()[:_WIDTH] for line in found[:_LINES]] + more


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
    rule="A second function, a region of another target, what the module defines beside its functions "
    "(types, global infos) and attributes of it and of `main` come out of partitioning as they went in; "
    "TVM's current target and `PassContext` are those of before.",
    why="Passes that run over functions of others, or drop them; scopes that are entered and never left.",
    observe=observe,
    judge=judge,
    made=CHOSEN,
    owns=True,
    partition_stage=True,
)
