"""A dict of limited size for caches, so that sessions of several days need no more memory."""

from __future__ import annotations

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class LimitedDict(dict[K, V]):
    """A dict that keeps the `most` keys added last; writing to a key again does not renew it."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        if len(self) > self.most:
            del self[next(iter(self))]
