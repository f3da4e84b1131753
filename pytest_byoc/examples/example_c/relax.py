"""The patterns, partitioning and codegen of example_c for Relax (apache-tvm 0.25 and later).

Importing this module registers ``relax.ext.example_c`` and, under the prefix "example_c", one
pattern for every operator in ``relax_operators.OPERATORS`` and every composite.
"""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple, Union

import tvm
from tvm import relax
from tvm.relax.backend.pattern_registry import get_patterns_with_prefix, register_patterns
from tvm.relax.backend.utils import has_leaking_intermediate_variables
from tvm.relax.dpl import is_op, wildcard
from tvm.relax.transform import PatternCheckContext

from . import relax_extents
from .c_source import generate
from .extent import Length
from .relax_extents import length_of
from .relax_operators import OPERATORS, buffers_of, step_of, tensor_arguments, type_of
from .subgraph import ACTIVATIONS, Buffer, Step, Subgraph, fuse
from .support import reason_unsupported

NAME = "example_c"
_TVM = tuple(int(part) for part in tvm.__version__.split(".")[:2])

# TVM 0.27 renamed the class, and its field `data` to `value`.
_Constant = relax.Constant if hasattr(relax, "Constant") else tvm.ir.GenericConst

# A value is what an expression evaluates to: a tensor, a tuple of values, or the extents of a shape.
Value = Union[Buffer, List["Value"], List[Length]]


# ---- what is offloaded -------------------------------------------------------------------------

# The names that patterns give to the parts of a composite, in the order of execution.
_PARTS = ("transpose", "anchor", "bias", "activation")


def _check(context: PatternCheckContext) -> bool:
    """Returns whether a match of a pattern becomes a supported step; the predicate of all patterns."""
    # A result that is used outside the match would have to be computed twice.
    if has_leaking_intermediate_variables(context):
        return False
    matched = dict(context.annotated_expr.items())
    results: Dict[relax.Var, Buffer] = {}
    steps = []
    for call in (matched[part] for part in _PARTS if part in matched):
        inputs: List[Any] = []
        for arg in tensor_arguments(call):
            inputs += [results[arg]] if arg in results else buffers_of(type_of(arg)) or [None]
        step = step_of(call, inputs)
        if step is None:
            return False
        steps.append(step)
        if call in context.value_to_bound_var:
            results[context.value_to_bound_var[call]] = step.outputs[0]
    step = fuse(steps) if len(steps) > 1 else steps[0]
    return step is not None and reason_unsupported(step) is None


def _patterns() -> List[Tuple[Any, ...]]:
    """Returns the patterns, the shortest first: of two that match, TVM prefers the later one.

    Each operand has a ``wildcard()`` of its own: one used twice would match equal operands only.
    """
    patterns = []
    for operator, (kernel, _, _, arguments) in OPERATORS.items():
        for count in arguments:
            anchor = is_op(operator)(*[wildcard() for _ in range(count)])
            patterns.append((f"{NAME}.{kernel}", anchor, {"anchor": anchor}, _check))

    def conv2d() -> Dict[str, Any]:
        return {"anchor": is_op("relax.nn.conv2d")(wildcard(), wildcard())}

    def dense() -> Dict[str, Any]:
        return {"anchor": is_op("relax.matmul")(wildcard(), wildcard())}

    def dense_transposed() -> Dict[str, Any]:
        transpose = is_op("relax.permute_dims")(wildcard())
        anchor = is_op("relax.matmul")(wildcard(), transpose)
        return {"transpose": transpose, "anchor": anchor}

    for anchored in (conv2d, dense, dense_transposed):
        for biased in (False, True):
            for activation in (None, *ACTIVATIONS):
                if anchored is conv2d and activation not in (None, "relu"):
                    continue
                parts = anchored()
                name, root = f"{NAME}.{anchored.__name__}", parts["anchor"]
                if biased:
                    name, root = f"{name}_bias", is_op("relax.add")(root, wildcard())
                    parts["bias"] = root
                if activation:
                    full_name = "relax.nn.relu" if activation == "relu" else f"relax.{activation}"
                    name, root = f"{name}_{activation}", is_op(full_name)(root)
                    parts["activation"] = root
                if len(parts) > 1:
                    patterns.append((name, root, parts, _check))
    return patterns


