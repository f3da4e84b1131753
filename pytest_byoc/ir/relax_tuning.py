"""Gives the functions of a Relax module the schedules of a database of meta-schedule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tvm
from tvm import relax

from .machine import MACHINE
from .shared import attribute


def scheduled(module: Any, opt_level: int, config: Mapping[str, Any], path: str) -> tuple[Any, int]:
    """Returns a module whose functions of TIR have the schedules of a database, and how many have one.

    They are the functions into which TVM's own pipeline fuses operators before it tunes them. opt_level,
    config: the PassContext's. path: the folder of the database. Raises TVM's error if it can't be read.
    """
    with tvm.transform.PassContext(opt_level=opt_level, config=config), tvm.target.Target(MACHINE.llvm()):
        for step in (
            relax.transform.DecomposeOpsForInference(), relax.transform.CanonicalizeBindings(),
            relax.get_pipeline("zero"), relax.transform.MetaScheduleApplyDatabase(path),
        ):
            module = step(module)
    return module, sum(map(_is_scheduled, module.functions.values()))


def _is_scheduled(function: Any) -> bool:
    # TVM has renamed the attribute.
    return any(attribute(function, "%s.is_scheduled" % name) not in ("", "False") for name in ("tir", "tirx"))
