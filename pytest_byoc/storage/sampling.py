"""The share of what is stored that a session finds out again."""

from __future__ import annotations


def is_asked_again(key: str, session: int, among: int) -> bool:
    """Returns whether a session finds out again what is stored under a key: one among so many, another
    share in each session. key: a digest in hexadecimal. session: the number of the session."""
    return int(key[:8], 16) % among == session % among
