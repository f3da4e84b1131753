"""What TVM's own LLVM build runs, by operator and IR: measured, not written by hand.

`scripts/measure.py` writes `measured.json`.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from .record import Operator

PATH = Path(__file__).with_name("measured.json")


@lru_cache(maxsize=1)
def table() -> dict[str, dict[str, Any]]:
    """By IR: "tvm", its version; "fails": by operator and dtype, what TVM's build said; "left_out": by
    operator and label, why a boundary case is none."""
    if not PATH.exists():
        return {}
    found: dict[str, dict[str, Any]] = json.loads(PATH.read_text(encoding="utf-8"))
    return found


def why_not(operator: str, dtype: str, ir: str) -> str | None:
    """What TVM's LLVM build says to that dtype; None if it runs."""
    reason: str | None = table().get(ir, {}).get("fails", {}).get(operator, {}).get(dtype)
    return reason


@lru_cache(maxsize=None)
def _dtypes(name: str, dtypes: tuple[str, ...], irs: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(d for d in dtypes if all(why_not(name, d, ir) is None for ir in irs))


def dtypes(op: Operator, ir: str | None) -> tuple[str, ...]:
    """Dtypes of the first operand that can be judged in an IR (None: in every IR the operator has)."""
    return _dtypes(op.name, op.dtypes, op.irs() if ir is None else (ir,))


def left_out(op: Operator, label: str, ir: str | None) -> str | None:
    """Why nothing can be judged with that boundary case in an IR (None: in some IR the operator has):
    TVM's build fails or is wrong, or too few elements have a value. None if there is no such reason."""
    for each in op.irs() if ir is None else (ir,):
        reason: str | None = table().get(each, {}).get("left_out", {}).get(op.name, {}).get(label)
        if reason is not None:
            return reason
    return None
