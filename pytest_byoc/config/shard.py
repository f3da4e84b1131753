"""A part of a session (--byoc-shard): several machines run one part each, and `merge` joins them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .errors import SettingsError


@dataclass(frozen=True)
class Shard:
    """One of several parts of a session. number: from 1 to `of`."""

    number: int
    of: int

    def __str__(self) -> str:
        return f"shard {self.number} of {self.of}"


def read(flag: str, text: str) -> Shard:
    """Returns the shard that a text such as 2/5 names. Raises SettingsError."""
    found = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text)
    number, of = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1 <= number <= of:
        raise SettingsError(
            f"{flag} must be K/N, as in 2/5: part K of N parts, with K from 1 to N; found {text!r}"
        )
    return Shard(number, of)
