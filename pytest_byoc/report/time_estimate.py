"""Estimates the seconds that a session still needs. Tests differ in cost by a factor of a
hundred."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

#: The kind of a vendor's own tests.
OWN = "own"
#: Weights of the guesses: a guessed cost counts as this number of finished tests of its kind, the
#: guessed speed as this number of seconds of work.
_GUESS, _GUESS_SECONDS = 8.0, 5.0
#: Seconds to partition one graph.
_PARTITIONED = 0.005


@dataclass(frozen=True)
class Finished:
    """A test that was run. seconds: its duration without activities (`Activity`). offloaded: False
    for a test that was deselected since the target offloads nothing."""

    kind: str
    seconds: float
    offloaded: bool


@dataclass
class Work:
    """The tests of a session by kind. costs: two guesses for each kind, the seconds of a test for
    which the target offloads something, and the share of such tests. other: the guesses for all
    other kinds."""

    costs: Mapping[str, tuple[float, float]]
    other: tuple[float, float] = (1.0, 1.0)
    planned: Counter[str] = field(default_factory=Counter)
    _done: Counter[str] = field(default_factory=Counter)
    _offloaded: Counter[str] = field(default_factory=Counter)
    _seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def plan(self, kinds: Iterable[str]) -> None:
        self.planned = Counter(kinds)

    def finish(self, test: Finished) -> None:
        self._done[test.kind] += 1
        if test.offloaded:
            self._offloaded[test.kind] += 1
            self._seconds[test.kind] += test.seconds

    @property
    def done(self) -> int:
        """Returns the number of finished tests."""
        return self._done.total()

    def seconds_left(self) -> float:
        """Returns the seconds that one process needs for the remaining tests."""
        speed = self._speed()
        return sum(
            number * (self._share(kind) * self._mean(kind, speed) + _PARTITIONED * speed)
            for kind, number in (self.planned - self._done).items()
        )

    def _speed(self) -> float:
        """Returns the factor by which tests take longer than guessed."""
        guessed = sum(n * self._cost(kind)[0] for kind, n in self._offloaded.items())
        return (_GUESS_SECONDS + sum(self._seconds.values())) / (_GUESS_SECONDS + guessed)

    def _mean(self, kind: str, speed: float) -> float:
        guess = self._cost(kind)[0] * speed
        return (_GUESS * guess + self._seconds[kind]) / (_GUESS + self._offloaded[kind])

    def _share(self, kind: str) -> float:
        return (_GUESS * self._cost(kind)[1] + self._offloaded[kind]) / (_GUESS + self._done[kind])

    def _cost(self, kind: str) -> tuple[float, float]:
        return self.costs.get(kind, self.other)
