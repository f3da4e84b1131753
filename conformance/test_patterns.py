"""The target's own patterns: each in each of its ways, and graphs one step off."""

from __future__ import annotations

import pytest

from pytest_byoc.generation.patterns import kind, near_misses, spread
from pytest_byoc.session import TargetSession


def test_pattern(byoc_target: TargetSession, byoc_pattern: str) -> None:
    found = byoc_target.found(byoc_pattern)
    # Graphs that another pattern takes in its place are the target's all the same.
    for fragment in found.shadowed[:1] if not found.fragments else ():
        byoc_target.check(fragment.graph, f"{byoc_pattern}[shadowed]")
    if not found.fragments:
        pytest.skip(f"{'shadowed' if found.shadowed else 'never matched'}: {found.reason}")
    level = byoc_target.settings.level
    for number, fragment in enumerate(found.fragments[: level.ways]):
        byoc_target.check(fragment.graph, f"{byoc_pattern}[{fragment.way}]", chosen=number == 0)
    near = [
        (kind(label), (f"{byoc_pattern}[{fragment.way}-{label}]", graph))
        for fragment in found.fragments
        for label, graph in near_misses(fragment.graph, byoc_target.ir)
    ]
    for case, graph in spread(near, level.near_misses):
        byoc_target.check(graph, case)
