"""example_onnxruntime for Relax (apache-tvm 0.26 and later): patterns, partitioning, the codegen."""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, Dict, List, Sequence, Tuple

import tvm
from tvm import relax
from tvm.relax.backend.pattern_registry import get_patterns_with_prefix, register_patterns
from tvm.relax.dpl import is_op, wildcard
from tvm.relax.transform import PatternCheckContext

from .model import FUNCTION, MISSING, Model, Tensor, Unsupported, generate
from .operators import OPERATORS, Call, translate

NAME = "example_onnxruntime"
# TVM 0.27 renamed it, and its field `data` to `value`.
_Constant = relax.Constant if hasattr(relax, "Constant") else tvm.ir.GenericConst
_ShapeType = relax.ShapeType if hasattr(relax, "ShapeType") else relax.ShapeStructInfo
# A value is what an expression evaluates to: a tensor, a list of values, or a shape as a vector.
Value = Any


# ---- what is offloaded -------------------------------------------------------------------------


def _type(expr: relax.Expr) -> Any:
    """The type of an expression, which TVM called struct_info up to 0.25."""
    return expr.ty if hasattr(expr, "ty") else expr.struct_info


def _tensors(type_: Any) -> List[Tensor]:
    """A tensor for the type, or for each field of a tuple."""
    if hasattr(type_, "fields"):
        return [tensor for field in type_.fields for tensor in _tensors(field)]
    shape = getattr(type_, "shape", None)
    if shape is None or not hasattr(shape, "values"):  # of a rank that is not known, or a variable
        raise Unsupported
    extents = [getattr(extent, "value", extent) for extent in shape]
    if any("if_then_else" in str(extent) for extent in extents):
        raise Unsupported  # TVM 0.27 does not partition what has such an extent
    return [Tensor("x", tuple(extents), str(type_.dtype))]


def _call(call: relax.Call, evaluate: Callable[[relax.Expr], Any]) -> Call:
    """evaluate: returns the value of a tensor, a tuple of tensors, or a shape."""
    inputs: List[Tensor] = []
    others = []
    for arg in call.args:
        if _has_tensors(_type(arg)):
            inputs += _flatten(evaluate(arg))
        else:
            others.append(evaluate(arg) if isinstance(_type(arg), _ShapeType) else _number(arg))
    return Call(call.op.name[len("relax.") :], call.attrs, inputs, _tensors(_type(call)), others)


def _has_tensors(type_: Any) -> bool:
    fields = getattr(type_, "fields", None)
    return isinstance(type_, _TensorType) if fields is None else any(map(_has_tensors, fields))


_TensorType = relax.TensorType if hasattr(relax, "TensorType") else relax.TensorStructInfo


def _number(expr: Any) -> Any:
    """The number of an immediate argument, or a list of them."""
    if isinstance(expr, relax.Tuple):
        return [_number(field) for field in expr.fields]
    value = getattr(expr, "value", None)
    value = getattr(value, "value", value)  # up to TVM 0.25 it is wrapped in a PrimValue
    if not isinstance(value, (int, float)):
        raise Unsupported
    return value


def _check(context: PatternCheckContext) -> bool:
    """Whether the call becomes nodes; the predicate of every pattern."""

    def evaluate(expr: relax.Expr) -> Any:
        return "x" if isinstance(_type(expr), _ShapeType) else _tensors(_type(expr))

    try:
        translate(Model(), _call(context.annotated_expr["call"], evaluate))
    except Unsupported:
        return False
    return True


def _patterns() -> List[Tuple[Any, ...]]:
    """One for each operator: ONNX Runtime itself finds what can be fused in a region."""
    patterns = []
    for name in OPERATORS:
        if f"relax.{name}" in tvm.ir.Op.list_op_names():  # others are Relay's
            # TVM's registry names one argument of strided_slice.
            counts = [4, 5] if name == "strided_slice" else [tvm.ir.Op.get(f"relax.{name}").num_inputs]
            for count in counts:
                call = is_op(f"relax.{name}")(*[wildcard() for _ in range(count)])
                patterns.append((f"{NAME}.{name.replace('nn.', '')}", call, {"call": call}, _check))
    return patterns


register_patterns(_patterns())


# ---- partitioning ------------------------------------------------------------------------------


def partition_for_example_onnxruntime(mod: tvm.IRModule) -> tvm.IRModule:
    """Cuts out what example_onnxruntime computes; ``RunCodegen`` then calls the codegen."""
    # A region that nothing uses would lose its call, but stay in the module: not to be built.
    mod = relax.transform.DeadCodeElimination()(mod)
    mod = relax.transform.FuseOpsByPattern(get_patterns_with_prefix(NAME), bind_constants=True)(mod)
    return relax.transform.MergeCompositeFunctions()(mod)


# ---- code generation ---------------------------------------------------------------------------


def _codegen(functions: Sequence[relax.Function], options: Any, constant_names: Any) -> List[Any]:
    create = tvm.get_global_func("runtime.CSourceModuleCreate")
    modules = []
    for function in functions:
        symbol, model = str(function.attrs["global_symbol"]), Model()
        values = [_declare(model, _type(param)) for param in function.params]
        model.finish(_flatten(_evaluate(function, values, model)))
        header = "#include <string.h>\n#include <tvm/ffi/c_api.h>\n"
        source = header + generate(model, symbol) + _entry_point(model, symbol)
        modules.append(create(source, "c", [symbol], []))
    return modules


tvm.register_global_func(f"relax.ext.{NAME}", _codegen, override=True)


