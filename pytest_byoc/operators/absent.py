"""Operators that TVM's own or vendors' backends offload and that have no record, with the reasons.

The tests find the operators that these backends offload in the TVM they run with. They fail for an
operator that has neither a record nor an entry here.
"""

from __future__ import annotations

#: By IR, the reason for each operator, by the IR's own name of it.
ABSENT: dict[str, dict[str, str]] = {
    "relay": {},
    "relax": {
        "call_tir": "calls a PrimFunc: what it computes is in the module, not in an operator",
        "layout_transform": "takes an index map, which is a function: a graph's attributes are data",
        "nn.pixel_shuffle": "TVM 0.27 has no implementation: LegalizeOps asks topi.nn for it, and raises",
        "nn.attention_var_len": "TVM has no LLVM implementation: LegalizeOps leaves it, and the build fails",
    },
}
