"""The predicates, partitioning and codegen of example_c for Relay (TVM up to 0.19).

Importing this module registers ``relay.ext.example_c``, the pattern table "example_c" and the
``target.example_c`` attribute of every operator in ``relay_operators.OPERATORS``.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Tuple, Union

import tvm
from tvm import relay
from tvm.relay.build_module import bind_params_by_name
from tvm.relay.dataflow_pattern import is_op, wildcard
from tvm.relay.op.contrib.register import register_pattern_table

from .c_source import generate
from .relay_operators import OPERATORS, buffers_of, step_of
from .subgraph import Buffer, Step, Subgraph, fuse
from .support import reason_unsupported

NAME = "example_c"

# A value is what an expression evaluates to: a tensor, or a tuple of values.
Value = Union[Buffer, List["Value"]]


# ---- what is offloaded -------------------------------------------------------------------------


def _claims(call: relay.Call) -> bool:
    """Returns whether a call becomes a supported step; the predicate of every operator."""
    inputs: List[Optional[Buffer]] = []
    for arg in call.args:
        inputs += buffers_of(arg.checked_type) or [None]
    step = step_of(call, inputs)
    return step is not None and reason_unsupported(step) is None


for _operator in OPERATORS:
    tvm.ir.register_op_attr(_operator, f"target.{NAME}", _claims)


def _chain(root: relay.Expr) -> List[relay.Call]:
    """Returns the calls of a composite in the order of execution: anchor, bias, activation."""
    calls: List[relay.Call] = []
    node = root
    while True:
        calls.insert(0, node)
        name = _op_name(node)
        if name in _ANCHORS:
            return calls
        # `add` commutes, so the pattern matches the anchor as either operand.
        is_swapped = name == "add" and _op_name(node.args[0]) not in _ANCHORS
        node = node.args[1 if is_swapped else 0]


_ANCHORS = ("nn.conv2d", "nn.dense")


def _op_name(expr: relay.Expr) -> str:
    is_operator = isinstance(expr, relay.Call) and isinstance(expr.op, tvm.ir.Op)
    return expr.op.name if is_operator else ""


def _fused_step(root: relay.Expr, leaf: Callable[[relay.Expr], Any]) -> Optional[Step]:
    """Returns the single step of a composite, or None; ``leaf`` returns the buffer of an operand."""
    results: Dict[relay.Expr, Buffer] = {}
    steps = []
    for call in _chain(root):
        step = step_of(call, [results[a] if a in results else leaf(a) for a in call.args])
        if step is None:
            return None
        results[call] = step.outputs[0]
        steps.append(step)
    return fuse(steps)


def _check_composite(root: relay.Expr) -> bool:
    def leaf(expr: relay.Expr) -> Optional[Buffer]:
        buffers = buffers_of(expr.checked_type)
        return buffers[0] if buffers else None

    step = _fused_step(root, leaf)
    return step is not None and reason_unsupported(step) is None


@register_pattern_table(NAME)
def pattern_table() -> List[Tuple[Any, ...]]:
    """Returns the composites, the longest first: TVM tries a shorter one where a longer one fails.

    A single convolution or dense layer needs no pattern: it is offloaded as an operator.
    """
    conv2d = is_op("nn.conv2d")(wildcard(), wildcard())
    conv2d_bias = is_op("nn.bias_add")(conv2d, wildcard())
    dense = is_op("nn.dense")(wildcard(), wildcard())
    dense_bias = is_op("nn.bias_add")(dense, wildcard()) | is_op("add")(dense, wildcard())

    def activated(inner: Any) -> Any:
        return is_op("nn.relu")(inner) | is_op("sigmoid")(inner) | is_op("tanh")(inner)

    return [
        (f"{NAME}.conv2d_bias_relu", is_op("nn.relu")(conv2d_bias), _check_composite),
        (f"{NAME}.conv2d_bias", conv2d_bias, _check_composite),
        (f"{NAME}.conv2d_relu", is_op("nn.relu")(conv2d), _check_composite),
        (f"{NAME}.dense_bias_activation", activated(dense_bias), _check_composite),
        (f"{NAME}.dense_bias", dense_bias, _check_composite),
        (f"{NAME}.dense_activation", activated(dense), _check_composite),
    ]


# ---- partitioning ------------------------------------------------------------------------------


def partition_for_example_c(
    mod: tvm.IRModule, params: Optional[Dict[str, Any]] = None
) -> tvm.IRModule:
    """Returns the module with regions for example_c; ``params`` become constants."""
    if params:
        mod["main"] = bind_params_by_name(mod["main"], params)
    passes = [
        relay.transform.InferType(),
        relay.transform.MergeComposite(pattern_table()),
        # The predicates read types, which the new composites do not have yet.
        relay.transform.InferType(),
        relay.transform.AnnotateTarget(NAME),
        relay.transform.MergeCompilerRegions(),
        relay.transform.PartitionGraph(),
        relay.transform.InferType(),
    ]
    return _inline_trivial(tvm.transform.Sequential(passes)(mod))


def _inline_trivial(mod: tvm.IRModule) -> tvm.IRModule:
    """Inlines the regions that compute nothing.

    AnnotateTarget also offloads tuples and their fields, which gives regions like ``fn(%x) {%x}``.
    (With its option to leave tuples out, PartitionGraph crashes on some graphs.)
    """
    # The pass must not inline other targets' regions either.
    regions = [
        (var, function)
        for var, function in mod.functions.items()
        if isinstance(function, relay.Function) and _attribute(function, "Compiler")
    ]
    computing = [
        _attribute(f, "Compiler") != NAME or any(isinstance(e, relay.Call) for e in _post_order(f.body))
        for _, f in regions
    ]
    if all(computing):
        return mod
    # PartitionGraph sets "Inline" on all its functions. During this pass only the trivial ones keep
    # it, and they lose "Compiler", so that they are ordinary functions.
    for (var, function), computes in zip(regions, computing):
        if not computes:
            function = relay.Function(function.params, function.body, function.ret_type)
        mod[var] = function.with_attr("Inline", tvm.tir.IntImm("int32", int(not computes)))
    mod = relay.transform.Inline()(mod)
    for (var, function), computes in zip(regions, computing):
        if computes:
            mod[var] = function
    return relay.transform.InferType()(mod)


def _attribute(function: relay.Function, name: str) -> Optional[str]:
    return str(function.attrs[name]) if function.attrs and name in function.attrs else None


# ---- code generation ---------------------------------------------------------------------------


@tvm.register_func(f"relay.ext.{NAME}")
def _codegen(function: relay.Function) -> tvm.runtime.Module:
    """Returns a module of C source for one partitioned function."""
    symbol = str(function.attrs["global_symbol"])
    graph = translate(function, symbol)
    source = _RELAY_HEADER + generate(graph) + _entry_point(graph)
    create = tvm.get_global_func("runtime.CSourceModuleCreate")
    return create(source, "c", [symbol], [])


@tvm.register_func(f"relay.ext.{NAME}.constant_updater")
def _constants_to_export(function: relay.Function, symbol: str) -> Dict[str, Any]:
    """Returns no constants, because the source holds them.

    By default TVM would store them again as parameters of the library, which AOT then treats as
    inputs that it cannot find.
    """
    return {}


def translate(function: relay.Function, symbol: str) -> Subgraph:
    """Returns the function as a subgraph, without tuples: TVM passes their fields as arguments."""
    graph = Subgraph(symbol)
    values: Dict[relay.Expr, Value] = {}
    for param in function.params:
        values[param] = _declare(graph, param.checked_type)

    for expr in _post_order(function.body):
        if expr in values:
            continue
        if isinstance(expr, relay.Constant):
            values[expr] = graph.constant(expr.data.numpy())
        elif isinstance(expr, relay.Tuple):
            values[expr] = [values[field] for field in expr.fields]
        elif isinstance(expr, relay.TupleGetItem):
            fields = values[expr.tuple_value]
            assert isinstance(fields, list)
            values[expr] = fields[expr.index]
        elif isinstance(expr, relay.Call):
            step = _checked(_call_step(expr, values), expr)
            graph.add(step)
            is_tuple = isinstance(expr.checked_type, relay.TupleType)
            values[expr] = list(step.outputs) if is_tuple else step.outputs[0]
        else:
            raise NotImplementedError(f"{NAME}: no code for a {type(expr).__name__}")

    graph.outputs = _flatten(values[function.body])
    return graph


def _call_step(call: relay.Call, values: Dict[relay.Expr, Value]) -> Optional[Step]:
    if isinstance(call.op, relay.Function):  # a composite
        outer = dict(zip(call.op.params, call.args))
        return _fused_step(call.op.body, lambda param: values[outer[param]])
    return step_of(call, [b for arg in call.args for b in _flatten(values[arg])])


def _checked(step: Optional[Step], call: relay.Call) -> Step:
    reason = "it cannot be translated" if step is None else reason_unsupported(step)
    if step is None or reason:
        raise NotImplementedError(f"{NAME}: no code for {call}: {reason}")
    return step


def _declare(graph: Subgraph, type_: relay.Type) -> Value:
    if isinstance(type_, relay.TupleType):
        return [_declare(graph, field) for field in type_.fields]
    return graph.input([int(extent) for extent in type_.shape], type_.dtype)


def _flatten(value: Value) -> List[Buffer]:
    if isinstance(value, Buffer):
        return [value]
    return [buffer for field in value for buffer in _flatten(field)]


def _post_order(root: relay.Expr) -> List[relay.Expr]:
    """Returns operands before their users, without recursion: graphs may be deeper than its limit."""
    order: Dict[relay.Expr, None] = {}
    stack = [(root, False)]
    while stack:
        expr, expanded = stack.pop()
        if expr in order:
            continue
        if expanded:
            order[expr] = None
            continue
        stack.append((expr, True))
        if isinstance(expr, relay.Call):
            stack.extend((arg, False) for arg in reversed(expr.args))
        elif isinstance(expr, relay.Tuple):
            stack.extend((field, False) for field in reversed(expr.fields))
        elif isinstance(expr, relay.TupleGetItem):
            stack.append((expr.tuple_value, False))
    return list(order)


# ---- how Relay's runtimes call the function ----------------------------------------------------

# packed_func.h is not included, because it takes a second to compile.
_RELAY_HEADER = """\
#include <tvm/runtime/c_runtime_api.h>
#include <dlpack/dlpack.h>
"""


def _entry_point(graph: Subgraph) -> str:
    # The graph executor, the VM and AOT all pass a DLTensor for every input and output, but with
    # different type codes, and AOT with ndim = 0. So only the data pointer and offset are read.
    count = len(graph.inputs) + len(graph.outputs)
    return f"""
#ifdef __cplusplus
extern "C"
#endif
TVM_DLL int {graph.symbol}(TVMValue* args, int* type_codes, int num_args, TVMValue* ret_value,
                           int* ret_type_code, void* resource_handle) {{
  void* data[{count}];
  const char* error;
  (void)type_codes; (void)ret_value; (void)ret_type_code; (void)resource_handle;
  if (num_args != {count}) {{
    TVMAPISetLastError("{graph.symbol}: expected {count} arguments");
    return -1;
  }}
  for (int i = 0; i < {count}; ++i) {{
    const DLTensor* tensor = (const DLTensor*)args[i].v_handle;
    data[i] = (char*)tensor->data + tensor->byte_offset;
  }}
  error = {graph.symbol}_run(data);
  if (error != NULL) {{
    TVMAPISetLastError(error);
    return -1;
  }}
  return 0;
}}
"""
