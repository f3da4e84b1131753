"""example_ncnn for Relax (apache-tvm 0.26 and later): patterns, partitioning, the codegen."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple

import tvm
from tvm import relax
from tvm.relax.backend.pattern_registry import get_patterns_with_prefix, register_patterns
from tvm.relax.backend.utils import has_leaking_intermediate_variables
from tvm.relax.dpl import is_const, is_op, wildcard
from tvm.relax.transform import PatternCheckContext

from .c_source import FUNCTION, MISSING, Region, generate
from .layers import Call, Layer, Tensor, layer_of

NAME = "example_ncnn"
# TVM 0.27 renamed it, and its field `data` to `value`.
_Constant = relax.Constant if hasattr(relax, "Constant") else tvm.ir.GenericConst


# ---- what is offloaded -------------------------------------------------------------------------


def _type(expr: relax.Expr) -> Any:
    """The type of an expression, which TVM called struct_info up to 0.25."""
    return expr.ty if hasattr(expr, "ty") else expr.struct_info


def _tensor(expr: relax.Expr) -> Optional[Tensor]:
    """The tensor of a constant, or of a type; None for a tuple or a dynamic shape."""
    type_, data = _type(expr), None
    if isinstance(expr, _Constant):
        data = (expr.data if hasattr(expr, "data") else expr.value).numpy()
    try:
        return Tensor(type_.shape, type_.dtype, data)
    except (AttributeError, TypeError):  # no shape, an extent that is symbolic, or a shape that is a variable
        return None


def _layer(bindings: Sequence[Tuple[Any, relax.Call]], values: Dict[Any, Tensor]) -> Optional[Layer]:
    """The layer of calls, each bound to a variable. values: of the variables that are known."""
    calls: List[Call] = []
    for var, call in bindings:
        # The second operand of reshape is a shape, which the result has too.
        args = [arg for arg in call.args if not isinstance(_type(arg), _ShapeType)]
        inputs: List[Any] = [values.get(arg) or _tensor(arg) for arg in args]
        result = _tensor(call)
        if result is None or None in inputs:
            return None
        values[var] = result
        if call.op.name == "relax.permute_dims":  # of weights, which are transposed here
            axes = None if call.attrs.axes is None else [int(axis) for axis in call.attrs.axes]
            result.data = inputs[0].data.transpose(axes)
        else:
            calls.append(Call(call.op.name[len("relax.") :], call.attrs, inputs, result))
    return layer_of(calls)


_ShapeType = relax.ShapeType if hasattr(relax, "ShapeType") else relax.ShapeStructInfo


def _check(context: PatternCheckContext) -> bool:
    """Can the match be translated into a layer?"""
    # A result that is needed outside of the match would have to be computed once more.
    if has_leaking_intermediate_variables(context):
        return False
    variables = dict(context.value_to_bound_var.items())
    calls = [call for _, call in sorted(context.annotated_expr.items())]
    return _layer([(variables.get(call), call) for call in calls], {}) is not None


def _patterns() -> List[Tuple[Any, ...]]:
    """The shortest first: of two patterns that match, TVM takes the one registered later."""
    patterns = []

    def add(name: str, *parts: Any) -> None:
        annotations = {f"part{i}": part for i, part in enumerate(parts)}
        patterns.append((f"{NAME}.{name.replace('nn.', '')}", parts[-1], annotations, _check))

    for name in ("nn.max_pool2d", "nn.avg_pool2d", "nn.softmax"):
        add(name, is_op(f"relax.{name}")(wildcard()))
    add("reshape", is_op("relax.reshape")(wildcard(), wildcard()))
    transposed = is_op("relax.permute_dims")(is_const())
    for name, weight in (("nn.conv2d", is_const()), ("matmul", is_const()), ("matmul", transposed)):
        layer = is_op(f"relax.{name}")(wildcard(), weight)
        biased = is_op("relax.add")(layer, is_const())
        first = [transposed, layer] if weight is transposed else [layer]
        name += "_transposed" if weight is transposed else ""
        add(name, *first)
        add(f"{name}_relu", *first, is_op("relax.nn.relu")(layer))
        add(f"{name}_bias", *first, biased)
        add(f"{name}_bias_relu", *first, biased, is_op("relax.nn.relu")(biased))
    return patterns


register_patterns(_patterns())


# ---- partitioning ------------------------------------------------------------------------------


def partition_for_example_ncnn(mod: tvm.IRModule) -> tvm.IRModule:
    """Cuts out what example_ncnn computes; ``RunCodegen`` then calls the codegen."""
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
        source = "#include <string.h>\n#include <tvm/ffi/c_api.h>\n" + generate(region) + _entry_point(region)
        modules.append(create(source, "c", [region.symbol], []))
    return modules


tvm.register_global_func(f"relax.ext.{NAME}", _codegen, override=True)


def translate(function: relax.Function) -> Region:
    """The function as a region: a sequence of composites, each of which becomes one layer."""
    region = Region(str(function.attrs["global_symbol"]))
    values: Dict[relax.Var, Tensor] = {}
    for param in function.params:
        values[param] = region.input(_type(param).shape, _type(param).dtype)
    composites: Dict[relax.Var, relax.Function] = {}
    outputs: Dict[relax.Var, List[Tensor]] = {}
    for var, value in _bindings(function):
        if isinstance(value, relax.Function):
            composites[var] = value
        elif isinstance(value, relax.Call):
            composite = composites[value.op]
            calls = [binding for binding in _bindings(composite) if isinstance(binding[1], relax.Call)]
            inner = {param: values[arg] for param, arg in zip(composite.params, value.args)}
            values[var] = region.add(_layer(calls, inner))
        elif isinstance(value, relax.Tuple):
            outputs[var] = [values[field] for field in value.fields]
        else:
            values[var] = values[value]
    body = function.body.body
    fields = body.fields if isinstance(body, relax.Tuple) else [body]
    region.outputs = outputs[body] if body in outputs else [values[field] for field in fields]
    return region


def _bindings(function: relax.Function) -> List[Tuple[relax.Var, relax.Expr]]:
    return [(binding.var, binding.value) for block in function.body.blocks for binding in block.bindings]


def _entry_point(region: Region) -> str:
    # The function is looked up in each call: it may be registered after the artifact is loaded.
    s, count = region.symbol, len(region.inputs) + len(region.outputs)
    return f"""
