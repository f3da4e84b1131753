"""Groups the failures of a session by likely cause, and recognises further failures by these
groups.

Some findings name the error themselves: the message of an exception, or a check that examines one
property. Such failures have one cause whichever operators they show in. A wrong number or a crash
names nothing (`signature.GENERIC`). Such failures have one cause if they show in one operator with
the same attributes, whatever the attributes' values and the dtype. They also have one cause if
ALIKE operators fail with the same attributes, or EVERYWHERE operators fail in their simplest cases.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from ..examination.outcome import Verdict
from ..examination.signature import Signature
from .listed import Failure
from .sighting import Look

#: Number of failures of one cause that are shrunk and saved; further ones are counted.
SEPARATE = 2
#: Numbers of operators whose wrong numbers have one cause: ALIKE with the same attributes,
#: EVERYWHERE in their simplest cases.
ALIKE, EVERYWHERE = 3, 5

#: The properties that all failures of one cause have.
Key = tuple[object, ...]


@dataclass(frozen=True)
class Cause:
    """Failures with one likely cause. failures: the one with the smallest graph comes first and
    stands for all of them."""

    key: Key
    failures: tuple[Failure, ...]

    @cached_property
    def id(self) -> str:
        return hashlib.sha256(repr(self.key).encode()).hexdigest()[:10]

    @property
    def representative(self) -> Failure:
        return self.failures[0]

    @property
    def tests(self) -> int:
        return sum(f.count for f in self.failures)

    @property
    def operators(self) -> list[str]:
        """Returns the operators of the failures, and of the graphs of one operator counted for
        this cause."""
        return sorted({op for f in self.failures for op in (*f.operators, *f.seen_operators)})

    @property
    def dtypes(self) -> list[str]:
        return sorted({dtype for f in self.failures for dtype in f.seen_dtypes})

    @property
    def cases(self) -> list[str]:
        return list(dict.fromkeys(case for f in self.failures for case in f.cases))

    def as_dict(self) -> dict[str, object]:
        """Returns the cause as report.json has it."""
        return {
            "id": self.id, "failures": [f.id for f in self.failures], "tests": self.tests,
            "operators": self.operators, "dtypes": self.dtypes,
        }


def likely_causes(failures: Iterable[Failure]) -> list[Cause]:
    """Groups failures by likely cause; the causes with most tests come first."""
    groups: dict[Key, list[Failure]] = {}
    for failure in failures:
        groups.setdefault(_key(failure), []).append(failure)
    wide: dict[Key, list[Key]] = {}
    for key, found in groups.items():
        if found[0].signature.is_generic and len(found[0].operators) == 1:
            for common in {_over_operators(f) for f in found}:
                wide.setdefault(common, []).append(key)
    for common, keys in wide.items():
        keys = [key for key in keys if key in groups]
        if len(keys) >= (ALIKE if common[-1] else EVERYWHERE):
            groups[common] = [f for key in keys for f in groups.pop(key)]
    causes = [Cause(key, tuple(sorted(found, key=_size))) for key, found in groups.items()]
    return sorted(causes, key=lambda c: (-c.tests, c.operators, c.id))


def recognised(failures: Sequence[Failure], verdict: Verdict, ir: str) -> Failure | None:
    """Returns the listed failure that a failing verdict repeats, judged without shrinking its
    graph; None if the verdict shows a new one."""
    operators = verdict.graph.operators
    alike = [f for f in failures if _fails_so(f, verdict.signature, operators)]
    # Traits are calculated only where they decide.
    return recognised_by(alike, Look.of(verdict, ir)) if alike else None


def recognised_by(failures: Sequence[Failure], look: Look) -> Failure | None:
    """Returns the same as `recognised`, for a verdict that was recorded."""
    alike = [f for f in failures if _fails_so(f, look.signature, look.operators)]
    if not alike:
        return None
    shown = [
        f for f in alike if f.operators == list(look.operators) and look.traits.issuperset(f.traits)
    ]
    if shown:
        return max(shown, key=lambda f: len(f.traits))
    if not look.signature.is_generic:
        among = [f for f in alike if set(f.operators) <= set(look.operators)]
        if among:
            return among[0]
    return _by_cause(alike, look)


def may_hide_another(known: Failure, look: Look) -> bool:
    """Returns whether a graph of one operator that is recognised as a known failure may show another
    failure too: it has further traits."""
    if not (look.nodes == 1 and known.signature.is_generic and known.traits):
        return False
    return not _without_extents(look.traits).issubset(known.traits)


def _by_cause(alike: Sequence[Failure], look: Look) -> Failure | None:
    """Returns the first failure of a cause with so many failures that one more adds nothing."""
    signature = look.signature
    if signature.is_generic and look.nodes > 1:
        return None
    own = frozenset(map(_name, look.traits))
    for cause in likely_causes(alike):
        found = cause.failures
        if signature.is_generic:
            same = set(found[0].operators) == set(look.operators)
            if same and len(found) >= SEPARATE and own >= {_name(t) for t in found[0].traits}:
                return found[0]
            # The key of a cause over operators ends with their common traits.
            wide = len({tuple(f.operators) for f in found}) >= ALIKE
            if wide and cause.key[-1] == _common(_without_extents(look.traits)):
                return found[0]
        elif len(found) >= SEPARATE:
            return found[0]
    return None


def _fails_so(failure: Failure, signature: Signature, operators: Sequence[str]) -> bool:
    known = failure.signature
    if known.group != signature.group:
        return False
    # A large error is not a repetition of a small one.
    if (known.kind, signature.kind) == ("inexact", "wrong-value"):
        return False
    return known.without(failure.operators) == signature.without(operators)


def _key(failure: Failure) -> Key:
    signature = failure.signature
    if not signature.is_generic:
        return (*signature.group, signature.without(failure.operators))
    names = sorted({_name(t) for t in failure.traits if not t.startswith("dtype=")})
    return (*signature.group, tuple(failure.operators), tuple(names))


def _over_operators(failure: Failure) -> Key:
    return (*failure.signature.group, "over operators", _common(_without_extents(failure.traits)))


def _without_extents(traits: Iterable[str]) -> frozenset[str]:
    return frozenset(t for t in traits if not _is_extent(t))


def _common(suspected: frozenset[str]) -> tuple[str, ...]:
    return tuple(sorted(map(_name, suspected)))


def _is_extent(trait: str) -> bool:
    return trait.startswith("operand ") and ": axis " in trait


def _name(trait: str) -> str:
    """Returns a trait without the attribute's value; the values of dtypes and ranks are kept."""
    return trait if trait.startswith(("dtype=", "rank=")) else trait.partition("=")[0]


def _size(failure: Failure) -> tuple[int, int, str]:
    return failure.size
