"""A backend's patterns, partitioning and code in Relax (apache-tvm 0.25 and later)."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import tvm
from tvm import relax
from tvm.relax.backend.pattern_registry import get_patterns_with_prefix, register_patterns
from tvm.relax.dpl import is_op, wildcard
from tvm.relax.transform import PatternCheckContext

from .backend import Backend, Tensor, accepts


def register(backend: Backend) -> None:
    """Registers the patterns and the code generator of a backend with TVM."""
    register_patterns(_table(backend))

    def codegen(functions: Sequence[relax.Function], options: Any, constant_names: Any) -> List[Any]:
        return [backend.compiled({str(f.attrs["global_symbol"]): _in_tir(f) for f in functions})]

    tvm.register_global_func(f"relax.ext.{backend.target_name}", codegen, override=True)


def partition(backend: Backend, mod: tvm.IRModule) -> tvm.IRModule:
    """Cuts out the calls that the backend's patterns match."""
    patterns = get_patterns_with_prefix(f"{backend.target_name}.")
    # Weights stay with TVM, which passes them at each call.
    mod = relax.transform.FuseOpsByPattern(
        patterns, bind_constants=False, annotate_codegen=not backend.merges
    )(mod)
    return relax.transform.MergeCompositeFunctions()(mod) if backend.merges else mod


def c_source(mod: tvm.IRModule) -> str:
    """Returns the functions of a module in TIR as C, with TVM's interface for packed functions."""
    source = str(tvm.compile(mod, target="c").mod.inspect_source())
    # An artifact may hold several such modules, and the context of each.
    return source.replace("void* __tvm_ffi__library_ctx", "static void* __tvm_ffi__library_ctx")


def _table(backend: Backend) -> List[Tuple[Any, ...]]:
    table: List[Tuple[Any, ...]] = []
    for operator, predicate in backend.patterns.items():
        op = tvm.ir.Op.get(f"relax.{operator}")

        def check(context: PatternCheckContext, predicate: Any = predicate) -> bool:
            call = context.matched_expr
            tensors = [*map(_operand, call.args), _tensor(call)]
            return accepts(predicate, call.attrs, tensors)

        pattern = is_op(op.name)(*[wildcard() for _ in range(op.num_inputs)])
        table.append((backend.pattern_name(operator), pattern, {}, check))
    return table


def _type(expr: relax.Expr) -> Any:
    """The type of an expression, which TVM called struct_info up to 0.25."""
    return expr.ty if hasattr(expr, "ty") else expr.struct_info


def _tensor(expr: relax.Expr) -> Optional[Tensor]:
    shape = _shape(expr)
    if shape is None:
        return None
    extents = [int(e) if isinstance(e, (int, tvm.tirx.IntImm)) else None for e in shape]
    return Tensor(tuple(extents), str(_type(expr).dtype))


def _operand(expr: relax.Expr) -> Optional[Tensor]:
    """Returns a tensor whose extents are numbers and variables: a region that gets a tensor of n + 1
    elements cannot find out n, so that TVM gives its function in TIR one parameter more."""
    known = (int, tvm.tirx.IntImm, tvm.tirx.Var)
    return _tensor(expr) if all(isinstance(e, known) for e in _shape(expr) or ()) else None


def _shape(expr: relax.Expr) -> Any:
    """The extents of a tensor, or None where they are not known."""
    shape = getattr(_type(expr), "shape", None)
    return shape if isinstance(shape, relax.ShapeExpr) else None


def _in_tir(region: relax.Function) -> Any:
    """Returns a region as one function in TIR, whose arguments are its inputs and its outputs."""
    for attribute in ("Codegen", "global_symbol"):
        region = region.without_attr(attribute)
    mod = _with_caller(tvm.IRModule(), "composites", region, "plain")
    # Called one by one: a Sequential leaves out passes at a low opt_level.
    for pass_ in ("LambdaLift", "InlinePrivateFunctions", "LegalizeOps"):
        mod = getattr(relax.transform, pass_)()(mod)
    # FuseTIR makes one function of the calls in a primitive function that is called.
    plain = mod["plain"].without_attr("global_symbol").with_attr("Primitive", True)
    return relax.transform.FuseTIR()(_with_caller(mod, "region", plain, "main"))["region"]


def _with_caller(mod: tvm.IRModule, name: str, function: relax.Function, caller: str) -> tvm.IRModule:
    """Returns a module with a function, and with one that calls it. The caller's parameters have names of
    their own: from the region's, TVM's code in C could make one name twice."""
    builder = relax.BlockBuilder(mod)
    var = builder.add_func(function, name)
    params = [relax.Var(f"x{i}", _type(param)) for i, param in enumerate(function.params)]
    with builder.function(caller, params):
        with builder.dataflow():
            result = builder.emit_output(relax.Call(var, params))
        builder.emit_func_output(result)
    return builder.get()
