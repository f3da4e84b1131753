"""example_tensorize for Relay (TVM up to 0.19): patterns, partitioning, the codegen."""

from __future__ import annotations

import platform
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import tvm
from tvm import relay
from tvm.relay.dataflow_pattern import is_op, wildcard
from tvm.relay.op.contrib.register import register_pattern_table

from .layers import Unsupported, Value, evaluate, extents, operand
from .schedule import lower

NAME = "example_tensorize"
BITCODE = f"{NAME}.bitcode"  # an attribute of regions


# ---- what is offloaded -------------------------------------------------------------------------


def _evaluate(expr: relay.Expr, values: Dict[relay.Expr, Value]) -> Value:
    """The value of a call whose operands are `values`, or calls themselves. Raises Unsupported."""
    if expr not in values:
        operands = [_evaluate(arg, values) for arg in expr.args]
        shape = extents(expr.checked_type.shape, expr.checked_type.dtype)
        values[expr] = evaluate(expr.op.name, expr.attrs, operands, shape)
    return values[expr]


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
    """Of each layer the longest form first: of what matches, TVM takes the first."""
    biases, relus = ("add", "nn.bias_add"), ("nn.relu",)
    table: List[Tuple[Any, ...]] = []
    for anchor in ("nn.conv2d", "nn.dense", "nn.matmul"):
        layer = is_op(anchor)(wildcard(), wildcard())
        biased = is_op("add")(layer, wildcard()) | is_op("nn.bias_add")(layer, wildcard())
        name = f"{NAME}.{anchor[3:]}"
        table += [
            (f"{name}_bias_relu", is_op("nn.relu")(biased), _check((relus, biases, (anchor,)))),
            (f"{name}_bias", biased, _check((biases, (anchor,)))),
            (f"{name}_relu", is_op("nn.relu")(layer), _check((relus, (anchor,)))),
            (name, layer, _check(((anchor,),))),
        ]
    return table


# ---- partitioning ------------------------------------------------------------------------------


def partition_for_example_tensorize(mod: tvm.IRModule, bitcode: Optional[str] = None) -> tvm.IRModule:
    """Cut out each layer as a region of its own, since each has a schedule of its own.

    bitcode: the path of the micro-kernel in LLVM IR, if that is to be compiled into the regions.
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
        attrs = function.attrs if isinstance(function, relay.Function) else None
        if bitcode and attrs and "Compiler" in attrs and attrs["Compiler"] == NAME:
            mod[var] = function.with_attr(BITCODE, bitcode)
    return mod


# ---- code generation ---------------------------------------------------------------------------


@tvm.register_func(f"relay.ext.{NAME}")
def _codegen(region: relay.Function) -> tvm.runtime.Module:
    """A region, which calls one composite, as machine code."""
    symbol, composite = str(region.attrs["global_symbol"]), region.body.op
    inputs = {expr: _operand(expr, i) for i, expr in enumerate([*region.params, *region.body.args])}
    values = {inner: inputs[outer] for inner, outer in zip(composite.params, region.body.args)}
    result = _evaluate(composite.body, values)
    bitcode = str(region.attrs[BITCODE]) if BITCODE in region.attrs else None
    function = lower(symbol, list(inputs.values()), result, bitcode)
    constants = {i: expr.data for i, expr in enumerate(inputs) if isinstance(expr, relay.Constant)}
    # The current target is a stand-in here ("ext_dev"), which does not name the host.
    host = f"llvm -mtriple={platform.machine()}-linux-gnu"
    # AOT passes tensors with ndim = 0, which assertions on their shapes would refuse.
    with tvm.transform.PassContext(opt_level=3, config={"tir.disable_assert": True}):
        return tvm.build(tvm.IRModule({symbol: _bound(function, constants)}), target=host)


def _bound(function: Any, constants: Dict[int, Any]) -> Any:
    """The function with values for some parameters, which become constants of its code.

    They are not left to TVM: where a codegen returns modules, Relay's build stores the constants of
    main twice.
    """
    body = function.body
    for i, data in constants.items():
        buffer = function.buffer_map[function.params[i]]
        body = tvm.tir.LetStmt(buffer.elem_offset, tvm.tir.const(0, "int32"), body)
        body = tvm.tir.AllocateConst(buffer.data, buffer.dtype, buffer.shape, data, body)
    params = [param for i, param in enumerate(function.params) if i not in constants]
    buffers = {param: function.buffer_map[param] for param in params}
    return tvm.tir.PrimFunc(params, body, function.ret_type, buffers, function.attrs)


@tvm.register_func(f"relay.ext.{NAME}.constant_updater")
def _constants_to_export(region: relay.Function, symbol: str) -> Dict[str, Any]:
    """None: they are in the code. AOT would take others for inputs that it cannot find."""
    return {}
