"""A graph that has the structure of a pattern, taken in one way."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ...graph import Graph, TensorType
from ...operators import OPERATORS
from ...operators.measured import dtypes as runnable
from ...operators.record import BIAS, CONSTANT, LEAD, WEIGHT, Operand, Operator, TypeRuleError
from ..builder import Builder, choose_parameters
from .tree import Pattern, Tree, Way

#: Attempts to choose an operator's parameters so that its operands fit what is there.
_TRIES = 60
#: Larger values are avoided: results grow along a pattern.
_MAX_ELEMENTS = 4096


class NoInstance(Exception):
    """Raised where no graph can be made for a pattern; the message says why."""


def records(ir: str, name: str) -> list[Operator]:
    """The records that lower to an IR's operator of that name, its namesake first."""
    found = [op for op in OPERATORS.values() if getattr(op, ir) and getattr(op, ir).op == name]
    return sorted(found, key=lambda op: op.name != name)


def made_of(pattern: Pattern, operators: Collection[str], ir: str) -> bool:
    """Whether each call of a pattern may be of one of these operators, or of none that is known."""
    for node in pattern.nodes:
        known = [op.name for name in node.ops or () for op in records(ir, name)]
        if node.kind == "call" and known and not set(known) & set(operators):
            return False
    return True


def instance(pattern: Pattern, way: Way, ir: str, seed: int) -> Graph:
    """One graph; with seed 0 every choice is the default, with others it is drawn.

    Raises NoInstance.
    """
    return _Instance(pattern, way, ir, seed).graph()


