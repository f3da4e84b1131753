"""Chooses the first operand and the parameters of each call of a pattern."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from ...core.graph import TensorType
from ...operators.measured import dtypes as runnable
from ...operators.record import Operator
from ..pool import takes
from .alternatives import Reading
from .draws import MOST, Draws
from .matching_parts import has_parts, matching_parts
from .numbers import USUAL, mined, of_extent, together

T = TypeVar("T")

#: The parameter that gives the shape of an elementwise operator's other operand.
OTHER = "other_shape"
#: Shapes of images in batches of one, the only batch size that some targets offload. The channels
#: of the second shape, second or last, are a multiple of four; some kernels exist only for that.
_IMAGES = ((1, 4, 7, 6), (1, 8, 5, 4))
#: The probabilities that an operand that the pattern leaves open is a constant of one element: with a
#: usual number, and with one in the check's code, if there is any.
_USUAL, _MINED = 0.1, 0.2
#: The probability that all such operands of a pattern get different numbers in the check's code.
_TOGETHER = 0.1
#: Parameters that give the number of columns of a product: as a number, or as the shape of the other
#: operand; the probability that an extent is a number in the check's code, and the largest such number.
_COLUMNS = ("units", "columns", "right")
_FROM_CODE, _LARGEST_EXTENT = 0.3, 256
#: The probability that a batch becomes one of one element, whatever its other extents are.
_SINGLE = 0.15
#: The parameter that says how a value is split; the probability that it gives as many equal parts as the
#: pattern reads.
_SECTIONS, _EQUAL_PARTS = "indices_or_sections", 0.6
#: The probability that a reduction keeps its axes.
_KEPT = 0.6
#: The probability that operators which read one value take parts of it that make up the whole.
_PARTS = 0.5
#: The probability that the first such operator takes the first part, the second one the second.
_IN_ORDER = 0.5
#: The probability that parts of one form, such as parallel branches, are made by the same choices.
_ALIKE = 0.7


class CallChoices:
    """The choices for the calls of one pattern, one call at a time.

    plain: True if every choice should be the default. draws: makes the choices. words: values of
    attributes and dtypes that are more likely."""

    def __init__(self, reading: Reading, ir: str, plain: bool, draws: Draws, words: Sequence[Any]) -> None:
        self._reading, self._ir, self._plain, self._draws, self._words = reading, ir, plain, draws, words
        self._choosing = ""
        self._chosen: dict[tuple[str, TensorType], Mapping[str, Any]] = {}
        #: The number of arguments that the pattern gives the present call, and whether there may be
        #: more of them.
        self.count, self.more = 0, False
        #: The number of parts in which the pattern reads the first operand of the present call: the results
        #: of the call, or the calls of the same operator that read the same value.
        self.parts = 1
        #: The number of calls that were made, by operator and the type of the first operand.
        self._calls: Counter[tuple[str, TensorType]] = Counter()
        #: The number of a constant operand of one element, if it has one.
        self.number: float | None = None
        #: The shape of an elementwise operator's other operand, if both exist already.
        self.other: tuple[int, ...] | None = None
        #: The columns that a product must have, if its result's shape is known.
        self.columns: int | None = None
        #: The last extent of the first input that was made.
        self.extent = 1
        #: An attribute value that the pattern demands and the record does not offer, as text.
        self.missing = ""
        #: The probability that a parameter keeps its default; checks refuse rare combinations.
        self._plainness = self._draws.choice("plainness", (0.9, 0.7, 0.4))
        #: The dtype of new values, if their operator accepts it; all operators do, if possible.
        self._dtype = self._common_dtype(reading.common_dtypes())
        #: Shapes of the operator with the fewest ranks; the other operators mostly accept them too.
        self._shapes = reading.shapes()
        self._alike = bool(reading.counterparts) and (
            plain or draws.random("branches alike") < _ALIKE
        )
        self._numbers = self._all_numbers()

    def begin(self, number: int, what: str) -> None:
        """Names the choices that follow by a call and by `what` is chosen for it."""
        self._choosing = f"{self._key(number)} {what}"

    def _key(self, number: int) -> int:
        """Returns the number by which the choices of a part are named."""
        return self._reading.counterparts.get(number, number) if self._alike else number

    def draw(self, what: str) -> float:
        """Returns the random number for a choice of the current operator."""
        return self._draws.random(f"{self._choosing} {what}")

    def choose(self, what: str, found: Sequence[T]) -> T:
        return self._draws.choice(f"{self._choosing} {what}", found)

    def ordered(self, number: int, candidates: Sequence[Operator]) -> list[Operator]:
        """Returns the records of a call in the order in which they are tried."""
        # Several records may lower to one operator; a draw decides which is tried first.
        if len(candidates) < 2 or self._plain:
            return list(candidates)
        first = self._draws.choice(f"{self._key(number)} record", candidates)
        return [first, *(c for c in candidates if c is not first)]

    # --- values of one element, dtypes -------------------------------------------------------

    def _common_dtype(self, common: list[str]) -> str | None:
        if not common:
            return None
        # Most tables are written for float32 and float16.
        worded = self._worded(common)
        if worded and not self._plain and self._draws.random("worded dtype") < 0.5:
            return self._draws.growing("dtype word", worded)
        plain = self._plain or self._draws.random("plain dtype") < 0.4
        return common[0] if plain else self._draws.choice("dtype", common[:3] + common)

    def _worded(self, found: Sequence[T]) -> list[T]:
        """Returns those of the values that are in the check's code, in the order of `words`."""
        return [v for word in self._words for v in found if v == word]

    def _all_numbers(self) -> Mapping[int, float]:
        """Returns numbers in the check's code for all constants of one element that get none by
        themselves; mostly none."""
        places = self._reading.open_leaves()
        numbers = together(self._words, len(places)) if len(places) > 1 and not self._plain else []
        return dict(zip(places, self._draws.seldom("numbers together", _TOGETHER, numbers) or ()))

    def constant(self, leaf: int) -> float | None:
        """Returns a number that a check may ask of a leaf beside another operand, or None."""
        if self._plain:
            return None
        known, check = (*USUAL, *of_extent(self.extent)), mined(self._words)
        # The bounds do not depend on the words, so that a number keeps its meaning when these grow.
        points = [_USUAL * (i + 0.5) / len(known) for i in range(len(known))]
        points += [_USUAL + _MINED * (i + 0.5) / MOST for i in range(len(check))]
        drawn = self._draws.random(f"{leaf} constant", [*points, 0.999])
        if check and _USUAL <= drawn < _USUAL + _MINED:
            return check[int((drawn - _USUAL) / _MINED * MOST) % len(check)]
        return known[int(drawn / _USUAL * len(known))] if drawn < _USUAL else self._numbers.get(leaf)

    # --- the first operand -------------------------------------------------------------------

    def lead(
        self, op: Operator, existing: Sequence[TensorType], shape: tuple[int, ...] | None,
        demands: Mapping[str, Any], plain: bool,
    ) -> TensorType | None:
        """Returns a type for the first operand, or None if no type fits.

        existing: the types of the call's operands that exist already. shape: what is demanded of the
        first operand, or None."""
        if existing and (plain or self.draw("fixed") < 0.7):
            x = existing[0] if plain else self.choose("lead", existing)
            return x if takes(op, x, self._ir) else None
        allowed = runnable(op, self._ir)
        if not allowed:
            return None
        wanted = demands.get("dtype") or self._dtype
        if wanted not in allowed:
            wanted = allowed[0] if plain else self.choose("lead's dtype", allowed)
        worded = self._worded(allowed)
        if worded and not plain and not demands.get("dtype") and self.draw("lead's dtype worded") < 0.3:
            wanted = self._draws.growing(f"{self._choosing} lead's dtype word", worded)
        others = self._shapes if plain or self.draw("pool") < 0.5 else (*op.shapes, *_IMAGES)
        pool = others if shape is None else [shape]
        shapes = [s for s in pool if op.accepts(TensorType(s, wanted))]
        shapes = shapes or [s for s in op.shapes if op.accepts(TensorType(s, wanted))]
        if not shapes:
            return None
        x = TensorType(shapes[0] if plain else self.choose("shape", shapes), wanted)
        return x if shape is not None or plain else self._sized(op, x)

    def planned_lead(self, op: Operator) -> TensorType | None:
        """Returns a type for a first operand that does not exist yet; its dtype may change."""
        allowed = runnable(op, self._ir)
        shapes = [s for s in (*op.shapes, *_IMAGES) if allowed and op.accepts(TensorType(s, allowed[0]))]
        if not shapes:
            return None
        shape = shapes[0] if self._plain else self.choose("shape", shapes)
        return self._sized(op, TensorType(shape, allowed[0]))

    def _extent(self, what: str) -> int | None:
        """Returns a number in the check's code that it may ask an extent to be, or to be divided by; None
        if the extent is not to be one of them."""
        found = [w for w in self._words if type(w) is int and 1 < w <= _LARGEST_EXTENT]
        if self._plain:
            return None
        return self._draws.seldom(f"{self._choosing} {what} extent", _FROM_CODE, found)

    def _sized(self, op: Operator, x: TensorType) -> TensorType:
        """Returns the type of a first operand, at times as a batch of one, or with an extent of a product
        that the check names."""
        if x.rank > 2 and not self._plain and self.draw("batch") > 1 - _SINGLE:
            single = replace(x, shape=(1, *x.shape[1:]))
            x = single if op.accepts(single) else x
        if self._in_equal_parts(op):
            divided = (d if d == 1 or d % self.parts == 0 else d * self.parts for d in x.shape)
            x = replace(x, shape=tuple(divided))
        depth = self._extent("depth") if op.matrices and x.rank > 1 else None
        return x if depth is None else replace(x, shape=(*x.shape[:-1], depth))

    def _in_equal_parts(self, op: Operator) -> bool:
        """Returns whether a value is to be taken apart in as many parts as the pattern reads, all of one
        size."""
        divides = has_parts(op.name) or any(p.name == _SECTIONS for p in op.parameters)
        return divides and self.parts > 1 and not self._plain and self.draw("equal parts") < _EQUAL_PARTS

    # --- parameters --------------------------------------------------------------------------

    def before(self, op: Operator, x: TensorType, attempt: int) -> Mapping[str, Any] | None:
        """Returns parameters that suit those of other calls of the pattern, or None if they should be
        drawn: of matching parts of a value, or the same as before."""
        part = self._part(op, x)
        if part is not None:
            return part
        before = self._chosen.get((op.name, x))
        return before if attempt == 0 and before and self.draw("again") < 0.6 else None

    def _part(self, op: Operator, x: TensorType) -> Mapping[str, Any] | None:
        """Returns the parameters of one part of a value, if the calls that read it are to take matching
        parts; else None."""
        parts = matching_parts(op.name, x, max(2, self.parts)) if not self._plain else ()
        if parts and self._draws.random(f"{op.name} {x} parts", [0.0, 0.999]) < _PARTS:
            # The first way has as many parts as the pattern reads.
            found = self._draws.choice(f"{op.name} {x} which parts", [parts[0]] * len(parts) + parts)
            if self._draws.random(f"{op.name} {x} parts in order", [0.0, 0.999]) < _IN_ORDER:
                return found[self._calls[op.name, x] % len(found)]
            return self.choose("part", found)
        return None

    def remember(self, op: Operator, x: TensorType, chosen: Mapping[str, Any]) -> None:
        self._chosen[op.name, x] = chosen
        self._calls[op.name, x] += 1

    def pick(
        self, name: str, classes: Mapping[str, Sequence[Any]], demands: Mapping[str, Any], plain: bool,
        shapes: Sequence[tuple[int, ...]],
    ) -> Any:
        """Returns the value of a parameter. shapes: of operands, as far as they are known."""
        values = list(classes.values())
        if name == OTHER and self.other is not None:
            return self.other
        if name == OTHER:
            fitting = [v for options in values for v in options if tuple(v) in shapes]
            if fitting:
                return fitting[0]
        if name in demands.get("attrs", {}):
            wanted = thawed(demands["attrs"][name])
            same = [v for options in values for v in options if thawed(v) == wanted]
            if same:
                return same[0]
            self.missing = f"no {name}={wanted!r}"
        if name == "others" and not self.more:
            # The pattern may join more values than any class of the record does.
            others = self.count - 1
            if not any(len(extents) == others for options in values for extents in options):
                return (values[0][0][0],) * others
        sections = name == _SECTIONS and self.parts > 1 and any(self.parts in vs for vs in values)
        if sections and not plain and self.draw("equal parts") < _EQUAL_PARTS:
            return self.parts
        columns = self._columns_of(name, values[0][0])
        if columns is not None:
            return columns
        one = classes.get("scalar") or classes.get("one")
        if name == OTHER and one and self.number is not None:
            return one[0]
        if name == "keepdims" and not plain and self.draw("keepdims kept") < _KEPT:
            # A reduction within a pattern is mostly read beside its operand.
            return True
        if not plain and "channel" in classes and self.draw("channel") < 0.5:
            # The other operand of an addition after a convolution is mostly a bias.
            return self.choose("which channel", classes["channel"])
        single = (v for options in values for v in options if isinstance(v, (str, float, int)))
        worded = self._worded([v for v in single if not isinstance(v, bool)])
        if worded and not plain and self.draw(f"{name} worded") < 0.5:
            return self._draws.growing(f"{self._choosing} {name} word", worded)
        if plain:
            return values[0][0]
        return self._drawn(name, values)

    def _columns_of(self, name: str, usual: Any) -> Any:
        """Returns a parameter that gives the number of a product's columns, if that number is known or
        is to be one in the check's code; else None."""
        # The parameter `right` of a search is a flag.
        if name not in _COLUMNS or isinstance(usual, bool):
            return None
        columns = self._extent(name) if self.columns is None else self.columns
        if columns is None:
            return None
        return (*usual[:-1], columns) if isinstance(usual, tuple) else columns

    def _drawn(self, name: str, values: Sequence[Sequence[Any]]) -> Any:
        """Returns one of the values: one number chooses the class and the value in it."""
        if sum(map(len, values)) == 1:
            return values[0][0]
        rest = 1 - self._plainness
        points = [0.0] + [
            self._plainness + rest * (k + (j + 0.5) / len(options)) / len(values)
            for k, options in enumerate(values) for j in range(len(options))
        ]  # fmt: skip
        drawn = self._draws.random(f"{self._choosing} {name}", points)
        if drawn < self._plainness:
            return values[0][0]
        place = (drawn - self._plainness) / rest * len(values)
        options = values[int(place)]
        return options[int((place - int(place)) * len(options))]


def thawed(value: Any) -> Any:
    """Returns the value with lists in place of tuples, so that the two compare equal."""
    return [thawed(v) for v in value] if isinstance(value, (list, tuple)) else value
