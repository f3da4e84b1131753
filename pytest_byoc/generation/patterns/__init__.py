"""Graphs made from the target's own dataflow patterns."""

from __future__ import annotations

from .instance import NoInstance, instance
from .near_misses import near_misses, spread
from .search import Found, Fragment, search
from .tree import Pattern, parse, ways

__all__ = [
    "Found",
    "Fragment",
    "NoInstance",
    "Pattern",
    "instance",
    "near_misses",
    "parse",
    "search",
    "spread",
    "ways",
]
