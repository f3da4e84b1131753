"""Merging regions in Relay where tuples stay outside of them; copied along with an example that uses it."""

from __future__ import annotations

from typing import List

import tvm
from tvm import relay


@tvm.transform.module_pass(opt_level=0, name="MergeRegions")
class MergeRegions:
    """Runs MergeCompilerRegions after AnnotateTarget(…, include_non_call_ops=False), unless tuples stand
    between calls.

    Such tuples are in no region, and the pass does not look through them: a region and another that depends
    on it by way of a tuple become one, on which PartitionGraph recurses until the process dies. A module with
    such tuples keeps a region for each call.
    """

    def transform_module(self, mod: tvm.IRModule, context: tvm.transform.PassContext) -> tvm.IRModule:
        body = mod["main"].body
        # A tuple that main returns leads nowhere.
        if _tuples(body) > isinstance(body, relay.Tuple):
            return mod
        return relay.transform.MergeCompilerRegions()(mod)


def _tuples(expr: relay.Expr) -> int:
    """Returns how many tuples, and fields of tuples, an expression has outside of composites."""
    found: List[relay.Expr] = []
    relay.analysis.post_order_visit(expr, found.append)
    within = sum(_tuples(e.body) for e in found if isinstance(e, relay.Function))
    return sum(isinstance(e, (relay.Tuple, relay.TupleGetItem)) for e in found) - within
