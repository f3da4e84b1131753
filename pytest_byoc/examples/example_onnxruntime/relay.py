"""example_onnxruntime for Relay (TVM up to 0.19): predicates, partitioning, the codegen."""

from __future__ import annotations

from typing import Any, Dict, List

import tvm
from tvm import relay

from .model import FUNCTION, MISSING, Model, Tensor, Unsupported, generate
from .operators import OPERATORS, Call, translate

NAME = "example_onnxruntime"


# ---- what is offloaded -------------------------------------------------------------------------


def _tensors(type_: relay.Type) -> List[Tensor]:
    """A tensor for the type, or for each field of a tuple."""
    if isinstance(type_, relay.TupleType):
        return [tensor for field in type_.fields for tensor in _tensors(field)]
    try:
        return [Tensor("x", tuple(map(int, type_.shape)), type_.dtype)]
    except TypeError:  # an extent is Any
        raise Unsupported from None


def _claims(call: relay.Call) -> bool:
    """Whether the call becomes nodes; the predicate of every operator."""
    try:
        inputs = [tensor for arg in call.args for tensor in _tensors(arg.checked_type)]
        translate(Model(), Call(call.op.name, call.attrs, inputs, _tensors(call.checked_type)))
    except Unsupported:
        return False
    return True


for _operator in OPERATORS:
    if _operator in tvm.ir.Op.list_op_names():  # others are Relax's
        tvm.ir.register_op_attr(_operator, f"target.{NAME}", _claims)


# ---- partitioning ------------------------------------------------------------------------------


def partition_for_example_onnxruntime(mod: tvm.IRModule) -> tvm.IRModule:
    """Marks and cuts out what example_onnxruntime computes."""
    passes = [
        relay.transform.InferType(),
        relay.transform.AnnotateTarget(NAME),
        relay.transform.MergeCompilerRegions(),
        relay.transform.PartitionGraph(),
        relay.transform.InferType(),
    ]
    return _without_trivial_regions(tvm.transform.Sequential(passes)(mod))


def _without_trivial_regions(mod: tvm.IRModule) -> tvm.IRModule:
    """Inlines the regions that call no operator. Tuples are offloaded too, and some of them alone: where they
    are left out, the result of a region may hold a tuple in a tuple, which TVM does not build."""
    regions = {var: f for var, f in mod.functions.items() if f.attrs and "Inline" in f.attrs}
    trivial = {
        var for var, f in regions.items()
        if f.attrs["Compiler"] == NAME and not any(isinstance(e, relay.Call) for e in _post_order(f.body))
    }  # fmt: skip
    if not trivial:
        return mod
    # PartitionGraph marks all of its functions "Inline". During this pass only these are, and are ordinary.
    for var, function in regions.items():
        if var in trivial:
            function = relay.Function(function.params, function.body, function.ret_type)
        mod[var] = function.with_attr("Inline", tvm.tir.IntImm("int32", int(var in trivial)))
    mod = relay.transform.Inline()(mod)
    for var, function in regions.items():
        if var not in trivial:
            mod[var] = function
    return relay.transform.InferType()(mod)


# ---- code generation ---------------------------------------------------------------------------


@tvm.register_func(f"relay.ext.{NAME}")
def _codegen(function: relay.Function) -> tvm.runtime.Module:
    symbol, model = str(function.attrs["global_symbol"]), model_of(function)
    header = "#include <stdint.h>\n#include <tvm/runtime/c_runtime_api.h>\n"
    source = header + generate(model, symbol) + _entry_point(model, symbol)
    return tvm.get_global_func("runtime.CSourceModuleCreate")(source, "c", [symbol], [])


@tvm.register_func(f"relay.ext.{NAME}.constant_updater")
def _constants_to_export(function: relay.Function, symbol: str) -> Dict[str, Any]:
    """None: they are in the source. AOT would take others for inputs that it cannot find."""
    return {}


def model_of(function: relay.Function) -> Model:
    """The function as a model. Tuples vanish: TVM passes their fields as arguments."""
    model = Model()
    values: Dict[relay.Expr, List[Tensor]] = {}
    for param in function.params:
        values[param] = [model.input(t.shape, t.dtype) for t in _tensors(param.checked_type)]
    for expr in _post_order(function.body):
        types = _tensors(expr.checked_type)
        if expr in values:
            continue
        if isinstance(expr, relay.Constant):
            values[expr] = [types[0]._replace(name=model.constant(expr.data.numpy()))]
        elif isinstance(expr, relay.Tuple):
            values[expr] = [tensor for field in expr.fields for tensor in values[field]]
        elif isinstance(expr, relay.TupleGetItem):
            values[expr] = [values[expr.tuple_value][expr.index]]
        else:
            inputs = [tensor for arg in expr.args for tensor in values[arg]]
            values[expr] = translate(model, Call(expr.op.name, expr.attrs, inputs, types))
    model.finish(values[function.body])
    return model


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


def _entry_point(model: Model, symbol: str) -> str:
    # The function is looked up in each call: it may be registered after the artifact is loaded.
    count = len(model.inputs) + len(model.outputs)
    return f"""
#ifdef __cplusplus
extern "C"
#endif
TVM_DLL int {symbol}(TVMValue* args, int* type_codes, int num_args, TVMValue* ret_value, int* ret_type_code,
                     void* resource_handle) {{
  void* tensors[{count}];
  TVMValue values[2], result;
  int codes[2] = {{kTVMOpaqueHandle, kTVMOpaqueHandle}};
  int status, i, result_code;
  TVMFunctionHandle run = NULL;
  (void)type_codes, (void)ret_value, (void)ret_type_code, (void)resource_handle;
  if (num_args != {count}) {{
    TVMAPISetLastError("{symbol}: expected {count} arguments");
    return -1;
  }}
  for (i = 0; i < {count}; ++i) tensors[i] = args[i].v_handle;
  if (TVMFuncGetGlobal("{FUNCTION}", &run) != 0 || run == NULL) {{
    TVMAPISetLastError("{symbol}: {MISSING}");
    return -1;
  }}
  values[0].v_handle = (void*)&{symbol}_region;
  values[1].v_handle = tensors;
  status = TVMFuncCall(run, values, codes, 2, &result, &result_code);
  if (status == 0 && result_code == kTVMStr && result.v_str[0] != 0) {{  /* the message of an error */
    TVMAPISetLastError(result.v_str);
    status = -1;
  }}
  TVMFuncFree(run);
  return status;
}}
"""
