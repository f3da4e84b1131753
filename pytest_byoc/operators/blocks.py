"""Type rules and parameters of operators that move spatial blocks to channels or batch, or back."""

from __future__ import annotations

from typing import Callable, Sequence

from ..core.graph import TensorType
from .record import Attrs, Classes, Parameter, TypeRuleError

# --- depth to space and back -----------------------------------------------------------------

_CHANNEL = {"NCHW": 1, "NHWC": 3}
_BLOCKS = {"two": 2, "three": 3}


def _space(layout: str) -> tuple[int, int]:
    return (2, 3) if layout == "NCHW" else (1, 2)


def deep(x: TensorType, layout: str, block: int) -> bool:
    """Returns whether the channels can be split into blocks of `block` x `block` elements."""
    return x.rank == 4 and x.size > 0 and x.shape[_CHANNEL[layout]] % block**2 == 0


def spacious(x: TensorType, layout: str, block: int) -> bool:
    """Returns whether the spatial axes can be split into blocks of `block` x `block` elements."""
    return x.rank == 4 and x.size > 0 and all(x.shape[a] % block == 0 for a in _space(layout))


def block_parameters(fits: Callable[[TensorType, str, int], bool]) -> tuple[Parameter, ...]:
    """Returns the parameters layout and block_size, with the values for which `fits` is true."""

    def layout(x: TensorType, chosen: Attrs) -> Classes:
        possible = {k: any(fits(x, k, b) for b in _BLOCKS.values()) for k in _CHANNEL}
        return {k.lower(): (k,) if good else () for k, good in possible.items()}

    def block(x: TensorType, chosen: Attrs) -> Classes:
        return {k: (b,) if fits(x, chosen["layout"], b) else () for k, b in _BLOCKS.items()}

    return Parameter("layout", layout), Parameter("block_size", block)


def takes_blocks(fits: Callable[[TensorType, str, int], bool]) -> Callable[[TensorType], bool]:
    """Returns a predicate for tensors that fit with some layout and block size."""
    return lambda x: any(fits(x, k, b) for k in _CHANNEL for b in _BLOCKS.values())


def to_space_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    x, layout, b = types[0], attrs["layout"], attrs["block_size"]
    if not deep(x, layout, b):
        raise TypeRuleError("the channels of %s cannot be split into blocks of %d" % (x, b))
    shape = list(x.shape)
    shape[_CHANNEL[layout]] //= b * b
    for a in _space(layout):
        shape[a] *= b
    return (TensorType(tuple(shape), x.dtype),)


def to_depth_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    x, layout, b = types[0], attrs["layout"], attrs["block_size"]
    if not spacious(x, layout, b):
        raise TypeRuleError("%s cannot be split into blocks of %d" % (x, b))
    shape = list(x.shape)
    shape[_CHANNEL[layout]] *= b * b
    for a in _space(layout):
        shape[a] //= b
    return (TensorType(tuple(shape), x.dtype),)


# --- space to batch and back -----------------------------------------------------------------


def batch_blocks(x: TensorType, chosen: Attrs) -> Classes:
    r = x.rank
    return {
        "even": ((2, 2),) if r > 2 else (),
        "uneven": ((2, 3), (3, 1)) if r > 2 else (),
        "one_axis": ((2,), (3,)),
        "three_axes": ((2, 1, 2),) if r > 3 else (),
    }


def paddings(x: TensorType, chosen: Attrs) -> Classes:
    sizes = list(zip(x.shape[1:], chosen["block_shape"]))
    after = tuple((0, -d % b) for d, b in sizes)
    exact = all(pair == (0, 0) for pair in after)
    return {
        "after": (tuple((0, -d % b + b) for d, b in sizes),) if exact else (after,),
        "none": (after,) if exact else (),
        "before": (tuple((-d % b + b, 0) for d, b in sizes),),
        "uneven": (tuple((i + 1, -(d + i + 1) % b) for i, (d, b) in enumerate(sizes)),),
    }


def to_batch_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    x, blocks = types[0], attrs["block_shape"]
    if x.rank <= len(blocks) or len(attrs["paddings"]) != len(blocks):
        raise TypeRuleError("blocks of the shape %s do not fit %s" % (blocks, x))
    shape = list(x.shape)
    for i, (b, (before, after)) in enumerate(zip(blocks, attrs["paddings"]), 1):
        padded = shape[i] + before + after
        if padded % b:
            raise TypeRuleError(
                "%d elements, with the padding, cannot be split into blocks of %d" % (padded, b)
            )
        shape[0] *= b
        shape[i] = padded // b
    return (TensorType(tuple(shape), x.dtype),)


def batches(x: TensorType, chosen: Attrs) -> Classes:
    def fits(*blocks: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
        # Two axes behind the blocks are left out: TVM 0.16 permutes them wrongly ("repeated axis").
        good = (b for b in blocks if x.rank < len(b) + 3)
        return tuple(b for b in good if x.shape[0] % TensorType(b, "").size == 0)

    classes = batch_blocks(x, chosen)
    return {k: fits(*v) for k, v in classes.items()}


def crops(x: TensorType, chosen: Attrs) -> Classes:
    sizes = list(zip(x.shape[1:], chosen["block_shape"]))
    most = [d * b - 1 for d, b in sizes]
    uneven = tuple((min(i, m), min(1, m - min(i, m))) for i, m in enumerate(most, 1))
    return {
        "none": (((0, 0),) * len(sizes),),
        "begin": (tuple((min(1, m), 0) for m in most),),
        "end": (tuple((0, min(i, m)) for i, m in enumerate(most, 1)),),
        "uneven": (uneven,),
    }


def from_batch_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    x, blocks = types[0], attrs["block_shape"]
    shape = list(x.shape)
    if x.rank <= len(blocks) or shape[0] % TensorType(tuple(blocks), "").size:
        raise TypeRuleError("blocks of the shape %s do not fit %s" % (blocks, x))
    for i, (b, (begin, end)) in enumerate(zip(blocks, attrs["crops"]), 1):
        shape[0] //= b
        shape[i] = shape[i] * b - begin - end
        if shape[i] < 1:
            raise TypeRuleError("the crops leave nothing of axis %d" % i)
    return (TensorType(tuple(shape), x.dtype),)
