"""example_ncnn for Relay (TVM up to 0.19): patterns, partitioning, the codegen."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Tuple

import tvm
from tvm import relay
from tvm.relay.dataflow_pattern import is_constant, is_op, wildcard
from tvm.relay.op.contrib.register import register_pattern_table

from pytest_byoc.examples.merging import MergeRegions

from .c_source import FUNCTION, MISSING, Region, generate
from .layers import Call, Layer, Tensor, layer_of

NAME = "example_ncnn"


# ---- what is offloaded -------------------------------------------------------------------------


def _tensor(expr: relay.Expr) -> Optional[Tensor]:
    """The tensor of a constant, or of a type; None for a tuple or a dynamic shape."""
    type_ = expr.checked_type
    try:
        data = expr.data.numpy() if isinstance(expr, relay.Constant) else None
        return Tensor(type_.shape, type_.dtype, data)
    except (AttributeError, TypeError):  # no shape, or an extent that is Any
        return None


def _layer(root: relay.Expr, length: int, params: Mapping[relay.Expr, Tensor]) -> Optional[Layer]:
    """The layer of a match of `length` calls that ends at `root`. params: of its composite, if it has one."""
    chain = [root]
    while len(chain) < length:
        # `add` commutes: the call before may be on either side.
        chain.insert(0, next(arg for arg in chain[0].args if _name(arg) in _BEFORE))
    values: Dict[relay.Expr, Tensor] = dict(params)
    calls: List[Call] = []
    for call in chain:
        inputs = [values.get(arg) or _tensor(arg) for arg in call.args]
        result = _tensor(call)
        if result is None or None in inputs:
            return None
        values[call] = result
        calls.append(Call(_name(call), call.attrs, inputs, result))  # type: ignore[arg-type]
    return layer_of(calls)


_BEFORE = ("nn.conv2d", "nn.dense", "nn.bias_add", "add")


def _name(expr: relay.Expr) -> str:
    return expr.op.name if isinstance(expr, relay.Call) and isinstance(expr.op, tvm.ir.Op) else ""


@register_pattern_table(NAME)
def pattern_table() -> List[Tuple[Any, ...]]:
    """Composites, the longest first: what a longer one cannot have is tried as a shorter one."""
    table: List[Tuple[Any, ...]] = []

    def add(name: str, pattern: Any, length: int) -> None:
        table.append((f"{NAME}.{name}", pattern, lambda root: _layer(root, length, {}) is not None))

    for anchor in ("conv2d", "dense"):
        layer = is_op(f"nn.{anchor}")(wildcard(), is_constant())
        biased = is_op("nn.bias_add")(layer, is_constant()) | is_op("add")(layer, is_constant())
        add(f"{anchor}_bias_relu", is_op("nn.relu")(biased), 3)
        add(f"{anchor}_bias", biased, 2)
        add(f"{anchor}_relu", is_op("nn.relu")(layer), 2)
        add(anchor, layer, 1)
    for name in ("nn.max_pool2d", "nn.avg_pool2d", "nn.softmax", "reshape"):
        add(name.replace("nn.", ""), is_op(name)(wildcard()), 1)
    return table


# ---- partitioning ------------------------------------------------------------------------------


def partition_for_example_ncnn(mod: tvm.IRModule) -> tvm.IRModule:
    """Marks and cuts out what example_ncnn computes."""
    passes = [
        relay.transform.InferType(),
        relay.transform.MergeComposite(pattern_table()),
        relay.transform.InferType(),
        # Tuples stay outside: no layer reads or returns one, and a region of tuples alone has no net.
        relay.transform.AnnotateTarget(NAME, include_non_call_ops=False),
        MergeRegions(),
        relay.transform.PartitionGraph(),
        relay.transform.InferType(),
    ]
    return tvm.transform.Sequential(passes)(mod)


# ---- code generation ---------------------------------------------------------------------------


@tvm.register_func(f"relay.ext.{NAME}")
def _codegen(function: relay.Function) -> tvm.runtime.Module:
    region = translate(function)
    header = "#include <stdint.h>\n#include <tvm/runtime/c_runtime_api.h>\n#include <dlpack/dlpack.h>\n"
    source = header + generate(region) + _entry_point(region)
    return tvm.get_global_func("runtime.CSourceModuleCreate")(source, "c", [region.symbol], [])


@tvm.register_func(f"relay.ext.{NAME}.constant_updater")
def _constants_to_export(function: relay.Function, symbol: str) -> Dict[str, Any]:
    """None: they are in the source. AOT would take others for inputs that it cannot find."""
    return {}


def translate(function: relay.Function) -> Region:
    """The function as a region: a sequence of composites, each of which becomes one layer."""
    region = Region(str(function.attrs["global_symbol"]))
    values: Dict[relay.Expr, Tensor] = {}
    for param in function.params:
        values[param] = region.input(param.checked_type.shape, param.checked_type.dtype)
    for call in _calls(function.body):
        inner = {param: values[arg] for param, arg in zip(call.op.params, call.args)}
        values[call] = region.add(_layer(call.op.body, len(_calls(call.op.body)), inner))
    body = function.body
    region.outputs = [values[field] for field in (body.fields if isinstance(body, relay.Tuple) else [body])]
    return region


def _calls(root: relay.Expr) -> List[relay.Call]:
    """The calls of a body, operands before users. No recursion: graphs are deeper than Python's stack."""
    order: Dict[relay.Call, None] = {}
    stack = [(root, False)]
    while stack:
        expr, expanded = stack.pop()
        if expanded:
            order[expr] = None
        elif isinstance(expr, relay.Tuple):
            stack.extend((field, False) for field in reversed(expr.fields))
        elif isinstance(expr, relay.Call) and expr not in order:
            stack.append((expr, True))
            stack.extend((arg, False) for arg in reversed(expr.args))
    return list(order)


def _entry_point(region: Region) -> str:
    # The function is looked up in each call: it may be registered after the artifact is loaded. It gets the
    # data pointers, as AOT passes tensors with ndim = 0.
    s, count = region.symbol, len(region.inputs) + len(region.outputs)
    return f"""
#ifdef __cplusplus
extern "C"
#endif
TVM_DLL int {s}(TVMValue* args, int* type_codes, int num_args, TVMValue* ret_value, int* ret_type_code,
                void* resource_handle) {{
  void* data[{count}];
  TVMValue values[2], result;
  int codes[2] = {{kTVMOpaqueHandle, kTVMOpaqueHandle}};
  int status, i, result_code;
  TVMFunctionHandle run = NULL;
  (void)type_codes, (void)ret_value, (void)ret_type_code, (void)resource_handle;
  if (num_args != {count}) {{
    TVMAPISetLastError("{s}: expected {count} arguments");
    return -1;
  }}
  for (i = 0; i < {count}; ++i) {{
    const DLTensor* const tensor = (const DLTensor*)args[i].v_handle;
    data[i] = (char*)tensor->data + tensor->byte_offset;
  }}
  if (TVMFuncGetGlobal("{FUNCTION}", &run) != 0 || run == NULL) {{
    TVMAPISetLastError("{s}: {MISSING}");
    return -1;
  }}
  values[0].v_handle = (void*)&{s}_region;
  values[1].v_handle = data;
  status = TVMFuncCall(run, values, codes, 2, &result, &result_code);
  if (status == 0 && result_code == kTVMStr && result.v_str[0] != 0) {{  /* the message of an error */
    TVMAPISetLastError(result.v_str);
    status = -1;
  }}
  TVMFuncFree(run);
  return status;
}}
"""
