"""example_extern for Relay (TVM up to 0.19): patterns, partitioning, and a RelayToTIR hook.

Importing this module registers the pattern table "example_extern" and a target kind of that name.
``relay.build`` calls the hook of that kind, because the regions name it as their compiler.
"""

from __future__ import annotations

import ctypes
import os
import platform
from typing import Any, Callable, Dict, List, Optional, Tuple

import tvm
from tvm import relay
from tvm._ffi.libinfo import find_include_path, find_lib_path
from tvm.relay.build_module import bind_params_by_name
from tvm.relay.dataflow_pattern import is_op, wildcard
from tvm.relay.op.contrib.register import register_pattern_table
from tvm.script import tir as T

from pytest_byoc.examples.merging import MergeRegions

from .library import compiled
from .steps import Region, Step, Tensor, Unsupported, elementwise, matmul, script

NAME = "example_extern"


# ---- what is offloaded -------------------------------------------------------------------------


def _tensors(type_: relay.Type) -> List[Tensor]:
    """A tensor, or those of a tuple."""
    if isinstance(type_, relay.TupleType):
        return [tensor for field in type_.fields for tensor in _tensors(field)]
    return [Tensor(type_.shape, type_.dtype)]


def _step(call: relay.Call, operands: List[Tensor], result: Tensor) -> Step:
    """The call as a step. Raises Unsupported."""
    name, attrs = call.op.name, call.attrs
    if name == "nn.dense":
        return matmul(operands, result, trans_b=True)
    if name in ("nn.matmul", "nn.batch_matmul"):
        return matmul(operands, result, bool(attrs.transpose_a), bool(attrs.transpose_b))
    if name == "nn.bias_add":
        if int(attrs.axis) not in (-1, len(result.shape) - 1):
            raise Unsupported("the kernels repeat an operand along the last dimension")
        return elementwise("add", operands, result)
    return elementwise(name.split(".")[-1], operands, result)


def _check(*names: Tuple[str, ...]) -> Callable[[relay.Call], bool]:
    """The predicate of a chain, given by the names that its operators may have, from the last on."""

    def check(call: relay.Call) -> bool:
        try:
            operands = [_tensors(arg.checked_type)[0] for arg in call.args]
            _step(call, operands, _tensors(call.checked_type)[0])
        except Unsupported:
            return False
        if len(names) == 1:
            return True
        # `add` commutes, and the pattern looks for the chain in its first operand first.
        calls = [arg for arg in call.args if isinstance(arg, relay.Call) and isinstance(arg.op, tvm.ir.Op)]
        return _check(*names[1:])(next(arg for arg in calls if arg.op.name in names[1]))

    return check


@register_pattern_table(NAME)
def pattern_table() -> List[Tuple[Any, ...]]:
    """Chains, the longest first, then single operators: of what matches, TVM takes the first."""

    def pattern(names: Tuple[str, ...], *operands: Any) -> Any:
        first, *others = [is_op(name)(*operands) for name in names]
        for other in others:
            first = first | other
        return first

    dense_names, bias_names, relu_names = ("nn.dense",), ("add", "nn.bias_add"), ("nn.relu",)
    dense = pattern(dense_names, wildcard(), wildcard())
    bias = pattern(bias_names, dense, wildcard())
    table = [
        ("dense_bias_relu", pattern(relu_names, bias), _check(relu_names, bias_names, dense_names)),
        ("dense_bias", bias, _check(bias_names, dense_names)),
        ("dense_relu", pattern(relu_names, dense), _check(relu_names, dense_names)),
    ]
    for name in ("nn.dense", "nn.matmul", "nn.batch_matmul", "nn.bias_add", "add", "multiply"):
        table.append((name.split(".")[-1], is_op(name)(wildcard(), wildcard()), _check((name,))))
    table.append(("relu", is_op("nn.relu")(wildcard()), _check(relu_names)))
    return [(f"{NAME}.{name}", *rest) for name, *rest in table]


# ---- partitioning ------------------------------------------------------------------------------


