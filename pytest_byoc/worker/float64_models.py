"""Runs a whole model as LLVM builds it, and with float64 in place of all smaller floats.

It runs in a forked child of the reference worker.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..core.errors import Failure
from ..core.protocol import dtype_name
from ..ir.interface import IR
from ..runs.reporter import Reporter
from .model_import import model_of
from .onnx_models import reason

_SMALLER = ("float16", "bfloat16", "float32")


def run_both(ir: IR, job: Mapping[str, Any], reporter: Reporter) -> None:
    """Builds the model in the file job["model"], with job["executor"] and job["opt_level"], as it is and in
    float64, and runs both with each set of job["inputs"].

    It sends the facts "as_it_is" and "float64", each with the outputs for each set. An exception says why
    there are none.
    """
    reporter.stage("lower")
    module, _ = model_of(ir, job["model"]).lower(None, {})
    try:
        wide = ir.in_float64(module)
    except Exception as e:
        raise Failure("TVM does not infer its types in float64: %s" % reason(e)) from None
    for fact, made, change in (("as_it_is", module, _same), ("float64", wide, _widened)):
        reporter.stage("build")
        try:
            executable = ir.build(made, job["executor"], job["opt_level"])
            found = []
            for inputs in job["inputs"]:
                reporter.stage("run")
                found.append(executable.run({name: change(array) for name, array in inputs.items()})[0])
        except Exception as e:
            how = " in float64" if fact == "float64" else ""
            why = (how, reporter.stage_name, reason(e))
            raise Failure("TVM's own LLVM build of it%s raises in the stage %s: %s" % why) from None
        reporter.send({"fact": fact, "executor": job["executor"], "value": found})


def _same(array: np.ndarray) -> np.ndarray:
    return array


def _widened(array: np.ndarray) -> np.ndarray:
    """Returns an array with float64 in place of a smaller float."""
    name = dtype_name(array)
    if name not in _SMALLER:
        return array
    if array.dtype == np.uint16:
        # The bits of a bfloat16, where NumPy has none, are the upper half of those of a float32.
        return (np.asarray(array).astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    return array.astype(np.float64)
