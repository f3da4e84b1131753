"""A subgraph as plain data, independent of both IRs: the input of the C generator."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from .extent import Extent, Length, Shape


class Argument(NamedTuple):
    """The place of an open extent: an axis of the function's argument ``number``, which is a tensor,
    or an element of that argument, which holds extents only."""

    number: int
    axis: int
    is_shape: bool


class Buffer:
    """A dense row-major tensor; ``kind`` is "input", "constant" or "intermediate"."""

    def __init__(
        self,
        shape: Sequence[Length],
        dtype: str,
        kind: str = "intermediate",
        data: Optional[np.ndarray] = None,
    ) -> None:
        self.shape: Shape = tuple(shape)
        self.dtype = dtype
        self.kind = kind
        self.data = data

    @property
    def size(self) -> Any:
        """Returns the number of elements."""
        size = 1
        for extent in self.shape:
            size *= extent
        return size


class Step(NamedTuple):
    """A call of a kernel (see ``kernels.KERNELS``), with its operands, results and attributes."""

    kernel: str
    inputs: Tuple[Buffer, ...]
    outputs: Tuple[Buffer, ...]
    attrs: Dict[str, Any]


class Subgraph:
    """A partitioned function as a sequence of steps.

    ``inputs`` and ``outputs`` are in the order of the function's arguments. ``outputs`` may hold
    the same buffer twice, and may hold inputs and constants. ``extents`` are those that are known
    only when the code runs, ``lengths`` the same by TVM's variables. ``shapes`` are the numbers of the
    arguments that hold extents only.
    """

    def __init__(self, symbol: str) -> None:
        self.symbol = symbol
        self.inputs: List[Buffer] = []
        self.constants: List[Buffer] = []
        self.steps: List[Step] = []
        self.outputs: List[Buffer] = []
        self.extents: List[Argument] = []
        self.shapes: List[int] = []
        self.lengths: Dict[Any, Length] = {}

    def extent(self, argument: Argument) -> Extent:
        """Adds an open extent, and returns the variable of its value."""
        self.extents.append(argument)
        return Extent(f"n{len(self.extents) - 1}")

    def input(self, shape: Sequence[Length], dtype: str) -> Buffer:
        """Adds an input, the next argument of the function, and returns its buffer."""
        self.inputs.append(Buffer(shape, dtype, "input"))
        return self.inputs[-1]

    def constant(self, data: np.ndarray) -> Buffer:
        """Embed a constant."""
        self.constants.append(Buffer(data.shape, str(data.dtype), "constant", data))
        return self.constants[-1]

    def add(self, step: Step) -> None:
        """Appends a step, whose operands are inputs, constants or results of earlier steps."""
        self.steps.append(step)


ACTIVATIONS = ("relu", "sigmoid", "tanh")


def fuse(steps: Sequence[Step]) -> Optional[Step]:
    """Returns one step that computes all steps of a composite, or None if there is none.

    The steps are ``[transpose] conv2d|matmul [add|bias_add] [activation]``, each of which reads the
    one before. The pattern's check and the code generator both call this function, so they always
    agree.
    """
    rest = list(steps)
    transposed = rest.pop(0) if rest and rest[0].kernel == "transpose" else None
    if not rest or rest[0].kernel not in ("conv2d", "matmul"):
        return None
    anchor = rest.pop(0)
    inputs, attrs = list(anchor.inputs), dict(anchor.attrs)
    result = anchor.outputs[0]
    is_conv2d = anchor.kernel == "conv2d"
    channel = attrs["data_layout"].index("C") if is_conv2d else len(result.shape) - 1

    if transposed is not None:
        # A transpose that swaps the last two axes costs nothing: the weights are read the other way.
        rank = len(transposed.inputs[0].shape)
        swapped = tuple(range(rank - 2)) + (rank - 1, rank - 2)
        if inputs[1] is not transposed.outputs[0] or inputs[0] is inputs[1]:
            return None
        if anchor.kernel != "matmul" or rank < 2 or transposed.attrs["axes"] != swapped:
            return None
        inputs[1] = transposed.inputs[0]
        attrs["transpose_b"] = not attrs["transpose_b"]

    if rest and rest[0].kernel in ("add", "bias_add"):
        step = rest.pop(0)
        others = [operand for operand in step.inputs if operand is not result]
        if len(others) != 1 or not _is_bias(step, others[0], result, channel):
            return None
        inputs.append(others[0])
        result = step.outputs[0]

    if rest and rest[0].kernel in ACTIVATIONS:
        step = rest.pop(0)
        if step.inputs[0] is not result:
            return None
        attrs["activation"] = step.kernel
        result = step.outputs[0]

    return None if rest else Step(anchor.kernel, tuple(inputs), (result,), attrs)


def _is_bias(step: Step, bias: Buffer, result: Buffer, channel: int) -> bool:
    """Returns whether ``step`` adds one value per channel to ``result`` and keeps its shape."""
    rank = len(result.shape)
    if step.outputs[0].shape != result.shape:
        return False
    if step.kernel == "bias_add":
        return step.inputs[0] is result and step.attrs["axis"] % rank == channel
    shape = (1,) * (rank - len(bias.shape)) + bias.shape
    expected = tuple(n if axis == channel else 1 for axis, n in enumerate(result.shape))
    return shape == expected
