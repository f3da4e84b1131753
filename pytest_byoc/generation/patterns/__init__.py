"""Graphs made from the target's own dataflow patterns."""

from __future__ import annotations

from .instance import NoInstance, instance, made_of
from .near_misses import near_misses, spread
from .search import Found, Fragment, search
from .tree import Pattern, parse, ways

__all__ = [
    "Found",
    "Fragment",
    "NoInstance",
    "Pattern",
    "instance",
    "made_of",
    "near_misses",
    "parse",
    "search",
    "spread",
    "ways",
]
