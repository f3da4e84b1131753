"""Numbers that checks of patterns ask of constants: those of the field's usual formulas, those that
follow from an extent, and those found in the check's own code."""

from __future__ import annotations

import math
from collections.abc import Collection
from itertools import chain, islice, permutations
from typing import Any

#: Constants of activations, norms and quantisation as models are written with them: of hard swish,
#: softplus, gelu by erf and by tanh, and the usual epsilons.
USUAL = (
    1.0, 0.5, 2.0, 3.0, 6.0, 0.0, -1.0, 1 / 6, math.sqrt(2), 1 / math.sqrt(2), 0.044715,
    math.sqrt(2 / math.pi), 1e-5, 1e-6, 1e-12, 1e-3,
)  # fmt: skip


def of_extent(extent: int) -> tuple[float, float]:
    """Returns the scales of attention over so many elements: 1 / sqrt(d) and sqrt(d)."""
    root = math.sqrt(extent or 1)
    return 1 / root, root


def mined(words: Collection[Any]) -> list[float]:
    """Returns the numbers among the values in a check's code, without duplicates, in their order."""
    numbers = (w for w in words if isinstance(w, (int, float)) and not isinstance(w, bool))
    return list(dict.fromkeys(float(n) for n in numbers if abs(n) < _LARGEST))


def together(words: Collection[Any], count: int) -> list[tuple[float, ...]]:
    """Returns numbers in a check's code for so many constants at once: first those that stand beside
    each other in the code, in its order, then other selections of the first numbers."""
    numbers = mined(words)
    beside = (tuple(numbers[i : i + count]) for i in range(len(numbers) - count + 1))
    others = permutations(numbers[:_JOINT], count)
    return list(dict.fromkeys(islice(chain(beside, others), _SELECTIONS)))


#: The numbers of which any selection is given to several constants at once, and the most selections.
_JOINT, _SELECTIONS = 6, 200
#: Larger numbers in a check's code are limits or hashes.
_LARGEST = 1e6
