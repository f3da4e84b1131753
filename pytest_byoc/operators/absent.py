"""Operators that TVM's own backends claim and that have no record here, and why.

The tests compute what is claimed from the TVM they run with, and fail for an operator that has neither
a record nor a line here.
"""

from __future__ import annotations

#: By IR: the IR's own name of the operator, and the reason.
ABSENT: dict[str, dict[str, str]] = {
    "relay": {},
    "relax": {
        "call_tir": "calls a PrimFunc: what it computes is in the module, not in an operator",
        "layout_transform": "takes an index map, which is a function: a graph's attributes are data",
        "nn.attention_var_len": "TVM has no LLVM implementation: LegalizeOps leaves it, and the build fails",
    },
}
