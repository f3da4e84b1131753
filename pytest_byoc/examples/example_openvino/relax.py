"""example_openvino for Relax (apache-tvm 0.26 and later): patterns, partitioning, the codegen."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

import tvm
import tvm_ffi
from tvm import relax
from tvm.relax.backend.pattern_registry import get_patterns_with_prefix, register_patterns
from tvm.relax.dpl import is_op, wildcard
from tvm.relax.transform import PatternCheckContext

from .c_source import generate
from .net import DTYPES, Net, Tensor, Type, constant
from .operators import OPERATORS, layers_of

NAME = "example_openvino"
# TVM 0.27 renamed it, and its field `data` to `value`.
_Constant = relax.Constant if hasattr(relax, "Constant") else tvm.ir.GenericConst
# A value is what an expression evaluates to: a tensor, a tuple of values, or None for a shape.
Value = Union[Tensor, None, List["Value"]]
#: By Relay's name: Relax's name.
_NAMES = {"transpose": "permute_dims", "concatenate": "concat", "nn.leaky_relu": "nn.leakyrelu"}
#: The number of arguments, where it is not 1.
_ARGUMENTS = {
    **dict.fromkeys(
        ("add", "subtract", "multiply", "divide", "maximum", "minimum", "equal", "not_equal", "less",
         "less_equal", "greater", "greater_equal", "logical_and", "logical_or", "logical_xor", "matmul",
         "nn.conv1d", "nn.conv2d", "nn.conv3d", "reshape", "broadcast_to"), (2,)),
    "where": (3,), "clip": (3,), "strided_slice": (4, 5), "nn.batch_norm": (5,), "nn.layer_norm": (3,),
}  # fmt: skip
_WITH_NUMBERS = ("reshape", "broadcast_to", "clip", "strided_slice")


# ---- what is offloaded -------------------------------------------------------------------------


def _type(expr: relax.Expr) -> Any:
    """The type of an expression, which TVM called struct_info up to 0.25."""
    return expr.ty if hasattr(expr, "ty") else expr.struct_info


def _types(type_: Any) -> List[Type]:
    """The types of the tensors of a type; none where a dtype or rank is not OpenVINO's."""
    if hasattr(type_, "fields"):
        fields = [_types(field) for field in type_.fields]
        return [part for field in fields for part in field] if all(fields) else []
    shape = getattr(type_, "shape", None)
    if shape is None or str(getattr(type_, "dtype", "")) not in DTYPES or not hasattr(shape, "values"):
        return []
    return [Type(tuple(_extent(extent) for extent in shape.values), str(type_.dtype))]


def _extent(expr: Any) -> Any:
    """The extent as an int, or what tells it from other open ones."""
    return int(expr) if hasattr(expr, "value") else _Open(expr)


class _Open:
    """An open extent, which equals those that are the same expression of the same variables."""

    def __init__(self, expr: Any) -> None:
        self.expr = expr

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Open) and bool(tvm_ffi.structural_equal(self.expr, other.expr))

    __hash__ = None  # type: ignore[assignment]


def _number(expr: Any) -> Any:
    """The number of an immediate argument; up to TVM 0.25 it is wrapped in a PrimValue."""
    value = getattr(expr, "value", None)
    return getattr(value, "value", value)


def _attributes(call: relax.Call) -> Any:
    """The attributes as Relay names them. Relax passes some of them as arguments."""
    if call.op.name == "relax.clip":
        return SimpleNamespace(a_min=_number(call.args[1]), a_max=_number(call.args[2]))
    if call.op.name == "relax.strided_slice":
        if not all(isinstance(arg, relax.Tuple) for arg in list(call.args)[1:]):
            return None
        axes, begin, end, *strides = ([_number(field) for field in arg.fields] for arg in list(call.args)[1:])
        if any(not isinstance(value, int) for values in (axes, begin, end, *strides) for value in values):
            return None
        steps = strides[0] if strides else [1] * len(axes)
        return SimpleNamespace(axes=axes, begin=begin, end=end, strides=steps)
    return call.attrs


def _layers(net: Net, call: relax.Call, inputs: Sequence[Tensor]) -> Optional[Tensor]:
    name, attrs, results = call.op.name[len("relax.") :], _attributes(call), _types(_type(call))
    name = next((ours for ours, relaxs in _NAMES.items() if relaxs == name), name)
    return layers_of(net, name, attrs, inputs, results[0]) if results else None


def _check(context: PatternCheckContext) -> bool:
    """Can the match be translated into layers?"""
    call = context.annotated_expr["root"]
    net, inputs = Net(), []
    for arg in call.args[: _tensors(call)]:
        types = _types(_type(arg))
        if not types:
            return False
        inputs += [net.input(type_) for type_ in types]
    return _layers(net, call, inputs) is not None


def _tensors(call: relax.Call) -> int:
    """The number of leading arguments that are tensors, or a tuple of them."""
    return 1 if call.op.name[len("relax.") :] in _WITH_NUMBERS else len(call.args)


def _patterns() -> List[Tuple[Any, ...]]:
    patterns = []
    known = tvm.ir.Op.list_op_names()
    for ours in OPERATORS:
        name = _NAMES.get(ours, ours)
        if f"relax.{name}" not in known:  # one of Relay
            continue
        for count in _ARGUMENTS.get(name, (1,)):
            call = is_op(f"relax.{name}")(*[wildcard() for _ in range(count)])
            patterns.append((f"{NAME}.{name.replace('nn.', '')}", call, {"root": call}, _check))
    return patterns


register_patterns(_patterns())


# ---- partitioning ------------------------------------------------------------------------------


