"""example_module for Relax: patterns and partitioning. Predicate, pass and codegen are C++."""

from __future__ import annotations

from typing import Any, List, Mapping, Tuple

import tvm
from tvm import relax
from tvm.relax.backend.pattern_registry import get_patterns_with_prefix, register_patterns
from tvm.relax.backend.utils import has_leaking_intermediate_variables
from tvm.relax.dpl import is_op, wildcard
from tvm.relax.transform import PatternCheckContext

NAME = "example_module"
#: By operator, its number of operands.
OPERATORS = {
    "add": 2, "subtract": 2, "multiply": 2, "maximum": 2, "minimum": 2, "matmul": 2, "nn.conv2d": 2,
    "nn.relu": 1, "abs": 1, "negative": 1,
}  # fmt: skip


def register(functions: Mapping[str, Any]) -> None:
    """Register a pattern for each operator. Its predicate asks the library."""

    def check(context: PatternCheckContext) -> bool:
        # A result that is needed outside of the match would have to be computed once more.
        if has_leaking_intermediate_variables(context):
            return False
        return bool(functions["supports"](context.matched_expr))

    patterns: List[Tuple[Any, ...]] = []
    for name, count in OPERATORS.items():
        pattern = is_op(f"relax.{name}")(*[wildcard() for _ in range(count)])
        patterns.append((f"{NAME}.{name.replace('nn.', '')}", pattern, {}, check))
    register_patterns(patterns)


def partition(mod: tvm.IRModule, functions: Mapping[str, Any]) -> tvm.IRModule:
    """Cut out what example_module computes; ``RunCodegen`` then calls the codegen."""
    passes = [
        # A region that nothing uses would lose its call, but stay in the module: not to be built.
        relax.transform.DeadCodeElimination(),
        functions["FoldTransposes"](),
        relax.transform.FuseOpsByPattern(get_patterns_with_prefix(f"{NAME}."), bind_constants=True),
        relax.transform.MergeCompositeFunctions(),
    ]
    return tvm.transform.Sequential(passes)(mod)
