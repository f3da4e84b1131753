"""Layers as tensor expressions, and the schedule that hands their product to the micro-kernel.

A function that makes a :class:`Value` raises :class:`Unsupported` for a call that stays with TVM. The
predicates of the patterns and the lowering call the same functions, so they can't disagree.
"""

from __future__ import annotations

import re
from typing import Any, Callable, Optional, Sequence, Tuple

import tvm
from tvm import te

try:  # TVM 0.25 renamed tir, and moved schedules out of it.
    from tvm import s_tir as schedules
    from tvm import tirx as tir
    from tvm.script import tirx as T

    _BLOCK, _DECORATOR = "sblock", "@T.prim_func(s_tir=True)"
except ImportError:
    from tvm import tir
    from tvm import tir as schedules
    from tvm.script import tir as T

    _BLOCK, _DECORATOR = "block", "@T.prim_func"

from .microkernel import COLUMNS, DEPTH, ROWS, SYMBOL

class Unsupported(Exception):
    """This stays with TVM; the message says why."""


class Value:
    """A tensor of float32 as an expression: its shape, and a function from indices to an element."""

    def __init__(self, shape: Sequence[int], read: Callable[..., Any], tensor: Any = None) -> None:
        self.shape = tuple(shape)
        self.read = read
        self.tensor = tensor  # where the value lies in memory as it is
        self.swapped: Optional[Value] = None  # the matrix that this one is the transpose of


def extents(shape: Any, dtype: str) -> Tuple[int, ...]:
    """The shape of a tensor that a layer may read or write."""
    try:
        result = tuple(int(extent) for extent in shape)
    except TypeError:
        raise Unsupported("an extent is not known") from None
    if dtype != "float32":
        raise Unsupported("the micro-kernel computes float32")
    if not 0 < _size(result) < 1 << 31:
        raise Unsupported("there is no tile of nothing, and loops count in 32 bits")
    return result


def operand(shape: Any, dtype: str, name: str) -> Value:
    """An input of a layer."""
    tensor = te.placeholder(extents(shape, dtype), dtype, name)
    return Value(extents(shape, dtype), tensor, tensor)


# ---- operators ---------------------------------------------------------------------------------


def dense(data: Value, weight: Value) -> Value:
    """data[..., l] times weight[j, l]. The leading dimensions of data are the rows of one matrix."""
    if len(data.shape) < 2 or len(weight.shape) != 2:
        raise Unsupported("rows, and one matrix of weights")
    *leading, depth = data.shape
    rows, columns = _size(leading), weight.shape[0]
    direct = data.tensor if len(leading) == 1 else None
    left = Value((rows, depth), lambda i, l: data.read(*_indices(i, leading), l), direct)
    result = _product(left, weight)
    return Value((*leading, columns), lambda *at: result[_position(at[:-1], leading), at[-1]])


def swapped(matrix: Value) -> Value:
    """The transpose of a matrix."""
    if matrix.swapped is not None:
        return matrix.swapped
    if len(matrix.shape) != 2:
        raise Unsupported("rows, and one matrix of weights")
    result = Value(matrix.shape[::-1], lambda i, j: matrix.read(j, i))
    result.swapped = matrix
    return result


