"""Tensors that lie where NumPy never puts them, as DLPack has them: somewhere inside a buffer, at the very
end of what can be read, at its very beginning."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np

from .poison import POISON_BYTE

#: Bytes between the beginning of the buffer and that of the tensor: a multiple of every alignment.
OFFSET = 256
#: What TVM aligns tensors to (kAllocAlignment): a target may rely on it, and read up to the next multiple.
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
        # The rest of a DLManagedTensor.
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


class Placed:
    """An array's values copied into a buffer, for a consumer of DLPack. Keep it as long as what is made of
    it: it owns the memory.

    start: the byte of the buffer at which the tensor begins. offset: by how much of that its `byte_offset`
    says so, and not its `data`. strides: whether they are given, and not left to be those of a dense one.
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
        """Makes its buffer, of whole pages, unreadable."""
        _forbid(self._buffer.ctypes.data, len(self._buffer))

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **_: Any) -> Any:
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        return new(ctypes.addressof(self._tensor), b"dltensor", None)


#: Tensors that others were made of: nobody says when the last one goes.
KEPT: list[Placed] = []


def _keep(placed: Placed) -> Placed:
    KEPT.append(placed)
    return placed


#: Those of them that `take_away` takes away.
_fenced_ones: list[Placed] = []


def _keep_fenced(placed: Placed) -> Placed:
    _fenced_ones.append(placed)
    return _keep(placed)


def can_place(array: np.ndarray) -> bool:
    """Not bool, which TVM and DLPack count differently, nor bfloat16, which NumPy lacks."""
    return array.dtype.kind in _CODES and array.dtype.kind != "b"


def view(array: np.ndarray) -> Placed:
    """A tensor with a `byte_offset`, its strides written out, as other frameworks hand over their views."""
    buffer = np.full(2 * OFFSET + array.nbytes + 1, POISON_BYTE, np.uint8)
    return _keep(Placed(array, buffer, -buffer.ctypes.data % OFFSET + OFFSET, OFFSET, strides=True))


def at_end(array: np.ndarray) -> Placed:
    """A tensor behind which, but for what is left of its last ALIGNED bytes, nothing can be read."""
    buffer = _fenced(array.nbytes)
    start = len(buffer) - array.nbytes - -array.nbytes % ALIGNED
    return _keep_fenced(Placed(array, buffer, start))


def at_beginning(array: np.ndarray) -> Placed:
    """A tensor before which nothing can be read."""
    return _keep_fenced(Placed(array, _fenced(array.nbytes), 0))


def take_away() -> None:
    """Lets nobody read what tensors placed `at_end` or `at_beginning` held, as if it had been freed."""
    for placed in _fenced_ones:
        placed.forbid()
    _fenced_ones.clear()


def _fenced(size: int) -> np.ndarray:
    """Whole pages of at least so many bytes, between two that can't be read. Raises OSError."""
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
