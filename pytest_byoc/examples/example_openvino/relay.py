"""example_openvino for Relay (TVM up to 0.19): patterns, partitioning, the codegen."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

import tvm
from tvm import relay
from tvm.relay.dataflow_pattern import is_op, is_tuple, is_tuple_get_item, wildcard
from tvm.relay.op.contrib.register import register_pattern_table

from pytest_byoc.examples.merging import MergeRegions

from .c_source import generate
from .net import DTYPES, Net, Tensor, Type, constant
from .operators import OPERATORS, layers_of

NAME = "example_openvino"
# A value is what an expression evaluates to: a tensor, or a tuple of values.
Value = Union[Tensor, List["Value"]]


# ---- what is offloaded -------------------------------------------------------------------------


def _types(type_: relay.Type) -> List[Type]:
    """The types of the tensors of a type; none if a shape is open, or a dtype is not OpenVINO's."""
    if isinstance(type_, relay.TupleType):
        fields = [_types(field) for field in type_.fields]
        return [part for field in fields for part in field] if all(fields) else []
    if type_.dtype not in DTYPES or any(not isinstance(extent, tvm.tir.IntImm) for extent in type_.shape):
        return []
    return [Type(tuple(int(extent) for extent in type_.shape), type_.dtype)]


def _layers(net: Net, root: relay.Expr, leaf: Callable[[relay.Expr], Sequence[Tensor]]) -> Optional[Tensor]:
    """The layers of a match that ends at `root`. leaf: supplies the tensors that it reads."""
    call = root.tuple_value if isinstance(root, relay.TupleGetItem) else root
    inputs: List[Tensor] = []
    for arg in call.args:
        tensors = leaf(arg)
        if not tensors:
            return None
        inputs += tensors
    results = _types(call.checked_type)
    return layers_of(net, call.op.name, call.attrs, inputs, results[0]) if results else None


def _check(root: relay.Expr) -> bool:
    """Can the match be translated into layers?"""
    net = Net()

    def leaf(expr: relay.Expr) -> List[Tensor]:
        return [net.input(type_) for type_ in _types(expr.checked_type)]

    return _layers(net, root, leaf) is not None


@register_pattern_table(NAME)
def pattern_table() -> List[Tuple[Any, ...]]:
    """One pattern for each operator: it is OpenVINO that fuses them."""
    table: List[Tuple[Any, ...]] = []
    known = tvm.ir.Op.list_op_names()
    for name in OPERATORS:
        if name in known:  # and is none of Relax
            operands = [wildcard() for _ in range(tvm.ir.Op.get(name).num_inputs)]
            operands = [is_tuple(None)] if name == "concatenate" else operands
            pattern = is_op(name)(*operands)
            pattern = is_tuple_get_item(pattern, 0) if name == "nn.batch_norm" else pattern
            table.append((f"{NAME}.{name.replace('nn.', '')}", pattern, _check))
    return table


# ---- partitioning ------------------------------------------------------------------------------


def partition_for_example_openvino(mod: tvm.IRModule) -> tvm.IRModule:
    """Marks and cuts out what example_openvino computes."""
    passes = [
        relay.transform.InferType(),
        relay.transform.MergeComposite(pattern_table()),
        relay.transform.InferType(),
        # Without tuples: those in no composite would become regions that compute nothing.
        relay.transform.AnnotateTarget(NAME, include_non_call_ops=False),
        MergeRegions(),
        relay.transform.PartitionGraph(),
        relay.transform.InferType(),
    ]
    return tvm.transform.Sequential(passes)(mod)


# ---- code generation ---------------------------------------------------------------------------


@tvm.register_func(f"relay.ext.{NAME}")
def _codegen(function: relay.Function) -> tvm.runtime.Module:
    net = translate(function)
    header = "#include <tvm/runtime/c_runtime_api.h>\n#include <dlpack/dlpack.h>\n"
    source = header + generate(net) + _entry_point(net)
    return tvm.get_global_func("runtime.CSourceModuleCreate")(source, "c", [net.symbol], [])


