"""Random numbers that are the same every time, and can be drawn again with a few of them changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import TypeVar

T = TypeVar("T")


class Draws:
    """Each number has a name and depends on nothing but the seed and that: changing one leaves the others
    as they are. changed: numbers from 0 to 1 that take the place of those drawn, by name. used: names of
    those drawn, in order."""

    def __init__(self, seed: str, changed: Mapping[str, float] | None = None) -> None:
        self._seed = seed
        self._changed = changed or {}
        self.used: list[str] = []

    def random(self, name: str) -> float:
        """At least 0, less than 1."""
        self.used.append(name)
        if name in self._changed:
            return self._changed[name]
        digest = blake2b(f"{self._seed} {name}".encode(), digest_size=6).digest()
        return int.from_bytes(digest, "big") / 2.0**48

    def choice(self, name: str, found: Sequence[T]) -> T:
        return found[int(self.random(name) * len(found))]

    def forget(self, since: int) -> None:
        """Takes names off `used` that led to nothing, from the position `since` on."""
        del self.used[since:]
