"""The target's own patterns: each in each of its ways, and graphs one step off."""

from __future__ import annotations

import pytest

from pytest_byoc.generation.patterns import near_misses, spread
from pytest_byoc.session import TargetSession

#: Near misses of one pattern that are examined.
NEAR_MISSES = 10


def test_pattern(byoc_target: TargetSession, byoc_pattern: str) -> None:
    found = byoc_target.found(byoc_pattern)
    if not found.fragments:
        pytest.skip(f"never matched: {found.reason}")
    for number, fragment in enumerate(found.fragments):
        byoc_target.check(fragment.graph, f"{byoc_pattern}[{fragment.way}]", chosen=number == 0)
    near = [
        (f"{byoc_pattern}[{fragment.way}-{label}]", graph)
        for fragment in found.fragments
        for label, graph in near_misses(fragment.graph, byoc_target.ir)
    ]
    for case, graph in spread(near, NEAR_MISSES):
        byoc_target.check(graph, case)
