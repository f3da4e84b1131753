"""The dtypes and boundary cases that TVM's own LLVM build runs, by operator and IR.

They are measured, not written by hand: `scripts/measure.py` writes `measured.json`.
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
    """Returns the contents of `measured.json`, by IR; an empty table if the file does not exist.

    "tvm" is TVM's version; "fails" holds the message of TVM's build by operator and dtype;
    "left_out" holds the reason why a boundary case is left out, by operator and the case's label.
    """
    if not PATH.exists():
        return {}
    contents: dict[str, dict[str, Any]] = json.loads(PATH.read_text(encoding="utf-8"))
    return contents


def why_not(operator: str, dtype: str, ir: str) -> str | None:
    """Returns the message with which TVM's LLVM build fails for that dtype; None if it runs."""
    reason: str | None = table().get(ir, {}).get("fails", {}).get(operator, {}).get(dtype)
    return reason


@lru_cache(maxsize=None)
def _dtypes(name: str, dtypes: tuple[str, ...], irs: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(d for d in dtypes if all(why_not(name, d, ir) is None for ir in irs))


def dtypes(op: Operator, ir: str | None) -> tuple[str, ...]:
    """Returns the dtypes of the lead operand that TVM's LLVM build runs in an IR.

    With `ir` None, it must run them in every IR that has the operator.
    """
    return _dtypes(op.name, op.dtypes, op.irs() if ir is None else (ir,))


def left_out(op: Operator, label: str, ir: str | None) -> str | None:
    """Returns the reason why a boundary case is left out in an IR; None if it is not.

    TVM's build fails or is wrong there, or too few elements of the result can be judged. With `ir`
    None, a reason in any IR that has the operator counts.
    """
    for each in op.irs() if ir is None else (ir,):
        reason: str | None = table().get(each, {}).get("left_out", {}).get(op.name, {}).get(label)
        if reason is not None:
            return reason
    return None
