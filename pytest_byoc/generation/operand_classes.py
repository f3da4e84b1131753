"""Shapes of the other operand of an elementwise step, one for each way in which it is broadcast."""

from __future__ import annotations

from collections.abc import Iterator

#: The extent by which an operand is wider than the main path.
_WIDER = 2


def operand_classes(shape: tuple[int, ...]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yields (word, shape of an operand) for each way to broadcast against a value of `shape`."""
    rank = len(shape)
    yield "scalar", ()
    yield "ones", (1,) * rank
    yield "same", shape
    for axis, extent in enumerate(shape):
        if extent > 1:
            yield f"axis_{axis - rank}", (extent,) + (1,) * (rank - axis - 1)
    if rank > 1 and shape[0] > 1:
        # Without the first axis: several rows for each element of it.
        yield "each", shape[1:]
    # Wider than the main path: by a further axis, or along one of one element.
    yield "wider", (_WIDER, *shape)
    if 1 in shape:
        yield "widened", tuple(_WIDER + 1 if d == 1 else d for d in shape)
