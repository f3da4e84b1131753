"""Every element of every output is written by the run.

Output buffers (graph executor) and all fresh memory (the rest) hold 0x7F bytes before the run.
"""

from __future__ import annotations

from typing import Iterator

import numpy as np

from ..core.finding import Finding
from ..ir.poison import POISON_BYTE
from .base import Check
from .evidence import Evidence


def _unwritten(array: np.ndarray) -> np.ndarray:
    raw = np.ascontiguousarray(array).view(np.uint8).reshape(array.shape + (array.itemsize,))
    return (raw == POISON_BYTE).all(axis=-1)


def judge(evidence: Evidence) -> Iterator[Finding]:
    for executor, value in evidence.target.facts("outputs"):
        for i, array in enumerate(value["arrays"]):
            if array.dtype == bool or array.size == 0 or i >= len(evidence.graph.outputs):
                continue
            bounded = evidence.expected[value["set"]][i]
            if array.shape != bounded.shape:
                continue
            holes = _unwritten(array)
            if not holes.any():
                continue
            # A result may be that pattern by right: 127 as int8.
            outside = ~evidence.inside(array, bounded)
            holes &= outside
            if array.itemsize == 1:
                # Nor does it say anything where an integer overflows: who saturates returns just that.
                holes &= ~bounded.ambiguous
                # Of wrong values some are that byte by chance.
                if 2 * holes.sum() < (outside & ~bounded.ambiguous).sum():
                    continue
            if holes.any():
                name = evidence.graph.outputs[i]
                index = [int(v) for v in np.argwhere(holes)[0]]
                yield Finding(
                    "outputs-written",
                    "wrong-result",
                    "run",
                    "unwritten",
                    "%d of %d elements of output %d (%%%s) hold the poison put into memory before the "
                    "run (%s executor), the first at %s: they were not written, or computed from memory "
                    "that nobody wrote."
                    % (int(holes.sum()), holes.size, i, name, executor, index),
                    {
                        "executor": executor, "output": i, "index": index,
                        "how": "with the %s executor" % executor, **evidence.where(i, holes),
                    },
                )


CHECK = Check(
    id="outputs-written",
    rule="No output element holds the pattern its buffer was filled with before the run.",
    why="Duplicate outputs, early returns, swallowed errors.",
    judge=judge,
)
