"""Divides the tests of a session into shards of about equal cost.

A unit of tests stays whole: graphs of its tests are examined together in one module, or are
partitioned together. All shards divide alike, since the division depends on the tests, their number
and the given durations only."""

from __future__ import annotations

import hashlib
import heapq
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from ..gate.planned import SPEED_FILE
from ..generation.systematic import Case
from ..suite.cases import with_operator, with_pattern
from ..suite.session import TargetSession
from .collection import cases_of, is_ours

#: Files of the suite whose tests are grouped with all others of the same file, at levels that examine
#: several graphs in one module.
_GROUPED = ("test_structures", "test_regions", "test_followed", "test_forms")
#: Seconds of a test of a vendor's own, by which it is divided if its duration is unknown.
_OWN = 1.0

#: A unit of tests: position of the target, and name.
Key = tuple[int, str]


def unit_of(item: pytest.Item, session: TargetSession) -> str:
    """Returns the name of the unit that a test belongs to."""
    if not is_ours(item):
        return item.nodeid
    params: Mapping[str, Any] = item.callspec.params if hasattr(item, "callspec") else {}
    case, pattern = params.get("byoc_case"), params.get("byoc_pattern")
    level = session.settings.level
    if isinstance(case, Case):
        first = with_operator(case, session.operators)[0]
        return f"early cases from {first} on" if case.early else f"cases of {first}"
    if pattern is not None and item.path.stem != SPEED_FILE:
        few = level.ways is not None
        return f"patterns from {with_pattern(pattern, session.patterns.names(), few)[0]} on"
    if item.path.stem in _GROUPED and level.side_by_side:
        return item.path.stem
    return ", ".join(sorted(cases_of(item))) or item.name


@dataclass(frozen=True)
class Division:
    """A division of tests. shards: for each unit the number of its shard, from 1. digest: of all
    of it; two shards of one session have the same."""

    shards: Mapping[Key, int]
    digest: str


def divide(tests: Mapping[Key, Sequence[str]], costs: Mapping[Key, float], of: int) -> Division:
    """Divides units into `of` shards: the most expensive first, each into the shard with the
    least cost so far.

    tests: the names of each unit's tests. costs: seconds of each unit."""
    order = sorted(tests, key=lambda key: (-costs[key], key))
    # There are no more shards with tests than units.
    loads = [(0.0, number) for number in range(1, min(of, len(order)) + 1)]
    shards: dict[Key, int] = {}
    for key in order:
        load, number = heapq.heappop(loads)
        shards[key] = number
        heapq.heappush(loads, (load + costs[key], number))
    content = [of, [[*key, shards[key], sorted(tests[key])] for key in sorted(tests)]]
    return Division(shards, hashlib.sha256(json.dumps(content).encode()).hexdigest())


def costs_of(
    kinds: Mapping[Key, Sequence[str]], guesses: Mapping[str, tuple[float, float]], known: Mapping[Key, float]
) -> dict[Key, float]:
    """Returns the seconds of each unit: the known ones, and for others a guess, in proportion to
    the known ones.

    kinds: the phases of each unit's tests. guesses: for each phase the seconds of a test and the
    share of tests for which something is offloaded (`collection.costs`)."""
    guessed = {
        key: sum(_guess(kind, n, guesses) for kind, n in Counter(phases).items())
        for key, phases in kinds.items()
    }
    both = [key for key in guessed if known.get(key, 0) > 0 and guessed[key] > 0]
    total = sum(guessed[key] for key in both)
    factor = sum(known[key] for key in both) / total if total else 1.0
    return {key: known.get(key, guess * factor) for key, guess in guessed.items()}


def _guess(kind: str, number: int, guesses: Mapping[str, tuple[float, float]]) -> float:
    seconds, share = guesses.get(kind, (_OWN, 1.0))
    return number * seconds * share
