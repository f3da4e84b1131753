"""Collects the constants that become parameters of main."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np


class LiftedWeights:
    """Variables in place of constants, and the constants by the variables' names.

    wanted: whether a constant becomes a parameter. prefix: the beginning of the names.
    """

    def __init__(self, wanted: Callable[[np.ndarray], bool], prefix: str) -> None:
        self._wanted = wanted
        self._prefix = prefix
        self.variables: list[Any] = []
        self.arrays: dict[str, np.ndarray] = {}

    def variable(self, array: np.ndarray, make: Callable[[str], Any]) -> Any:
        """Returns the variable that `make` makes of a name; None for a constant that stays one."""
        if not self._wanted(array):
            return None
        name = "%s%d" % (self._prefix, len(self.arrays))
        self.variables.append(make(name))
        self.arrays[name] = array
        return self.variables[-1]
