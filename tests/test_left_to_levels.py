"""Tests of the notes on checks that a level leaves to the next one."""

from __future__ import annotations

import pytest

from pytest_byoc.config.levels import LEVELS
from pytest_byoc.report.left_to_levels import left_to_levels

pytestmark = pytest.mark.once


def checks(notes: list[str]) -> set[str]:
    (text,) = (note for note in notes if note.startswith("the checks "))
    return set(text.removeprefix("the checks ").partition(", but for")[0].split(", "))


def test_smoke_leaves_the_expensive_checks_and_other_executors_to_standard() -> None:
    notes = left_to_levels(LEVELS["smoke"], partition_only=False)
    assert {"threads", "memory", "idempotent", "inline-back"} <= checks(notes)
    assert "numerics" not in checks(notes)
    assert any("executors but one" in note for note in notes)


def test_without_a_codegen_only_partition_checks_are_left() -> None:
    """inline-back judges each graph there, and the stages report the checks that need a build."""
    notes = left_to_levels(LEVELS["smoke"], partition_only=True)
    assert {"idempotent", "bystanders", "non-op-nodes", "dynamic"} <= checks(notes)
    assert not {"threads", "memory", "inline-back", "offload"} & checks(notes)
    assert not any("executors" in note for note in notes)


def test_standard_leaves_executors_to_full_and_full_leaves_nothing() -> None:
    (note,) = left_to_levels(LEVELS["standard"], partition_only=False)
    assert note.endswith("left to level full")
    assert left_to_levels(LEVELS["standard"], partition_only=True) == []
    assert left_to_levels(LEVELS["full"], partition_only=False) == []
