"""What structures are built of: operators the target takes, and one it does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...graph import Graph
from ..builder import Builder


@dataclass(frozen=True)
class Vocabulary:
    """Operators to build structures from. unary: two taken by the target; binary: one that does not
    commute, if there is one; host: a unary one left to TVM; claimed: every operator it takes."""

    unary: tuple[str, str]
    binary: str
    host: str
    claimed: frozenset[str]


class Unavailable(Exception):
    """Raised where a structure needs an operator the target does not take."""


Structure = Callable[[Builder, Vocabulary], Graph]
STRUCTURES: dict[str, Structure] = {}

#: Preferred operators of a vocabulary, by what they are used as.
UNARY = ("nn.relu", "tanh", "negative", "abs", "sigmoid", "exp", "clip", "nn.leaky_relu", "ceil")
BINARY = ("subtract", "divide", "add", "multiply", "maximum", "minimum")
HOST = ("floor", "ceil", "log", "abs", "negative", "exp", "tanh", "sigmoid", "nn.relu")


def vocabulary(claimed: frozenset[str], ir: str) -> Vocabulary:
    """Raises Unavailable when the target takes no unary or no binary elementwise operator."""
    unary = [o for o in UNARY if o in claimed]
    binary = [o for o in BINARY if o in claimed]
    # log is kept to its domain by nothing here: it comes late in the list.
    host = [o for o in HOST if o not in claimed]
    if not unary:
        raise Unavailable("the target takes none of " + ", ".join(UNARY))
    if not binary:
        raise Unavailable("the target takes none of " + ", ".join(BINARY))
    if not host:
        raise Unavailable("the target takes all of " + ", ".join(HOST))
    return Vocabulary((unary[0], unary[-1 if len(unary) > 1 else 0]), binary[0], host[0], claimed)


def structure(function: Structure) -> Structure:
    STRUCTURES[function.__name__.lstrip("_")] = function
    return function


def need(v: Vocabulary, *operators: str) -> None:
    missing = [o for o in operators if o not in v.claimed]
    if missing:
        raise Unavailable("the target does not take " + ", ".join(missing))
