"""example_tensorize for Relay (TVM up to 0.19): patterns, partitioning, the codegen."""

from __future__ import annotations

import platform
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import tvm
from tvm import relay
from tvm.relay.dataflow_pattern import is_op, wildcard
from tvm.relay.op.contrib.register import register_pattern_table

from .schedule import Unsupported, Value, add, bias_add, conv2d, dense, extents, lower, operand, relu, swapped

NAME = "example_tensorize"


# ---- what is offloaded -------------------------------------------------------------------------


def _evaluate(expr: relay.Expr, values: Dict[relay.Expr, Value]) -> Value:
    """The value of a call whose operands are `values`, or calls themselves. Raises Unsupported."""
    if expr in values:
        return values[expr]
    operands = [_evaluate(arg, values) for arg in expr.args]
    shape = extents(expr.checked_type.shape, expr.checked_type.dtype)
    name, attrs = expr.op.name, expr.attrs
    if name == "nn.dense":
        value = dense(*operands)
    elif name == "nn.matmul":
        data, weight = operands
        value = dense(
            swapped(data) if attrs.transpose_a else data, weight if attrs.transpose_b else swapped(weight)
        )
    elif name == "nn.conv2d":
        value = conv2d(*operands, attrs, shape)
    elif name == "add":
        value = add(*operands, shape)
    elif name == "nn.bias_add":
        value = bias_add(*operands, int(attrs.axis))
    else:
        value = relu(*operands)
    values[expr] = value
    return value


def _operand(expr: relay.Expr, i: int) -> Value:
    return operand(expr.checked_type.shape, expr.checked_type.dtype, f"x{i}")


def _name(expr: relay.Expr) -> str:
    return expr.op.name if isinstance(expr, relay.Call) and isinstance(expr.op, tvm.ir.Op) else ""


def _check(names: Sequence[Sequence[str]]) -> Callable[[relay.Call], bool]:
    """The predicate of a chain, given by the names that its operators may have, from the last on."""

    def check(root: relay.Call) -> bool:
        values: Dict[relay.Expr, Value] = {}
        call = root
        try:
            for following in [*names[1:], ()]:
                # `add` commutes, and the pattern looks for the chain in its first operand first.
                inner = next((arg for arg in call.args if _name(arg) in following), None)
                others = [arg for arg in call.args if arg != inner]
                if following and len(others) == len(call.args) - 2:
                    raise Unsupported("TVM leaves the layer out of a composite that adds it to itself")
                values.update((arg, _operand(arg, i)) for i, arg in enumerate(others))
                call = inner
            _evaluate(root, values)
        except Unsupported:
            return False
        return True

    return check


@register_pattern_table(NAME)
def pattern_table() -> List[Tuple[Any, ...]]:
    """Layers, the longest first: of what matches, TVM takes the first."""
    bias_names, relu_names = ("add", "nn.bias_add"), ("nn.relu",)
    rows = []
    for anchor in ("nn.conv2d", "nn.dense", "nn.matmul"):
        layer = is_op(anchor)(wildcard(), wildcard())
        biased = is_op("add")(layer, wildcard()) | is_op("nn.bias_add")(layer, wildcard())
        rows += [
            ("_bias_relu", is_op("nn.relu")(biased), (relu_names, bias_names, (anchor,))),
            ("_bias", biased, (bias_names, (anchor,))),
            ("_relu", is_op("nn.relu")(layer), (relu_names, (anchor,))),
            ("", layer, ((anchor,),)),
        ]
        rows[-4:] = [(anchor.split(".")[1] + ending, *rest) for ending, *rest in rows[-4:]]
    rows.sort(key=lambda row: -len(row[2]))
    return [(f"{NAME}.{name}", pattern, _check(names)) for name, pattern, names in rows]


# ---- partitioning ------------------------------------------------------------------------------


def partition_for_example_tensorize(mod: tvm.IRModule, bitcode: Optional[str] = None) -> tvm.IRModule:
    """Cut out each layer as a region of its own, since each has a schedule of its own.

    bitcode: the micro-kernel in LLVM IR, which is to be compiled into the regions.
    """
    passes = [
        relay.transform.InferType(),
        relay.transform.MergeComposite(pattern_table()),
        relay.transform.InferType(),
        relay.transform.AnnotateTarget(NAME, include_non_call_ops=False),
        relay.transform.PartitionGraph(),
        relay.transform.InferType(),
    ]
    mod = tvm.transform.Sequential(passes)(mod)
    for var, function in mod.functions.items():
        if bitcode and function.attrs and function.attrs.get("Compiler") == NAME:
            mod[var] = function.with_attr(f"{NAME}.bitcode", bitcode)
    return mod


# ---- code generation ---------------------------------------------------------------------------


@tvm.register_func(f"relay.ext.{NAME}")
def _codegen(function: relay.Function) -> tvm.runtime.Module:
    """A region, which calls one composite, as a module of machine code."""
    symbol = str(function.attrs["global_symbol"])
    composite = function.body.op
    inputs = {expr: _operand(expr, i) for i, expr in enumerate([*function.params, *function.body.args])}
    values = {inner: inputs[outer] for inner, outer in zip(composite.params, function.body.args)}
    result = _evaluate(composite.body, values)
    bitcode = str(function.attrs[f"{NAME}.bitcode"]) if f"{NAME}.bitcode" in function.attrs else None
    lowered = lower(symbol, list(inputs.values()), result, bitcode)
    constants = {
        i: expr.data for i, expr in enumerate(inputs) if isinstance(expr, relay.Constant)
    }
    lowered = _bound(lowered, constants)
    # The current target is a stand-in here ("ext_dev"), which does not name the host.
    host = f"llvm -mtriple={platform.machine()}-linux-gnu"
    # AOT passes tensors with ndim = 0, which the asserted shapes would refuse.
    with tvm.transform.PassContext(opt_level=3, config={"tir.disable_assert": True}):
        return tvm.build(tvm.IRModule({symbol: lowered}), target=host)


def _bound(function: Any, constants: Dict[int, Any]) -> Any:
    """The function with values for some parameters, which become constants of its code."""
    body = function.body
    for i, data in constants.items():
        buffer = function.buffer_map[function.params[i]]
        body = tvm.tir.LetStmt(buffer.elem_offset, tvm.tir.const(0, "int32"), body)
        body = tvm.tir.AllocateConst(buffer.data, buffer.dtype, buffer.shape, data, body)
    params = [param for i, param in enumerate(function.params) if i not in constants]
    buffers = {param: function.buffer_map[param] for param in params}
    return tvm.tir.PrimFunc(params, body, function.ret_type, buffers, function.attrs)


@tvm.register_func(f"relay.ext.{NAME}.constant_updater")
def _constants_to_export(function: relay.Function, symbol: str) -> Dict[str, Any]:
    """None: they are in the code. AOT would take others for inputs that it cannot find."""
    return {}
