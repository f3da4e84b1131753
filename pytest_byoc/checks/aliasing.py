"""Checks that an output of a region does not lie in the memory of an input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterator

import numpy as np

from ..core.finding import Finding
from ..core.protocol import dtype_name
from .base import Check
from .evidence_interface import Evidence

if TYPE_CHECKING:
    from ..runs import LoaderRun


def reload(run: LoaderRun) -> None:
    if any(dtype_name(a) == "bfloat16" for a in run.inputs[0].values()):
        run.not_checked("inputs of bfloat16 are not overwritten")
        return
    for executor in run.loadable:
        with run.using(executor):
            executable = run.load(executor)
            run.stage("run")
            inputs, outputs = executable.hold(run.inputs[0])
            before = [o.numpy() for o in outputs]
            for tensor in inputs:
                tensor.copyfrom(np.zeros(tuple(tensor.shape), str(tensor.dtype)))
            after = [o.numpy() for o in outputs]
            changed = [i for i, (a, b) in enumerate(zip(before, after)) if a.tobytes() != b.tobytes()]
            run.record("aliased", changed)


def judge(evidence: Evidence) -> Iterator[Finding]:
    """Judges only the outputs that a region computes: TVM itself returns inputs uncopied.

    The same holds for reshapes of inputs, and for a transpose that moves no axis. A node counts only
    if a region has a call with its output type: one with its operator alone may belong to another
    node's lowering, as the permute_dims of nn.dense does in Relax.
    """
    calls = {call for region in evidence.regions for call in region["calls"]}
    computed = {
        output
        for node, signature, held in zip(evidence.graph.nodes, evidence.signatures(), evidence.offloaded())
        if held and signature in calls
        for output in node.outputs
    }
    for executor, changed in evidence.loader.facts("aliased"):
        for i in changed:
            if i < len(evidence.graph.outputs) and evidence.graph.outputs[i] in computed:
                yield Finding(
                    "aliasing", "wrong-result", "run", "aliased",
                    "output %d (%%%s) changes when the inputs are overwritten after the run (%s executor): "
                    "it lies in the memory of an input." % (i, evidence.graph.outputs[i], executor),
                    {"executor": executor, "output": i},
                )


CHECK = Check(
    id="aliasing",
    rule="Overwriting the inputs after the run changes no output that a region has computed.",
    why="Regions that return a part of an input without copying it.",
    how="with its inputs overwritten after the run",
    reload=reload,
    judge=judge,
    owns=True,
)
