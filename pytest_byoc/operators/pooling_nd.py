"""Pooling in one and three dimensions, and to a given size."""

from __future__ import annotations

from typing import Any, Sequence

from ..core.graph import TensorType
from . import pooling
from .convolution import image, is_image, laid_out, layouts
from .record import (
    FLOATS,
    NUMBERS,
    Attrs,
    Classes,
    Lowering,
    Operator,
    Parameter,
    TypeRuleError,
    call,
)

#: Shapes by the number of spatial axes. They cover: extents that all differ, a batch above 1, an
#: extent of 1, and an extent that is no multiple of a vector's length.
_SHAPES: dict[int, tuple[tuple[int, ...], ...]] = {
    1: ((1, 4, 9), (2, 3, 7), (1, 2, 67), (3, 5, 4), (1, 17, 1)),
    2: pooling.SHAPES,
    3: ((1, 4, 5, 7, 6), (2, 3, 4, 5, 8), (1, 1, 3, 9, 5), (3, 2, 1, 4, 5), (1, 17, 4, 3, 2)),
}


def _output_size(x: TensorType, chosen: Attrs) -> Classes:
    """Returns output sizes, by whether they divide the image's; None stands for the image's own."""
    _, _, sizes = image(x, chosen["layout"])
    n = len(sizes)
    divided = tuple(next((d for d in (2, 3) if s > d and s % d == 0), s) for s in sizes)
    uneven = tuple(next((d for d in (4, 3, 2) if s > d and s % d), s) for s in sizes)
    # Some axes are pooled, the others keep their size.
    ones = (1,) * (n - 1)
    mixed = {
        "mixed": (sizes[:-1] + (2,), (2,) + sizes[1:]),
        "one_row": (ones + (2,),),
        "one_column": ((2,) + ones,),
    }
    # In one dimension TVM 0.27 does not accept None: it fails to read the image's size.
    unset = {"unset": (None,)} if n > 1 else {}
    return {
        "uneven": (uneven,) if uneven != sizes else (),
        "divided": (divided,) if divided != sizes else (),
        "one": ((1,) * n,),
        **(mixed if n > 1 else {}),
        "larger": (tuple(s + 2 for s in sizes), tuple(2 * s for s in sizes)),
        "same": (sizes,),
        **unset,
    }


def _adaptive_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    x = types[0]
    batch, channels, sizes = image(x, attrs["layout"])
    wanted = sizes if attrs["output_size"] is None else tuple(attrs["output_size"])
    if len(wanted) != len(sizes) or min(wanted) < 1:
        raise TypeRuleError("%s cannot be pooled to the size %s" % (x, wanted))
    return (TensorType(laid_out(batch, channels, wanted, attrs["layout"]), x.dtype),)


def _adaptive(kind: str, n: int, accuracy: str, dtypes: tuple[str, ...], in_relax: bool) -> Operator:
    name = "nn.adaptive_%s_pool%dd" % (kind, n)
    lowering: Lowering | None = call(name)
    fields: dict[str, Any] = {"relay": lowering, "relax": lowering if in_relax else None}
    return Operator(
        name=name,
        infer=_adaptive_infer,
        shapes=_SHAPES[n],
        accuracy=accuracy,
        accepts=is_image(n),
        dtypes=dtypes,
        parameters=(
            Parameter("layout", lambda x, chosen: layouts(x.rank - 2)),
            Parameter("output_size", _output_size),
        ),
        **fields,
    )


OPERATORS: tuple[Operator, ...] = (
    *(pooling.max_pool(n, _SHAPES[n]) for n in (1, 3)),
    *(pooling.avg_pool(n, _SHAPES[n]) for n in (1, 3)),
    *(_adaptive("avg", n, pooling.AVERAGE, FLOATS, True) for n in (1, 2, 3)),
    # Relax has no adaptive max pooling.
    *(_adaptive("max", n, "exact", NUMBERS, False) for n in (1, 2, 3)),
)