def _declare(model: Model, type_: Any) -> Value:
    if hasattr(type_, "fields"):
        return [_declare(model, field) for field in type_.fields]
    if isinstance(type_, _ShapeType):  # extents that no tensor tells are an argument of their own
        return model.input((len(type_.values),), "int64")
    (tensor,) = _tensors(type_)
    return model.input(tensor.shape, tensor.dtype)


def _evaluate(function: relax.Function, operands: Sequence[Value], model: Model) -> Value:
    """Adds the nodes of a function, a region or a composite in it, and returns its result."""
    values: Dict[relax.Var, Any] = {}
    for param, operand in zip(function.params, operands):
        _bind(_type(param), operand, model)
        values[param] = _declared(_type(param), operand)

    def evaluate(expr: relax.Expr) -> Any:
        if isinstance(expr, relax.Var):
            return values[expr]
        if isinstance(expr, _Constant):
            data = (expr.data if hasattr(expr, "data") else expr.value).numpy()
            return _tensors(_type(expr))[0]._replace(name=model.constant(data))
        if isinstance(expr, relax.Tuple):
            return [evaluate(field) for field in expr.fields]
        if isinstance(expr, relax.TupleGetItem):
            return evaluate(expr.tuple_value)[expr.index]
        if isinstance(expr, relax.ShapeExpr):
            return model.extents(expr.values)
        if isinstance(expr, relax.Function):
            return partial(_evaluate, expr)
        if expr.op in values:
            return values[expr.op]([evaluate(arg) for arg in expr.args], model)
        results = translate(model, _call(expr, evaluate))
        return results if hasattr(_type(expr), "fields") else results[0]

    for block in function.body.blocks:
        for binding in block.bindings:
            values[binding.var] = evaluate(binding.value)
    return evaluate(function.body.body)


def _declared(type_: Any, value: Value) -> Value:
    """The value with extents in the variables of a parameter's type, as the predicate saw them."""
    if hasattr(type_, "fields"):
        return [_declared(field, part) for field, part in zip(type_.fields, value)]
    return value if isinstance(type_, _ShapeType) else _tensors(type_)[0]._replace(name=value.name)


def _bind(type_: Any, value: Any, model: Model) -> None:
    """Lets the model know how the variables in a parameter's type are calculated."""
    if hasattr(type_, "fields"):
        for field, part in zip(type_.fields, value):
            _bind(field, part, model)
        return
    is_shape = isinstance(type_, _ShapeType)
    for i, extent in enumerate(type_.values if is_shape else type_.shape):
        if type(extent).__name__ == "Var" and extent not in model.variables:
            element = partial(model.node, "Slice", value, [i], [i + 1])
            length = partial(model.node, "Shape", value, start=i, end=i + 1)
            model.variables[extent] = element if is_shape else length


def _flatten(value: Value) -> List[Tensor]:
    return [value] if isinstance(value, Tensor) else [tensor for field in value for tensor in _flatten(field)]


def _entry_point(model: Model, symbol: str) -> str:
    # The function is looked up in each call: it may be registered after the artifact is loaded.
    count = len(model.inputs) + len(model.outputs)
    return f"""
#ifdef __cplusplus
extern "C"
#endif
TVM_FFI_DLL_EXPORT int __tvm_ffi_{symbol}(void* self, const TVMFFIAny* args, int32_t num_args,
                                          TVMFFIAny* result) {{
  void* tensors[{count}];
  DLTensor shapes[{count}];
  TVMFFIAny values[2], returned;
  TVMFFIByteArray name;
  TVMFFIObjectHandle run = NULL;
  int status, i;
  (void)self, (void)result;
  if (num_args != {count}) {{
    TVMFFIErrorSetRaisedFromCStr("TypeError", "{symbol}: expected {count} arguments");
    return -1;
  }}
  memset(shapes, 0, sizeof(shapes));
  for (i = 0; i < {count}; ++i) {{
    const void* const object = (const char*)args[i].v_obj + sizeof(TVMFFIObject);
    if (args[i].type_index == kTVMFFIDLTensorPtr) {{
      tensors[i] = args[i].v_ptr;
    }} else if (args[i].type_index == kTVMFFITensor) {{
      tensors[i] = (void*)object;
    }} else if (args[i].type_index == kTVMFFIShape) {{
      shapes[i].data = (void*)((const TVMFFIShapeCell*)object)->data;
      tensors[i] = &shapes[i];
    }} else {{
      TVMFFIErrorSetRaisedFromCStr("TypeError", "{symbol}: expected tensors and shapes");
      return -1;
    }}
  }}
  name.data = "{FUNCTION}";
  name.size = {len(FUNCTION)};
  if (TVMFFIFunctionGetGlobal(&name, &run) != 0 || run == NULL) {{
    TVMFFIErrorSetRaisedFromCStr("RuntimeError", "{symbol}: {MISSING}");
    return -1;
  }}
  memset(values, 0, sizeof(values));
  memset(&returned, 0, sizeof(returned));
  values[0].type_index = values[1].type_index = kTVMFFIOpaquePtr;
  values[0].v_ptr = (void*)&{symbol}_region;
  values[1].v_ptr = tensors;
  status = TVMFFIFunctionCall(run, values, 2, &returned);
  if (status == 0 && returned.type_index >= kTVMFFIStaticObjectBegin) TVMFFIObjectDecRef(returned.v_obj);
  TVMFFIObjectDecRef(run);
  return status;
}}
"""
