"""Expected outputs of a whole model with an operator for which there is no bound: LLVM's in float64.

LLVM builds the model as it is, and with float64 in place of all smaller floats. The distance between
their results shows how far rounding moves a result of this model. It is no bound, but a sample: the
largest distance over all elements of an output and several sets of inputs, times FACTOR, is how far a
correct implementation may be from float64's result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..core.job_report import JobReport
from ..evidence.comparison import share_judged
from ..examination.decision import JUDGED_SHARE, out_of_memory
from ..examination.gathering import REFERENCE_OPT_LEVEL
from ..examination.signature import exception_text
from ..examination.workers import Workers
from ..reference_kernels import FULL, Bounded
from ..reference_kernels.bounded import SMALLEST_NORMAL, UNIT_ROUNDOFF, exact
from .model_import import Imported

#: The multiple of the largest distance that is allowed, and the number of sets of inputs over which it is
#: taken: an output of few elements may by chance be exact with one set.
FACTOR, SETS = 4.0, 6

Arrays = Mapping[str, np.ndarray]


class NotJudged(Exception):
    """Raised where a model can't be judged by LLVM in float64; the message says why."""


def expected(workers: Workers, imported: Imported, inputs: Sequence[Arrays]) -> list[list[Bounded]]:
    """Returns the outputs for each set of inputs, with the errors that are allowed. Raises NotJudged.

    inputs: the first sets of the model, in their order.
    """
    if workers.precision != FULL:
        raise NotJudged("the target declares lower precision, and LLVM's rounding is no measure of it")
    more = [imported.inputs(which) for which in range(len(inputs), SETS)]
    report = workers.ask_reference({
        "kind": "model-float64", "model": str(imported.file), "executor": workers.executors[0],
        "opt_level": REFERENCE_OPT_LEVEL, "inputs": [*inputs, *more],
    })
    found = {fact: value for fact in ("as_it_is", "float64") for _, value in report.facts(fact)}
    if len(found) < 2:
        raise NotJudged(_why(report))
    narrow, wide = found["as_it_is"], found["float64"]
    if any(array.dtype == np.float64 for array in narrow[0]):
        raise NotJudged("it returns float64 itself, and nothing wider shows its rounding")
    apart = [
        max(_distance(n[i], w[i]) for n, w in zip(narrow, wide, strict=True)) for i in range(len(narrow[0]))
    ]
    outputs = [[*map(_allowed, n, w, apart)] for n, w in zip(narrow, wide, strict=True)][: len(inputs)]
    if min(map(share_judged, outputs)) < JUDGED_SHARE:
        raise NotJudged("LLVM's results in float64 and in its dtypes are too far apart to judge others")
    return outputs


def _why(report: JobReport) -> str:
    for message in report.raised():
        raised: dict[str, Any] = message["raised"]
        if raised["type"] == "Failure":
            return str(raised["message"])
        return f"{raised['type']}{exception_text(raised['message'])}{out_of_memory(raised, report)}"
    return f"the process in which LLVM runs it in float64 {report.ended}"


def _distance(narrow: np.ndarray, wide: np.ndarray) -> float:
    """Returns the largest distance of the elements that are numbers in both."""
    if wide.dtype != np.float64:
        return 0.0
    with np.errstate(all="ignore"):
        apart = np.abs(narrow.astype(np.float64) - wide)
    return float(apart[np.isfinite(apart)].max(initial=0.0))


def _allowed(narrow: np.ndarray, wide: np.ndarray, apart: float) -> Bounded:
    """Returns an output with the errors that are allowed. narrow: LLVM's output in its own dtype, wide: in
    float64. Where only one of them is a number, or integers differ, an element is ambiguous."""
    dtype = str(narrow.dtype)
    if wide.dtype != np.float64:
        known = exact(wide, dtype)
        return Bounded(known.value, known.error, narrow != wide, dtype)
    with np.errstate(all="ignore"):
        own = narrow.astype(np.float64)
        alike = (np.isfinite(own) & np.isfinite(wide)) | (own == wide) | (np.isnan(own) & np.isnan(wide))
        rounding = 2 * UNIT_ROUNDOFF[dtype] * np.abs(np.where(np.isfinite(wide), wide, 0.0))
    return Bounded(wide, FACTOR * apart + rounding + SMALLEST_NORMAL[dtype], ~alike, dtype)
