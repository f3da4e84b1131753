"""A backend's patterns, partitioning and code in Relay (TVM up to 0.19)."""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

import tvm
from tvm import relay, te
from tvm.relay.dataflow_pattern import is_op, wildcard
from tvm.relay.op.contrib.register import register_pattern_table

from pytest_byoc.examples.merging import MergeRegions

from .backend import Backend, Tensor, accepts


def register(backend: Backend) -> None:
    """Registers the patterns and the code generator of a backend with TVM."""
    name = backend.target_name
    register_pattern_table(name, lambda: _table(backend))

    def codegen(function: relay.Function) -> Any:
        return backend.compiled({str(function.attrs["global_symbol"]): _in_tir(function)})

    tvm.register_func(f"relay.ext.{name}", codegen, override=True)
    tvm.register_func(f"relay.ext.{name}.constant_updater", lambda function, symbol: {}, override=True)


def partition(backend: Backend, mod: tvm.IRModule) -> tvm.IRModule:
    """Cuts out the calls that the backend's patterns match."""
    passes = [
        relay.transform.InferType(),
        relay.transform.MergeComposite(_table(backend)),
        relay.transform.InferType(),
        # Without tuples: those alone would become regions that compute nothing.
        relay.transform.AnnotateTarget(backend.target_name, include_non_call_ops=False),
        *([MergeRegions()] if backend.merges else []),
        # Weights stay with TVM, which passes them at each call.
        relay.transform.PartitionGraph(bind_constants=False),
        relay.transform.InferType(),
    ]
    return tvm.transform.Sequential(passes)(mod)


def c_source(mod: tvm.IRModule) -> str:
    """Returns the functions of a module in TIR as C, with TVM's interface for packed functions."""
    # AOT passes tensors with ndim = 0, which assertions on their shapes would refuse.
    with tvm.transform.PassContext(opt_level=3, config={"tir.disable_assert": True}):
        return str(tvm.build(mod, target="c").get_source())


def _table(backend: Backend) -> List[Tuple[Any, ...]]:
    table: List[Tuple[Any, ...]] = []
    for operator, predicate in backend.patterns.items():
        operands = [wildcard() for _ in range(tvm.ir.Op.get(operator).num_inputs)]

        def check(call: relay.Call, predicate: Any = predicate) -> bool:
            return accepts(predicate, call.attrs, [_tensor(e.checked_type) for e in (*call.args, call)])

        table.append((backend.pattern_name(operator), is_op(operator)(*operands), check))
    return table


def _tensor(type_: relay.Type) -> Optional[Tensor]:
    if not isinstance(type_, relay.TensorType):
        return None
    extents = [int(extent) if isinstance(extent, tvm.tir.IntImm) else None for extent in type_.shape]
    return Tensor(tuple(extents), str(type_.dtype))


class _WithoutComposites(relay.ExprMutator):  # type: ignore[misc]
    """Puts the bodies of composites in the place of their calls."""

    def visit_call(self, call: relay.Call) -> relay.Expr:
        args = [self.visit(arg) for arg in call.args]
        if isinstance(call.op, relay.Function):
            return relay.bind(call.op.body, dict(zip(call.op.params, args)))
        return relay.Call(call.op, args, call.attrs, call.type_args, call.span)


def _in_tir(region: relay.Function) -> Any:
    """Returns a region as one function in TIR, whose arguments are its inputs and its outputs."""
    # From the region's names, TVM's code in C could make one name twice.
    params = [relay.var(f"x{i}", param.checked_type) for i, param in enumerate(region.params)]
    body = relay.bind(_WithoutComposites().visit(region.body), dict(zip(region.params, params)))
    function = relay.Function(params, body).with_attr("Primitive", 1)
    function = relay.transform.InferType()(tvm.IRModule.from_expr(function))["main"]
    with tvm.target.Target("c"):
        lowered = tvm.get_global_func("relay.backend.LowerToTE")(function)
    arguments = list(lowered.inputs)
    for i, tensor in enumerate(lowered.outputs):
        # Two arguments cannot be one tensor.
        used = any(tensor.same_as(other) for other in arguments)
        arguments.append(_copy(tensor, f"copy_{i}") if used else tensor)
    return te.create_prim_func(arguments)


def _copy(tensor: Any, name: str) -> Any:
    return te.compute(tensor.shape, lambda *indices: tensor(*indices), name=name)