@tvm.register_func(f"relay.ext.{NAME}.constant_updater")
def _constants_to_export(function: relay.Function, symbol: str) -> Dict[str, Any]:
    """None: they are in the source. AOT would take others for inputs that it cannot find."""
    return {}


def translate(function: relay.Function) -> Net:
    """The function as a model. Tuples vanish: TVM passes their fields as arguments."""
    net = Net(str(function.attrs["global_symbol"]))
    values: Dict[relay.Expr, Value] = {}

    def declare(type_: relay.Type) -> Value:
        if isinstance(type_, relay.TupleType):
            return [declare(field) for field in type_.fields]
        return net.input(_types(type_)[0])

    for param in function.params:
        values[param] = declare(param.checked_type)
    for expr in _post_order(function.body):
        if expr in values:
            continue
        if isinstance(expr, relay.Constant):
            values[expr] = constant(expr.data.numpy())
        elif isinstance(expr, relay.Tuple):
            values[expr] = [values[field] for field in expr.fields]
        elif isinstance(expr, relay.TupleGetItem):
            fields = values[expr.tuple_value]
            assert isinstance(fields, list)
            values[expr] = fields[expr.index]
        else:
            values[expr] = _composite(net, expr, values)
    net.outputs = _flatten(values[function.body])
    return net


def _composite(net: Net, call: relay.Call, values: Dict[relay.Expr, Value]) -> Tensor:
    outer = dict(zip(call.op.params, call.args))

    def leaf(expr: relay.Expr) -> List[Tensor]:
        if isinstance(expr, relay.Constant):
            return [constant(expr.data.numpy())]
        if isinstance(expr, relay.Tuple):
            return [tensor for field in expr.fields for tensor in leaf(field)]
        return _flatten(values[outer[expr]])

    result = _layers(net, call.op.body, leaf)
    if result is None:
        raise NotImplementedError(f"{NAME}: no code for {call.op}")
    return result


def _flatten(value: Value) -> List[Tensor]:
    return [value] if isinstance(value, Tensor) else [tensor for field in value for tensor in _flatten(field)]


def _post_order(root: relay.Expr) -> List[relay.Expr]:
    """Operands before their users. No recursion: graphs are deeper than Python's stack."""
    order: Dict[relay.Expr, None] = {}
    stack = [(root, False)]
    while stack:
        expr, expanded = stack.pop()
        if expanded:
            order[expr] = None
        elif expr not in order:
            stack.append((expr, True))
            if isinstance(expr, relay.Call):
                stack.extend((arg, False) for arg in reversed(expr.args))
            elif isinstance(expr, relay.Tuple):
                stack.extend((field, False) for field in reversed(expr.fields))
            elif isinstance(expr, relay.TupleGetItem):
                stack.append((expr.tuple_value, False))
    return list(order)


def _entry_point(net: Net) -> str:
    # AOT passes tensors with ndim = 0: only the data pointer is read.
    s, count = net.symbol, len(net.inputs) + len(net.outputs)
    return f"""
#ifdef __cplusplus
extern "C"
#endif
TVM_DLL int {s}(TVMValue* args, int* type_codes, int num_args, TVMValue* ret_value, int* ret_type_code,
                void* resource_handle) {{
  Argument arguments[{len(net.tensors)}];
  const char* error;
  (void)type_codes, (void)ret_value, (void)ret_type_code, (void)resource_handle;
  if (num_args != {count}) {{
    TVMAPISetLastError("{s}: expected {count} arguments");
    return -1;
  }}
  memcpy(arguments, {s}_arguments, sizeof arguments);
  for (int i = 0; i < {count}; ++i) {{
    const DLTensor* const tensor = (const DLTensor*)args[i].v_handle;
    arguments[i].data = (char*)tensor->data + tensor->byte_offset;
  }}
  error = {s}_run(arguments);
  if (error != NULL) TVMAPISetLastError(error);
  return error == NULL ? 0 : -1;
}}
"""
