"""Rewrites a module's JSON so that it computes in float64 where it computed in smaller floats.

In TVM's JSON, of Relay and of Relax, each dtype is a text, whether of a type, of an attribute of a call
or of a buffer of TIR, and each constant is the base64 text of its bytes. So one rewriting serves all.
"""

from __future__ import annotations

import base64
import json
import re
import struct
from typing import Any

import numpy as np

#: A dtype, perhaps of a vector, whose place float64 takes.
_SMALLER = re.compile(r"(?:float16|bfloat16|float32)(x\d+)?\Z")
#: How a tensor's bytes begin in TVM's files: a magic number and a reserved one, the kind and number of
#: the device, the rank, and the dtype as code, bits and lanes. The extents and the size in bytes follow.
_HEAD = struct.Struct("<QQiiiBBH")
_MAGIC = 0xDD5E40F096B4A13F
#: The beginning of the base64 text of any tensor.
_TENSOR = base64.b64encode(struct.pack("<QB", _MAGIC, 0)).decode()[:10]
_FLOAT, _BFLOAT = 2, 4


def in_float64(text: str) -> str:
    """Returns the JSON of a module whose smaller floats are all float64. text: that of TVM's save_json."""
    return json.dumps(_rewritten(json.loads(text)))


def _rewritten(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rewritten(v) for key, v in value.items()}
    if isinstance(value, list):
        return [_rewritten(v) for v in value]
    if not isinstance(value, str):
        return value
    if value.startswith(_TENSOR):
        return _tensor(value)
    found = _SMALLER.match(value)
    return "float64" + (found.group(1) or "") if found else value


def _tensor(text: str) -> str:
    """Returns the text of a tensor with its elements as float64, if they are smaller floats."""
    content = base64.b64decode(text)
    magic, reserved, device, number, rank, code, bits, lanes = _HEAD.unpack_from(content)
    if code not in (_FLOAT, _BFLOAT) or bits not in (16, 32):
        return text
    at = _HEAD.size + 8 * rank
    elements = _elements(content[at + 8 :], code, bits)
    head = _HEAD.pack(magic, reserved, device, number, rank, _FLOAT, 64, lanes)
    size = struct.pack("<q", elements.nbytes)
    return base64.b64encode(head + content[_HEAD.size : at] + size + elements.tobytes()).decode()


def _elements(content: bytes, code: int, bits: int) -> np.ndarray:
    """Returns the elements of a tensor's bytes as float64."""
    if code == _BFLOAT:
        # The bits of a bfloat16 are the upper half of those of a float32.
        upper = np.frombuffer(content, "<u2").astype(np.uint32) << np.uint32(16)
        return upper.view(np.float32).astype("<f8")
    return np.frombuffer(content, "<f%d" % (bits // 8)).astype("<f8")
