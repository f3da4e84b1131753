"""example_extern for Relax (apache-tvm 0.25 and later): patterns, partitioning, a pass to TIR.

Importing this module registers the patterns under the prefix "example_extern". Relax has no hook by
which a region becomes TIR: ``RunCodegen`` wants a runtime module. So a pass does it, which is run
between partitioning and ``tvm.compile``.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Tuple

import tvm
from tvm import relax
from tvm.relax.backend.pattern_registry import get_patterns_with_prefix, register_patterns
from tvm.relax.backend.utils import has_leaking_intermediate_variables
from tvm.relax.dpl import is_op, wildcard
from tvm.relax.transform import PatternCheckContext
from tvm.script import tirx as T

from .steps import Region, Step, Tensor, Unsupported, elementwise, matmul, script

NAME = "example_extern"


# ---- what is offloaded -------------------------------------------------------------------------


def _type(expr: relax.Expr) -> Any:
    """The type of an expression, which TVM called struct_info up to 0.25."""
    return expr.ty if hasattr(expr, "ty") else expr.struct_info


def _tensors(type_: Any) -> List[Tensor]:
    """A tensor, or those of a tuple."""
    if hasattr(type_, "fields"):
        return [tensor for field in type_.fields for tensor in _tensors(field)]
    if getattr(type_, "shape", None) is None:
        raise Unsupported("the shape is not known")
    return [Tensor(type_.shape, type_.dtype)]


def _evaluate(
    expr: relax.Expr, bound: Mapping[relax.Var, relax.Expr], values: Dict[Any, Tensor], steps: List[Step]
) -> Tensor:
    """The tensor of an expression; the calls on the way to it are appended to `steps`.

    bound: the values of variables. An expression that neither it nor `values` knows is an operand.
    """
    if expr in values:
        return values[expr]
    if expr in bound:
        values[expr] = _evaluate(bound[expr], bound, values, steps)
        return values[expr]
    (result,) = _tensors(_type(expr))
    if isinstance(expr, relax.Call):
        operands = [_evaluate(arg, bound, values, steps) for arg in expr.args]
        name = expr.op.name.split(".")[-1]
        if name == "permute_dims":
            return Tensor(result.shape, result.dtype, _swapped(expr, operands[0]))
        steps.append(matmul(operands, result) if name == "matmul" else elementwise(name, operands, result))
        result = steps[-1].result
    return result


def _swapped(call: relax.Call, operand: Tensor) -> Tensor:
    """The operand of a permute_dims that only swaps the last two dimensions."""
    rank = len(operand.shape)
    backwards = list(range(rank))[::-1]
    axes = backwards if call.attrs.axes is None else [int(axis) % rank for axis in call.attrs.axes]
    if rank < 2 or axes != [*range(rank - 2), rank - 1, rank - 2]:
        raise Unsupported("a product reads its right side as it is, or transposed")
    return operand


def _check(context: PatternCheckContext) -> bool:
    """The predicate of every pattern."""
    # A result that is needed outside of the match would have to be computed once more.
    if has_leaking_intermediate_variables(context):
        return False
    try:
        _evaluate(context.matched_expr, dict(context.matched_bindings.items()), {}, [])
    except Unsupported:
        return False
    return True


def _patterns() -> List[Tuple[Any, ...]]:
    """The shortest first: of two patterns that match, TVM takes the one registered later."""

    def matmul_of(weight: Any) -> Any:
        return is_op("relax.matmul")(wildcard(), weight)

    def dense() -> Any:
        return matmul_of(is_op("relax.permute_dims")(wildcard()))

    def matmul() -> Any:
        return matmul_of(wildcard())

    def biased(inner: Any) -> Any:
        return is_op("relax.add")(inner, wildcard())

    relu = is_op("relax.nn.relu")
    patterns = [("relu", relu(wildcard()))]
    patterns += [(name, is_op(f"relax.{name}")(wildcard(), wildcard())) for name in ("add", "multiply")]
    for anchor in (matmul, dense):
        name = anchor.__name__
        patterns += [
            (name, anchor()),
            (f"{name}_relu", relu(anchor())),
            (f"{name}_bias", biased(anchor())),
            (f"{name}_bias_relu", relu(biased(anchor()))),
        ]
    return [(f"{NAME}.{name}", pattern, {}, _check) for name, pattern in patterns]


register_patterns(_patterns())


# ---- partitioning ------------------------------------------------------------------------------


def partition_for_example_extern(mod: tvm.IRModule) -> tvm.IRModule:
    """Cut out what the kernels compute. Weights stay with TVM, which passes them at each call."""
    # A region that nothing uses would lose its call, but stay in the module.
    mod = relax.transform.DeadCodeElimination()(mod)
    patterns = get_patterns_with_prefix(f"{NAME}.")
    mod = relax.transform.FuseOpsByPattern(patterns, bind_constants=False)(mod)
    return relax.transform.MergeCompositeFunctions()(mod)


# ---- from regions to TIR -----------------------------------------------------------------------


def translate(function: relax.Function) -> Region:
    """The region as a sequence of steps; a composite stands for the calls in it."""
    region = Region()
    values: Dict[Any, List[Tensor]] = {}
    composites: Dict[relax.Var, relax.Function] = {}

    def evaluate(expr: relax.Expr) -> List[Tensor]:
        if isinstance(expr, relax.Tuple):
            return [tensor for field in expr.fields for tensor in evaluate(field)]
        if isinstance(expr, relax.TupleGetItem):
            fields = _type(expr.tuple_value).fields
            start = sum(len(_tensors(field)) for field in fields[: expr.index])
            return evaluate(expr.tuple_value)[start : start + len(_tensors(fields[expr.index]))]
        if isinstance(expr, relax.Call):
            composite = composites[expr.op]
            known = {param: evaluate(arg)[0] for param, arg in zip(composite.params, expr.args)}
            bound = {binding.var: binding.value for binding in _bindings(composite)}
            return [_evaluate(composite.body.body, bound, known, region.steps)]
        return values[expr]

    for param in function.params:
        values[param] = _tensors(_type(param))
        region.inputs += values[param]
    for binding in _bindings(function):
        if isinstance(binding.value, relax.Function):
            composites[binding.var] = binding.value
        else:
            values[binding.var] = evaluate(binding.value)
    region.outputs = evaluate(function.body.body)
    return region


def _bindings(function: relax.Function) -> List[Any]:
    return [binding for block in function.body.blocks for binding in block.bindings]


@relax.expr_functor.mutator
class _CallsTIR(relax.PyExprMutator):  # type: ignore[misc]
    """Replaces calls of regions by ``call_tir`` of their functions, which get a tuple's fields."""

    def __init__(self, mod: tvm.IRModule, regions: Mapping[str, Any]) -> None:
        super().__init__(mod)
        self.functions = {}
        for name, function in regions.items():
            lowered = tvm.script.from_source(script(translate(function), "tirx"), {"T": T})
            lowered = lowered.with_attr("global_symbol", f"{name}_tir")
            self.functions[name] = self.builder_.add_func(lowered, f"{name}_tir")

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(call)
        if not isinstance(call.op, tvm.ir.GlobalVar) or call.op.name_hint not in self.functions:
            return call
        arguments = [part for arg in call.args for part in self._parts(arg)]
        result = _type(call)
        results = list(result.fields) if hasattr(result, "fields") else result
        return relax.call_tir(self.functions[call.op.name_hint], relax.Tuple(arguments), results)

    def _parts(self, expr: relax.Expr) -> List[relax.Expr]:
        fields = getattr(_type(expr), "fields", None)
        if fields is None:
            return [expr]
        items = [self.builder_.emit(relax.TupleGetItem(expr, i)) for i in range(len(fields))]
        return [part for item in items for part in self._parts(item)]


@tvm.transform.module_pass(opt_level=0, name="example_extern.RegionsToTIR")
def regions_to_tir(mod: tvm.IRModule, context: Any) -> tvm.IRModule:
    """The pass: every region becomes a TIR function."""
    regions = {
        var.name_hint: function
        for var, function in mod.functions.items()
        if isinstance(function, relax.Function) and function.attrs and function.attrs.get("Codegen") == NAME
    }
    if not regions:
        return mod
    mutator = _CallsTIR(mod, regions)
    for var, function in mod.functions.items():
        if isinstance(function, relax.Function) and var.name_hint not in regions:
            mutator.builder_.update_func(var, mutator.visit_expr(function))
    result = mutator.builder_.get()
    kept = {var: f for var, f in result.functions.items() if var.name_hint not in regions}
    return tvm.IRModule(kept, attrs=mod.attrs, global_infos=mod.global_infos)


def build(mod: tvm.IRModule) -> Any:
    """Compile a partitioned module for this machine."""
    return tvm.compile(regions_to_tir(mod), target="llvm")
