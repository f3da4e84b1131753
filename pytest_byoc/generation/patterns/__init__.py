"""Graphs made from the target's own dataflow patterns."""

from __future__ import annotations

from .alternatives import NoInstance, made_of, not_among
from .instance import Instance, instance
from .near_misses import OPERAND_FORMS, kind, near_misses, spread
from .search import search
from .search_result import Alone, Fragment, SearchResult
from .tree import Pattern, parse, parse_table, ways
from .twice import twice

__all__ = [
    "OPERAND_FORMS",
    "Alone",
    "Fragment",
    "Instance",
    "NoInstance",
    "Pattern",
    "SearchResult",
    "instance",
    "kind",
    "made_of",
    "near_misses",
    "not_among",
    "parse",
    "parse_table",
    "search",
    "spread",
    "twice",
    "ways",
]
