"""Reads a pattern in one way: follows its alternatives and finds the operators of its calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from functools import cache
from typing import Any

from ...core.graph import TensorType
from ...operators import OPERATORS
from ...operators.absent import ABSENT
from ...operators.measured import dtypes as runnable
from ...operators.record import Operator
from ..builder import choose_parameters, first
from .tree import Pattern, Tree, Way

#: Kinds of parts that are values from outside of the pattern.
LEAVES = ("wildcard", "constant", "variable")
#: Operators that call a function of TIR, of a library or of the module.
_CALLS = ("call_tir", "call_tir_inplace", "call_dps_packed", "call_pure_packed", "invoke_closure")


class NoInstance(Exception):
    """Raised if no graph can be made for a pattern; the message says why."""


@cache
def records(ir: str, name: str) -> list[Operator]:
    """Returns the records that lower to the IR's operator of that name, its namesake first."""
    having = [op for op in OPERATORS.values() if getattr(op, ir) and getattr(op, ir).op == name]
    narrowed = [op.supported(ir) for op in having]
    return sorted(narrowed, key=lambda op: op.name != name)


def records_of(node: Tree, ir: str) -> list[Operator]:
    """Returns the records of the operators that a call may be of."""
    return [op for name in node.ops or () for op in records(ir, name)]


def _default(op: Operator) -> tuple[list[TensorType], Sequence[TensorType]]:
    """Returns the types of an operator's operands in its simplest form, and of its results."""
    x = next(TensorType(s, d) for d in op.dtypes for s in op.shapes if op.takes(TensorType(s, d)))
    chosen = choose_parameters(op, x, first)
    types = [o.type for o in op.operands(x, chosen)]
    return types, op.infer(types, op.attrs(chosen))


def returns_tuple(op: Operator) -> bool:
    return op.tuple_result or _has_several_results(op.name)


@cache
def _has_several_results(name: str) -> bool:
    return len(_default(OPERATORS[name])[1]) > 1


@cache
def keeps_shape(name: str) -> bool:
    """Returns whether an operator's first result has the shape of its first operand, by default."""
    types, results = _default(OPERATORS[name])
    return bool(types) and results[0].shape == types[0].shape


def takes_tuple(node: Tree, ir: str) -> bool:
    """Returns whether a call of one argument may be of an operator with a tuple of operands."""
    return any(len(_default(op)[0]) > 1 for op in records_of(node, ir))


def joins_any_number(node: Tree, ir: str) -> bool:
    """Returns whether a call of one argument is of an operator that joins a tuple of any length."""
    joining = any(p.name == "others" for op in records_of(node, ir) for p in op.parameters)
    return joining and len(node.of or ()) == 1


def made_of(pattern: Pattern, operators: Collection[str], ir: str) -> bool:
    """Returns whether a pattern can be matched by these operators and ones without a record."""
    possible: list[bool] = []
    for node in pattern.nodes:
        known = [op.name for op in records_of(node, ir)]
        left_out = node.kind == "call" and known and not set(known) & set(operators)
        parts = (any if node.kind == "or" else all)(possible[part] for part in node.of or ())
        possible.append(parts and not left_out)
    return possible[pattern.root]


def not_among(pattern: Pattern, operators: Collection[str], ir: str) -> list[str]:
    """Returns the names of each call's known operators, joined by "or", if none of them is among
    `operators`; without duplicates."""
    known = [[op.name for op in records_of(node, ir)] for node in pattern.nodes]
    missing = [" or ".join(names) for names in known if names and not set(names) & set(operators)]
    return list(dict.fromkeys(missing))


