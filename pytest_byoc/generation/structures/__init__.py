"""Structures: small named graphs that partitioners and codegens often get wrong.

Their operators depend on the target: `unary`, `binary` … are operators that it offloads, `host` is
one that it does not. Each structure is one function; its docstring describes the graph, and gives
the numbers of the classes of bugs that it is for (docs/explanation/bug-classes.md).
"""

from __future__ import annotations

from . import (
    composites,
    constants,
    counts,
    dataflow,
    epilogues,
    layers,
    lengths,
    memory,
    padding,
    sequences,
    simplified,
    tuples,
)
from .vocabulary import EXHAUSTIVE, NUMERIC, STRUCTURES, Unavailable, Vocabulary

__all__ = [
    "EXHAUSTIVE", "NUMERIC", "STRUCTURES", "Unavailable", "Vocabulary", "composites", "constants", "counts",
    "dataflow", "epilogues", "layers", "lengths", "memory", "padding", "sequences", "simplified", "tuples",
]

padding.register()
# They come last because they take longest.
epilogues.register()
