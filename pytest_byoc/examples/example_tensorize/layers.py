"""What is offloaded: operators as expressions of tensors, of neither IR.

:func:`evaluate` raises :class:`Unsupported` for a call that stays with TVM. The predicates of the
patterns and the lowering both call it, so they can't disagree.
"""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence, Tuple

from tvm import te

from .microkernel import COLUMNS, DEPTH, ROWS

try:
    from tvm import tirx as tir
except ImportError:  # up to TVM 0.24
    from tvm import tir


class Unsupported(Exception):
    """This stays with TVM; the message says why."""


class Value:
    """A tensor of float32 as an expression: its shape, and a function from indices to an element."""

    def __init__(self, shape: Sequence[int], read: Callable[..., Any], tensor: Any = None) -> None:
        self.shape = tuple(shape)
        self.read = read
        self.tensor = tensor  # of an input: where the elements lie
        self.swapped: Optional[Value] = None  # of a transpose: the matrix itself


def extents(shape: Any, dtype: str) -> Tuple[int, ...]:
    """The shape of a tensor that a layer may read or write."""
    try:
        result = tuple(int(extent) for extent in shape)
    except TypeError:
        raise Unsupported("an extent is not known") from None
    if dtype != "float32" or not 0 < _size(result) < 1 << 31:
        raise Unsupported("the micro-kernel computes float32, no tile is empty, and loops count in 32 bits")
    return result


def operand(shape: Any, dtype: str, name: str) -> Value:
    """An input of a layer."""
    tensor = te.placeholder(extents(shape, dtype), dtype, name)
    return Value(extents(shape, dtype), tensor, tensor)


def evaluate(name: str, attrs: Any, operands: Sequence[Value], shape: Tuple[int, ...]) -> Value:
    """The result, of this shape, of a call of an operator of Relay or Relax."""
    first, second = [*operands, *operands][:2]
    if name == "nn.conv2d":
        return _conv2d(first, second, attrs, shape)
    if name == "nn.dense":
        return _dense(first, second)
    if name == "nn.matmul":
        return _dense(
            _transpose(first) if attrs.transpose_a else first,
            second if attrs.transpose_b else _transpose(second),
        )
    if name == "matmul":
        return _dense(first, _transpose(second))
    if name == "permute_dims":
        if attrs.axes is not None and [int(axis) % len(shape) for axis in attrs.axes] != [1, 0]:
            raise Unsupported("a product reads its weights as they are, or transposed")
        return _transpose(first)
    if name == "add":
        return Value(shape, lambda *at: _repeated(first, at) + _repeated(second, at))
    if name == "nn.bias_add":
        return Value(shape, lambda *at: first.read(*at) + second.read(at[int(attrs.axis)]))
    if name == "nn.relu":
        return Value(shape, lambda *at: tir.max(first.read(*at), _zero()))
    raise Unsupported(name)


def _dense(data: Value, weight: Value) -> Value:
    """Each row of data times each row of weight. Leading dimensions of data are rows too."""
    if len(data.shape) < 2 or len(weight.shape) != 2:
        raise Unsupported("a product has rows, and one matrix of weights")
    *leading, depth = data.shape
    direct = data.tensor if len(leading) == 1 else None
    rows = Value((_size(leading), depth), lambda i, k: data.read(*_indices(i, leading), k), direct)
    product = _product(rows, weight)
    shape = (*leading, weight.shape[0])
    return Value(shape, lambda *at: product[_position(at[:-1], leading), at[-1]])


def _transpose(matrix: Value) -> Value:
    if len(matrix.shape) != 2:
        raise Unsupported("a product has rows, and one matrix of weights")
    result = Value(matrix.shape[::-1], lambda i, j: matrix.read(j, i))
    result.swapped = matrix
    return matrix.swapped or result


def _conv2d(data: Value, weight: Value, attrs: Any, shape: Tuple[int, ...]) -> Value:
    """The weights of each channel times the columns of the image (im2col), one column for each pixel
    of the result: what the weights see there."""
    if (str(attrs.data_layout), str(attrs.kernel_layout), int(attrs.groups)) != ("NCHW", "OIHW", 1):
        raise Unsupported("a convolution has one group, and the layouts NCHW and OIHW")
    if str(attrs.out_layout) not in ("", "NCHW"):
        raise Unsupported("the result of a convolution has the layout of its data")
    height, width = data.shape[2:]
    seen, pixels = weight.shape[1:], (shape[0], *shape[2:])
    (stride_y, stride_x), (dilation_y, dilation_x) = map(int, attrs.strides), map(int, attrs.dilation)
    top, left = ([int(p) for p in attrs.padding] * 2)[:2]

    def column(pixel: Any, k: Any) -> Any:
        (n, y, x), (channel, i, j) = _indices(pixel, pixels), _indices(k, seen)
        y = y * stride_y + i * dilation_y - top
        x = x * stride_x + j * dilation_x - left
        is_inside = tir.all(y >= 0, y < height, x >= 0, x < width)
        return tir.if_then_else(is_inside, data.read(n, channel, y, x), _zero())

    filters = Value((shape[1], _size(seen)), lambda o, k: weight.read(o, *_indices(k, seen)))
    product = _product(filters, Value((_size(pixels), _size(seen)), column))
    return Value(shape, lambda n, o, y, x: product[o, _position((n, y, x), pixels)])


def _product(left: Value, right: Value) -> Any:
    """The tensor that the micro-kernel computes: [i, j] is the sum over k of left(i, k) * right(j, k).

    Where an extent is no multiple of the tile's, it is filled up with zeros, since the micro-kernel has
    no code for tails. They add nothing along k; additional rows and columns are not read.
    """
    a, b = _filled(left, ROWS, "left"), _filled(right, COLUMNS, "right")
    k = te.reduce_axis((0, int(a.shape[1])), "k")
    return te.compute((a.shape[0], b.shape[0]), lambda i, j: te.sum(a[i, k] * b[j, k], k), name="product")


def _filled(value: Value, tile: int, name: str) -> Any:
    rows, depth = value.shape
    shape = (-(-rows // tile) * tile, -(-depth // DEPTH) * DEPTH)
    if shape == value.shape and value.tensor is not None:
        return value.tensor  # the micro-kernel reads it where it lies

    def read(i: Any, k: Any) -> Any:
        return tir.if_then_else(tir.all(i < rows, k < depth), value.read(i, k), _zero())

    if _size(shape) >= 1 << 31:
        raise Unsupported("loops count in 32 bits")
    return te.compute(shape, read, name=name)


def _zero() -> Any:
    return tir.const(0, "float32")


def _repeated(value: Value, at: Sequence[Any]) -> Any:
    """The element at an index of a shape to which the value is broadcast."""
    at = at[len(at) - len(value.shape) :]
    return value.read(*(0 if extent == 1 else index for index, extent in zip(at, value.shape)))


def _size(shape: Sequence[int]) -> int:
    result = 1
    for extent in shape:
        result *= extent
    return result


def _indices(position: Any, shape: Sequence[int]) -> Sequence[Any]:
    """The indices of the element at a position in row-major order."""
    indices: List[Any] = []
    for extent in reversed(shape[1:]):
        indices.insert(0, tir.indexmod(position, extent))
        position = tir.indexdiv(position, extent)
    return [position, *indices]


def _position(indices: Sequence[Any], shape: Sequence[int]) -> Any:
    position = indices[0]
    for index, extent in zip(indices[1:], shape[1:]):
        position = position * extent + index
    return position