def partition_for_example_openvino(mod: tvm.IRModule) -> tvm.IRModule:
    """Cuts out what example_openvino computes; ``RunCodegen`` then calls the codegen."""
    # A region that nothing uses would lose its call, but stay in the module: not to be built.
    mod = relax.transform.DeadCodeElimination()(mod)
    mod = relax.transform.FuseOpsByPattern(get_patterns_with_prefix(NAME), bind_constants=True)(mod)
    return relax.transform.MergeCompositeFunctions()(mod)


# ---- code generation ---------------------------------------------------------------------------


def _codegen(functions: Sequence[relax.Function], options: Any, constant_names: Any) -> List[Any]:
    create = tvm.get_global_func("runtime.CSourceModuleCreate")
    modules = []
    for function in functions:
        net = translate(function)
        source = "#include <tvm/ffi/c_api.h>\n" + generate(net) + _entry_point(net)
        modules.append(create(source, "c", [net.symbol], []))
    return modules


tvm.register_global_func(f"relax.ext.{NAME}", _codegen, override=True)


def translate(function: relax.Function) -> Net:
    """The function as a model: a sequence of composites, each of which is a call."""
    net = Net(str(function.attrs["global_symbol"]))

    def declare(type_: Any) -> Value:
        if hasattr(type_, "fields"):
            return [declare(field) for field in type_.fields]
        # What is no tensor is a shape, for variables that no tensor tells. OpenVINO needs it not.
        return net.input(_types(type_)[0]) if hasattr(type_, "dtype") else None

    values: Dict[relax.Var, Value] = {param: declare(_type(param)) for param in function.params}
    composites: Dict[relax.Var, relax.Function] = {}
    for binding in _bindings(function):
        value = binding.value
        if isinstance(value, relax.Function):
            composites[binding.var] = value
        elif isinstance(value, relax.Call):
            operands = [_evaluate(arg, values, net) for arg in value.args]
            values[binding.var] = _composite(composites[value.op], operands, net)
        else:
            values[binding.var] = _evaluate(value, values, net)
    net.outputs = _flatten(_evaluate(function.body.body, values, net))
    return net


def _composite(function: relax.Function, operands: List[Value], net: Net) -> Value:
    values = {param: _typed(operand, _type(param)) for param, operand in zip(function.params, operands)}
    for binding in _bindings(function):
        call = binding.value
        if isinstance(call, relax.Call):
            inputs = [t for arg in call.args[: _tensors(call)] for t in _flatten(_evaluate(arg, values, net))]
            result = _layers(net, call, inputs)
            if result is None:
                raise NotImplementedError(f"{NAME}: no code for {call}")
            values[binding.var] = result
            if hasattr(_type(binding.var), "fields"):  # batch_norm hands its moving averages on
                values[binding.var] = [result, *inputs[3:]]
        else:
            values[binding.var] = _evaluate(call, values, net)
    return _evaluate(function.body.body, values, net)


def _typed(value: Value, type_: Any) -> Value:
    """The value with the type that a composite gives it, whose open extents are variables of its own."""
    if isinstance(value, Tensor):
        return value._replace(type=_types(type_)[0])
    return None if value is None else [_typed(*pair) for pair in zip(value, type_.fields)]


def _evaluate(expr: relax.Expr, values: Dict[relax.Var, Value], net: Net) -> Value:
    """The value of an expression without a call: Relax binds each call to a variable."""
    if isinstance(expr, relax.Var):
        return values[expr]
    if isinstance(expr, _Constant):
        return constant((expr.data if hasattr(expr, "data") else expr.value).numpy())
    if isinstance(expr, relax.Tuple):
        return [_evaluate(field, values, net) for field in expr.fields]
    if isinstance(expr, relax.TupleGetItem):
        fields = _evaluate(expr.tuple_value, values, net)
        assert isinstance(fields, list)
        return fields[expr.index]
    if isinstance(expr, relax.ShapeExpr):
        return None
    raise NotImplementedError(f"{NAME}: no code for a {type(expr).__name__}")


def _bindings(function: relax.Function) -> List[Any]:
    return [binding for block in function.body.blocks for binding in block.bindings]


def _flatten(value: Value) -> List[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    return [tensor for field in value or [] for tensor in _flatten(field)]


def _entry_point(net: Net) -> str:
    s, count = net.symbol, len(net.inputs) + len(net.outputs)
    return f"""
TVM_FFI_DLL_EXPORT int __tvm_ffi_{s}(void* self, const TVMFFIAny* args, int32_t num_args,
                                     TVMFFIAny* result) {{
  Argument arguments[{len(net.tensors)}];
  int count = 0;
  (void)self, (void)result;
  memcpy(arguments, {s}_arguments, sizeof arguments);
  for (int i = 0; i < num_args; ++i) {{
    const DLTensor* tensor;
    if (args[i].type_index == kTVMFFIShape) continue;
    if (args[i].type_index == kTVMFFIDLTensorPtr) {{
      tensor = (const DLTensor*)args[i].v_ptr;
    }} else if (args[i].type_index == kTVMFFITensor) {{
      tensor = (const DLTensor*)((const char*)args[i].v_obj + sizeof(TVMFFIObject));
    }} else {{
      TVMFFIErrorSetRaisedFromCStr("TypeError", "{s}: expected tensors");
      return -1;
    }}
    if (count < {count}) {{
      if (tensor->ndim != arguments[count].rank) break;
      arguments[count].shape = tensor->shape;
      arguments[count].data = (char*)tensor->data + tensor->byte_offset;
    }}
    ++count;
  }}
  if (count != {count}) {{
    TVMFFIErrorSetRaisedFromCStr("TypeError", "{s}: expected {count} tensors of other ranks");
    return -1;
  }}
  const char* const error = {s}_run(arguments);
  if (error == NULL) return 0;
  TVMFFIErrorSetRaisedFromCStr("RuntimeError", error);
  return -1;
}}
"""
