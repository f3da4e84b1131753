"""Places tensors where NumPy never does, and offers them through DLPack.

A tensor can lie inside a larger buffer, or next to a page that can't be read: in front of it or
behind it.
"""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np

from .poison import POISON_BYTE

#: Bytes between the beginning of the buffer and of the tensor. A multiple of every alignment in
#: use.
OFFSET = 256
#: The alignment of TVM's tensors in bytes (kAllocAlignment). A target may rely on it, and may read
#: up to the next multiple.
ALIGNED = 64
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
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
        # The remaining fields of a DLManagedTensor.
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


class Placed:
    """A tensor in a given buffer that consumers of DLPack can use; the array's values are copied.

    It owns the memory, so it has to outlive all tensors made from it. start: the byte of the buffer
    at which the tensor begins. offset: the tensor's `byte_offset`; `data` points to that many bytes
    before its beginning. strides: whether strides are written out, or NULL (dense).
    """

    def __init__(
        self, array: np.ndarray, buffer: np.ndarray, start: int, offset: int = 0, strides: bool = False
    ) -> None:
        self._buffer = buffer
        if array.size:
            data = np.ascontiguousarray(array).view(np.uint8).reshape(-1)
            buffer[start : start + array.nbytes] = data
        self._shape = (ctypes.c_int64 * max(array.ndim, 1))(*array.shape)
        dense = [int(np.prod(array.shape[axis + 1 :])) for axis in range(array.ndim)]
        self._strides = (ctypes.c_int64 * max(array.ndim, 1))(*dense)
        self._tensor = _Tensor(
            buffer.ctypes.data + start - offset, 1, 0, array.ndim, _CODES[array.dtype.kind],
            array.dtype.itemsize * 8, 1, self._shape, self._strides if strides else None, offset, None, None,
        )

    def forbid(self) -> None:
        """Makes the buffer, which has to consist of whole pages, unreadable."""
        _forbid(self._buffer.ctypes.data, len(self._buffer))

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **_: Any) -> Any:
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        return new(ctypes.addressof(self._tensor), b"dltensor", None)


#: All placed tensors. They are kept alive, since it is unknown when the last consumer ends.
KEPT: list[Placed] = []


def _keep(placed: Placed) -> Placed:
    KEPT.append(placed)
    return placed


#: The placed tensors whose buffers `take_away` makes unreadable.
_fenced_ones: list[Placed] = []


def _keep_fenced(placed: Placed) -> Placed:
    _fenced_ones.append(placed)
    return _keep(placed)


def can_place(array: np.ndarray) -> bool:
    """Returns whether tensors of the array's dtype can be placed.

    Excluded are bool, whose bits TVM and DLPack count differently, and bfloat16, which NumPy lacks.
    """
    return array.dtype.kind in _CODES and array.dtype.kind != "b"


def view(array: np.ndarray) -> Placed:
    """Returns a tensor with a `byte_offset` and explicit strides, like other frameworks' views."""
    buffer = np.full(2 * OFFSET + array.nbytes + 1, POISON_BYTE, np.uint8)
    return _keep(Placed(array, buffer, -buffer.ctypes.data % OFFSET + OFFSET, OFFSET, strides=True))


def at_end(array: np.ndarray) -> Placed:
    """Returns a tensor behind which at most a rest of its last ALIGNED bytes can be read."""
    buffer = _fenced(array.nbytes)
    start = len(buffer) - array.nbytes - -array.nbytes % ALIGNED
    return _keep_fenced(Placed(array, buffer, start))


def at_beginning(array: np.ndarray) -> Placed:
    """Returns a tensor in front of which nothing can be read."""
    return _keep_fenced(Placed(array, _fenced(array.nbytes), 0))


def take_away() -> None:
    """Makes tensors placed by `at_end` or `at_beginning` unreadable, as if they had been freed."""
    for placed in _fenced_ones:
        placed.forbid()
    _fenced_ones.clear()


def _fenced(size: int) -> np.ndarray:
    """Returns whole pages of at least `size` bytes between two unreadable pages. Raises OSError."""
    page = mmap.PAGESIZE
    inner = max(1, -(-size // page)) * page
    whole = np.frombuffer(mmap.mmap(-1, inner + 2 * page), np.uint8)
    _forbid(whole.ctypes.data, page)
    _forbid(whole.ctypes.data + page + inner, page)
    buffer = whole[page : page + inner]
    buffer[:] = POISON_BYTE
    return buffer


def _forbid(address: int, size: int) -> None:
    """Makes whole pages unreadable. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    if libc.mprotect(address, size, 0):
        raise OSError(ctypes.get_errno(), "mprotect")