def conv2d(data: Value, weight: Value, attrs: Any, result: Sequence[int]) -> Value:
    """The weights of each output channel times the columns of an image, one column for each pixel of
    the result: what the weights see there (im2col). The columns are made tile by tile."""
    if (str(attrs.data_layout), str(attrs.kernel_layout), int(attrs.groups)) != ("NCHW", "OIHW", 1):
        raise Unsupported("one group, in the layouts NCHW and OIHW")
    if str(attrs.out_layout) not in ("", "NCHW"):
        raise Unsupported("the result has the layout of the data")
    height, width = data.shape[2:]
    inside = weight.shape[1:]
    pixels = (result[0], *result[2:])
    strides, dilation = [int(s) for s in attrs.strides], [int(d) for d in attrs.dilation]
    top, left = ([int(p) for p in attrs.padding] * 2)[:2]

    def column(pixel: Any, l: Any) -> Any:
        n, y, x = _indices(pixel, pixels)
        channel, i, j = _indices(l, inside)
        y = y * strides[0] + i * dilation[0] - top
        x = x * strides[1] + j * dilation[1] - left
        is_image = tir.all(y >= 0, y < height, x >= 0, x < width)
        return tir.if_then_else(is_image, data.read(n, channel, y, x), tir.const(0, "float32"))

    depth = _size(inside)
    filters = Value((weight.shape[0], depth), lambda o, l: weight.read(o, *_indices(l, inside)))
    product = _product(filters, Value((_size(pixels), depth), column))
    return Value(result, lambda n, o, y, x: product[o, _position((n, y, x), pixels)])


def add(first: Value, second: Value, result: Sequence[int]) -> Value:
    """The sum, with operands repeated as in NumPy."""

    def repeated(value: Value, at: Sequence[Any]) -> Any:
        at = at[len(at) - len(value.shape) :]
        return value.read(*(0 if extent == 1 else index for index, extent in zip(at, value.shape)))

    return Value(result, lambda *at: repeated(first, at) + repeated(second, at))


def bias_add(data: Value, bias: Value, axis: int) -> Value:
    """The sum with a vector along an axis."""
    return Value(data.shape, lambda *at: data.read(*at) + bias.read(at[axis]))


def relu(data: Value) -> Value:
    """The larger of an element and 0."""
    return Value(data.shape, lambda *at: tir.max(data.read(*at), tir.const(0, "float32")))


def _product(left: Value, right: Value) -> Any:
    """The tensor with element (i, j) = sum over l of left(i, l) * right(j, l).

    Where an extent is no multiple of the tile's, it is filled up with zeros: the micro-kernel has no
    code for tails. They add nothing along l, and nobody reads the additional rows and columns.
    """
    a, b = _filled(left, ROWS, "left"), _filled(right, COLUMNS, "right")
    l = te.reduce_axis((0, int(a.shape[1])), "l")
    if not max(_size(map(int, t.shape)) for t in (a, b)) < 1 << 31:
        raise Unsupported("a schedule counts in 32 bits")
    return te.compute((a.shape[0], b.shape[0]), lambda i, j: te.sum(a[i, l] * b[j, l], l), name="product")


