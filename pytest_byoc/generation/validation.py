"""Compares graphs that a user wrote with the operators' records; one message says why a graph
cannot be examined.

Graphs of our own generators are valid by construction and are not compared.
"""

from __future__ import annotations

import difflib
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from ..core.graph import Graph, GraphError, GraphFormatError, Node, Source, TensorType
from ..operators import OPERATORS
from ..operators.record import FLOATS, UNSET, Attrs, Operator
from ..oracle.evaluation import evaluate
from .data import array, constants, inputs
from .systematic import cases

#: The most elements that a graph's values may have; the host must hold them several times.
ELEMENTS = 1 << 28
#: Graphs with at most so many elements are also evaluated to validate them, in little time.
_TRIED = 1 << 16
#: The key in a graph's `__dict__` that marks it as valid by construction.
_VALID = "_valid"


def vouch_for(graph: Graph) -> Graph:
    """Marks the graph as valid by construction, so that `validated` accepts it, and returns it."""
    vars(graph)[_VALID] = True
    return graph


def validated(graph: Graph) -> Graph:
    """Returns the graph, tuples in place of lists. Raises GraphError if it cannot be examined."""
    if not isinstance(graph, Graph):
        raise GraphError(f"expected a pytest_byoc.Graph, found a {type(graph).__name__}")
    if _VALID in vars(graph):
        return graph
    try:
        # The graph is read as from a file, so that values that are not plain are recognised.
        graph = Graph.from_json(graph.to_json())
    except GraphError:
        raise
    except Exception as e:  # of a field that holds something else than its type
        raise GraphFormatError(f"malformed graph: {type(e).__name__}: {e}") from None
    validate(graph)
    return graph


def validate(graph: Graph) -> None:
    """Raises GraphError for a well-formed graph that does not fit the operators' records."""
    if graph.elements > ELEMENTS:
        raise GraphError(f"its values have more than {ELEMENTS} elements")
    for source in graph.sources():
        _validate_source(source)
    for node in graph.nodes:
        _validate_node(node, [graph.type_of(name) for name in node.inputs])
    if graph.elements <= _TRIED:
        try:
            evaluate(graph, {**constants(graph), **inputs(graph, 0)})
        except Exception as e:  # a kernel may stumble over whatever the type rule lets through
            raise GraphError(f"its values can't be calculated: {type(e).__name__}: {e}") from None


def perhaps(name: str) -> str:
    """Returns a suggestion for the name of an unknown operator, or "". Relax has other names for
    some operators; other names may be misspelt."""
    plain = name.removeprefix("relay.").removeprefix("relax.")
    meant = [
        op.name for op in OPERATORS.values()
        if plain in {op.name, op.name.removeprefix("nn."), *(i.op for i in (op.relay, op.relax) if i)}
    ]
    meant = meant or difflib.get_close_matches(plain, OPERATORS, 1)
    return f" ({' or '.join(meant)}?)" if meant else ""


# --- elements ------------------------------------------------------------------------------------


def _validate_source(source: Source) -> None:
    def refuse(why: str) -> GraphError:
        return GraphError(f"the elements of {source.name} do not fit {source.type}: {why}")

    try:
        made = array(source)
    except (ValueError, TypeError, OverflowError) as e:
        raise refuse(str(e)) from None
    if source.data is None or source.type.dtype in FLOATS:
        return
    given = np.array(source.data, object).reshape(made.shape)
    wrong = [v for v, m in zip(given.ravel().tolist(), made.ravel().tolist()) if not _is_number(v) or v != m]
    if wrong:
        raise refuse(f"{wrong[0]!r} is not a value of that dtype")


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float))


# --- nodes ---------------------------------------------------------------------------------------


def _validate_node(node: Node, types: Sequence[TensorType]) -> None:
    if node.op not in OPERATORS:
        raise GraphError(f"this version has no operator {node.op!r}{perhaps(node.op)}")
    op = OPERATORS[node.op]
    outputs = ", ".join(node.outputs)
    try:
        _validate_attributes(op, node.attrs, types)
        _validate_operands(op, node.attrs, types)
        wanted = _infer(op, node.attrs, types)
    except GraphError as e:
        raise GraphError(f"{node.op}, which makes {outputs}: {e}") from None
    if len(node.outputs) != len(node.types) or wanted != node.types:
        raise GraphError(
            f"{node.op} makes {', '.join(map(str, wanted))} of these operands and attributes; the graph says "
            f"{', '.join(map(str, node.types)) or 'nothing'} for {outputs or 'its results'}"
        )


def _infer(op: Operator, attrs: Attrs, types: Sequence[TensorType]) -> tuple[TensorType, ...]:
    given = ", ".join(map(str, types))
    try:
        return op.infer(types, attrs)
    except Exception as e:  # a rule may stumble over whatever it does not expect
        raise GraphError(f"it does not accept {given} with {_written(attrs)}: {e}") from None


def _written(attrs: Attrs) -> str:
    return ", ".join(f"{k}={v!r}" for k, v in attrs.items()) or "no attributes"


def _validate_operands(op: Operator, attrs: Attrs, types: Sequence[TensorType]) -> None:
    if not types:
        raise GraphError("it has no operands")
    if types[0].dtype not in op.dtypes:
        raise GraphError(f"it does not accept {types[0].dtype}; known are {', '.join(op.dtypes)}")
    numbers = set(_operand_numbers(op, attrs, types[0]))
    # Operators with any number of operands have cases with a few numbers; their type rules check
    # the rest.
    least, most = min(numbers, default=0), max(numbers, default=0)
    if least == most != len(types) and numbers:
        raise GraphError(f"it takes {_operands(least)}, found {len(types)}")


