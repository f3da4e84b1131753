"""Random numbers that can be drawn again, all the same or with a few of them changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import TypeVar

T = TypeVar("T")

#: The number of items up to which `Draws.growing` distinguishes them.
MOST = 4096


class Draws:
    """Random numbers with names. Each number depends on the seed and its name alone, so a changed
    number leaves the others as they are. changed: numbers from 0 to 1, by name, in place of those
    drawn. used: names of the numbers drawn so far, in order. numbers: the numbers by name. points: by
    name, numbers of which each leads to another choice, and which together lead to all of them."""

    def __init__(self, seed: str, changed: Mapping[str, float] | None = None) -> None:
        self._seed = seed
        self._changed = changed or {}
        self.used: list[str] = []
        self.numbers: dict[str, float] = {}
        self.points: dict[str, Sequence[float]] = {}

    def random(self, name: str, points: Sequence[float] = (0.0, 0.999)) -> float:
        """Returns a number that is at least 0 and less than 1. points: as in the attribute."""
        self.used.append(name)
        self.points[name] = points
        if name not in self._changed:
            digest = blake2b(f"{self._seed} {name}".encode(), digest_size=6).digest()
            self.numbers[name] = int.from_bytes(digest, "big") / 2.0**48
        else:
            self.numbers[name] = self._changed[name]
        return self.numbers[name]

    def choice(self, name: str, found: Sequence[T]) -> T:
        """Returns one of the items; draws nothing if there is but one."""
        if len(found) == 1:
            return found[0]
        return found[int(self.random(name, [(i + 0.5) / len(found) for i in range(len(found))]) * len(found))]

    def growing(self, name: str, found: Sequence[T]) -> T:
        """Returns one of the items. A number that was changed leads to the same item if further
        ones are appended."""
        points = [(i + 0.5) / MOST for i in range(len(found))]
        return found[int(self.random(name, points) * MOST) % len(found)]

    def seldom(self, name: str, share: float, found: Sequence[T]) -> T | None:
        """Returns one of the items with the probability `share`, else None; draws nothing if there are
        none. As with `growing`, a changed number leads to the same item if further ones are
        appended."""
        if not found:
            return None
        points = [0.0, *(1 - share * (1 - (i + 0.5) / MOST) for i in range(len(found)))]
        drawn = self.random(name, points)
        return None if drawn < 1 - share else found[int((drawn - 1 + share) / share * MOST) % len(found)]

    def forget(self, since: int) -> None:
        """Removes the names in `used` from position `since` on; their draws led to nothing."""
        del self.used[since:]
