"""Small graphs of named shapes: the ways values can flow that trip partitioners and codegens.

Operators are chosen for the target: `unary`, `binary` … are ones it takes, `host` is one it does
not. Each structure is one function; its docstring says what goes wrong there in practice, with the
number of the class of bugs.
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
# Behind the others: they take longest.
epilogues.register()
