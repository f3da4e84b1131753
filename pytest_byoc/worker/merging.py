"""Graphs of a union partitioned each by itself, and what becomes of them merged into one module.

That is quicker than to partition them together, where TVM infers the types of the whole for each region, and
tells what is taken of each. What the target takes nothing of is left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List

from ..union import only, split

if TYPE_CHECKING:
    from .runs import TargetRun


def partitioned(run: TargetRun) -> Any:
    """The partitioned module. Records "claim" for each graph, as the survey of claims does, and "kept": the
    positions of the graphs in the module, and whether it is merged or was, as a whole, partitioned again."""
    modules: Dict[int, Any] = {}
    signatures: List[str] = []
    nothing: Any = None
    changed = False
    for position, graph in split(run.graph).items():
        run.stage("lower")
        module, found = run.ir.lower(graph, run.constants)
        module = run.partition(module)
        facts = run.ir.partition_facts(module)
        run.record("claim", dict(facts, number=position, nodes=found, changed=run.main_changed))
        # What is changed is judged, whether or not something of it is offloaded.
        changed |= run.main_changed
        if facts["regions"] or run.main_changed:
            modules[position] = module
            signatures += found
        else:
            nothing = module
    merged = run.ir.modules.merged(modules) if modules else nothing
    run.narrow(only(run.graph, modules), signatures)
    run.record("kept", {"positions": list(modules), "merged": merged is not None})
    if merged is None:
        return run.partition(run.lowered_again())
    run.main_changed = changed
    return merged
