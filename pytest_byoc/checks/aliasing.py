"""What a region returns is not a piece of its input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterator

import numpy as np

from ..core.finding import Finding
from ..core.protocol import dtype_name
from .base import Check
from .evidence import Evidence

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
    """Of outputs that a region computes: TVM itself returns inputs, and reshapes of them, as they are."""
    taken = evidence.offloaded()
    made = {o for node, t in zip(evidence.graph.nodes, taken) if t for o in node.outputs}
    for executor, changed in evidence.loader.facts("aliased"):
        for i in changed:
            if i < len(evidence.graph.outputs) and evidence.graph.outputs[i] in made:
                yield Finding(
                    "aliasing", "wrong-result", "run", "aliased",
                    "output %d (%%%s) changes when an input is overwritten after the run (%s executor): it "
                    "lies in the input's memory." % (i, evidence.graph.outputs[i], executor),
                    {"executor": executor, "output": i},
                )


CHECK = Check(
    id="aliasing",
    rule="Overwriting an input after the run changes no output that a region has computed.",
    why="Copies left out.",
    how="with an input overwritten afterwards",
    reload=reload,
    judge=judge,
    owns=True,
)
