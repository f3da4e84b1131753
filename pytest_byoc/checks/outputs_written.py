"""Checks that the run writes every element of every output.

Before the run, output buffers (graph executor) or all fresh memory (other executors) hold bytes
of 0x7F.
"""

from __future__ import annotations

from typing import Iterator

import ml_dtypes
import numpy as np

from ..core.finding import Finding
from ..ir.poison import POISON_BYTE
from .base import Check
from .evidence_interface import Evidence


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
            # A right result may be equal to the pattern: 127 as int8.
            outside = ~evidence.inside(array, bounded)
            holes &= outside
            if array.itemsize == 1 or array.dtype == ml_dtypes.bfloat16:
                # The pattern is the largest int8 and the largest finite bfloat16: a target returns it
                # where a result overflows and it saturates, or where it may or may not overflow.
                holes &= ~bounded.ambiguous
            # Some wrong values of one byte are equal to it by chance.
            if array.itemsize == 1 and 2 * holes.sum() < (outside & ~bounded.ambiguous).sum():
                continue
            if holes.any():
                name = evidence.graph.outputs[i]
                index = [int(v) for v in np.argwhere(holes)[0]]
                yield Finding(
                    "outputs-written",
                    "wrong-result",
                    "run",
                    "unwritten",
                    "%d of %d elements of output %d (%%%s) hold the pattern that memory was filled with "
                    "before the run (%s executor), the first at %s: they were not written, or computed from "
                    "memory that was not written."
                    % (int(holes.sum()), holes.size, i, name, executor, index),
                    {
                        "executor": executor, "output": i, "index": index,
                        "how": "with the %s executor" % executor, **evidence.where(i, holes),
                    },
                )


CHECK = Check(
    id="outputs-written",
    rule="No output element holds the pattern its buffer was filled with before the run.",
    why="Values that are returned twice, early returns, swallowed errors.",
    judge=judge,
    reproduced=True,
)