class _Instance:
    def __init__(self, pattern: Pattern, way: Way, ir: str, seed: int) -> None:
        self._pattern, self._way, self._ir = pattern, way, ir
        self._seed, self._random = seed, random.Random(f"{pattern.name} {sorted(way.items())} {seed}")
        self._builder = Builder(seed=seed + 1)
        self._values: dict[int, tuple[str, ...]] = {}
        #: How many results a call must have, by its number: those that the pattern takes of it.
        self._least = self._items()
        #: The fewest operands an operator was seen to take.
        self._wanted: dict[str, int] = {}
        #: How often a parameter is left at its default: checks refuse what is odd in several ways.
        self._plainness = self._random.choice((0.9, 0.7, 0.4))
        #: The dtype new values have, where the operator takes it: one that all operators take, if any.
        self._dtype = self._common_dtype()
        #: Shapes that the choosiest of the operators takes: others mostly take them too.
        self._shapes = self._choosiest_shapes()

    def graph(self) -> Graph:
        root, demands = self._resolve(self._pattern.root)
        if self._pattern.nodes[root].kind not in ("call", "item", "tuple"):
            raise NoInstance("the pattern matches values that no operator makes")
        outputs = self._visit(root, demands)
        if not self._builder.nodes:
            raise NoInstance("the pattern holds no operator")
        return self._builder.graph(*outputs)

    # --- walking the pattern -----------------------------------------------------------------

    def _items(self) -> dict[int, int]:
        least: dict[int, int] = {}
        for node in self._pattern.nodes:
            if node.kind == "item" and node.of is not None:
                of, _ = self._resolve(node.of[0])
                least[of] = max(least.get(of, 0), (node.index or 0) + 1)
        return least

    def _operators(self) -> list[list[Operator]]:
        """For each call, the records it may be of."""
        found: list[list[Operator]] = []

        def visit(number: int) -> None:
            number, _ = self._resolve(number)
            node = self._pattern.nodes[number]
            if node.kind == "call" and node.ops is not None:
                name = node.ops[self._way.get(number, 0) if len(node.ops) > 1 else 0]
                found.append(records(self._ir, name))
            for part in node.of or ():
                visit(part)

        visit(self._pattern.root)
        return [ops for ops in found if ops]

    def _choosiest_shapes(self) -> tuple[tuple[int, ...], ...]:
        def ranks(ops: list[Operator]) -> int:
            return len({len(s) for op in ops for s in op.shapes})

        ops = min(self._operators(), key=ranks, default=[])
        return tuple(s for op in ops for s in op.shapes)

    def _common_dtype(self) -> str | None:
        taken = [[d for op in ops for d in runnable(op, self._ir)] for ops in self._operators()]
        order = dict.fromkeys(d for found in taken for d in found)
        common = [d for d in order if all(d in found for found in taken)]
        if not common:
            return None
        # float32 and float16 are what most tables are written for.
        plain = self._seed == 0 or self._random.random() < 0.4
        return common[0] if plain else self._random.choice(common[:3] + common)

    def _resolve(self, number: int) -> tuple[int, dict[str, Any]]:
        """The node that is matched in the end, and what is demanded of it on the way there."""
        demands: dict[str, Any] = {}
        while True:
            node = self._pattern.nodes[number]
            if node.kind == "or":
                assert node.of is not None
                number = node.of[self._way.get(number, 0)]
            elif node.kind == "and":
                # Of two patterns that both hold the one that is built is the more telling one.
                assert node.of is not None
                left = self._pattern.nodes[node.of[0]].kind in ("wildcard", "constant")
                number = node.of[1 if left else 0]
            elif node.kind == "with":
                assert node.of is not None
                demands = {**_demands(node), **demands}
                number = node.of[0]
            else:
                return number, demands

    def _visit(self, number: int, demands: Mapping[str, Any] | None = None) -> tuple[str, ...]:
        """Names of the values of a node that is a call, a tuple or an item of one."""
        if number in self._values:
            return self._values[number]
        node = self._pattern.nodes[number]
        if node.kind == "item":
            assert node.of is not None
            of, inner = self._resolve(node.of[0])
            if self._pattern.nodes[of].kind != "call":
                raise NoInstance("an item is taken of a tuple that no operator makes")
            values = self._visit(of, inner)
            if (node.index or 0) >= len(values):
                raise NoInstance(f"item {node.index} is taken of {len(values)}")
            made: tuple[str, ...] = (values[node.index or 0],)
        elif node.kind == "call":
            made = self._call(number, node, demands or {})
        elif node.kind == "tuple" and node.of is not None:
            made = tuple(v for part in node.of for v in self._visit(*self._resolve(part)))
        else:
            raise NoInstance(_unusable(node))
        self._values[number] = made
        return made

    def _call(self, number: int, node: Tree, demands: Mapping[str, Any]) -> tuple[str, ...]:
        if node.ops is None:
            raise NoInstance("the pattern calls something that is no operator, a PrimFunc for one")
        name = node.ops[self._way.get(number, 0) if len(node.ops) > 1 else 0]
        candidates = records(self._ir, name)
        if not candidates:
            raise NoInstance(f"the operator {name} has no record")
        # Several records may be written with one operator of the IR: each gets its turn at being first.
        turn = self._seed % len(candidates)
        candidates = candidates[turn:] + candidates[:turn]
        slots, more = self._slots(node)
        demands = {**demands, "results": self._least.get(number, 1)}
        for op in candidates:
            made = self._apply(op, slots, more or node.more, demands)
            if made is not None:
                return made
        if not more and not node.more and self._wanted.get(name, 0) > len(slots):
            raise NoInstance(f"{name} takes {self._wanted[name]} operands, the pattern has {len(slots)}")
        raise NoInstance(f"no parameters of {name} fit the operands the pattern gives it")

    def _slots(self, node: Tree) -> tuple[list[str | int], bool]:
        """Arguments of a call, tuples spread out: a value's name, or the number of a leaf. And whether
        there may be more than the pattern says."""
        if node.of is None:
            return [], True
        slots: list[str | int] = []
        more = False
        for part in node.of:
            number, demands = self._resolve(part)
            inner = self._pattern.nodes[number]
            if inner.kind in ("wildcard", "constant", "variable"):
                slots.append(number)
            elif inner.kind == "tuple":
                fields = inner.of
                more |= fields is None
                spread, _ = self._slots(Tree("call", fields or ()))
                slots += spread
            elif inner.kind == "other":
                # Something an operator takes that is no tensor; the record's lowering supplies it.
                slots.append(number)
            else:
                slots.append(self._visit(number, demands)[0])
        return slots, more

    # --- applying an operator ----------------------------------------------------------------

    def _apply(
        self, op: Operator, slots: Sequence[str | int], more: bool, demands: Mapping[str, Any]
    ) -> tuple[str, ...] | None:
        """Names of the results; None where nothing fits."""
        given = [self._given(s) for s in slots]
        for attempt in range(_TRIES):
            plain = self._seed == 0 and attempt == 0
            x = self._first(op, given, demands, plain)
            if x is None:
                continue
            shapes = [t.shape for t in map(self._given_type, slots) if t is not None]
            chosen = choose_parameters(
                op, x, lambda n, c: self._pick(n, c, demands, plain, shapes)  # noqa: B023
            )
            operands = op.operands(x, chosen)
            name = getattr(op, self._ir).op
            self._wanted[name] = min(self._wanted.get(name, len(operands)), len(operands))
            if not self._fits(op, operands, chosen, given, slots, more, demands):
                continue
            return self._node(op, operands, chosen, given, slots)
        return None

    def _given_type(self, slot: str | int) -> TensorType | None:
        """The type of a constant whose value the pattern gives."""
        node = self._pattern.nodes[slot] if isinstance(slot, int) else None
        if node is None or node.data is None:
            return None
        assert node.shape is not None and node.dtype is not None
        return TensorType(node.shape, node.dtype)

    def _given(self, slot: str | int) -> str | None:
        """The value in a slot, if there is one already."""
        if isinstance(slot, str):
            return slot
        return self._values[slot][0] if slot in self._values else None

    def _first(
        self, op: Operator, given: Sequence[str | None], demands: Mapping[str, Any], plain: bool
    ) -> TensorType | None:
        """A type for the first operand."""
        fixed = [self._builder.types[g] for g in given if g is not None]
        if fixed and (plain or self._random.random() < 0.7):
            x = fixed[0] if plain else self._random.choice(fixed)
            return x if x.dtype in runnable(op, self._ir) and op.accepts(x) else None
        allowed = runnable(op, self._ir)
        if not allowed:
            return None
        wanted = demands.get("dtype") or self._dtype
        if wanted not in allowed:
            wanted = allowed[0] if plain else self._random.choice(allowed)
        pool = self._shapes if plain or self._random.random() < 0.8 else op.shapes
        shapes = [s for s in pool if op.accepts(TensorType(s, wanted))]
        shapes = shapes or [s for s in op.shapes if op.accepts(TensorType(s, wanted))]
        if not shapes:
            return None
        return TensorType(shapes[0] if plain else self._random.choice(shapes), wanted)

    def _pick(
        self, name: str, classes: Mapping[str, Sequence[Any]], demands: Mapping[str, Any], plain: bool,
        shapes: Sequence[tuple[int, ...]],
    ) -> Any:
        values = list(classes.values())
        if name == "other_shape":
            fitting = [v for found in values for v in found if tuple(v) in shapes]
            if fitting:
                return fitting[0]
        if name in demands.get("attrs", {}):
            wanted = _thawed(demands["attrs"][name])
            same = [v for found in values for v in found if _thawed(v) == wanted]
            if same:
                return same[0]
        if not plain and "channel" in classes and self._random.random() < 0.5:
            # The other operand of an addition after a convolution: mostly a bias.
            return self._random.choice(classes["channel"])
        if plain or self._random.random() < self._plainness:
            return values[0][0]
        return self._random.choice(self._random.choice(values))

    def _fits(
        self,
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
        # What is left over is no tensor for the record: a shape, an axis.
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
        return self._builder.node(op.name, names, op.attrs(chosen))

    def _leaf(self, op: Operator, operand: Operand, node: Tree | None) -> str:
        low, high = op.domain if op.domain and operand.role == LEAD else operand.range()
        constant = operand.role in (WEIGHT, BIAS, CONSTANT)
        if node is not None and node.kind in ("constant", "variable"):
            constant = node.kind == "constant"
        make = self._builder.constant if constant else self._builder.input
        if node is not None and node.data is not None:
            return make(operand.type, low, high, node.data if operand.type.shape else node.data[0])
        return make(operand.type, low, high, operand.data)


def _demands(node: Tree) -> dict[str, Any]:
    found = {"attrs": node.attrs, "dtype": node.dtype}
    return {k: v for k, v in found.items() if v}


def _thawed(value: Any) -> Any:
    """Lists and tuples alike, numbers by value."""
    return [_thawed(v) for v in value] if isinstance(value, (list, tuple)) else value


def _unusable(node: Tree) -> str:
    if node.kind == "other":
        return f"the pattern holds a {node.text}"
    return f"the pattern takes a {node.kind} where an operator's result is needed"
