"""The conformance checks, one per file, in the order in which they are made and reported.

The order matters twice: a check's worker half may use what an earlier one has built, and of several
findings on one graph the first names the failure, so that causes stand before their effects.
"""

from __future__ import annotations

from typing import Tuple

from . import (
    aliasing,
    annotated,
    aot,
    archive,
    batches,
    bystanders,
    dynamic,
    each_input,
    exit,
    fenv,
    idempotent,
    inline_back,
    inputs_unmodified,
    instances,
    ir_json,
    memory,
    missing_library,
    moved,
    non_op_nodes,
    numerics,
    offload,
    opt_levels,
    outputs_written,
    overread,
    overrun,
    params,
    regions,
    reproducible,
    rerun,
    roundtrip,
    size,
    surroundings,
    threads,
    together,
    truncated,
    unbound,
    views,
)
from .base import Check, Finding

CHECKS: Tuple[Check, ...] = (
    offload.CHECK,
    regions.CHECK,
    inputs_unmodified.CHECK,
    outputs_written.CHECK,
    numerics.CHECK,
    rerun.CHECK,
    each_input.CHECK,
    fenv.CHECK,
    roundtrip.CHECK,
    ir_json.CHECK,
    bystanders.CHECK,
    idempotent.CHECK,
    annotated.CHECK,
    inline_back.CHECK,
    opt_levels.CHECK,
    aot.CHECK,
    unbound.CHECK,
    non_op_nodes.CHECK,
    size.CHECK,
    instances.CHECK,
    moved.CHECK,
    views.CHECK,
    overread.CHECK,
    aliasing.CHECK,
    threads.CHECK,
    memory.CHECK,
    archive.CHECK,
    params.CHECK,
    batches.CHECK,
    dynamic.CHECK,
    together.CHECK,
    reproducible.CHECK,
    missing_library.CHECK,
    overrun.CHECK,
    truncated.CHECK,
    surroundings.CHECK,
    exit.CHECK,
)

__all__ = ["CHECKS", "Check", "Finding"]
