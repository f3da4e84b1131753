"""Builds a graph with the structure of a pattern, for one way of matching it and given choices."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from ...core.graph import Graph, TensorType
from ...operators import OPERATORS
from ...operators.measured import dtypes as runnable
from ...operators.record import (
    BIAS,
    CONSTANT,
    DATA,
    FLOATS,
    FRESH,
    LEAD,
    UNSET,
    WEIGHT,
    Operand,
    Operator,
    TypeRuleError,
)
from ..builder import Builder, choose_parameters, first
from ..pool import takes
from ..scales import natural
from .alternatives import NoInstance, Reading, joins_any_number, returns_tuple, takes_tuple
from .draws import MOST, Draws
from .matching_parts import matching_parts
from .numbers import USUAL, mined, of_extent
from .tree import Pattern, Tree, Way

T = TypeVar("T")

#: The parameter that gives the shape of an elementwise operator's other operand.
_OTHER = "other_shape"
#: Attempts to choose an operator's parameters so that its operands fit the existing values.
_TRIES = 30
#: Shapes of images in batches of one, the only batch size that some targets offload. The channels
#: of the second shape, second or last, are a multiple of four; some kernels exist only for that.
_IMAGES = ((1, 4, 7, 6), (1, 8, 5, 4))
#: The probability that a product's scale follows from its operands; some checks need that.
_NATURAL = 0.8
#: The probabilities that an operand that the pattern leaves open is a constant of one element: with a
#: usual number, and with one in the check's code, if there is any.
_USUAL, _MINED = 0.1, 0.2
#: The probability that leaves from which operands are computed get the shapes that the operands need.
_SHAPED = 0.8
#: The probability that attributes are left out which are optional and have their defaults, if the
#: pattern gives some call fewer arguments than it has with them: UNSET is among the words then.
_UNSET = 0.5
#: The probability that an operand with a domain of its own, such as indices, is a constant.
_FIXED = 0.3
#: Parameters that give the number of columns of a product: as a number, or as the shape of the other
#: operand; the probability that an extent is a number in the check's code, and the largest such number.
_COLUMNS = ("units", "columns", "right")
_ASKED, _MOST_EXTENT = 0.3, 256
#: The probability that a reduction keeps its axes.
_KEPT = 0.6
#: The probability that operators which read one value take parts of it that make up the whole.
_PARTS = 0.5
#: The most elements that the results of a node may have; results grow along a pattern.
_MAX_ELEMENTS = 4096


class NoFit(NoInstance):
    """Raised if these choices give no graph for a pattern, but others may."""


class PatternGraph:
    """A graph in the making, with the structure of a pattern. draws: makes the choices. plain: True
    if every choice should be the default. words: values of attributes and dtypes that are more
    likely."""

    def __init__(
        self, pattern: Pattern, way: Way, ir: str, seed: int, plain: bool, draws: Draws,
        words: Sequence[Any],
    ) -> None:
        self._pattern, self._reading, self._ir = pattern, Reading(pattern, way, ir), ir
        self._plain, self._draws, self._words = plain, draws, words
        self._builder = Builder(seed=seed + 1)
        self._choosing = ""
        self._chosen: dict[tuple[str, TensorType], Mapping[str, Any]] = {}
        self._values: dict[int, tuple[str, ...]] = {}
        #: The shape that the pattern demands of a leaf, by the leaf's number.
        self._shaped: dict[int, tuple[int, ...]] = {}
        #: The fewest operands that an operator accepted so far, by its name.
        self._wanted: dict[str, int] = {}
        #: The number of arguments that the pattern gives the present call, and whether there may be
        #: more of them.
        self._count, self._more = 0, False
        #: The number of a constant operand of one element, if it has one.
        self._number: float | None = None
        #: The shape of an elementwise operator's other operand, if both exist already.
        self._other: tuple[int, ...] | None = None
        #: The last extent of the first input that was made.
        self._extent = 1
        #: An attribute value that the pattern demands and the record does not offer, as text.
        self._missing = ""
        #: The probability that a parameter keeps its default; checks refuse rare combinations.
        self._plainness = self._draws.choice("plainness", (0.9, 0.7, 0.4))
        #: The dtype of new values, if their operator accepts it; all operators do, if possible.
        self._dtype = self._common_dtype(self._reading.common_dtypes())
        #: Shapes of the operator with the fewest ranks; the other operators mostly accept them too.
        self._shapes = self._reading.shapes()

    def graph(self) -> Graph:
        """Returns the graph. Raises NoInstance."""
        root, demands = self._reading.resolve(self._pattern.root)
        if self._pattern.nodes[root].kind not in ("call", "item", "tuple"):
            raise NoInstance("the pattern matches values that no operator returns")
        outputs = self._visit(root, demands)
        if not self._builder.nodes:
            raise NoInstance("the pattern contains no operator")
        return self._builder.graph(*outputs)

    # --- walking the pattern -----------------------------------------------------------------

    def _common_dtype(self, common: list[str]) -> str | None:
        if not common:
            return None
        # Most tables are written for float32 and float16.
        worded = self._worded(common)
        if worded and not self._plain and self._draws.random("worded dtype") < 0.5:
            return self._draws.growing("dtype word", worded)
        plain = self._plain or self._draws.random("plain dtype") < 0.4
        return common[0] if plain else self._draws.choice("dtype", common[:3] + common)

    def _visit(self, number: int, demands: Mapping[str, Any] | None = None) -> tuple[str, ...]:
        """Returns the names of the values of a node: a call, a tuple or an item of a tuple."""
        if number in self._values:
            return self._values[number]
        node = self._pattern.nodes[number]
        if node.kind == "item":
            assert node.of is not None
            of, inner = self._reading.resolve(node.of[0])
            if self._pattern.nodes[of].kind != "call":
                raise NoInstance("the pattern reads an item of a tuple that no operator returns")
            if not any(returns_tuple(op) for op in self._reading.candidates(of)):
                name = self._reading.name(of)
                raise NoInstance(f"the pattern reads an item of the result of {name}, which is not a tuple")
            values = self._visit(of, inner)
            if (node.index or 0) >= len(values):
                raise NoInstance(f"the pattern reads item {node.index} of a tuple of {len(values)}")
            results: tuple[str, ...] = (values[node.index or 0],)
        elif node.kind == "call":
            results = self._call(number, node, demands or {})
        elif node.kind == "tuple" and node.of is not None:
            results = tuple(v for part in node.of for v in self._visit(*self._reading.resolve(part)))
        else:
            raise NoInstance(_unusable(node))
        self._values[number] = results
        return results

    def _call(self, number: int, node: Tree, demands: Mapping[str, Any]) -> tuple[str, ...]:
        name = self._reading.name(number)
        candidates = self._reading.candidates(number)
        # Several records may lower to one operator; a draw decides which is tried first.
        if len(candidates) > 1 and not self._plain:
            first = self._draws.choice(f"{number} record", candidates)
            candidates = [first, *(c for c in candidates if c is not first)]
        self._shape_leaves(number, node, candidates)
        slots, more = self._slots(node)
        constant = self._constant(number, slots)
        if constant is not None:
            # A record whose other operand can have one element comes first.
            candidates.sort(key=lambda op: all(p.name != _OTHER for p in op.parameters))
        demands = {**demands, "results": self._reading.least.get(number, 1)}
        for op in candidates:
            self._number = constant
            results = self._apply(number, op, slots, more or node.more, demands)
            if results is not None:
                return results
        if not more and not node.more and self._wanted.get(name, 0) > len(slots):
            raise NoInstance(f"{name} has {self._wanted[name]} operands, the pattern gives it {len(slots)}")
        if self._missing:
            raise NoFit(f"the record of {name} does not have what the pattern demands: {self._missing}")
        raise NoFit(f"no parameters of {name} fit the operands of the pattern{_one_for_several(node)}")

    def _shape_leaves(self, number: int, node: Tree, candidates: Sequence[Operator]) -> None:
        """Demands shapes of the leaves from which several operands of a call are computed, so that the
        operands fit each other: a weight that is dequantized, for example."""
        below = [self._reading.leaf_below(part) for part in node.of or ()]
        if sum(leaf is not None for leaf in below) < 2 or not candidates:
            return
        op = candidates[0]
        self._choosing = f"{number} {op.name} leaves"
        allowed = runnable(op, self._ir)
        shapes = [s for s in (*op.shapes, *_IMAGES) if allowed and op.accepts(TensorType(s, allowed[0]))]
        if not shapes or (not self._plain and self._draw("shaped") > _SHAPED):
            return
        shape = shapes[0] if self._plain else self._choose("shape", shapes)
        x = self._sized(op, TensorType(shape, allowed[0]))
        chosen = choose_parameters(op, x, lambda n, c: self._pick(n, c, {}, self._plain, []))
        for leaf, operand in zip(below, op.operands(x, chosen)):
            shape = operand.type.shape
            if leaf is not None and not (leaf[1] and len(shape) != 2):
                self._shaped.setdefault(leaf[0], shape[::-1] if leaf[1] else shape)
        self._chosen[op.name, x] = chosen

    def _slots(self, node: Tree) -> tuple[list[str | int], bool]:
        """Returns the arguments of a call, tuples spread out, and whether there may be more than
        the pattern gives. An argument is the name of a value or the number of a leaf."""
        if node.of is None:
            return [], True
        slots: list[str | int] = []
        more = False
        for part in node.of:
            number, demands = self._reading.resolve(part)
            inner = self._pattern.nodes[number]
            if inner.kind in ("wildcard", "constant", "variable"):
                slots.append(number)
                # It may stand for a tuple of any number of values.
                more |= inner.kind == "wildcard" and joins_any_number(node, self._ir)
                if demands.get("shape") and all(isinstance(d, int) for d in demands["shape"]):
                    self._shaped[number] = tuple(demands["shape"])
            elif inner.kind == "tuple":
                fields = inner.of
                more |= fields is None
                spread, _ = self._slots(Tree("call", fields or ()))
                slots += spread
            elif inner.kind == "other":
                # This argument is not a tensor; the record's lowering supplies it.
                slots.append(number)
            else:
                several = inner.kind == "call" and all(map(returns_tuple, self._reading.candidates(number)))
                if several and (len(node.of) > 1 or not takes_tuple(node, self._ir)):
                    raise NoInstance(
                        f"{self._reading.name(number)} returns a tuple, of which the pattern reads no item"
                    )
                results = self._visit(number, demands)
                slots += results if several else results[:1]
        return slots, more

    # --- applying an operator ----------------------------------------------------------------

    def _apply(
        self, number: int, op: Operator, slots: Sequence[str | int], more: bool, demands: Mapping[str, Any]
    ) -> tuple[str, ...] | None:
        """Adds a node for a call and returns its results' names; None if no parameters fit."""
        given = [self._given(s) for s in slots]
        only = given[0] if len(slots) == 1 else None
        self._count, self._more = len(slots), more
        if only is not None and not takes(op, self._builder.types[only], self._ir):
            return None
        lead = given[0] if given else None
        follows = natural(self._builder, op.name, lead) if lead is not None else {}
        since = len(self._draws.used)
        for attempt in range(_TRIES):
            plain = self._plain and attempt == 0
            self._draws.forget(since)
            self._choosing = f"{number} {op.name} {attempt}"
            x = self._first(op, slots, given, demands, plain)
            if x is None:
                continue
            shapes = [t.shape for t in map(self._given_type, slots) if t is not None]
            shapes += [self._shaped[s] for s in slots if isinstance(s, int) and s in self._shaped]
            both = [self._builder.types[g].shape for g in given if g is not None]
            self._other = next((s for s in both if s != x.shape), x.shape) if len(both) == 2 else None
            of_lead = lead is not None and x == self._builder.types[lead]
            natural_too = follows if of_lead and (plain or self._draw("natural") < _NATURAL) else {}
            chosen = self._again(op, x, attempt) or choose_parameters(
                op, x, lambda n, c: natural_too.get(n, self._pick(n, c, demands, plain, shapes))  # noqa: B023
            )
            operands = op.operands(x, chosen)
            ir_name = getattr(op, self._ir).op
            self._wanted[ir_name] = min(self._wanted.get(ir_name, len(operands)), len(operands))
            if not self._fits(number, op, operands, chosen, given, slots, more, demands):
                continue
            self._chosen[op.name, x] = chosen
            return self._node(op, operands, chosen, given, slots)
        return None

    def _again(self, op: Operator, x: TensorType, attempt: int) -> Mapping[str, Any] | None:
        """Returns the parameters that this operator and type had before, or None if they should be
        drawn: parts of a pattern are often alike."""
        parts = matching_parts(op.name, x) if not self._plain else ()
        if parts and self._draws.random(f"{op.name} {x} parts", [0.0, 0.999]) < _PARTS:
            whole = self._draws.choice(f"{op.name} {x} which parts", parts)
            return self._choose("part", whole)
        before = self._chosen.get((op.name, x))
        return before if attempt == 0 and before and self._draw("again") < 0.6 else None

    def _worded(self, found: Sequence[T]) -> list[T]:
        """Returns those of the values that are in the check's code, in the order of `words`."""
        return [v for word in self._words for v in found if v == word]

    def _constant(self, number: int, slots: Sequence[str | int]) -> float | None:
        """Returns a number that a check may ask of a constant operand of a call, or None."""
        if self._plain or len(slots) != 2 or not any(self._given(slot) is None for slot in slots):
            return None
        known, check = (*USUAL, *of_extent(self._extent)), mined(self._words)
        # The bounds do not depend on the words, so that a number keeps its meaning when these grow.
        points = [_USUAL * (i + 0.5) / len(known) for i in range(len(known))]
        points += [_USUAL + _MINED * (i + 0.5) / MOST for i in range(len(check))]
        drawn = self._draws.random(f"{number} constant", [*points, 0.999])
        if check and _USUAL <= drawn < _USUAL + _MINED:
            return check[int((drawn - _USUAL) / _MINED * MOST) % len(check)]
        return known[int(drawn / _USUAL * len(known))] if drawn < _USUAL else None

    def _draw(self, what: str) -> float:
        """Returns the random number for a choice of the current operator."""
        return self._draws.random(f"{self._choosing} {what}")

    def _choose(self, what: str, found: Sequence[T]) -> T:
        return self._draws.choice(f"{self._choosing} {what}", found)

    def _given_type(self, slot: str | int) -> TensorType | None:
        """Returns the type of a constant whose value the pattern gives, or else None."""
        node = self._pattern.nodes[slot] if isinstance(slot, int) else None
        if node is None or node.data is None:
            return None
        assert node.shape is not None and node.dtype is not None
        return TensorType(node.shape, node.dtype)

    def _given(self, slot: str | int) -> str | None:
        """Returns the name of the value in a slot, if it exists already."""
        if isinstance(slot, str):
            return slot
        return self._values[slot][0] if slot in self._values else None

    def _first(
        self, op: Operator, slots: Sequence[str | int], given: Sequence[str | None],
        demands: Mapping[str, Any], plain: bool,
    ) -> TensorType | None:
        """Returns a type for the first operand, or None if no type fits."""
        fixed = [self._builder.types[g] for g in given if g is not None]
        if fixed and (plain or self._draw("fixed") < 0.7):
            x = fixed[0] if plain else self._choose("lead", fixed)
            return x if takes(op, x, self._ir) else None
        allowed = runnable(op, self._ir)
        if not allowed:
            return None
        wanted = demands.get("dtype") or self._dtype
        if wanted not in allowed:
            wanted = allowed[0] if plain else self._choose("lead's dtype", allowed)
        worded = self._worded(allowed)
        if worded and not plain and not demands.get("dtype") and self._draw("lead's dtype worded") < 0.3:
            wanted = self._draws.growing(f"{self._choosing} lead's dtype word", worded)
        first = [self._shaped[s] for s in slots[:1] if isinstance(s, int) and s in self._shaped]
        others = self._shapes if plain or self._draw("pool") < 0.5 else (*op.shapes, *_IMAGES)
        pool = first or others
        shapes = [s for s in pool if op.accepts(TensorType(s, wanted))]
        shapes = shapes or [s for s in op.shapes if op.accepts(TensorType(s, wanted))]
        if not shapes:
            return None
        x = TensorType(shapes[0] if plain else self._choose("shape", shapes), wanted)
        return x if first or plain else self._sized(op, x)

    def _extents(self, what: str) -> list[int]:
        """Returns numbers in the check's code that it may ask an extent to be, or to be divided by; none
        if the present choice is not to be one of them."""
        found = [w for w in self._words if type(w) is int and 1 < w <= _MOST_EXTENT]
        return found if found and not self._plain and self._draw(f"{what} asked") < _ASKED else []

    def _sized(self, op: Operator, x: TensorType) -> TensorType:
        """Returns the type of a product's first operand, at times with an extent that the check names."""
        extents = self._extents("depth") if op.matrices and x.rank > 1 else []
        if not extents:
            return x
        depth = self._draws.growing(f"{self._choosing} depth word", extents)
        return replace(x, shape=(*x.shape[:-1], depth))

    def _pick(
        self, name: str, classes: Mapping[str, Sequence[Any]], demands: Mapping[str, Any], plain: bool,
        shapes: Sequence[tuple[int, ...]],
    ) -> Any:
        values = list(classes.values())
        if name == _OTHER and self._other is not None:
            return self._other
        if name == _OTHER:
            fitting = [v for options in values for v in options if tuple(v) in shapes]
            if fitting:
                return fitting[0]
        if name in demands.get("attrs", {}):
            wanted = _thawed(demands["attrs"][name])
            same = [v for options in values for v in options if _thawed(v) == wanted]
            if same:
                return same[0]
            self._missing = f"no {name}={wanted!r}"
        if name == "others" and not self._more:
            # The pattern may join more values than any class of the record does.
            others = self._count - 1
            if not any(len(extents) == others for options in values for extents in options):
                return (values[0][0][0],) * others
        # The parameter `right` of a search is a flag.
        counted = name in _COLUMNS and not isinstance(values[0][0], bool)
        if counted and (extents := self._extents(name)):
            columns, usual = self._draws.growing(f"{self._choosing} {name} extent", extents), values[0][0]
            return (*usual[:-1], columns) if isinstance(usual, tuple) else columns
        one = classes.get("scalar") or classes.get("one")
        if name == _OTHER and one and self._number is not None:
            return one[0]
        if name == "keepdims" and not plain and self._draw("keepdims kept") < _KEPT:
            # A reduction within a pattern is mostly read beside its operand.
            return True
        if not plain and "channel" in classes and self._draw("channel") < 0.5:
            # The other operand of an addition after a convolution is mostly a bias.
            return self._choose("which channel", classes["channel"])
        single = (v for options in values for v in options if isinstance(v, (str, float, int)))
        worded = self._worded([v for v in single if not isinstance(v, bool)])
        if worded and not plain and self._draw(f"{name} worded") < 0.5:
            return self._draws.growing(f"{self._choosing} {name} word", worded)
        if plain:
            return values[0][0]
        # One number chooses the class and the value in it.
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

    def _fits(
        self,
        number: int,
        op: Operator,
        operands: Sequence[Operand],
        chosen: Mapping[str, Any],
        given: Sequence[str | None],
        slots: Sequence[str | int],
        more: bool,
        demands: Mapping[str, Any],
    ) -> bool:
        if len(operands) > len(slots) and not more:
            return False
        # Arguments without an operand must not be tensors; they may be a shape or an axis.
        if any(isinstance(s, str) for s in slots[len(operands) :]):
            return False
        types: dict[int, TensorType] = {}
        for operand, slot, value in zip(operands, slots, given):
            if value is not None and self._builder.types[value] != operand.type:
                return False
            if operand.role == CONSTANT and isinstance(slot, str):
                return False
            wanted = self._given_type(slot)
            if wanted is not None and wanted != operand.type:
                return False
            if isinstance(slot, int) and self._shaped.get(slot, operand.type.shape) != operand.type.shape:
                return False
            # A leaf used twice is one value.
            if isinstance(slot, int) and types.setdefault(slot, operand.type) != operand.type:
                return False
        attrs = op.attrs(chosen)
        for key, wanted in demands.get("attrs", {}).items():
            if key in attrs and _thawed(attrs[key]) != _thawed(wanted):
                return False
        try:
            results = op.infer([o.type for o in operands], attrs)
        except TypeRuleError:
            return False
        if demands.get("dtype") not in (None, results[0].dtype) or len(results) < demands["results"]:
            return False
        for users in self._reading.uses.get(number, ()):
            if users and not any(takes(user, results[0], self._ir) for user in users):
                return False
        return sum(t.size for t in results) <= _MAX_ELEMENTS

    def _node(
        self,
        op: Operator,
        operands: Sequence[Operand],
        chosen: Mapping[str, Any],
        given: Sequence[str | None],
        slots: Sequence[str | int],
    ) -> tuple[str, ...]:
        names = []
        for i, operand in enumerate(operands):
            slot = slots[i] if i < len(slots) else None
            name = given[i] if i < len(given) else None
            if name is None and isinstance(slot, int) and slot in self._values:
                name = self._values[slot][0]
            if name is None:
                name = self._leaf(op, operand, self._pattern.nodes[slot] if isinstance(slot, int) else None)
                if isinstance(slot, int):
                    self._values[slot] = (name,)
            names.append(name)
        return self._builder.node(op.name, names, {**op.attrs(chosen), **self._unset(op, operands, chosen)})

    def _unset(
        self, op: Operator, operands: Sequence[Operand], chosen: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Returns the attribute that leaves out those which are optional in the IR and have their
        defaults, or none: the call has fewer arguments then."""
        x = next((o.type for o in operands if o.role == LEAD), None)
        optional: Collection[str] = getattr(op, self._ir).optional
        if UNSET not in self._words or x is None or not optional or self._draw("unset") > _UNSET:
            return {}
        before: dict[str, Any] = {}
        left_out = []
        for parameter in op.parameters:
            if parameter.name in optional:
                default = first(parameter.name, parameter.values(x, before))
                left_out += [parameter.name] * (chosen[parameter.name] == default)
            before[parameter.name] = chosen[parameter.name]
        return {UNSET: tuple(left_out)} if left_out else {}

    def _leaf(self, op: Operator, operand: Operand, node: Tree | None) -> str:
        low, high = op.range(operand.type.dtype) if operand.role == LEAD else operand.range()
        constant = operand.role in (WEIGHT, BIAS, CONSTANT)
        data = operand.data
        wild = node is not None and node.kind == "wildcard" and not self._plain
        if node is not None and node.kind in ("constant", "variable"):
            constant = node.kind == "constant"
        elif wild and operand.role in (WEIGHT, BIAS) and self._draw(f"{operand.role} input") > 0.8:
            constant = False
        elif wild and operand.role == FRESH and self._draw("fresh fixed") < _FIXED:
            constant = True
        if node is not None and node.data is not None:
            data = node.data if operand.type.shape else node.data[0]
        elif node is not None and self._number is not None and _holds_a_number(operand):
            constant, data = True, [self._number]
        name = (self._builder.constant if constant else self._builder.input)(operand.type, low, high, data)
        if not constant and self._extent == 1 and operand.type.shape:
            self._extent = operand.type.shape[-1]
        if wild and operand.role in (LEAD, DATA) and self._draw(f"{operand.role} made") > 0.85:
            # The leaf becomes the result of another operator; abs keeps it within its range.
            op = OPERATORS["abs"]
            if operand.type.dtype in runnable(op, self._ir) and high >= -low:
                return self._builder.node("abs", [name], {})[0]
        return name


def _holds_a_number(operand: Operand) -> bool:
    return operand.role in (DATA, FRESH) and operand.type.size == 1 and operand.type.dtype in FLOATS


def _thawed(value: Any) -> Any:
    """Returns the value with lists in place of tuples, so that the two compare equal."""
    return [_thawed(v) for v in value] if isinstance(value, (list, tuple)) else value


def _one_for_several(node: Tree) -> str:
    """Returns a remark if a call has one part in several places, which is rarely intended."""
    parts = node.of or ()
    again = [i + 1 for i, part in enumerate(parts) if parts.count(part) > 1]
    if not again:
        return ""
    places = ", ".join(map(str, again))
    return f": operands {places} are the same object in the pattern, so all must be the same value"


def _unusable(node: Tree) -> str:
    if node.kind == "other":
        return f"the pattern contains a {node.text}"
    return f"the pattern has a {node.kind} where an operator's result is needed"
