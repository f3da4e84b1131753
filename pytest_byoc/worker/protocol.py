"""Framed messages: JSON, and tensors as raw buffers behind it. No pickle.

A frame is the magic `BYOC`, the length of the JSON text and of all tensor bytes (two unsigned 64-bit
little-endian numbers), the text, and the bytes. Inside the JSON a tensor is an object
`{"$tensor": [dtype, shape, offset]}`, the offset counting from the first tensor byte. A bfloat16 tensor
is an array of ml_dtypes' where that is installed, else of `Bfloat16`.
"""

from __future__ import annotations

import json
import struct
from typing import Any, Iterator, List, Tuple

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
    buffers: List[bytes] = []
    offset = 0

    def walk(value: Any) -> Any:
        nonlocal offset
        if isinstance(value, np.ndarray):
            data = np.ascontiguousarray(value).tobytes()
            tag = {"$tensor": [dtype_name(value), list(value.shape), offset]}
            buffers.append(data)
            offset += len(data)
            return tag
        if isinstance(value, dict):
            return {str(k): walk(v) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            return [walk(v) for v in value]
        if isinstance(value, np.generic):
            return value.item()
        return value

    text = json.dumps(walk(message)).encode()
    return b"".join([_HEADER.pack(MAGIC, len(text), offset), text] + buffers)


class Decoder:
    """Takes bytes as they come and yields the messages that are whole."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Any]:
        """Raises ProtocolError where the stream is not made of frames."""
        for _, message in self.feed_raw(data):
            yield message

    def feed_raw(self, data: bytes) -> Iterator[Tuple[bytes, Any]]:
        """Like `feed`, with each frame's own bytes, to be passed on."""
        self._buffer += data
        while len(self._buffer) >= _HEADER.size:
            magic, text_length, data_length = _HEADER.unpack_from(self._buffer)
            if magic != MAGIC or text_length + data_length > _LIMIT:
                raise ProtocolError("not a frame: %r" % bytes(self._buffer[:16]))
            end = _HEADER.size + text_length + data_length
            if len(self._buffer) < end:
                return
            frame = bytes(self._buffer[:end])
            del self._buffer[:end]
            yield frame, _decode(frame, text_length)


def _numpy_dtype(name: str) -> Tuple[Any, Any]:
    """NumPy's dtype for a name, and the kind of array."""
    if name != "bfloat16":
        return np.dtype(name), np.ndarray
    try:
        import ml_dtypes
    except ImportError:
        return np.dtype("uint16"), Bfloat16
    return np.dtype(ml_dtypes.bfloat16), np.ndarray


def _decode(frame: bytes, text_length: int) -> Any:
    start = _HEADER.size + text_length

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

    try:
        return json.loads(frame[_HEADER.size : start].decode(), object_hook=tensor)
    except (ValueError, TypeError) as e:
        raise ProtocolError("malformed frame: %s" % e) from e
