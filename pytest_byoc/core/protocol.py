"""Encodes and decodes messages between processes: JSON followed by tensors as raw bytes, no pickle.

A frame consists of the magic `BYOC`, the lengths in bytes of the JSON text and of all tensor data
(two unsigned 64-bit little-endian numbers), the text, and the data. In the JSON a tensor is an
object `{"$tensor": [dtype, shape, offset]}`; the offset counts from the first byte of tensor data.
A bfloat16 tensor is decoded to an array with ml_dtypes' dtype where that package is installed, and
otherwise to a `Bfloat16`.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

MAGIC = b"BYOC"
_HEADER = struct.Struct("<4sQQ")
#: The longest valid frame, 16 GiB: a header that states more is treated as garbage.
_LIMIT = 1 << 34


class Bfloat16(np.ndarray):
    """A bfloat16 tensor where ml_dtypes is not installed: its bits as uint16."""


def dtype_name(array: np.ndarray) -> str:
    return "bfloat16" if isinstance(array, Bfloat16) else str(array.dtype)


class ProtocolError(ValueError):
    """Raised for bytes that are not a frame."""


def encode(message: Any) -> bytes:
    """Returns a message as one frame.

    message: dicts with string keys, lists, str, int, float, bool, None and NumPy arrays.
    """
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
    """A decoder that is fed bytes in pieces and yields each message once it is complete."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Any]:
        """Yields the complete messages. Raises ProtocolError for bytes that are not a frame."""
        for frame, text in self._frames(data):
            yield _decode(frame, text)

    def feed_raw(self, data: bytes) -> Iterator[tuple[bytes, Any]]:
        """Yields each complete frame's bytes, and its message with tensors as `$tensor` objects."""
        for frame, text in self._frames(data):
            yield frame, _loads(frame[_HEADER.size : text])

    def _frames(self, data: bytes) -> Iterator[tuple[bytes, int]]:
        """Yields the complete frames, each with the offset at which its JSON text ends."""
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
    """Returns NumPy's dtype for a name, and the array class to view it as."""
    if name != "bfloat16":
        return np.dtype(name), np.ndarray
    try:
        import ml_dtypes
    except ImportError:
        return np.dtype("uint16"), Bfloat16
    return np.dtype(ml_dtypes.bfloat16), np.ndarray


def _decode(frame: bytes, start: int) -> Any:
    """Decodes a frame whose tensor data begin at offset `start`."""

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

    # The text is searched, since a tensor without elements has a tag but no data.
    text = frame[_HEADER.size : start]
    return _loads(text, tensor if b'"$tensor"' in text else None)
