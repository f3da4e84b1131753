"""Tests of the words and the picture that show where an output is wrong."""

from __future__ import annotations

import json

import numpy as np
import pytest

from pytest_byoc.evidence.difference import LARGEST, SIDE, describe, pack, picture, unpack

pytestmark = pytest.mark.once


def mask(shape: tuple[int, ...], *where: object) -> np.ndarray:
    """Returns an array that is True at these indices and False elsewhere."""
    array = np.zeros(shape, bool)
    for index in where:
        array[index] = True  # type: ignore[call-overload]
    return array


@pytest.mark.parametrize(
    "outside, words",
    [
        (mask((3, 4), np.s_[:]), "all elements"),
        (mask((1, 1), np.s_[:]), "the only element"),
        (mask((3, 4), (1, 2)), "one element"),
        (~mask((3, 4), (1, 2)), "every element but one"),
        (mask((5,), np.s_[3:]), "elements 3 and up"),
        (mask((5,), 0), "one element"),
        (mask((4, 7), np.s_[1:]), "every row but the first"),
        (mask((4, 7), np.s_[:-1]), "every row but the last"),
        (~mask((4, 7), 2), "every row but 2"),
        (mask((4, 7), 0), "the first row"),
        (mask((4, 7), 2), "row 2 of 4"),
        (mask((5, 7), np.s_[1:4]), "rows 1 to 3 of 5"),
        (mask((5, 7), np.s_[2:]), "rows 2 and up"),
        (mask((4, 7), np.s_[:, -3:]), "the last 3 of each row of 7"),
        (mask((4, 7), np.s_[:, :2]), "the first 2 of each row of 7"),
        (mask((4, 7), np.s_[:, 1:]), "every column but the first"),
        (mask((4, 7), np.s_[:, ::2]), "every second column"),
        (mask((4, 7), np.s_[:, 1::2]), "every second column from column 1 on"),
        (mask((4, 9), np.s_[:, ::3]), "every third column"),
        (mask((4, 9), np.s_[:, [1, 2, 6]]), "columns 1, 2 and 6 of 9"),
        (mask((4, 7), np.s_[1:, -3:]), "columns 4 and up of every row but the first"),
        (mask((2, 3, 5), np.s_[1]), "the last index along axis 0"),
        (mask((2, 3, 5), np.s_[1, 0]), "the first row of the last index along axis 0"),
        (mask((4, 4), *((i, i) for i in range(4))), "the diagonal"),
        (~mask((4, 4), *((i, i) for i in range(4))), "all but the diagonal"),
        (mask((3, 3), (0, 1), (0, 2), (1, 2)), "all above the diagonal"),
        (mask((3, 5), (1, np.s_[3:]), 2), "elements 8 and up, counted row by row"),
        (~mask((6, 6), np.s_[1:4, 2:5]), "all but columns 2 to 4 of 6 of rows 1 to 3 of 6"),
        (mask((3, 5), (0, 1), (1, 3), (2, 0), (2, 2)), ""),
        (mask((3, 5)), ""),
        (mask((0, 5)), ""),
        (mask((), ()), "the only element"),
    ],
)
def test_the_words_for_a_difference(outside: np.ndarray, words: str) -> None:
    assert describe(outside) == words


def test_axes_are_named_after_the_layout() -> None:
    assert describe(mask((2, 8, 3, 3), np.s_[:, 4:]), "NCHW") == "channels 4 and up"
    assert describe(mask((2, 3, 3, 8), np.s_[..., 4:]), "NHWC") == "channels 4 and up"
    assert describe(mask((2, 3, 4, 8), np.s_[1:, 0]), "NHWC") == "the first row of the last image"
    assert describe(mask((2, 8, 3, 3), np.s_[:, 4:])) == "indices 4 and up along axis 1"
    # A layout of another rank, or of blocks, gives no names.
    assert describe(mask((8, 3), np.s_[4:]), "NCHW") == "rows 4 and up"
    assert describe(mask((2, 8, 3, 3, 4), np.s_[1:]), "NCHW4c") == "the last index along axis 0"


def test_the_words_describe_exactly_one_mask() -> None:
    """With one element more or less, the words differ or there are none."""
    whole = mask((4, 7), np.s_[1:])
    for at in ((0, 3), (2, 5)):
        other = whole.copy()
        other[at] ^= True
        assert describe(other) != describe(whole)


def test_a_packed_mask_survives_json() -> None:
    for shape in ((), (0, 3), (1,), (3, 5), (2, 3, 4, 5)):
        original = np.random.default_rng(1).random(shape) < 0.5
        back = unpack(json.loads(json.dumps(pack(original))))
        assert back.shape == original.shape and (back == original).all()
    assert pack(np.zeros(LARGEST + 1, bool)) is None


def test_a_picture_folds_axes_and_pools_large_outputs() -> None:
    assert picture(mask((2, 2, 3), (1, 0, 2))) == {"rows": ["000", "000", "002", "000"], "group": 2}
    assert picture(mask((), ())) == {"rows": ["2"], "group": 0}
    assert picture(mask((0, 4))) == {"rows": [], "group": 0}
    pooled = picture(mask((200, 129), np.s_[:8, 3], np.s_[4:8]))
    assert len(pooled["rows"]) <= SIDE and len(pooled["rows"][0]) <= SIDE
    assert pooled["rows"][0][:3] == "010" and set(pooled["rows"][1]) == {"2"}