class Reading:
    """A pattern read in one way. least: the number of results that a call must have, by the call's
    number, because the pattern reads them. uses: for each call, the records of the calls whose
    first operand is its result. calls: the numbers of all calls, the last one of the graph first.
    demands: on the calls and leaves, by their numbers. counterparts: by the number of a part, the
    number of the corresponding part of the call's first operand of equal form, for example of the
    first of several parallel branches.
    """

    def __init__(self, pattern: Pattern, way: Way, ir: str) -> None:
        self.pattern, self._way, self._ir = pattern, way, ir
        self.least = self._find_least()
        self.uses: dict[int, list[list[Operator]]] = {}
        self._find_uses(pattern.root, set())
        self._forms: dict[int, int] = {}
        self._numbers_of_forms: dict[tuple[object, ...], int] = {}
        self.demands: dict[int, dict[str, Any]] = {}
        self.calls = self._find_calls()
        self.counterparts = self._find_counterparts()
        self._sharing = Counter(filter(None, map(self._reads, self.calls)))

    def _reads(self, number: int) -> tuple[str, int] | None:
        """Returns the operator of a call and its first operand; None if it has none."""
        operands = self.operands(number) if self.pattern.nodes[number].ops is not None else []
        return (self.name(number), operands[0]) if operands else None

    def operands(self, number: int) -> list[int]:
        """Returns the resolved operands of a call, the fields of tuples in their place."""
        operands: list[int] = []
        for part in self.pattern.nodes[number].of or ():
            inner, _ = self.resolve(part)
            node = self.pattern.nodes[inner]
            operands += self.operands(inner) if node.kind == "tuple" and node.of is not None else [inner]
        return operands

    def is_tuple(self, number: int) -> bool:
        """Returns whether a part stands for several values: a call of an operator that returns a
        tuple, or a tuple whose fields the pattern leaves open."""
        node = self.pattern.nodes[number]
        called = node.kind == "call" and node.ops is not None
        return node.kind == "tuple" or (called and any(map(returns_tuple, self.candidates(number))))

    def parts(self, number: int) -> int:
        """Returns the number of parts in which the pattern reads a call's first operand: the results of the
        call, or the calls of its operator that have this operand."""
        read = self._reads(number)
        return max(self.least.get(number, 1), self._sharing[read] if read is not None else 1)

    def open_leaves(self) -> list[int]:
        """Returns the leaves, each the last one of the operands of a call of two."""
        pairs = [pair for pair in map(self.operands, self.calls) if len(pair) == 2]
        leaves = ([o for o in pair if self.pattern.nodes[o].kind in LEAVES] for pair in pairs)
        return list(dict.fromkeys(found[-1] for found in leaves if found))

    def _find_calls(self) -> list[int]:
        calls: dict[int, None] = {}
        left = [self.resolve(self.pattern.root)]
        for number, demands in left:
            self.demands[number] = {**self.demands.get(number, {}), **demands}
            node = self.pattern.nodes[number]
            if number not in calls:
                left += [self.resolve(part) for part in node.of or ()]
            if node.kind == "call":
                calls[number] = None
        return list(calls)

    def _find_counterparts(self) -> dict[int, int]:
        counterparts: dict[int, int] = {}

        def pair(one: int, other: int) -> None:
            if one == other or other in counterparts:
                return
            counterparts[other] = counterparts.get(one, one)
            for a, b in zip(self.operands(one), self.operands(other)):
                pair(a, b)

        for call in self.calls:
            first: dict[int, int] = {}
            for operand in self.operands(call):
                if self.pattern.nodes[operand].kind == "call":
                    pair(first.setdefault(self._form(operand), operand), operand)
        return counterparts

    def _form(self, number: int) -> int:
        """Returns the same number for parts that match the same expressions."""
        if number not in self._forms:
            node = self.pattern.nodes[number]
            name = self.name(number) if node.kind == "call" and node.ops is not None else node.kind
            inner = [self._form(self.resolve(part)[0]) for part in node.of or ()]
            # A number in place of a text, which doubles with each operand that is read twice.
            key = (name, node.index, *inner)
            self._forms[number] = self._numbers_of_forms.setdefault(key, len(self._numbers_of_forms))
        return self._forms[number]

    def _find_least(self) -> dict[int, int]:
        least: dict[int, int] = {}
        for node in self.pattern.nodes:
            if node.kind == "item" and node.of is not None:
                of, _ = self.resolve(node.of[0])
                least[of] = max(least.get(of, 0), (node.index or 0) + 1)
        return least

    def _find_uses(self, number: int, met: set[int]) -> None:
        number, _ = self.resolve(number)
        if number in met:
            return
        met.add(number)
        node = self.pattern.nodes[number]
        if node.kind == "call" and node.of and node.ops is not None:
            of, _ = self.resolve(node.of[0])
            while self.pattern.nodes[of].kind == "item":
                of, _ = self.resolve((self.pattern.nodes[of].of or ())[0])
            self.uses.setdefault(of, []).append(records(self._ir, self.name(number)))
        for part in node.of or ():
            self._find_uses(part, met)

    def _operators(self) -> list[list[Operator]]:
        """Returns the records of each call that has any."""
        calls: list[list[Operator]] = []
        visited: set[int] = set()

        def visit(number: int) -> None:
            number, _ = self.resolve(number)
            if number in visited:
                return
            visited.add(number)
            node = self.pattern.nodes[number]
            if node.kind == "call" and node.ops is not None:
                name = node.ops[self._way.get(number, 0) if len(node.ops) > 1 else 0]
                calls.append(records(self._ir, name))
            for part in node.of or ():
                visit(part)

        visit(self.pattern.root)
        return [ops for ops in calls if ops]

    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Returns the shapes of the records of the call that accepts the fewest ranks."""
        def ranks(ops: list[Operator]) -> int:
            return len({len(s) for op in ops for s in op.shapes})

        ops = min(self._operators(), key=ranks, default=[])
        return tuple(s for op in ops for s in op.shapes)

    def common_dtypes(self) -> list[str]:
        """Returns the dtypes that all operators accept, in the order of the first operator's."""
        accepted = [[d for op in ops for d in runnable(op, self._ir)] for ops in self._operators()]
        order = dict.fromkeys(d for dtypes in accepted for d in dtypes)
        return [d for d in order if all(d in dtypes for dtypes in accepted)]

    def resolve(self, number: int) -> tuple[int, dict[str, Any]]:
        """Returns the node that matches in the end, and the demands on it on the way there."""
        demands: dict[str, Any] = {}
        while True:
            node = self.pattern.nodes[number]
            if node.kind == "or":
                assert node.of is not None
                number = node.of[self._way.get(number, 0)]
            elif node.kind == "and":
                # Both patterns hold; the graph is built from the second if the first is a wildcard
                # or a constant, which says less.
                assert node.of is not None
                left = self.pattern.nodes[node.of[0]].kind in ("wildcard", "constant")
                number = node.of[1 if left else 0]
            elif node.kind == "with":
                assert node.of is not None
                demands = {**_demands(node), **demands}
                number = node.of[0]
            else:
                return number, demands

    def name(self, number: int) -> str:
        """Returns the name of a call's operator. Raises NoInstance if it calls something else."""
        ops = self.pattern.nodes[number].ops
        if ops is None:
            raise NoInstance("the pattern calls something that is not an operator, for example a PrimFunc")
        return ops[self._way.get(number, 0) if len(ops) > 1 else 0]

    def candidates(self, number: int) -> list[Operator]:
        """Returns the records that a call may be written with. Raises NoInstance if none exists."""
        name = self.name(number)
        options = records(self._ir, name)
        if not options and name in _CALLS:
            raise NoInstance(f"the pattern calls a function by {name}, and only operators have records")
        if not options:
            because = ABSENT[self._ir].get(name)
            raise NoInstance(f"the operator {name} has no record" + (f": {because}" if because else ""))
        return options


def _demands(node: Tree) -> dict[str, Any]:
    demands = {"attrs": node.attrs, "dtype": node.dtype, "shape": node.shape}
    return {k: v for k, v in demands.items() if v}