register_patterns(_patterns())


# ---- partitioning ------------------------------------------------------------------------------


def partition_for_example_c(
    mod: tvm.IRModule, bind_constants: bool = _TVM >= (0, 26)
) -> tvm.IRModule:
    """Returns the module with regions for example_c, for which ``RunCodegen`` calls the codegen.

    With ``bind_constants``, weights are embedded in the generated source; without it, each call
    passes them. TVM 0.25 merges two composites that differ only in their bound constants, which is
    wrong, so the default there is to pass them.
    """
    # A region whose results are unused would lose its call, stay in the module, and fail to build.
    mod = relax.transform.DeadCodeElimination()(mod)
    patterns = get_patterns_with_prefix(NAME)
    if _TVM < (0, 26) and _has_tuples(mod):
        # There MergeCompositeFunctions overlooks dependences through tuples, and makes regions that
        # need their own results. So every composite becomes a region of its own.
        fuse_each = relax.transform.FuseOpsByPattern(
            patterns, bind_constants, annotate_codegen=True
        )
        return fuse_each(mod)
    mod = relax.transform.FuseOpsByPattern(patterns, bind_constants)(mod)
    return relax.transform.MergeCompositeFunctions()(mod)


def _has_tuples(mod: tvm.IRModule) -> bool:
    functions = [f for f in mod.functions.values() if isinstance(f, relax.Function)]
    values = [binding.value for function in functions for binding in _bindings(function)]
    return any(
        isinstance(value, relax.TupleGetItem)
        or (isinstance(value, relax.Call) and hasattr(type_of(value), "fields"))
        for value in values
    )


# ---- code generation ---------------------------------------------------------------------------


def _codegen(
    functions: Sequence[relax.Function], options: Any, constant_names: Any
) -> List[tvm.runtime.Module]:
    """Returns a module of C source for each of the partitioned functions."""
    create = tvm.get_global_func("runtime.CSourceModuleCreate")
    modules = []
    for function in functions:
        symbol = str(function.attrs["global_symbol"])
        graph = translate(function, symbol)
        source = _RELAX_HEADER + generate(graph) + _entry_point(graph)
        modules.append(create(source, "c", [symbol], []))
    return modules


tvm.register_global_func(f"relax.ext.{NAME}", _codegen, override=True)


def translate(function: relax.Function, symbol: str) -> Subgraph:
    """Returns the function as a subgraph; each of its composites becomes one step."""
    graph = Subgraph(symbol)
    values: Dict[relax.Var, Value] = {}
    relax_extents.find([type_of(param) for param in function.params], graph)
    for param in function.params:
        values[param] = _declare(graph, type_of(param))
    composites: Dict[relax.Var, relax.Function] = {}

    for binding in _bindings(function):
        value = binding.value
        if isinstance(value, relax.Function):
            composites[binding.var] = value
        elif isinstance(value, relax.Call) and value.op in composites:
            composite = composites[value.op]
            operands = [_evaluate(arg, values, graph) for arg in value.args]
            step = _composite_step(composite, operands, graph)
            graph.add(step)
            is_tuple = hasattr(type_of(binding.var), "fields")
            values[binding.var] = list(step.outputs) if is_tuple else step.outputs[0]
        else:
            values[binding.var] = _evaluate(value, values, graph)

    graph.outputs = _flatten(_evaluate(function.body.body, values, graph))
    return graph


