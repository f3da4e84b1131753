"""The schedule that gives the product of a layer to the micro-kernel, tile by tile."""

from __future__ import annotations

import re
from typing import Any, Optional, Sequence

import tvm
from tvm import te

from .layers import Value
from .microkernel import COLUMNS, DEPTH, ROWS, SYMBOL

try:
    from tvm import s_tir as schedules
    from tvm.script import tirx as T

    _BLOCK, _DECORATOR = "sblock", "@T.prim_func(s_tir=True)"
except ImportError:  # up to TVM 0.24
    from tvm import tir as schedules
    from tvm.script import tir as T

    _BLOCK, _DECORATOR = "block", "@T.prim_func"


def lower(symbol: str, inputs: Sequence[Value], result: Value, bitcode: Optional[str]) -> Any:
    """The layer as a function in TIR that calls the micro-kernel.

    bitcode: the path of the micro-kernel in LLVM IR, if that is to be compiled into the function.
    """
    return tensorized(plain(inputs, result), bitcode).with_attr("global_symbol", symbol)


def plain(inputs: Sequence[Value], result: Value) -> Any:
    """The layer as loops without a schedule."""
    output = te.compute(result.shape, result.read, name="result")
    text = te.create_prim_func([*(value.tensor for value in inputs), output]).script()
    # A tensor may begin anywhere in its memory (DLTensor.byte_offset): TVMScript can say so, TE can't.
    (head,) = re.findall(r"def main\(.*\):\n", text)
    tensors = re.findall(r"(\w+): T\.Buffer\((\(.*?\)), ", head)
    lines = ["def main(%s):" % ", ".join(f"{name}_handle: T.handle" for name, _ in tensors)]
    for name, shape in tensors:
        lines.append(f'    {name} = T.match_buffer({name}_handle, {shape}, "float32", offset_factor=1)')
    return _parsed(text.replace(head, "\n".join(lines) + "\n"))


def tensorized(function: Any, bitcode: Optional[str] = None) -> Any:
    """The function with its product computed by the micro-kernel."""
    schedule = schedules.Schedule(tvm.IRModule({"main": function}))
    product = getattr(schedule, f"get_{_BLOCK}")("product")
    i, j, k = schedule.get_loops(product)
    (i, rows), (j, columns), (k, depth) = (
        schedule.split(loop, [None, tile]) for loop, tile in ((i, ROWS), (j, COLUMNS), (k, DEPTH))
    )
    schedule.reorder(j, i, k, rows, columns, depth)
    for block in schedule.get_producers(product):
        if schedule.get(block).name_hint == "right":
            schedule.compute_at(block, j)  # memory for the columns of one tile, not of the whole image
    schedule.decompose_reduction(product, k)
    schedule.tensorize(rows, SYMBOL)
    if bitcode:
        schedule.annotate(j, "pragma_import_llvm", bitcode)
    return schedule.mod["main"]


def _parsed(text: str) -> Any:
    return tvm.script.from_source(text, {"T": T})


# ---- the intrinsic: what the schedule looks for, and what it puts there ------------------------

_HEAD = f"""
{_DECORATOR}
def tile(c: T.handle, a: T.handle, b: T.handle):
    ldc, lda, ldb = T.int32(), T.int32(), T.int32()
    C = T.match_buffer(c, ({ROWS}, {COLUMNS}), "float32", offset_factor=1)
    A = T.match_buffer(a, ({ROWS}, {DEPTH}), "float32", offset_factor=1)
    B = T.match_buffer(b, ({COLUMNS}, {DEPTH}), "float32", offset_factor=1)
    with T.{_BLOCK}("root"):
        T.reads(C[0:{ROWS}, 0:{COLUMNS}], A[0:{ROWS}, 0:{DEPTH}], B[0:{COLUMNS}, 0:{DEPTH}])
        T.writes(C[0:{ROWS}, 0:{COLUMNS}])
"""
_LOOPS = f"""\
        for i, j, k in T.grid({ROWS}, {COLUMNS}, {DEPTH}):
            with T.{_BLOCK}("update"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]
"""
_CALL = f"""\
        T.evaluate(T.call_extern("int32", "{SYMBOL}", C.access_ptr("rw"), A.access_ptr("r"),
                                 B.access_ptr("r"), ldc, lda, ldb))
"""
_STRIDED = re.sub(r"(match_buffer\((\w).*)\)", r"\1, strides=[ld\2, 1])", _HEAD)
schedules.TensorIntrin.register(SYMBOL, _parsed(_HEAD + _LOOPS), _parsed(_STRIDED + _CALL), override=True)
