"""Keeps the large weights of a model in files, which all processes map into memory.

In TVM's JSON a weight would be text a third longer, which each job would have to parse.
"""

from __future__ import annotations

import hashlib
import os
from typing import Any, Mapping

import numpy as np

from ..ir.interface import IR

#: The least bytes of a weight that is kept in a file.
LARGE = 1 << 14
#: The beginning of the names of parameters that stand for weights.
_PREFIX = "byoc_weight_"


def large(array: np.ndarray) -> bool:
    """Returns whether an array is kept in a file. NumPy's files have no bfloat16."""
    return array.nbytes >= LARGE and array.dtype.kind in "fiub" and array.dtype.isbuiltin == 1


class Weights:
    """Arrays in a folder, equal ones once."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        os.makedirs(folder, exist_ok=True)

    def store(self, array: np.ndarray) -> str:
        """Returns the path of the file with an array."""
        array = np.ascontiguousarray(array)
        digest = hashlib.blake2b(array.view(np.uint8).reshape(-1).data, digest_size=16)
        digest.update(("%s %s" % (array.dtype, array.shape)).encode())
        path = os.path.join(self._folder, digest.hexdigest() + ".npy")
        if not os.path.exists(path):
            np.save(path, array)
        return path

    def without(self, ir: IR, module: Any) -> tuple[Any, dict[str, str]]:
        """Returns a module without its large weights, and the paths of these by parameter of main."""
        module, arrays = ir.unbound(module, large, _PREFIX)
        return module, {name: self.store(array) for name, array in arrays.items()}


def with_weights(ir: IR, module: Any, paths: Mapping[str, str]) -> Any:
    """Returns the module with the weights that `Weights.without` has taken out of it."""
    return ir.bound(module, {name: np.load(path, mmap_mode="r") for name, path in paths.items()})