def _composite_step(function: relax.Function, operands: List[Value], graph: Subgraph) -> Step:
    values: Dict[relax.Var, Value] = dict(zip(function.params, operands))
    lengths: relax_extents.Lengths = {}
    for param, operand in values.items():
        relax_extents.bind(type_of(param), operand, lengths)
    steps = []
    for binding in _bindings(function):
        if not isinstance(binding.value, relax.Call):
            values[binding.var] = _evaluate(binding.value, values, graph)
            continue
        inputs: List[Buffer] = []
        for arg in tensor_arguments(binding.value):
            inputs += _flatten(_evaluate(arg, values, graph))
        step = step_of(binding.value, inputs, lengths)
        if step is None:
            raise NotImplementedError(f"{NAME}: no code for {binding.value}")
        steps.append(step)
        is_tuple = hasattr(type_of(binding.var), "fields")
        values[binding.var] = list(step.outputs) if is_tuple else step.outputs[0]
    step = fuse(steps) if len(steps) > 1 else steps[0]
    reason = "it cannot be fused" if step is None else reason_unsupported(step)
    if step is None or reason:
        raise NotImplementedError(f"{NAME}: no code for {function}: {reason}")
    return step


def _evaluate(expr: relax.Expr, values: Dict[relax.Var, Value], graph: Subgraph) -> Value:
    """Returns the value of an expression without calls: Relax binds each call to a variable."""
    if isinstance(expr, relax.Var):
        return values[expr]
    if isinstance(expr, _Constant):
        return graph.constant((expr.data if hasattr(expr, "data") else expr.value).numpy())
    if isinstance(expr, relax.Tuple):
        return [_evaluate(field, values, graph) for field in expr.fields]
    if isinstance(expr, relax.TupleGetItem):
        fields = _evaluate(expr.tuple_value, values, graph)
        assert isinstance(fields, list)
        return fields[expr.index]
    raise NotImplementedError(f"{NAME}: no code for a {type(expr).__name__}")


def _bindings(function: relax.Function) -> List[Any]:
    return [binding for block in function.body.blocks for binding in block.bindings]


def _declare(graph: Subgraph, type_: Any) -> Value:
    if hasattr(type_, "fields"):
        return [_declare(graph, field) for field in type_.fields]
    if relax_extents.is_shape(type_):
        return [length_of(extent, graph.lengths) for extent in type_.values]
    try:
        return graph.input([int(extent) for extent in type_.shape], str(type_.dtype))
    except TypeError:  # an extent is open
        return graph.input([length_of(extent, graph.lengths) for extent in type_.shape], str(type_.dtype))


def _flatten(value: Value) -> List[Buffer]:
    if isinstance(value, Buffer):
        return [value]
    return [buffer for field in value for buffer in _flatten(field)]


# ---- how Relax's runtime calls the function ----------------------------------------------------

_RELAX_HEADER = "#include <tvm/ffi/c_api.h>\n"


def _entry_point(graph: Subgraph) -> str:
    if graph.extents:
        return relax_extents.entry_point(graph)
    count = len(graph.inputs) + len(graph.outputs)
    return f"""
#ifdef __cplusplus
extern "C"
#endif
TVM_FFI_DLL_EXPORT int __tvm_ffi_{graph.symbol}(void* self, const TVMFFIAny* args,
                                                int32_t num_args, TVMFFIAny* result) {{
  void* data[{count}];
  const char* error;
  (void)self; (void)result;
  if (num_args != {count}) {{
    TVMFFIErrorSetRaisedFromCStr("TypeError", "{graph.symbol}: expected {count} arguments");
    return -1;
  }}
  for (int i = 0; i < {count}; ++i) {{
    const DLTensor* tensor;
    if (args[i].type_index == kTVMFFIDLTensorPtr) {{
      tensor = (const DLTensor*)args[i].v_ptr;
    }} else if (args[i].type_index == kTVMFFITensor) {{
      tensor = (const DLTensor*)((const char*)args[i].v_obj + sizeof(TVMFFIObject));
    }} else {{
      TVMFFIErrorSetRaisedFromCStr("TypeError", "{graph.symbol}: expected tensors");
      return -1;
    }}
    data[i] = (char*)tensor->data + tensor->byte_offset;
  }}
  error = {graph.symbol}_run(data);
  if (error != NULL) {{
    TVMFFIErrorSetRaisedFromCStr("RuntimeError", error);
    return -1;
  }}
  return 0;
}}
"""
