"""Tests of matching one pattern and of the progress of its check, with a stand-in for the IR."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy
import pytest

from pytest_byoc.worker import matching


class OnePattern:
    """Stands for an IR in which the pattern's structure matches or not, and the check gets a
    number."""

    def __init__(self, structure: bool = True) -> None:
        self.structure = structure

    def match_alone(self, module: int, entry: Any, watch: Any) -> bool:
        return self.structure and (watch is None or bool(watch(entry)(module)))

    def arguments(self, module: int) -> dict[str, list[int]]:
        return {"nn.relu": [1]}


def check(number: int) -> bool:
    if number < 10:
        return False
    if number % 2:
        raise ValueError("odd")
    layout = "NHWC"
    return bool(layout) and number > 20 and numpy.int8 is not numpy.int16


def test_progress_grows_with_executed_instructions() -> None:
    results = [matching.alone(OnePattern(), number, check) for number in (5, 12, 30)]
    assert [s["matched"] for s in results] == [False, False, True]
    assert 0 < results[0]["progress"] < results[1]["progress"]
    assert all(s["structure"] for s in results)
    assert "NHWC" in results[1]["words"] and 10 in results[1]["words"] and "int8" in results[1]["words"]


def gathering(number: int) -> bool:
    conditions = []
    conditions.append(number > 10)
    conditions.append(number > 20)
    even = is_even(number)
    return all(conditions) and even


def is_even(number: int) -> bool:
    return number % 2 == 0


def test_progress_grows_with_gathered_conditions() -> None:
    """The same instructions are executed, whatever holds."""
    results = [matching.alone(OnePattern(), number, gathering) for number in (5, 15, 16, 25)]
    progress = [s["progress"] for s in results]
    assert not any(s["matched"] for s in results)
    assert progress[0] < progress[1] < progress[2] and progress[1] < progress[3]


def test_words_are_in_the_order_of_the_code() -> None:
    words = matching.alone(OnePattern(), 30, gathering)["words"]
    assert [w for w in words if isinstance(w, int)][:3] == [10, 20, 2]


def test_an_exception_of_the_check_is_reported() -> None:
    result = matching.alone(OnePattern(), 13, check)
    assert result["structure"] and not result["matched"] and result["raised"] == "ValueError: odd"


def test_without_a_structural_match_the_arguments_are_reported() -> None:
    result = matching.alone(OnePattern(structure=False), 30, check)
    assert not result["structure"] and result["arguments"] == {"nn.relu": [1]} and not result["progress"]


def test_an_existing_tracer_is_restored() -> None:
    def tracer(frame: Any, event: str, _: Any) -> None:
        return None

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        matching.alone(OnePattern(), 30, check)
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(before)


def test_importing_is_no_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = "\n".join(f"value_{i} = {i}" for i in range(500))
    (tmp_path / "byoc_much_to_import.py").write_text(body)
    monkeypatch.syspath_prepend(tmp_path)

    def importing(number: int) -> bool:
        import byoc_much_to_import  # type: ignore[import-not-found]

        return bool(byoc_much_to_import.value_3 > number)

    result = matching.alone(OnePattern(), 1, importing)
    assert result["matched"] and 0 < result["progress"] < 100


#: A number that a check reads from its module.
EPSILON = 1e-7


def test_numbers_of_a_check_come_from_its_arguments_its_closure_and_its_module() -> None:
    limits = {"scale": 0.044715}

    def close(value: float, *wanted: float, slack: float = 0.25) -> bool:
        return any(abs(value - w) <= slack * limits["scale"] * EPSILON for w in wanted)

    result = matching.alone(OnePattern(), 30, lambda number: close(number, 6.0, 3.0))
    assert {0.25, 6.0, 3.0, 0.044715, EPSILON} <= set(result["words"])


def test_progress_grows_with_repetitions_by_less_than_one() -> None:
    def all_small(number: int) -> bool:
        return all(k < 5 for k in range(number))

    few, many = (matching.alone(OnePattern(), number, all_small)["progress"] for number in (3, 5))
    assert few < many < few + 1
