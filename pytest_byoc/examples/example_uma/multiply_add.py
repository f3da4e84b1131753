"""The pass that gives sums of products to the accelerator: convolutions, products of matrices.

It looks for blocks of the form ``result[...] = result[...] + left[...] * right[...]`` whose positions are
linear in the loops' variables, and puts a call in their place, with the stride of each loop in each tensor.
What it does not recognise stays as it is, and TVM writes the loops in C.
"""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import tvm

try:
    from tvm import sym as arithmetic
    from tvm import tirx as tir
    from tvm.ir.expr import TensorLoad as Load
    from tvm.s_tir import SBlock as Block
    from tvm.s_tir import SBlockRealize as BlockRealize
except ImportError:  # up to TVM 0.24
    from tvm import arith as arithmetic
    from tvm import tir
    from tvm.tir import Block, BlockRealize
    from tvm.tir import BufferLoad as Load

#: The accelerator's functions by the dtypes of operands and result.
FUNCTIONS = {("float32", "float32"): "example_uma_float32", ("int8", "int32"): "example_uma_int8"}
#: The most loops that the accelerator has counters for.
LOOPS = 16


def to_the_accelerator(function: Any) -> Any:
    """Returns a function in TIR with calls of the accelerator in the place of its sums of products."""
    root = function.body.block
    body = root.body
    nests = list(body.seq) if isinstance(body, tir.SeqStmt) else [body]
    calls = [_call(nest) for nest in nests]
    if not any(calls):
        return function
    statements = [call or nest for call, nest in zip(calls, nests)]
    body = statements[0] if len(statements) == 1 else tir.SeqStmt(statements)
    root = Block(
        root.iter_vars, root.reads, root.writes, root.name_hint, body, root.init, root.alloc_buffers,
        root.match_buffers, root.annotations,
    )  # fmt: skip
    return function.with_body(BlockRealize([], True, root))


def _call(nest: Any) -> Optional[Any]:
    """Returns the statement in place of a nest of loops around one block; None if it is another sum."""
    while isinstance(nest, tir.For):
        nest = nest.body
    if not isinstance(nest, BlockRealize) or nest.block.init is None:
        return None
    block = nest.block
    accesses = _product(block)
    if accesses is None or len(block.iter_vars) > LOOPS:
        return None
    buffers = [_buffer(access) for access in accesses]
    result, left, right = buffers
    name = FUNCTIONS.get((str(left.dtype), str(result.dtype)))
    # Loops over elements of the result come first, those over what is added up after them.
    loops = sorted(block.iter_vars, key=lambda var: int(var.iter_type == tir.IterVar.CommReduce))
    positions = [_position(access, [loop.var for loop in loops]) for access in accesses]
    if name is None or not all(positions):
        return None
    steps = []
    for i, loop in enumerate(loops):
        steps.append(_extern("example_uma_loop", [], [i, loop.dom.extent, *(p[i] for p in positions)]))
    inner = sum(loop.iter_type == tir.IterVar.CommReduce for loop in loops)
    pointers = [
        buffer.access_ptr(mode, offset=position[-1])
        for buffer, mode, position in zip(buffers, "wrr", positions)
    ]
    steps.append(_extern(name, pointers, [len(loops) - inner, inner]))
    reads, writes = [_all(left), _all(right)], [_all(result)]
    return BlockRealize([], True, Block([], reads, writes, block.name_hint, tir.SeqStmt(steps)))


def _extern(name: str, pointers: Sequence[Any], numbers: Sequence[Any]) -> Any:
    numbers = [tir.Cast("int64", number) for number in numbers]
    return tir.Evaluate(tir.call_extern("int32", name, *pointers, *numbers))


def _product(block: Any) -> Optional[Tuple[Any, Any, Any]]:
    """Returns the store of a sum of products, and the loads of both factors."""
    store = block.body
    if not isinstance(store, tir.BufferStore) or not isinstance(store.value, tir.Add):
        return None
    old, product = store.value.a, store.value.b
    if not isinstance(product, tir.Mul) or not _is_zero(block.init):
        return None
    left, right = (_uncast(factor) for factor in (product.a, product.b))
    accesses = (old, left, right)
    if not all(isinstance(access, Load) for access in accesses):
        return None
    same = _buffer(old).same_as(store.buffer) and _buffer(left).dtype == _buffer(right).dtype
    return (store, left, right) if same else None


def _is_zero(init: Any) -> bool:
    return isinstance(init, tir.BufferStore) and float(getattr(init.value, "value", 1)) == 0


def _uncast(value: Any) -> Any:
    return value.value if isinstance(value, tir.Cast) else value


def _buffer(access: Any) -> Any:
    """The tensor of a load or store, which loads call their source from TVM 0.27 on."""
    return access.buffer if hasattr(access, "buffer") else access.source


def _all(buffer: Any) -> Any:
    return tir.BufferRegion(buffer, [tvm.ir.Range(0, extent) for extent in buffer.shape])


def _position(access: Any, variables: Sequence[Any]) -> List[Any]:
    """Returns by how many elements each variable moves an access, and last where it is if all are 0. The
    list is empty if the position is not linear."""
    position: Any = 0
    for index, extent in zip(access.indices, _buffer(access).shape):
        position = position * extent + index
    return list(arithmetic.detect_linear_equation(position, variables))
