"""Adapts graphs to targets that do not offload them in the form in which they are made.

Systematic cases, structures and graphs of two operators in a row are made in float32, for batches
of two or three, with different ranks, and with channels second. A target that offloads only
float16, batches of one, tensors of four axes, of two, or channels last would offload none of them. Each
way of adapting graphs has its own file here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import combinations

from ...core.graph import Graph, TensorType
from .attributes import Demand, demands, keeps_operands, with_attributes
from .batch_of_one import batch_of_one
from .channels_last import channels_last
from .dtypes import in_dtype
from .four_axes import four_axes, in_four
from .parts import has_layout
from .two_axes import in_two, two_axes

#: The ways in which a target needs its graphs adapted, by name, in order of application.
Form = tuple[str, ...]

_FOUR, _TWO, _ONE, _LAST = "four axes", "two axes", "a batch of one", "channels last"
#: Targets often offload operators on images in this form alone, and others unchanged.
LAST: Form = (_LAST,)
_SHAPES: dict[str, Callable[[Graph, str], Graph | None]] = {
    _FOUR: four_axes, _TWO: two_axes, _ONE: batch_of_one, _LAST: channels_last,
}
_DTYPES = ("float16", "int8", "uint8", "int32", "bfloat16", "float64")
_WAYS: dict[str, Callable[[Graph, str], Graph | None]] = {
    **_SHAPES, **{dtype: partial(in_dtype, dtype) for dtype in _DTYPES},
}


def forms() -> Iterator[Form]:
    """Yields all forms, those of the fewest ways first."""
    for dtype_too in range(2):
        for number in range(len(_SHAPES) + 1):
            for shapes in combinations(_SHAPES, number):
                if _TWO in shapes and not {_FOUR, _LAST}.isdisjoint(shapes):
                    continue
                if dtype_too:
                    yield from ((*shapes, dtype) for dtype in _DTYPES)
                elif shapes:
                    yield shapes


def adapted(graph: Graph, form: Form, ir: str) -> Graph | None:
    """Returns the graph in that form, as far as that is possible; None if nothing has changed."""
    result: Graph | None = None
    for way in form:
        changed = _WAYS[way](result or graph, ir)
        result = changed or result
    return result


def joined(several: Iterable[Form]) -> Form:
    """Returns one form for a graph whose operators each need their own; of dtypes it has the
    first."""
    ways = dict.fromkeys(way for form in several for way in form)
    dtypes = [way for way in ways if way in _DTYPES]
    return tuple(way for way in _WAYS if way in ways and way not in dtypes[1:])


def lead(x: TensorType, form: Form) -> TensorType:
    """Returns the type of a first operand in that form, but with its own dtype."""
    shape = in_four(x.shape) if _FOUR in form and 0 < x.rank < 4 else x.shape
    shape = in_two(shape) if _TWO in form and x.rank > 2 else shape
    return replace(x, shape=(1, *shape[1:]) if _ONE in form and len(shape) > 1 else shape)


__all__ = [
    "LAST", "Demand", "Form", "adapted", "channels_last", "demands", "forms", "has_layout", "joined",
    "keeps_operands", "lead", "with_attributes",
]
