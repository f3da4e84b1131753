"""example_dnnl for Relay (TVM up to 0.19): patterns, partitioning, the codegen."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

import tvm
from tvm import relay
from tvm.relay.dataflow_pattern import is_op, is_tuple, is_tuple_get_item, wildcard
from tvm.relay.op.contrib.register import register_pattern_table

from pytest_byoc.examples.merging import MergeRegions

from .c_source import Region, generate
from .steps import ACTIVATIONS, OPERATORS, Step, Tensor, fuse, step_of

NAME = "example_dnnl"
# A value is what an expression evaluates to: a tensor, or a tuple of values.
Value = Union[Tensor, List["Value"]]
_INPUTS = {"nn.batch_norm": 5, "nn.layer_norm": 3}
_TWO = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "nn.bias_add",
        "nn.conv2d", "nn.dense", "nn.batch_matmul")  # fmt: skip


# ---- what is offloaded -------------------------------------------------------------------------


def _tensors(type_: relay.Type) -> List[Tensor]:
    """A tensor for the type, or for each field of a tuple; none if a shape is dynamic."""
    if isinstance(type_, relay.TupleType):
        fields = [_tensors(field) for field in type_.fields]
        return [tensor for field in fields for tensor in field] if all(fields) else []
    try:
        return [Tensor(type_.shape, type_.dtype)]
    except TypeError:  # an extent is Any
        return []


def _step(
    root: relay.Expr, parts: Sequence[Sequence[str]], leaf: Callable[[relay.Expr], Sequence[Tensor]]
) -> Optional[Step]:
    """The step of a match that begins at `root`; `parts` are the names that its calls may have, the last
    call first, and `leaf` supplies the tensors that it reads."""
    chain: List[relay.Call] = []
    node = root
    for following in [*parts[1:], ()]:
        chain.insert(0, node.tuple_value if isinstance(node, relay.TupleGetItem) else node)
        # `add` commutes: what it is fused with may be on either side.
        node = next((arg for arg in chain[0].args if _name(arg) in following), None)
    results: Dict[relay.Expr, Tensor] = {}
    steps: List[Step] = []
    for call in chain:
        inputs: List[Tensor] = []
        for arg in call.args:
            tensors = [results[arg]] if arg in results else leaf(arg)
            if not tensors:
                return None
            inputs += tensors
        outputs = _tensors(call.checked_type)
        step = step_of(_name(call), call.attrs, inputs, outputs[0]) if outputs else None
        if step is None:
            return None
        steps.append(step)
        results[call] = step.result
    return fuse(steps)


def _name(expr: relay.Expr) -> str:
    return expr.op.name if isinstance(expr, relay.Call) and isinstance(expr.op, tvm.ir.Op) else ""


@register_pattern_table(NAME)
def pattern_table() -> List[Tuple[Any, ...]]:
    """Composites, the longest first: what a longer one cannot have is tried as a shorter one."""
    table: List[Tuple[Any, ...]] = []

    def add(name: str, pattern: Any, parts: Sequence[Sequence[str]]) -> None:
        def check(root: relay.Expr) -> bool:
            return _step(root, parts[::-1], lambda expr: _tensors(expr.checked_type)) is not None

        table.append((f"{NAME}.{name.replace('nn.', '')}", pattern, check, len(parts)))

    def either(parts: Sequence[str], *operands: Any) -> Any:
        pattern = is_op(parts[0])(*operands)
        for other in parts[1:]:
            pattern = pattern | is_op(other)(*operands)
        return pattern

    biases = ("nn.bias_add", "add")
    for anchor in ("nn.conv2d", "nn.dense", "nn.batch_matmul"):
        layer = is_op(anchor)(wildcard(), wildcard())
        biased = either(biases, layer, wildcard())
        added = is_op("add")(biased, wildcard())
        forms: List[Tuple[str, Any, List[Sequence[str]]]] = [
            ("", layer, []), ("_bias", biased, [biases]), ("_bias_sum", added, [biases, ("add",)]),
        ]  # fmt: skip
        for name, pattern, parts in forms:
            parts = [(anchor,), *parts]
            if len(parts) > 1:
                add(anchor + name, pattern, parts)
            add(f"{anchor}{name}_activation", either(ACTIVATIONS, pattern), [*parts, ACTIVATIONS])
    for name in OPERATORS:
        if name not in tvm.ir.Op.list_op_names():  # one of Relax
            continue
        count = _INPUTS.get(name, 2 if name in _TWO else 1)
        operands = [is_tuple(None)] if name == "concatenate" else [wildcard() for _ in range(count)]
        pattern = is_op(name)(*operands)
        add(name, is_tuple_get_item(pattern, 0) if name == "nn.batch_norm" else pattern, [(name,)])
    return [row[:3] for row in sorted(table, key=lambda row: -row[3])]


# ---- partitioning ------------------------------------------------------------------------------


def partition_for_example_dnnl(mod: tvm.IRModule) -> tvm.IRModule:
    """Mark and cut out what example_dnnl computes."""
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
    region = translate(function)
    error = "TVMAPISetLastError(error)"
    source = "#include <tvm/runtime/c_runtime_api.h>\n" + generate(region, error) + _entry_point(region)
    return tvm.get_global_func("runtime.CSourceModuleCreate")(source, "c", [region.symbol], [])


@tvm.register_func(f"relay.ext.{NAME}.constant_updater")
def _constants_to_export(function: relay.Function, symbol: str) -> Dict[str, Any]:
    """None: they are in the source. AOT would take others for inputs that it cannot find."""
    return {}


def translate(function: relay.Function) -> Region:
    """The function as a region. Tuples vanish: TVM passes their fields as arguments."""
    region = Region(str(function.attrs["global_symbol"]))
    values: Dict[relay.Expr, Value] = {}

    def declare(type_: relay.Type) -> Value:
        if isinstance(type_, relay.TupleType):
            return [declare(field) for field in type_.fields]
        return region.input(type_.shape, type_.dtype)

    for param in function.params:
        values[param] = declare(param.checked_type)
    for expr in _post_order(function.body):
        if expr in values:
            continue
        if isinstance(expr, relay.Constant):
            values[expr] = region.constant(expr.data.numpy(), expr.checked_type.dtype)
        elif isinstance(expr, relay.Tuple):
            values[expr] = [values[field] for field in expr.fields]
        elif isinstance(expr, relay.TupleGetItem):
            values[expr] = values[expr.tuple_value][expr.index]  # type: ignore[index]
        else:
            values[expr] = _composite(region, expr, values)
    region.outputs = _flatten(values[function.body])
    return region


def _composite(region: Region, call: relay.Call, values: Dict[relay.Expr, Value]) -> Tensor:
    outer = dict(zip(call.op.params, call.args))

    def leaf(expr: relay.Expr) -> List[Tensor]:
        if isinstance(expr, relay.Constant):
            return [region.constant(expr.data.numpy(), expr.checked_type.dtype)]
        if isinstance(expr, relay.Tuple):
            return [tensor for field in expr.fields for tensor in leaf(field)]
        return _flatten(values[outer[expr]])

    parts = [(_name(expr),) for expr in _post_order(call.op.body) if isinstance(expr, relay.Call)]
    step = _step(call.op.body, parts[::-1], leaf)
    if step is None:
        raise NotImplementedError(f"{NAME}: no code for {call.op}")
    region.steps.append(step)
    return step.result


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


def _entry_point(region: Region) -> str:
    # AOT passes tensors with ndim = 0: only the data pointer is read.
    count = len(region.inputs) + len(region.outputs)
    return f"""
int {region.symbol}(TVMValue* args, int* type_codes, int num_args, TVMValue* ret_value, int* ret_type_code,
                    void* resource_handle) {{
  void* data[{count}];
  (void)type_codes, (void)ret_value, (void)ret_type_code, (void)resource_handle;
  if (num_args != {count}) {{
    TVMAPISetLastError("{region.symbol}: expected {count} arguments");
    return -1;
  }}
  for (int i = 0; i < {count}; ++i) {{
    const DLTensor* const tensor = (const DLTensor*)args[i].v_handle;
    data[i] = (char*)tensor->data + tensor->byte_offset;
  }}
  return {region.symbol}_run(data);
}}
"""
