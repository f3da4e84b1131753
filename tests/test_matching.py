"""What one pattern makes of a graph, and how far its check gets, with a stand-in for the IR."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy
import pytest

from pytest_byoc.worker import matching


class OnePattern:
    """An IR in which the pattern's structure is met, or not, and the check decides over a number."""

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


def test_progress_grows_with_what_is_executed() -> None:
    said = [matching.alone(OnePattern(), number, check) for number in (5, 12, 30)]
    assert [s["matched"] for s in said] == [False, False, True]
    assert 0 < said[0]["progress"] < said[1]["progress"]
    assert all(s["structure"] for s in said)
    assert "NHWC" in said[1]["words"] and 10 in said[1]["words"] and "int8" in said[1]["words"]


def test_what_the_check_raises_is_told() -> None:
    said = matching.alone(OnePattern(), 13, check)
    assert said["structure"] and not said["matched"] and said["raised"] == "ValueError: odd"


def test_without_the_structure_the_arguments_are_told() -> None:
    said = matching.alone(OnePattern(structure=False), 30, check)
    assert not said["structure"] and said["arguments"] == {"nn.relu": [1]} and not said["progress"]


def test_a_tracer_that_was_there_is_there_afterwards() -> None:
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

    said = matching.alone(OnePattern(), 1, importing)
    assert said["matched"] and 0 < said["progress"] < 100
