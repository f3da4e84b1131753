"""Types, values and classes of the index operands that gathering and scattering operators share."""

from __future__ import annotations

from typing import Sequence

from ..core.graph import TensorType
from .axes import one_axis
from .record import FRESH, INTEGERS, Attrs, Classes, Operand, Parameter, TypeRuleError

#: Shapes of the operand that is indexed. No extent of the first one is its rank, which codegens take for
#: each other.
SHAPES = ((6, 4, 5), (7,), (1,), (6, 5), (67, 2), (2, 3, 4, 5), (2, 1, 6, 1, 2))
INDEX_DTYPE = Parameter("index_dtype", {"int64": ("int64",), "int32": ("int32",)}, attribute=False)


def axis_classes(x: TensorType, chosen: Attrs) -> Classes:
    """Returns the values of an attribute that names one axis."""
    return one_axis(x.rank)


def permuted(count: int, n: int) -> list[int]:
    """Returns `count` positions below n in mixed order; all differ if count is at most n.

    If there are several, the last possible position is among them.
    """
    step = next(p for p in (7, 5, 3, 11, 13, 17, 19, 1) if n % p)
    positions = [(i * step + 2) % n for i in range(count)]
    if count > 1 and n - 1 not in positions:
        positions[1] = n - 1
    return positions


def integral(*types: TensorType) -> None:
    """Raises TypeRuleError unless all types are integers."""
    for t in types:
        if t.dtype not in INTEGERS:
            raise TypeRuleError("the indices have the dtype %s, integers are needed" % t.dtype)


def index_depth(x: TensorType, chosen: Attrs) -> Classes:
    """Returns the number of leading dimensions that an index selects from."""
    r = x.rank - chosen.get("batch_dims", 0)
    return {"one": (1,), "all": (r,) if r > 1 else (), "some": tuple(range(2, r))}


def coordinates(dims: Sequence[int], flat: Sequence[int]) -> list[int]:
    """Converts flat positions in a tensor of shape `dims` to coordinates.

    The coordinates along the first dimension come first, then those along the second, and so on.
    """
    rows: list[list[int]] = []
    flat = list(flat)
    for d in reversed(dims):
        rows.insert(0, [p % d for p in flat])
        flat = [p // d for p in flat]
    return [c for row in rows for c in row]


def nd_index(
    shape: tuple[int, ...], dims: Sequence[int], flat: Sequence[int], dtype: str, last: bool
) -> Operand:
    """Returns the index operand of gather_nd and scatter_nd: [M, *shape], or [*shape, M] if `last`.

    It holds the coordinates of flat positions in the M dimensions `dims`.
    """
    values, m = coordinates(dims, flat), len(dims)
    if not last:
        return Operand(FRESH, TensorType((m,) + shape, dtype), data=values)
    count = len(flat)
    values = [values[i * count + j] for j in range(count) for i in range(m)]
    return Operand(FRESH, TensorType(shape + (m,), dtype), data=values)


def nd_parts(index: TensorType, last: bool) -> tuple[int, tuple[int, ...]]:
    """Returns the number of dimensions that indices select from, and the indices' other dimensions.

    Raises TypeRuleError for indices that are no integers or have rank 0.
    """
    integral(index)
    if index.rank == 0:
        raise TypeRuleError("the indices have rank 0, one axis at least is needed")
    return (index.shape[-1], index.shape[:-1]) if last else (index.shape[0], index.shape[1:])
