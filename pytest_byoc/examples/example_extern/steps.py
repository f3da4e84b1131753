"""What is offloaded: operators as calls of kernels, of neither IR, and a region as their sequence.

A function that makes a :class:`Step` raises :class:`Unsupported` for a call that the kernels can't
compute. The predicates of the patterns and the lowering call the same functions, so they can't
disagree.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from .library import SYMBOLS, missing


class Unsupported(Exception):
    """The kernels can't compute this; the message says why."""


class Tensor:
    """A dense row-major tensor, or another one read with its last two dimensions swapped."""

    def __init__(self, shape: Sequence[Any], dtype: str, swapped: Optional[Tensor] = None) -> None:
        try:
            self.shape = tuple(int(extent) for extent in shape)
        except TypeError:
            raise Unsupported("an extent is not known") from None
        self.dtype = str(dtype)
        self.swapped = swapped

    @property
    def size(self) -> int:
        """The number of elements."""
        return _product(self.shape)


class Step(NamedTuple):
    """One call of a kernel: its name in kernels.c without the dtype, tensors, integer arguments."""

    kernel: str
    operands: Tuple[Tensor, ...]
    result: Tensor
    numbers: Tuple[int, ...]


class Region:
    """What one partitioned function computes. An output may be an input, or stand there twice."""

    def __init__(self) -> None:
        self.inputs: List[Tensor] = []
        self.steps: List[Step] = []
        self.outputs: List[Tensor] = []


def matmul(
    operands: Sequence[Tensor], result: Tensor, trans_a: bool = False, trans_b: bool = False
) -> Step:
    """The product of matrices, or of stacks of them. trans_a, trans_b: rows are read as columns."""
    a, b = operands
    if b.swapped is not None:
        b, trans_b = b.swapped, not trans_b
    if min(len(a.shape), len(b.shape)) < 2:
        raise Unsupported("a vector has no rows and columns")
    _check(a, b, result)
    m, k = a.shape[:-3:-1] if trans_a else a.shape[-2:]
    stack = result.shape[:-2]
    if _product(b.shape[:-2]) == 1 and not trans_a:
        # One matrix on the right: the rows on the left are the rows of one matrix too.
        m, stack = m * _product(stack), ()
    strides = []
    for operand in (a, b):
        own = operand.shape[:-2] if _product(operand.shape[:-2]) > 1 else ()
        if stack and own and own != stack:
            raise Unsupported("of several dimensions one is repeated, which no single stride describes")
        strides.append(_product(operand.shape[-2:]) if stack and own else 0)
    numbers = (_product(stack), m, result.shape[-1], k, int(trans_a), int(trans_b), *strides)
    return Step("matmul", (a, b), result, numbers)


def elementwise(kernel: str, operands: Sequence[Tensor], result: Tensor) -> Step:
    """relu, add or multiply, one operand of which may be repeated as a whole (both commute)."""
    _check(*operands, result)
    first, *others = sorted(operands, key=lambda operand: operand.shape != result.shape)
    for other in others:
        ending = _without_ones(other.shape)
        if result.shape[len(result.shape) - len(ending) :] != ending:
            raise Unsupported("the kernels repeat an operand as a whole, not within itself")
    if first.shape != result.shape:
        raise Unsupported("both operands are repeated")
    numbers = (result.size, *(other.size for other in others))
    return Step(kernel, (first, *others), result, numbers)


def _check(*tensors: Tensor) -> None:
    """Raises Unsupported for tensors that no kernel takes."""
    if any(tensor.dtype not in SYMBOLS or tensor.dtype != tensors[0].dtype for tensor in tensors):
        raise Unsupported("there are kernels for float32 and float64 alone")
    if any(tensor.swapped is not None for tensor in tensors):
        raise Unsupported("only the right side of a product is read with swapped dimensions")
    if not all(0 < tensor.size < 1 << 30 for tensor in tensors):
        raise Unsupported("CBLAS refuses matrices without elements, and counts in 32 bits")


def _product(extents: Sequence[int]) -> int:
    result = 1
    for extent in extents:
        result *= extent
    return result


def _without_ones(shape: Tuple[int, ...]) -> Tuple[int, ...]:
    """The shape without leading dimensions of extent 1."""
    while shape[:1] == (1,):
        shape = shape[1:]
    return shape


def script(region: Region, dialect: str) -> str:
    """The region as a TIR function in TVMScript: the kernels in sequence, and buffers between them.

    dialect: "tir", or "tirx" from TVM 0.25 on. There ``offset_factor=1`` says that a tensor may
    begin anywhere in its memory. Relay's AOT executor can't call functions that say so, and the
    kernels that TVM itself makes for Relay refuse a ``byte_offset`` too.
    """
    is_new = dialect == "tirx"
    outside = [*region.inputs, *region.outputs]
    head = ["def region(%s):" % ", ".join("p%d: T.handle" % i for i in range(len(outside)))]
    pointers: Dict[Tensor, str] = {}
    for i, tensor in enumerate(outside):
        offset = ", offset_factor=1" if is_new else ""
        head.append("b%d = T.match_buffer(p%d, %r, %r%s)" % (i, i, tensor.shape, tensor.dtype, offset))
        # A tensor passed twice is read or written in its first place, and copied to the second.
        pointers.setdefault(tensor, "b%d.access_ptr('rw')" % i)
    body = []
    for i, step in enumerate(region.steps):
        result = step.result
        if result not in pointers and is_new:
            body.append("t%d = T.alloc_buffer(%r, %r)" % (i, (result.size,), result.dtype))
        elif result not in pointers:
            body.append("t%d = T.allocate([%d], %r, 'global')" % (i, result.size, result.dtype))
        pointers.setdefault(result, "t%d.access_ptr('rw')" % i if is_new else "t%d" % i)
        name = "example_extern_%s_f%s" % (step.kernel, result.dtype[-2:])
        arguments = [repr(name), *(pointers[t] for t in (*step.operands, result)), *map(str, step.numbers)]
        body.append("e%d: T.int32 = T.call_extern('int32', %s)" % (i, ", ".join(arguments)))
        if step.kernel == "matmul":  # the others can't fail
            body.append("assert e%d == 0, %r" % (i, missing(SYMBOLS[result.dtype])))
    for i, tensor in enumerate(region.outputs, len(region.inputs)):
        place = "b%d.access_ptr('rw')" % i
        if pointers[tensor] != place:
            size = tensor.size * _bytes(tensor.dtype)
            copy = "T.evaluate(T.call_extern('handle', 'memcpy', %s, %s, T.int64(%d)))"
            body.append(copy % (place, pointers[tensor], size))
    body.append("T.evaluate(0)")
    if is_new:
        # Relax's passes expect a root block; with opaque calls it has to list its reads and writes.
        body = ["with T.sblock('root'):", *("    " + line for line in ("T.reads()", "T.writes()", *body))]
    decorator = "@T.prim_func(s_tir=True)" if is_new else "@T.prim_func"
    return "\n    ".join([f"{decorator}\n{head[0]}", *head[1:], *body]) + "\n"


def _bytes(dtype: str) -> int:
    digits = "".join(c for c in dtype if c.isdigit())
    return -(-int(digits or 8) // 8)  # bool has none
