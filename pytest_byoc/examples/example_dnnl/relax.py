"""example_dnnl for Relax (apache-tvm 0.26 and later): patterns, partitioning, the codegen."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

import tvm
from tvm import relax
from tvm.relax.backend.pattern_registry import get_patterns_with_prefix, register_patterns
from tvm.relax.backend.utils import has_leaking_intermediate_variables
from tvm.relax.dpl import is_op, wildcard
from tvm.relax.transform import PatternCheckContext

from .c_source import Region, generate
from .steps import ACTIVATIONS, OPERATORS, Step, Tensor, fuse, step_of

NAME = "example_dnnl"
# TVM 0.27 renamed it, and its field `data` to `value`.
_Constant = relax.Constant if hasattr(relax, "Constant") else tvm.ir.GenericConst
# A value is what an expression evaluates to: a tensor, or a tuple of values.
Value = Union[Tensor, List["Value"]]
_INPUTS = {"nn.batch_norm": 5, "nn.layer_norm": 3}
_TWO = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "nn.conv2d", "matmul")


# ---- what is offloaded -------------------------------------------------------------------------


def _type(expr: relax.Expr) -> Any:
    """The type of an expression, which TVM called struct_info up to 0.25."""
    return expr.ty if hasattr(expr, "ty") else expr.struct_info


def _tensors(type_: Any) -> List[Tensor]:
    """A tensor for the type, or for each field of a tuple; none if a shape is dynamic."""
    if hasattr(type_, "fields"):
        fields = [_tensors(field) for field in type_.fields]
        return [tensor for field in fields for tensor in field] if all(fields) else []
    if getattr(type_, "shape", None) is None:
        return []
    try:
        return [Tensor(type_.shape, type_.dtype)]
    except TypeError:  # an extent is symbolic, or the whole shape is a variable
        return []


def _step(call: relax.Call, inputs: Sequence[Tensor]) -> Optional[Step]:
    results = _tensors(_type(call))
    return step_of(call.op.name[len("relax.") :], call.attrs, inputs, results[0]) if results else None


def _check(context: PatternCheckContext) -> bool:
    """Can the match be translated into a step?"""
    # A result that is needed outside of the match would have to be computed once more.
    if has_leaking_intermediate_variables(context):
        return False
    matched = dict(context.annotated_expr.items())
    results: Dict[relax.Var, Tensor] = {}
    steps: List[Step] = []
    for name in sorted(matched):
        inputs: List[Tensor] = []
        for arg in matched[name].args:
            tensors = [results[arg]] if arg in results else _tensors(_type(arg))
            if not tensors:
                return False
            inputs += tensors
        step = _step(matched[name], inputs)
        if step is None:
            return False
        steps.append(step)
        if matched[name] in context.value_to_bound_var:
            results[context.value_to_bound_var[matched[name]]] = step.result
    return fuse(steps) is not None


def _patterns() -> List[Tuple[Any, ...]]:
    """The shortest first: of two patterns that match, TVM takes the one registered later."""
    patterns = []
    for name in OPERATORS:
        if f"relax.{name}" not in tvm.ir.Op.list_op_names():  # one of Relay
            continue
        count = _INPUTS.get(name, 2 if name in _TWO else 1)
        call = is_op(f"relax.{name}")(*[wildcard() for _ in range(count)])
        patterns.append((f"{NAME}.{name.replace('nn.', '')}", call, {"part0": call}, _check))
    for anchor in ("nn.conv2d", "matmul"):
        for added in range(3):
            for activation in ("", *ACTIVATIONS):
                names = [anchor, *["add"] * added, *([activation] if activation else [])]
                pattern, parts = None, {}
                for i, name in enumerate(names):
                    operands = [wildcard(), wildcard()] if i == 0 else [pattern, wildcard()]
                    pattern = is_op(f"relax.{name}")(*operands[: 1 if name in ACTIVATIONS else 2])
                    parts[f"part{i}"] = pattern
                if len(names) > 1:
                    patterns.append((f"{NAME}.{'_'.join(names).replace('nn.', '')}", pattern, parts, _check))
    return patterns


register_patterns(_patterns())


# ---- partitioning ------------------------------------------------------------------------------


def partition_for_example_dnnl(mod: tvm.IRModule) -> tvm.IRModule:
    """Cut out what example_dnnl computes; ``RunCodegen`` then calls the codegen."""
    # A region that nothing uses would lose its call, but stay in the module: not to be built.
    mod = relax.transform.DeadCodeElimination()(mod)
    mod = relax.transform.FuseOpsByPattern(get_patterns_with_prefix(NAME), bind_constants=True)(mod)
    return relax.transform.MergeCompositeFunctions()(mod)


# ---- code generation ---------------------------------------------------------------------------


def _codegen(functions: Sequence[relax.Function], options: Any, constant_names: Any) -> List[Any]:
    create = tvm.get_global_func("runtime.CSourceModuleCreate")
    modules = []
    for function in functions:
        region = translate(function)
        error = 'TVMFFIErrorSetRaisedFromCStr("RuntimeError", error)'
        source = "#include <tvm/ffi/c_api.h>\n" + generate(region, error) + _entry_point(region)
        modules.append(create(source, "c", [region.symbol], []))
    return modules


tvm.register_global_func(f"relax.ext.{NAME}", _codegen, override=True)


def translate(function: relax.Function) -> Region:
    """The function as a region: a sequence of composites, each of which becomes one step."""
    region = Region(str(function.attrs["global_symbol"]))

    def declare(type_: Any) -> Value:
        if hasattr(type_, "fields"):
            return [declare(field) for field in type_.fields]
        return region.input(type_.shape, type_.dtype)

    values: Dict[relax.Var, Value] = {param: declare(_type(param)) for param in function.params}
    composites: Dict[relax.Var, relax.Function] = {}
    for binding in _bindings(function):
        value = binding.value
        if isinstance(value, relax.Function):
            composites[binding.var] = value
        elif isinstance(value, relax.Call):
            operands = [_evaluate(arg, values, region) for arg in value.args]
            values[binding.var] = _composite(composites[value.op], operands, region)
        else:
            values[binding.var] = _evaluate(value, values, region)
    region.outputs = _flatten(_evaluate(function.body.body, values, region))
    return region


def _composite(function: relax.Function, operands: List[Value], region: Region) -> Value:
    values: Dict[relax.Var, Value] = dict(zip(function.params, operands))
    steps: List[Step] = []
    for binding in _bindings(function):
        if isinstance(binding.value, relax.Call):
            inputs = [t for arg in binding.value.args for t in _flatten(_evaluate(arg, values, region))]
            step = _step(binding.value, inputs)
            if step is None:
                raise NotImplementedError(f"{NAME}: no code for {binding.value}")
            steps.append(step)
            values[binding.var] = step.result
            if hasattr(_type(binding.var), "fields"):  # batch_norm hands its moving averages on
                values[binding.var] = [step.result, *inputs[3:]]
        else:
            values[binding.var] = _evaluate(binding.value, values, region)
    fused = fuse(steps)
    if fused is None:
        raise NotImplementedError(f"{NAME}: no code for {function}")
    region.steps.append(fused)
    return _evaluate(function.body.body, values, region)


def _evaluate(expr: relax.Expr, values: Dict[relax.Var, Value], region: Region) -> Value:
    """The value of an expression without a call: Relax binds each call to a variable."""
    if isinstance(expr, relax.Var):
        return values[expr]
    if isinstance(expr, _Constant):
        data = expr.data if hasattr(expr, "data") else expr.value
        return region.constant(data.numpy(), str(_type(expr).dtype))
    if isinstance(expr, relax.Tuple):
        return [_evaluate(field, values, region) for field in expr.fields]
    if isinstance(expr, relax.TupleGetItem):
        return _evaluate(expr.tuple_value, values, region)[expr.index]  # type: ignore[index]
    raise NotImplementedError(f"{NAME}: no code for a {type(expr).__name__}")


def _bindings(function: relax.Function) -> List[Any]:
    return [binding for block in function.body.blocks for binding in block.bindings]


def _flatten(value: Value) -> List[Tensor]:
    return [value] if isinstance(value, Tensor) else [tensor for field in value for tensor in _flatten(field)]


def _entry_point(region: Region) -> str:
    count = len(region.inputs) + len(region.outputs)
    return f"""
TVM_FFI_DLL_EXPORT int __tvm_ffi_{region.symbol}(void* self, const TVMFFIAny* args, int32_t num_args,
                                                 TVMFFIAny* result) {{
  void* data[{count}];
  (void)self, (void)result;
  if (num_args != {count}) {{
    TVMFFIErrorSetRaisedFromCStr("TypeError", "{region.symbol}: expected {count} arguments");
    return -1;
  }}
  for (int i = 0; i < {count}; ++i) {{
    const DLTensor* tensor;
    if (args[i].type_index == kTVMFFIDLTensorPtr) {{
      tensor = (const DLTensor*)args[i].v_ptr;
    }} else if (args[i].type_index == kTVMFFITensor) {{
      tensor = (const DLTensor*)((const char*)args[i].v_obj + sizeof(TVMFFIObject));
    }} else {{
      TVMFFIErrorSetRaisedFromCStr("TypeError", "{region.symbol}: expected tensors");
      return -1;
    }}
    data[i] = (char*)tensor->data + tensor->byte_offset;
  }}
  return {region.symbol}_run(data);
}}
"""
