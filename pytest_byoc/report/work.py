"""An estimate of the seconds that a session still takes. Tests differ in cost by a factor of a hundred."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

#: The kind of the vendor's own tests.
OWN = "own"
#: A guess weighs as much as so many finished tests of a kind; the guessed speed as so many seconds of work.
_GUESS, _GUESS_SECONDS = 8.0, 5.0
#: Seconds in which one graph is partitioned.
_PARTITIONED = 0.005


@dataclass(frozen=True)
class Finished:
    """A test that was run. seconds: its duration without activities (`Activity`). offloaded: False for a test
    that was deselected since the target offloads nothing."""

    kind: str
    seconds: float
    offloaded: bool


@dataclass
class Work:
    """The tests of a session by kind. costs: a guess, by kind, of the seconds of one test for which the
    target offloads something, and of the share of those tests. other: the same for all other kinds."""

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
        """The number of finished tests."""
        return self._done.total()

    def seconds_left(self) -> float:
        """Seconds in which one process would run the remaining tests."""
        speed = self._speed()
        return sum(
            number * (self._share(kind) * self._mean(kind, speed) + _PARTITIONED * speed)
            for kind, number in (self.planned - self._done).items()
        )

    def _speed(self) -> float:
        """The factor by which tests take longer than was guessed."""
        guessed = sum(n * self._cost(kind)[0] for kind, n in self._offloaded.items())
        return (_GUESS_SECONDS + sum(self._seconds.values())) / (_GUESS_SECONDS + guessed)

    def _mean(self, kind: str, speed: float) -> float:
        guess = self._cost(kind)[0] * speed
        return (_GUESS * guess + self._seconds[kind]) / (_GUESS + self._offloaded[kind])

    def _share(self, kind: str) -> float:
        return (_GUESS * self._cost(kind)[1] + self._offloaded[kind]) / (_GUESS + self._done[kind])

    def _cost(self, kind: str) -> tuple[float, float]:
        return self.costs.get(kind, self.other)
