"""How much of the suite's work is left, in seconds: tests differ in what they cost by a factor of a hundred."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

#: Finished tests of a kind that a guess counts for, and seconds of work that the guessed speed does.
_GUESS, _GUESS_SECONDS = 8.0, 5.0
#: Seconds that a test costs for which the target offloads nothing: its graph is partitioned.
_PARTITIONED = 0.005


@dataclass(frozen=True)
class Finished:
    """A test that was run. seconds: without what it did for tests that come later. offloaded: whether the target
    offloads any of what it examines."""

    kind: str
    seconds: float
    offloaded: bool


@dataclass
class Work:
    """The tests of a session by kind. costs: seconds of one test of a kind for which the target offloads something,
    and the share of those, where nothing is known of the target and the machine; other kinds are like `other`."""

    costs: Mapping[str, tuple[float, float]]
    other: tuple[float, float] = (1.0, 1.0)
    planned: Counter[str] = field(default_factory=Counter)
    _done: Counter[str] = field(default_factory=Counter)
    _offloaded: Counter[str] = field(default_factory=Counter)
    _seconds: Counter[str] = field(default_factory=Counter)

    def plan(self, kinds: Iterable[str]) -> None:
        self.planned = Counter(kinds)

    def finish(self, test: Finished) -> None:
        self._done[test.kind] += 1
        if test.offloaded:
            self._offloaded[test.kind] += 1
            self._seconds[test.kind] += test.seconds

    @property
    def done(self) -> int:
        """The number of tests that were run."""
        return self._done.total()

    def seconds_left(self) -> float:
        """Seconds that the other tests will take one process."""
        speed = self._speed()
        return sum(
            number * (self._share(kind) * self._mean(kind, speed) + _PARTITIONED * speed)
            for kind, number in (self.planned - self._done).items()
        )

    def _speed(self) -> float:
        """How many times longer tests take here than was guessed."""
        guessed = sum(n * self._cost(kind)[0] for kind, n in self._offloaded.items())
        return (_GUESS_SECONDS + sum(self._seconds.values())) / (_GUESS_SECONDS + guessed)

    def _mean(self, kind: str, speed: float) -> float:
        guess = self._cost(kind)[0] * speed
        return (_GUESS * guess + self._seconds[kind]) / (_GUESS + self._offloaded[kind])

    def _share(self, kind: str) -> float:
        return (_GUESS * self._cost(kind)[1] + self._offloaded[kind]) / (_GUESS + self._done[kind])

    def _cost(self, kind: str) -> tuple[float, float]:
        return self.costs.get(kind, self.other)
