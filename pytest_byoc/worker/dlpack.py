"""Tensors that begin somewhere inside their buffer, as DLPack has them and NumPy never hands them out."""

from __future__ import annotations

import ctypes
from typing import Any, List, Tuple

import numpy as np

from ..checks.outputs_written import POISON_BYTE

#: Bytes between the beginning of the buffer and that of the tensor: a multiple of every alignment.
OFFSET = 256
_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
        # The rest of a DLManagedTensor.
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


class View:
    """An array's values as a tensor with `byte_offset`, for a consumer of DLPack. Keep it as long as
    what is made of it: it owns the memory."""

    def __init__(self, array: np.ndarray) -> None:
        if array.dtype.kind not in _CODES or array.dtype.kind == "b":
            raise TypeError("no view of dtype %s" % array.dtype)
        self.whole = np.full(2 * OFFSET + array.nbytes + 1, POISON_BYTE, np.uint8)
        start = -self.whole.ctypes.data % OFFSET
        data = np.ascontiguousarray(array).view(np.uint8).reshape(-1) if array.size else self.whole[:0]
        self.whole[start + OFFSET : start + OFFSET + array.nbytes] = data
        self._shape = (ctypes.c_int64 * max(array.ndim, 1))(*array.shape)
        self._tensor = _Tensor(
            self.whole.ctypes.data + start, 1, 0, array.ndim, _CODES[array.dtype.kind],
            array.dtype.itemsize * 8, 1, self._shape, None, OFFSET, None, None,
        )

    def __dlpack_device__(self) -> Tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **_: Any) -> Any:
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        return new(ctypes.addressof(self._tensor), b"dltensor", None)


#: Views that tensors were made of: nobody says when the last one goes.
KEPT: List[View] = []


def view(array: np.ndarray) -> View:
    """Raises TypeError for bool and bfloat16."""
    made = View(array)
    KEPT.append(made)
    return made
