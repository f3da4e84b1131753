"""Random numbers that can be drawn again, all the same or with a few of them changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import TypeVar

T = TypeVar("T")


class Draws:
    """Random numbers with names. Each number depends on the seed and its name alone, so a changed
    number leaves the others as they are. changed: numbers from 0 to 1, by name, in place of those
    drawn. used: names of the numbers drawn so far, in order."""

    def __init__(self, seed: str, changed: Mapping[str, float] | None = None) -> None:
        self._seed = seed
        self._changed = changed or {}
        self.used: list[str] = []

    def random(self, name: str) -> float:
        """Returns a number that is at least 0 and less than 1."""
        self.used.append(name)
        if name in self._changed:
            return self._changed[name]
        digest = blake2b(f"{self._seed} {name}".encode(), digest_size=6).digest()
        return int.from_bytes(digest, "big") / 2.0**48

    def choice(self, name: str, found: Sequence[T]) -> T:
        return found[int(self.random(name) * len(found))]

    def forget(self, since: int) -> None:
        """Removes the names in `used` from position `since` on; their draws led to nothing."""
        del self.used[since:]
