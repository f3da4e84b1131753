"""What structures are built of: operators the target takes, and one it does not."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from ...core.graph import Graph, TensorType
from ...operators import OPERATORS
from ..builder import Builder


@dataclass(frozen=True)
class Vocabulary:
    """Operators to build structures from. claimed: every operator the target takes. asked: those it was asked
    about; of the others it is not known. parts: gives a graph that the target takes for each operator, and
    for each of its patterns that holds others.

    The others raise Unavailable where there is none."""

    claimed: frozenset[str]
    asked: frozenset[str] = frozenset(OPERATORS)
    parts: Callable[[], Collection[Graph]] = tuple

    @property
    def unary(self) -> tuple[str, str]:
        """Two that the target takes, or one twice; binary ones with an operand of their own, if it takes no
        others."""
        found = [o for o in UNARY if o in self.claimed] or self.of(BINARY, UNARY + BINARY)
        return found[0], found[-1]

    @property
    def binary(self) -> str:
        """One that it takes, and that does not commute if there is one."""
        return self.of(BINARY)[0]

    @property
    def host(self) -> str:
        """A unary one that is left to TVM."""
        found = [o for o in HOST if o not in self.claimed]
        if not found:
            raise Unavailable("the target takes all of " + ", ".join(HOST))
        return found[0]

    def of(self, operators: Collection[str], tried: Collection[str] = ()) -> list[str]:
        """Those of the operators that it takes. Raises Unavailable where there is none; it names `tried`, or
        the operators."""
        found = [o for o in operators if o in self.claimed]
        if not found:
            raise Unavailable(self.lacks(tried or operators))
        return found

    def lacks(self, operators: Collection[str]) -> str:
        """What is told of operators that it does not take, or was not asked about."""
        names = [o for o in dict.fromkeys(operators) if o in self.asked]
        if not names:
            return "not among the operators asked for: " + ", ".join(dict.fromkeys(operators))
        return f"the target {'takes none of' if names[1:] else 'does not take'} {', '.join(names)}"


class Unavailable(Exception):
    """Raised where a structure needs an operator the target does not take."""


Structure = Callable[[Builder, Vocabulary], Graph]
STRUCTURES: dict[str, Structure] = {}
#: Those on which no other checks are made than on every graph.
NUMERIC: set[str] = set()
#: Those that go through all there is of a kind; level smoke has no time for them.
EXHAUSTIVE: set[str] = set()

#: Preferred operators of a vocabulary, by what they are used as.
UNARY = ("nn.relu", "tanh", "negative", "abs", "sigmoid", "exp", "clip", "nn.leaky_relu", "ceil")
BINARY = ("subtract", "divide", "add", "multiply", "maximum", "minimum")
# log is kept to its domain by nothing here: it comes late.
HOST = ("floor", "ceil", "log", "abs", "negative", "exp", "tanh", "sigmoid", "nn.relu")


def structure(function: Structure) -> Structure:
    """Adds it to the structures. Raises ValueError for a name that another one has."""
    name = function.__name__.lstrip("_")
    if name in STRUCTURES:
        raise ValueError(f"there are two structures called {name}")
    STRUCTURES[name] = function
    return function


def numeric_structure(function: Structure) -> Structure:
    NUMERIC.add(function.__name__)
    return structure(function)


def need(v: Vocabulary, *operators: str) -> None:
    missing = [o for o in operators if o not in v.claimed]
    if missing:
        raise Unavailable(v.lacks(missing))


def fields(b: Builder, x: str, sections: int, axis: int) -> tuple[str, ...]:
    """What a split into equal parts gives."""
    return b.node("split", (x,), {"indices_or_sections": sections, "axis": axis})


def biased(b: Builder, v: Vocabulary, y: str) -> str:
    """The value of a layer, whose channels are its second axis, with a bias: by nn.bias_add, unless the
    target takes nothing but add. Many take nn.bias_add in a pattern alone, behind a layer."""
    if "nn.bias_add" in v.claimed or "add" not in v.claimed:
        return b.simple("nn.bias_add", y)
    _, channels, *others = b.types[y].shape
    bias = TensorType((channels,) + (1,) * len(others), b.types[y].dtype)
    return b.node("add", (y, b.constant(bias, 0.5, 2.0)), {})[0]