def _filled(value: Value, tile: int, name: str) -> Any:
    rows, depth = value.shape
    shape = (-(-rows // tile) * tile, -(-depth // DEPTH) * DEPTH)
    if shape == value.shape and value.tensor is not None:
        return value.tensor  # the micro-kernel reads it where it is
    return te.compute(
        shape,
        lambda i, l: tir.if_then_else(tir.all(i < rows, l < depth), value.read(i, l), tir.const(0, "float32")),
        name=name,
    )


def _size(extents: Any) -> int:
    result = 1
    for extent in extents:
        result *= extent
    return result


def _indices(position: Any, shape: Sequence[int]) -> Sequence[Any]:
    """The indices of the element at a position in row-major order."""
    indices = []
    for extent in reversed(shape[1:]):
        indices.insert(0, tir.indexmod(position, extent))
        position = tir.indexdiv(position, extent)
    return [position, *indices]


def _position(indices: Sequence[Any], shape: Sequence[int]) -> Any:
    position = indices[0]
    for index, extent in zip(indices[1:], shape[1:]):
        position = position * extent + index
    return position


# ---- schedule ----------------------------------------------------------------------------------


def lower(symbol: str, inputs: Sequence[Value], result: Value, bitcode: Optional[str] = None) -> Any:
    """The layer as a function in TIR that calls the micro-kernel.

    bitcode: the path of the micro-kernel in LLVM IR, which is then compiled into the function.
    """
    return tensorized(plain(inputs, result), bitcode).with_attr("global_symbol", symbol)


def plain(inputs: Sequence[Value], result: Value) -> Any:
    """The layer as a function in TIR without a schedule: nested loops."""
    output = te.compute(result.shape, result.read, name="result")
    text = te.create_prim_func([*(value.tensor for value in inputs), output]).script()
    # A tensor may begin anywhere in its memory (DLTensor.byte_offset). Tensor expressions can't say so.
    head = re.search(r"def main\((.*)\):\n", text)
    assert head is not None
    buffers = re.findall(r"(\w+): T\.Buffer\((\(.*?\)), ", head.group(1))
    lines = ["def main(%s):" % ", ".join(f"{name}_handle: T.handle" for name, _ in buffers)]
    lines += [
        f'    {name} = T.match_buffer({name}_handle, {shape}, "float32", offset_factor=1)'
        for name, shape in buffers
    ]
    return _parsed(text.replace(head.group(), "\n".join(lines) + "\n"))


def _parsed(text: str) -> Any:
    return tvm.script.from_source(text, {"T": T})


def tensorized(function: Any, bitcode: Optional[str] = None) -> Any:
    """The function with its product computed tile by tile, each by a call of the micro-kernel."""
    schedule = schedules.Schedule(tvm.IRModule({"main": function}))
    product = getattr(schedule, "get_" + _BLOCK)("product")
    i, j, l = schedule.get_loops(product)
    (i, rows), (j, columns), (l, depth) = (
        schedule.split(loop, [None, tile]) for loop, tile in ((i, ROWS), (j, COLUMNS), (l, DEPTH))
    )
    schedule.reorder(j, i, l, rows, columns, depth)
    for block in schedule.get_producers(product):
        if schedule.get(block).name_hint == "right":
            schedule.compute_at(block, j)  # no more of it lies in memory than one tile needs
    schedule.decompose_reduction(product, l)
    schedule.tensorize(rows, SYMBOL)
    if bitcode:
        schedule.annotate(j, "pragma_import_llvm", bitcode)
    return schedule.mod["main"]


def _intrinsic(body: str, strides: Sequence[str]) -> Any:
    """A function of one tile of the product, for the description of the intrinsic and for its code."""
    shapes = {"C": (ROWS, COLUMNS), "A": (ROWS, DEPTH), "B": (COLUMNS, DEPTH)}
    lines = [_DECORATOR, "def tile(%s):" % ", ".join(f"{n.lower()}: T.handle" for n in shapes)]
    lines += [f"    {stride} = T.int32()" for stride in strides]
    for (name, shape), stride in zip(shapes.items(), strides or [None] * 3):
        layout = f", strides=[{stride}, 1]" if stride else ""
        declared = f'T.match_buffer({name.lower()}, {shape}, "float32", offset_factor=1{layout})'
        lines.append(f"    {name} = {declared}")
    whole = {name: "%s[0:%d, 0:%d]" % (name, *shape) for name, shape in shapes.items()}
    lines += [
        f"    with T.{_BLOCK}('root'):",
        f"        T.reads({', '.join(whole.values())})",
        f"        T.writes({whole['C']})",
        *("        " + line for line in body.strip().splitlines()),
    ]
    return _parsed("\n".join(lines) + "\n")


_DESCRIPTION = f"""
for i, j, l in T.grid({ROWS}, {COLUMNS}, {DEPTH}):
    with T.{_BLOCK}("update"):
        vi, vj, vl = T.axis.remap("SSR", [i, j, l])
        C[vi, vj] = C[vi, vj] + A[vi, vl] * B[vj, vl]
"""
_POINTERS = "C.access_ptr('rw'), A.access_ptr('r'), B.access_ptr('r')"
_CALL = f"T.evaluate(T.call_extern('int32', '{SYMBOL}', {_POINTERS}, ldc, lda, ldb))"

schedules.TensorIntrin.register(
    SYMBOL, _intrinsic(_DESCRIPTION, ()), _intrinsic(_CALL, ("ldc", "lda", "ldb")), override=True
)
