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
    near = [
        (kind(label), (f"{byoc_pattern}[{fragment.way}-{label}]", graph))
        for fragment in found.fragments
        for label, graph in near_misses(fragment.graph, byoc_target.ir)
    ]
    # Of each pattern all checks are made on its first way.
    graphs = [
        (f"{byoc_pattern}[{fragment.way}]", fragment.graph, number == 0)
        for number, fragment in enumerate(found.fragments[: level.ways])
    ]
    graphs += [(case, graph, False) for case, graph in spread(near, level.near_misses)]
    module = byoc_target.ahead([g for case, g, chosen in graphs if byoc_target.is_plain(g, case, chosen)])
    for case, graph, chosen in graphs:
        byoc_target.check(graph, case, chosen=chosen)
    if module is not None and byoc_target.holds_against(module, f"{byoc_pattern}[together]"):
        byoc_target.fail(module, f"{byoc_pattern}[together]")
