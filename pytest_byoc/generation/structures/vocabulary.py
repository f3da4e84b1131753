"""The operators that structures are built of: some that the target offloads, and one that it does
not."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property

from ...core.graph import Graph, TensorType
from ...operators import OPERATORS
from ..builder import Builder


@dataclass(frozen=True)
class Vocabulary:
    """Operators to build structures from. offloaded: the operators that the target offloads. tested:
    the operators for which that is known. parts: returns a graph that the target offloads for each
    operator, and for each of its patterns with other operators.

    Properties and `of` raise Unavailable if there is no such operator."""

    offloaded: frozenset[str]
    tested: frozenset[str] = frozenset(OPERATORS)
    parts: Callable[[], Collection[Graph]] = tuple

    @property
    def unary(self) -> tuple[str, str]:
        """Two unary operators that the target offloads, or one twice; binary ones, each with an
        operand of its own, if it offloads no unary one."""
        found = [o for o in UNARY if o in self.offloaded] or self.of(BINARY, UNARY + BINARY)
        return found[0], found[-1]

    @property
    def binary(self) -> str:
        """A binary operator that the target offloads, one that does not commute if possible."""
        return self.of(BINARY)[0]

    @property
    def host(self) -> str:
        """A unary operator that is left to TVM."""
        found = [o for o in HOST if o not in self.offloaded]
        if not found:
            raise Unavailable("the target offloads all of " + ", ".join(HOST))
        return found[0]

    def operator(self, name: str) -> str:
        """Returns the operator that a role stands for; any other name is an operator's own. Raises
        Unavailable."""
        return _ROLES[name](self) if name in _ROLES else name

    def has(self, name: str) -> bool:
        """Returns whether the target offloads the operator, or the vocabulary has one for the role."""
        if name not in _ROLES:
            return name in self.offloaded
        try:
            self.operator(name)
        except Unavailable:
            return False
        return True

    def takes(self, name: str) -> bool:
        """Returns whether the target offloads the operator alone, or in one of its patterns."""
        return self.has(name) or name in self._in_parts

    @cached_property
    def _in_parts(self) -> frozenset[str]:
        """The operators of `parts`, which take a while to make."""
        return frozenset(name for graph in self.parts() for name in graph.operators)

    def of(self, operators: Collection[str], tried: Collection[str] = ()) -> list[str]:
        """Returns those of the operators that the target offloads. Raises Unavailable if there are
        none; its message names `tried`, or the operators."""
        found = [o for o in operators if o in self.offloaded]
        if not found:
            raise Unavailable(self.lacks(tried or operators))
        return found

    def lacks(self, operators: Collection[str]) -> str:
        """Returns a message about operators that the target is not known to offload."""
        names = [o for o in dict.fromkeys(operators) if o in self.tested]
        if not names:
            return "not among the tested operators: " + ", ".join(dict.fromkeys(operators))
        return f"the target {'offloads none of' if names[1:] else 'does not offload'} {', '.join(names)}"


class Unavailable(Exception):
    """Raised if a structure needs an operator that the target does not offload."""


#: Names that stand for an operator of the vocabulary.
UNARY_1, UNARY_2, BINARY_1, AT_HOST = "a unary one", "another unary one", "a binary one", "one left to TVM"
_ROLES: dict[str, Callable[[Vocabulary], str]] = {
    UNARY_1: lambda v: v.unary[0],
    UNARY_2: lambda v: v.unary[1],
    BINARY_1: lambda v: v.binary,
    AT_HOST: lambda v: v.host,
}
ROLES = frozenset(_ROLES)

Structure = Callable[[Builder, Vocabulary], Graph]
STRUCTURES: dict[str, Structure] = {}
#: Names of the structures that get no more checks than every graph.
NUMERIC: set[str] = set()
#: Names of the structures that go through all cases of a kind; level smoke has no time for them.
EXHAUSTIVE: set[str] = set()

#: Preferred operators of a vocabulary, by what they are used as.
UNARY = ("nn.relu", "tanh", "negative", "abs", "sigmoid", "exp", "clip", "nn.leaky_relu", "ceil")
BINARY = ("subtract", "divide", "add", "multiply", "maximum", "minimum")
REDUCTIONS = ("sum", "mean", "max", "min", "prod")
# log is late in the list because nothing here keeps values within its domain.
HOST = ("floor", "ceil", "log", "abs", "negative", "exp", "tanh", "sigmoid", "nn.relu")


def add(name: str, made: Structure, in_full: bool = False, at_smoke: bool = True) -> None:
    """Adds a structure. in_full: level standard makes all checks on it; without, it makes only those
    that every graph gets. at_smoke: False if level smoke has no time for it. Raises ValueError if the
    name is in use."""
    if name in STRUCTURES:
        raise ValueError(f"there are two structures called {name}")
    STRUCTURES[name] = made
    if not in_full:
        NUMERIC.add(name)
    if not at_smoke:
        EXHAUSTIVE.add(name)


def structure(function: Structure) -> Structure:
    """Adds a function to the structures on which level standard makes all checks."""
    add(function.__name__, function, in_full=True)
    return function


def need(v: Vocabulary, *operators: str, in_patterns: bool = False) -> None:
    """Raises Unavailable unless the target offloads the operators.

    in_patterns: whether it may offload them in its patterns alone."""
    missing = [o for o in operators if not (v.takes if in_patterns else v.has)(o)]
    if missing:
        raise Unavailable(v.lacks(missing))


def fields(b: Builder, x: str, sections: int, axis: int) -> tuple[str, ...]:
    """Adds a split into equal parts and returns its results."""
    return b.node("split", (x,), {"indices_or_sections": sections, "axis": axis})


def biased(b: Builder, v: Vocabulary, y: str) -> str:
    """Adds a bias to the result of a layer, whose channels are its second axis; by nn.bias_add,
    unless the target offloads add and not nn.bias_add. Targets often offload nn.bias_add only in a
    pattern behind a layer."""
    if "nn.bias_add" in v.offloaded or "add" not in v.offloaded:
        return b.simple("nn.bias_add", y)
    _, channels, *others = b.types[y].shape
    bias = TensorType((channels,) + (1,) * len(others), b.types[y].dtype)
    return b.node("add", (y, b.constant(bias, 0.5, 2.0)), {})[0]