def _operands(number: int) -> str:
    return "1 operand" if number == 1 else f"{number} operands"


def _operand_numbers(op: Operator, attrs: Attrs, x: TensorType) -> Iterator[int]:
    """Yields the numbers of operands that the operator may have with these attributes."""
    for chosen in _choices(op, attrs, x):
        try:
            yield len(op.operands(x, chosen))
        except Exception:
            # The type rule reports operands that do not fit.
            continue


def _choices(op: Operator, attrs: Attrs, x: TensorType) -> Iterator[dict[str, Any]]:
    """Yields the attributes together with a value of each class of the other parameters."""
    combined: list[dict[str, Any]] = [{}]
    for parameter in op.parameters:
        grown = []
        for chosen in combined:
            if parameter.attribute:
                values: Iterable[Any] = [attrs[parameter.name]]
            else:
                try:
                    values = [v[0] for v in parameter.values(x, chosen).values()]
                except Exception:
                    values = []
            grown += [{**chosen, parameter.name: value} for value in values]
        combined = grown
    yield from combined


# --- attributes ----------------------------------------------------------------------------------


@dataclass
class _Domain:
    """The values of an attribute in the cases of its operator. A given attribute must be one of
    the words, or of one of the other types; a number may be below 0 (or 1) only if one is."""

    words: set[str] = field(default_factory=set)
    kinds: set[type] = field(default_factory=set)
    least: float = math.inf
    parts: _Domain | None = None

    def add(self, value: Any) -> None:
        self.kinds.add(type(value))
        if isinstance(value, str):
            self.words.add(value)
        elif isinstance(value, tuple):
            self.parts = self.parts or _Domain()
            for part in value:
                self.parts.add(part)
        elif type(value) is int:
            self.least = min(self.least, value)

    def problem(self, value: Any, axis: bool) -> str:
        """Returns why the attribute may not have the value, or "" if it may. axis: True if the
        value is an axis, which may be counted from the end."""
        kind = type(value)
        if kind is int and float in self.kinds and int not in self.kinds:
            return ""
        if kind not in self.kinds:
            return f"found {value!r}, expected {self._in_words()}"
        if kind is str and value not in self.words:
            return f"found {value!r}, known are {', '.join(map(repr, sorted(self.words)))}"
        if kind is float and math.isnan(value):
            return "found nan, expected a number"
        if kind is int and not axis and 0 <= self.least <= 1 and value < self.least:
            return f"found {value!r}, expected {self.least} or more"
        if kind is tuple and self.parts is not None:
            return next(filter(None, (self.parts.problem(part, axis) for part in value)), "")
        return ""

    def _in_words(self) -> str:
        names = {int: "an int", float: "a float", bool: "True or False", str: "a word", tuple: "a tuple"}
        return " or ".join(sorted(names.get(kind, "None") for kind in self.kinds))


@cache
def _shown(name: str) -> dict[str, list[Any]]:
    """Returns the values of each attribute in the systematic cases of an operator."""
    values_by_attribute: dict[str, dict[str, Any]] = {}
    for case in cases([name], None):
        for attribute, value in case.graph.nodes[0].attrs.items():
            values_by_attribute.setdefault(attribute, {}).setdefault(repr(value), value)
    return {attribute: list(values.values()) for attribute, values in values_by_attribute.items()}


def _validate_attributes(op: Operator, attrs: Attrs, types: Sequence[TensorType]) -> None:
    known = [p.name for p in op.parameters if p.attribute]
    missing = [name for name in known if name not in attrs]
    odd = [name for name in attrs if name not in (*known, UNSET)]
    if odd:
        has = f"it has {', '.join(known)}" if known else "it has none"
        raise GraphError(f"there is no attribute {', '.join(odd)}; {has}")
    if missing:
        raise GraphError(f"the attribute {', '.join(missing)} is missing")
    shown = _shown(op.name)
    for name in known:
        domain = _Domain()
        for value in (*shown.get(name, ()), *_values(op, name, attrs, types)):
            domain.add(value)
        problem = domain.problem(attrs[name], "ax" in name)
        if problem:
            raise GraphError(f"{name}: {problem}")
    _validate_unset(op, attrs.get(UNSET, ()), attrs)


def _validate_unset(op: Operator, names: Any, attrs: Mapping[str, Any]) -> None:
    optional = {n for lowering in (op.relay, op.relax) if lowering is not None for n in lowering.optional}
    if not isinstance(names, tuple) or not optional.issuperset(names):
        can = ", ".join(sorted(optional)) or "none"
        raise GraphError(f"{UNSET}: found {names!r}; attributes that may be left unwritten: {can}")


def _values(op: Operator, name: str, attrs: Attrs, types: Sequence[TensorType]) -> list[Any]:
    """Returns a parameter's values by the record, for the first operand and earlier attributes."""
    result: list[Any] = []
    for parameter in op.parameters:
        if parameter.name == name and types:
            try:
                result = list(itertools.chain(*parameter.values(types[0], attrs).values()))
            except Exception:
                # The type rule reports values that do not fit.
                result = []
    return result
