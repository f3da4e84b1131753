"""example_tensorize for Relax (apache-tvm 0.25 and later): patterns, partitioning, a pass to TIR.

Relax has no hook by which a region becomes TIR: ``RunCodegen`` wants a runtime module. So a pass does
it, which is run between partitioning and ``tvm.compile``.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Tuple

import tvm
from tvm import relax
from tvm.relax.backend.pattern_registry import get_patterns_with_prefix, register_patterns
from tvm.relax.backend.utils import has_leaking_intermediate_variables
from tvm.relax.dpl import is_op, wildcard
from tvm.relax.transform import PatternCheckContext

from .layers import Unsupported, Value, evaluate, extents, operand
from .schedule import lower

NAME = "example_tensorize"
BITCODE = f"{NAME}.bitcode"  # an attribute of regions


# ---- what is offloaded -------------------------------------------------------------------------


def _type(expr: relax.Expr) -> Any:
    """The type of an expression, which TVM called struct_info up to 0.25."""
    return expr.ty if hasattr(expr, "ty") else expr.struct_info


def _operand(expr: relax.Expr, i: int) -> Value:
    return operand(getattr(_type(expr), "shape", None), _type(expr).dtype, f"x{i}")


def _evaluate(
    expr: relax.Expr, bound: Mapping[relax.Var, relax.Expr], values: Dict[relax.Expr, Value]
) -> Value:
    """The value of an expression, which is an operand if it is neither in `values`, nor a call, nor a
    variable that is bound to a call. Raises Unsupported."""
    if expr in bound:
        return _evaluate(bound[expr], bound, values)
    if expr not in values and isinstance(expr, relax.Call):
        operands = [_evaluate(arg, bound, values) for arg in expr.args]
        shape = extents(_type(expr).shape, _type(expr).dtype)
        values[expr] = evaluate(expr.op.name[len("relax.") :], expr.attrs, operands, shape)
    elif expr not in values:
        values[expr] = _operand(expr, len(values))
    return values[expr]


def _check(context: PatternCheckContext) -> bool:
    """The predicate of every pattern."""
    # A result that is needed outside of the match would have to be computed once more.
    if has_leaking_intermediate_variables(context):
        return False
    try:
        _evaluate(context.matched_expr, dict(context.matched_bindings.items()), {})
    except Unsupported:
        return False
    return True


def _patterns() -> List[Tuple[Any, ...]]:
    """The shortest first: of two patterns that match, TVM takes the one registered later."""
    anchors = {
        "conv2d": lambda: is_op("relax.nn.conv2d")(wildcard(), wildcard()),
        "matmul": lambda: is_op("relax.matmul")(wildcard(), wildcard()),
        "dense": lambda: is_op("relax.matmul")(wildcard(), is_op("relax.permute_dims")(wildcard())),
    }
    relu = is_op("relax.nn.relu")
    patterns: List[Tuple[str, Any]] = []
    for name, layer in anchors.items():
        biased = [is_op("relax.add")(layer(), wildcard()) for _ in range(2)]
        patterns += [
            (name, layer()),
            (f"{name}_relu", relu(layer())),
            (f"{name}_bias", biased[0]),
            (f"{name}_bias_relu", relu(biased[1])),
        ]
    return [(f"{NAME}.{name}", pattern, {}, _check) for name, pattern in patterns]


register_patterns(_patterns())


# ---- partitioning ------------------------------------------------------------------------------


def partition_for_example_tensorize(mod: tvm.IRModule, bitcode: Optional[str] = None) -> tvm.IRModule:
    """Cut out each layer as a region of its own, since each has a schedule of its own.

    bitcode: the path of the micro-kernel in LLVM IR, if that is to be compiled into the regions.
    """
    # A region that nothing uses would lose its call, but stay in the module.
    mod = relax.transform.DeadCodeElimination()(mod)
    patterns = get_patterns_with_prefix(f"{NAME}.")
    # Weights stay with TVM, which passes them at each call.
    mod = relax.transform.FuseOpsByPattern(patterns, bind_constants=False, annotate_codegen=True)(mod)
    for var, function in _regions(mod).items():
        if bitcode:
            mod.update_func(var, function.with_attr(BITCODE, bitcode))
    return mod


def _regions(mod: tvm.IRModule) -> Dict[tvm.ir.GlobalVar, relax.Function]:
    return {
        var: function
        for var, function in mod.functions.items()
        if isinstance(function, relax.Function) and function.attrs and function.attrs.get("Codegen") == NAME
    }


# ---- from regions to TIR -----------------------------------------------------------------------


def _lowered(symbol: str, region: relax.Function) -> Any:
    """A region, which calls one composite, as a function in TIR."""
    inputs = {param: _operand(param, i) for i, param in enumerate(region.params)}
    composite, call = [binding.value for binding in _bindings(region)]
    values = {inner: inputs[outer] for inner, outer in zip(composite.params, call.args)}
    bound = {binding.var: binding.value for binding in _bindings(composite)}
    result = _evaluate(composite.body.body, bound, values)
    bitcode = region.attrs.get(BITCODE)
    return lower(symbol, list(inputs.values()), result, bitcode and str(bitcode))


def _bindings(function: relax.Function) -> List[Any]:
    return [binding for block in function.body.blocks for binding in block.bindings]


@relax.expr_functor.mutator
class _CallsTIR(relax.PyExprMutator):  # type: ignore[misc]
    """Replaces calls of regions by ``call_tir`` of their functions."""

    def __init__(self, mod: tvm.IRModule, regions: Mapping[Any, relax.Function]) -> None:
        super().__init__(mod)
        self.functions = {}
        for var, region in regions.items():
            symbol = f"{var.name_hint}_tir"
            self.functions[var.name_hint] = self.builder_.add_func(_lowered(symbol, region), symbol)

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(call)
        if not isinstance(call.op, tvm.ir.GlobalVar) or call.op.name_hint not in self.functions:
            return call
        return relax.call_tir(self.functions[call.op.name_hint], relax.Tuple(call.args), _type(call))


@tvm.transform.module_pass(opt_level=0, name="example_tensorize.RegionsToTIR")
def regions_to_tir(mod: tvm.IRModule, context: Any) -> tvm.IRModule:
    """The pass: every region becomes a TIR function."""
    regions = _regions(mod)
    if not regions:
        return mod
    mutator = _CallsTIR(mod, regions)
    for var, function in mod.functions.items():
        if isinstance(function, relax.Function) and var not in regions:
            mutator.builder_.update_func(var, mutator.visit_expr(function))
    result = mutator.builder_.get()
    names = [var.name_hint for var in regions]
    kept = {var: f for var, f in result.functions.items() if var.name_hint not in names}
    return tvm.IRModule(kept, attrs=mod.attrs, global_infos=mod.global_infos)


def build(mod: tvm.IRModule) -> Any:
    """Compile a partitioned module for this machine."""
    return tvm.compile(regions_to_tir(mod), target="llvm")
