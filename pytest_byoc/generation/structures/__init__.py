"""Structures: small named graphs that partitioners and codegens often get wrong.

Their operators depend on the target: some are operators that it offloads, `host` is one that it does
not. Most structures are made by rule, each rule in its own file: things that agree in a property
(`confusables`), values that are shared (`flows`), numbers that a table has room for (`limits`),
conditions of rewrites (`neutral`, `rewrites`, `fusions`), layers and what is fused behind them (`layers`,
`blocks`, `operands`, `padding`, `epilogues`, `quantised`). Docstrings name the classes of bugs that they are
for (docs/explanation/bug-classes.md).
"""

from __future__ import annotations

from . import (
    blocks,
    by_hand,
    confusables,
    epilogues,
    flows,
    fusions,
    layers,
    limits,
    neutral,
    operands,
    padding,
    quantised,
    rewrites,
)
from .vocabulary import EXHAUSTIVE, NUMERIC, STRUCTURES, Unavailable, Vocabulary

__all__ = ["EXHAUSTIVE", "NUMERIC", "STRUCTURES", "Unavailable", "Vocabulary"]

_PARTS = (
    by_hand, layers, blocks, confusables, flows, neutral, rewrites, fusions, limits, padding, operands,
    epilogues, quantised,
)
for _part in _PARTS:
    _part.register()
# The structures that take longest come last.
for _name in [name for name in STRUCTURES if name in EXHAUSTIVE]:
    STRUCTURES[_name] = STRUCTURES.pop(_name)