def partition_for_example_extern(
    mod: tvm.IRModule, params: Optional[Dict[str, Any]] = None
) -> tvm.IRModule:
    """Cut out what the kernels compute. Weights stay with TVM, which passes them at each call."""
    if params:
        mod["main"] = bind_params_by_name(mod["main"], params)
    passes = [
        relay.transform.InferType(),
        relay.transform.MergeComposite(pattern_table()),
        relay.transform.InferType(),
        # Without tuples: those alone would become regions that compute nothing.
        relay.transform.AnnotateTarget(NAME, include_non_call_ops=False),
        MergeRegions(),
        relay.transform.PartitionGraph(bind_constants=False),
        relay.transform.InferType(),
    ]
    return tvm.transform.Sequential(passes)(mod)


def _compiler(function: Any) -> Optional[str]:
    named = isinstance(function, relay.Function) and function.attrs and "Compiler" in function.attrs
    return str(function.attrs["Compiler"]) if named else None


# ---- from regions to TIR -----------------------------------------------------------------------


def translate(function: relay.Function) -> Region:
    """The region as a sequence of steps; a composite stands for the calls in it."""
    region = Region()
    values: Dict[relay.Expr, List[Tensor]] = {}

    def evaluate(expr: relay.Expr) -> List[Tensor]:
        if expr not in values:
            if isinstance(expr, relay.Tuple):
                values[expr] = [tensor for field in expr.fields for tensor in evaluate(field)]
            elif isinstance(expr, relay.TupleGetItem):
                fields = expr.tuple_value.checked_type.fields
                start = sum(len(_tensors(field)) for field in fields[: expr.index])
                count = len(_tensors(fields[expr.index]))
                values[expr] = evaluate(expr.tuple_value)[start : start + count]
            elif isinstance(expr.op, relay.Function):  # a composite
                values.update(zip(expr.op.params, map(evaluate, expr.args)))
                values[expr] = evaluate(expr.op.body)
            else:
                operands = [evaluate(arg)[0] for arg in expr.args]
                values[expr] = _tensors(expr.checked_type)
                region.steps.append(_step(expr, operands, values[expr][0]))
        return values[expr]

    for param in function.params:
        values[param] = _tensors(param.checked_type)
        region.inputs += values[param]
    region.outputs = evaluate(function.body)
    return region


@tvm.register_func(f"{NAME}.relay_to_tir")
def _relay_to_tir(mod: tvm.IRModule) -> tvm.IRModule:
    """The hook: every region becomes a TIR function."""
    prefix = "relay._transform.OutlineCompilerFunctions"
    mod = tvm.get_global_func(f"{prefix}WithExistingGlobalSymbols")(NAME)(mod)
    regions = {var: f for var, f in mod.functions.items() if _compiler(f) == NAME}
    if not regions:
        return mod
    target = _host()
    for var, function in regions.items():
        lowered = tvm.script.from_source(script(translate(function), "tir"), {"T": T})
        lowered = lowered.with_attr("global_symbol", str(function.attrs["global_symbol"]))
        mod.update_func(var, lowered.with_attr("target", target))
    return mod


def _host() -> tvm.target.Target:
    """The target whose code generator compiles the TIR: the build's host."""
    current = tvm.target.Target.current()
    if current is not None and current.kind.name == NAME:
        current = current.host
    host = current or tvm.target.Target(f"llvm -mtriple={platform.machine()}-linux-gnu")
    return tvm.target.Target(host, host=host)


def _load_shim() -> None:
    """Compile shim.cc, once for each TVM, and load it."""
    if NAME in tvm.target.Target.list_kinds():
        return
    with open(os.path.join(os.path.dirname(__file__), "shim.cc")) as f:
        text = f"// for {find_lib_path()[0]}, {tvm.__version__}\n" + f.read()
    includes = [f"-I{folder}" for folder in find_include_path()]
    # hhb-tvm is compiled with the old ABI of C++; another TVM may not be.
    path = compiled(text, ".so", ["-std=c++17", "-shared", "-D_GLIBCXX_USE_CXX11_ABI=0", *includes])
    ctypes.CDLL(path, ctypes.RTLD_GLOBAL)


_load_shim()
