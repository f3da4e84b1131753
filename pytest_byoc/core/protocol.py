"""Framed messages: JSON, and tensors as raw buffers behind it. No pickle.

A frame is the magic `BYOC`, the length of the JSON text and of all tensor bytes (two unsigned 64-bit
little-endian numbers), the text, and the bytes. Inside the JSON a tensor is an object
`{"$tensor": [dtype, shape, offset]}`, the offset counting from the first tensor byte. A bfloat16 tensor
is an array of ml_dtypes' where that is installed, else of `Bfloat16`.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

MAGIC = b"BYOC"
_HEADER = struct.Struct("<4sQQ")
#: No message of ours is near this; a longer one is garbage.
_LIMIT = 1 << 34


class Bfloat16(np.ndarray):
    """A bfloat16 tensor for a NumPy without ml_dtypes: its bits, as uint16."""


def dtype_name(array: np.ndarray) -> str:
    return "bfloat16" if isinstance(array, Bfloat16) else str(array.dtype)


class ProtocolError(ValueError):
    """Raised for bytes that are no frame."""


def encode(message: Any) -> bytes:
    """One frame. `message`: dicts with string keys, lists, str, int, float, bool, None, ndarrays."""
    buffers: list[bytes] = []
    offset = 0

    def tensor(value: Any) -> Any:
        nonlocal offset
        if isinstance(value, np.ndarray):
            buffers.append(np.ascontiguousarray(value).tobytes())
            tag = {"$tensor": [dtype_name(value), list(value.shape), offset]}
            offset += len(buffers[-1])
            return tag
        if isinstance(value, np.generic):
            return value.item()
        raise TypeError("a %s can't be sent" % type(value).__name__)

    text = json.dumps(message, default=tensor).encode()
    return b"".join([_HEADER.pack(MAGIC, len(text), offset), text] + buffers)


class Decoder:
    """Takes bytes as they come and yields the messages that are whole."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Any]:
        """Raises ProtocolError where the stream is not made of frames."""
        for frame, text in self._frames(data):
            yield _decode(frame, text)

    def feed_raw(self, data: bytes) -> Iterator[tuple[bytes, Any]]:
        """Each frame's own bytes, to be passed on, and its message, tensors left as they are written."""
        for frame, text in self._frames(data):
            yield frame, _loads(frame[_HEADER.size : text])

    def _frames(self, data: bytes) -> Iterator[tuple[bytes, int]]:
        """The frames that are whole, and where the JSON text of each ends."""
        self._buffer += data
        while len(self._buffer) >= _HEADER.size:
            magic, text_length, data_length = _HEADER.unpack_from(self._buffer)
            if magic != MAGIC or text_length + data_length > _LIMIT:
                raise ProtocolError("not a frame: %r" % bytes(self._buffer[:16]))
            text = _HEADER.size + text_length
            if len(self._buffer) < text + data_length:
                return
            frame = bytes(self._buffer[: text + data_length])
            del self._buffer[: len(frame)]
            yield frame, text


def _loads(text: bytes, hook: Callable[[Any], Any] | None = None) -> Any:
    try:
        return json.loads(text.decode(), object_hook=hook)
    except (ValueError, TypeError) as e:
        raise ProtocolError("malformed frame: %s" % e) from e


def _numpy_dtype(name: str) -> tuple[Any, Any]:
    """NumPy's dtype for a name, and the kind of array."""
    if name != "bfloat16":
        return np.dtype(name), np.ndarray
    try:
        import ml_dtypes
    except ImportError:
        return np.dtype("uint16"), Bfloat16
    return np.dtype(ml_dtypes.bfloat16), np.ndarray


def _decode(frame: bytes, start: int) -> Any:
    """The message of a frame whose tensor bytes begin at `start`."""

    def tensor(obj: Any) -> Any:
        if len(obj) == 1 and "$tensor" in obj:
            dtype, shape, offset = obj["$tensor"]
            count = 1
            for d in shape:
                count *= d
            bits, kind = _numpy_dtype(dtype)
            array = np.frombuffer(frame, dtype=bits, count=count, offset=start + offset)
            return array.reshape(shape).copy().view(kind)
        return obj

    # A tensor without elements has no bytes, but its tag.
    text = frame[_HEADER.size : start]
    return _loads(text, tensor if b'"$tensor"' in text else None)
