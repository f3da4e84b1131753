"""Small named graphs whose flow of values trips partitioners and codegens.

Their operators depend on the target: `unary`, `binary` … are operators that it offloads, `host` is
one that it does not. Each structure is one function; its docstring says what goes wrong with it in
practice, and gives the number of the class of bugs.
"""

from __future__ import annotations

from . import (
    composites,
    constants,
    counts,
    dataflow,
    epilogues,
    layers,
    memory,
    padding,
    sequences,
    simplified,
    tuples,
)
from .vocabulary import EXHAUSTIVE, NUMERIC, STRUCTURES, Unavailable, Vocabulary

__all__ = [
    "EXHAUSTIVE", "NUMERIC", "STRUCTURES", "Unavailable", "Vocabulary", "composites", "constants", "counts",
    "dataflow", "epilogues", "layers", "memory", "padding", "sequences", "simplified", "tuples",
]

padding.register()
# They come last because they take longest.
epilogues.register()
