"""Tests of frames: decoding restores what was encoded, and garbage is refused."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from pytest_byoc.core.protocol import Bfloat16, Decoder, ProtocolError, dtype_name, encode
from pytest_byoc.generation.data import numpy_dtype


def test_round_trip_in_pieces() -> None:
    message = {
        "n": None, "f": 1.5, "list": [1, "two", True],
        "arrays": {k: np.arange(6).astype(k).reshape(2, 3) for k in ("float16", "float64", "int8", "bool")},
        "scalar": np.array(3, "int64"), "empty": np.zeros((0, 4), "float32"),
    }
    data = encode(message) + encode({"next": 1})
    decoder = Decoder()
    decoded = [m for i in range(0, len(data), 7) for m in decoder.feed(data[i : i + 7])]
    assert decoded[1] == {"next": 1}
    assert decoded[0]["list"] == [1, "two", True] and decoded[0]["n"] is None
    for k, array in message["arrays"].items():
        assert decoded[0]["arrays"][k].dtype == k
        np.testing.assert_array_equal(decoded[0]["arrays"][k], array)
    assert decoded[0]["scalar"].shape == () and decoded[0]["empty"].shape == (0, 4)


@pytest.mark.parametrize(
    "data",
    [b"garbage of some length, more than a header", b"BYOC" + b"\xff" * 16, encode({})[:20] + b"[}"],
)
def test_garbage_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        list(Decoder().feed(data))


def test_pickle_is_refused() -> None:
    with pytest.raises(TypeError):
        encode({"object": object()})


def test_bfloat16_keeps_its_bits_and_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.arange(6).reshape(2, 3).astype(numpy_dtype("bfloat16"))
    frame = encode({"x": array})
    (message,) = Decoder().feed(frame)
    assert message["x"].dtype == array.dtype and np.array_equal(message["x"], array)
    # An interpreter without ml_dtypes has the bits, and sends them back under the same name.
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    (message,) = Decoder().feed(frame)
    assert isinstance(message["x"], Bfloat16) and message["x"].dtype == np.uint16
    assert dtype_name(message["x"]) == "bfloat16"
    assert encode(message) == frame
