"""A graph that passed in an earlier session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Pass:
    """A graph that passed. code: the digest of its code, by executor. checks: the ids of the checks that
    were made. not_checked, notes: as in the verdict."""

    code: Mapping[str, str]
    checks: tuple[str, ...]
    not_checked: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Pass:
        return cls(dict(given["code"]), *(tuple(given[k]) for k in ("checks", "not_checked", "notes")))