#ifdef __cplusplus
extern "C"
#endif
TVM_FFI_DLL_EXPORT int __tvm_ffi_{s}(void* self, const TVMFFIAny* args, int32_t num_args,
                                     TVMFFIAny* result) {{
  void* data[{count}];
  TVMFFIAny values[2], returned;
  TVMFFIByteArray name;
  TVMFFIObjectHandle run = NULL;
  int status, i;
  (void)self, (void)result;
  if (num_args != {count}) {{
    TVMFFIErrorSetRaisedFromCStr("TypeError", "{s}: expected {count} arguments");
    return -1;
  }}
  for (i = 0; i < {count}; ++i) {{
    const DLTensor* tensor;
    if (args[i].type_index == kTVMFFIDLTensorPtr) {{
      tensor = (const DLTensor*)args[i].v_ptr;
    }} else if (args[i].type_index == kTVMFFITensor) {{
      tensor = (const DLTensor*)((const char*)args[i].v_obj + sizeof(TVMFFIObject));
    }} else {{
      TVMFFIErrorSetRaisedFromCStr("TypeError", "{s}: expected tensors");
      return -1;
    }}
    data[i] = (char*)tensor->data + tensor->byte_offset;
  }}
  name.data = "{FUNCTION}";
  name.size = {len(FUNCTION)};
  if (TVMFFIFunctionGetGlobal(&name, &run) != 0 || run == NULL) {{
    TVMFFIErrorSetRaisedFromCStr("RuntimeError", "{s}: {MISSING}");
    return -1;
  }}
  memset(values, 0, sizeof(values));
  memset(&returned, 0, sizeof(returned));
  values[0].type_index = values[1].type_index = kTVMFFIOpaquePtr;
  values[0].v_ptr = (void*)&{s}_region;
  values[1].v_ptr = data;
  status = TVMFFIFunctionCall(run, values, 2, &returned);
  if (status == 0 && returned.type_index >= kTVMFFIStaticObjectBegin) TVMFFIObjectDecRef(returned.v_obj);
  TVMFFIObjectDecRef(run);
  return status;
}}
"""
