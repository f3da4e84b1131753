"""The systematic cases: every operator alone, each class of each parameter at least once.

Numbered by nothing but their ids, which stay the same from run to run and from version to version
as long as the record does: `nn.conv2d[float32-padding_asymmetric]`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Any, NamedTuple

from ..graph import Graph, TensorType
from ..operators import OPERATORS, within
from ..operators.measured import dtypes as runnable
from ..operators.measured import left_out
from ..operators.record import (
    BIAS,
    CONSTANT,
    DATA,
    FRESH,
    INTEGERS,
    WEIGHT,
    Operand,
    Operator,
    Parameter,
)
from . import boundary
from .builder import Builder, choose_parameters, first

#: Cases that come right after the simplest one: everything off its default at once, and operands that are
#: constants, inputs or one value where they are not by default.
_EARLY = (
    "-mixed_1", "-mixed_2", "-constant_operand", "-same_operand", "-squared", "-constant_first",
    "-weight_input",
)
#: The turns in which cases are examined.
EARLY, FEW, REST = "early", "few", "rest"
_LARGE_VALUES = "-large_values"
#: Cases of level smoke at the edges of values and shapes: each of a kind of its own, and quick beside others.
_EDGES = (_LARGE_VALUES, "-nan", "-same_operand_special", "-subnormals", "-empty")
#: Operators with this many parameters get pairs of their classes too.
MANY = 2


class Made(NamedTuple):
    """A graph of one node, and the (parameter, class) it was made with."""

    graph: Graph
    classes: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True)
class Case:
    """id: stable, fit for -k. operator: its name. graph: one node. smoke: those with one class
    of one parameter, of the highest rank or of _EDGES, and the early ones. early: the simplest in each
    dtype, and those of _EARLY: few, and they show most. simplest: the first of the operator. without_llvm:
    what TVM's own build cannot judge (`beyond`)."""

    id: str
    operator: str
    graph: Graph
    smoke: bool = False
    early: bool = False
    simplest: bool = False
    without_llvm: bool = False

    @property
    def turn(self) -> str:
        """EARLY, FEW (what else smoke has) or REST: when its turn comes, and with which others."""
        return EARLY if self.early else FEW if self.smoke else REST


def cases(operators: Sequence[str], ir: str | None) -> list[Case]:
    """All systematic cases of the operators an IR has (None: of any), in a fixed order."""
    found: list[Case] = []
    for name in operators:
        if ir is None or ir in OPERATORS[name].irs():
            found += _cases(name, ir)
    return found


@cache
def _cases(name: str, ir: str | None) -> tuple[Case, ...]:
    return tuple(_cases_of(within(name, ir), runnable(OPERATORS[name], ir), ir))


def default_case(name: str, dtype: str, ir: str | None = None) -> Case:
    """The simplest case of an operator: first shape, default parameters (of the IR, if one is named)."""
    op = within(name, ir)
    graph = _graph(op, TensorType(op.shapes[0], dtype), {})
    assert graph is not None  # nothing is forced
    return Case(f"{name}[{dtype}]", name, graph.graph, True)


def _cases_of(op: Operator, dtypes: Sequence[str], ir: str | None) -> Iterator[Case]:
    found: dict[Graph, tuple[str, Made]] = {}
    for label, made in _labelled(op, dtypes, ir):
        if made is not None:
            found.setdefault(made.graph, (label, made))
    few = _covering([made for _, made in found.values()])
    alone = {
        f"{dtypes[0]}-{parameter.name}_{label}"
        for position, parameter in enumerate(op.parameters)
        for label in _class_names(op, position, dtypes[0])
    }
    alone.add(f"{dtypes[0]}-{_shape_label(max(op.shapes, key=len))}")
    ordered = [(graph, label) for graph, (label, _) in found.items()]
    ordered[1:] = sorted(ordered[1:], key=lambda case: not case[1].endswith(_EARLY))
    for number, (graph, label) in enumerate(ordered):
        early = number == 0 or label in dtypes or label.endswith(_EARLY)
        smoke = early or graph in few or label in alone or label.endswith(_EDGES)
        yield Case(f"{op.name}[{label}]", op.name, graph, smoke, early, number == 0)


def _covering(made: Sequence[Made]) -> set[Graph]:
    """Few of the graphs that together hold every class the others hold: always the one with most that are
    still missing."""
    missing = set().union(*(m.classes for m in made))
    few: set[Graph] = set()
    while missing:
        best = max(made, key=lambda m: len(m.classes & missing))
        few.add(best.graph)
        missing -= best.classes
    return few


def _labelled(op: Operator, dtypes: Sequence[str], ir: str | None) -> Iterator[tuple[str, Made | None]]:
    """Each case's label and graph; None where there is no such graph, and some more than once."""
    for dtype in dtypes:
        yield dtype, _graph(op, TensorType(op.shapes[0], dtype), {})
    for other, parameter, label in _other_classes(op, dtypes):
        graph = _with_class(op, other, op.shapes, parameter.name, label)
        yield f"{other}-{parameter.name}_{label}", graph
    dtype = dtypes[0]
    for shape in op.shapes[1:]:
        yield f"{dtype}-{_shape_label(shape)}", _graph(op, TensorType(shape, dtype), {})
    yield from varied(op, dtype)
    if len(op.parameters) >= MANY:
        for label, graph in _pairs(op, dtype):
            yield f"{dtype}-{label}", graph
    for label, graph in _large_values(op, dtypes):
        yield label, graph
    for label, make in boundary.candidates(op, dtypes):
        if left_out(op, label, ir) is None:
            yield label, Made(make())
    roles = [o.role for o in _default_operands(op, dtype)]
    if DATA in roles or FRESH in roles:
        for other in (dtype, *[d for d in dtypes[1:] if d in INTEGERS][:1]):
            graph = _graph(op, _default_type(op, other), {}, DATA)
            yield f"{other}-constant_operand", graph
        builder = Builder(seed=1)
        lead = builder.lead(op, _default_type(op, dtype))
        yield f"{dtype}-same_operand", Made(boundary.with_itself(op, builder, lead))
        yield f"{dtype}-constant_first", _constant_lead(op, dtype)
    yield from _squared(op, dtype)
    if WEIGHT in roles or BIAS in roles:
        yield f"{dtype}-weight_input", _graph(op, _default_type(op, dtype), {}, None)


def varied(op: Operator, dtype: str) -> Iterator[tuple[str, Made | None]]:
    """The simplest graph in a dtype, each class of each parameter, and everything off its default at once."""
    yield dtype, _graph(op, TensorType(op.shapes[0], dtype), {})
    for position, parameter in enumerate(op.parameters):
        for label in _class_names(op, position, dtype):
            # Another shape each time, where the class exists for it: of those that show most.
            rich = _rich(op)
            shapes = (*rich[position % len(rich) :], *rich, *op.shapes)
            graph = _with_class(op, dtype, shapes, parameter.name, label)
            yield f"{dtype}-{parameter.name}_{label}", graph
    if len(op.parameters) > 1:
        for turn in (1, 2):
            yield f"{dtype}-mixed_{turn}", _mixed(op, dtype, turn)


def _squared(op: Operator, dtype: str) -> Iterator[tuple[str, Made]]:
    """A square matrix times itself, transposed or not, of operators whose operands are else unlike."""

    def fits(x: TensorType) -> bool:
        if not op.accepts(x):
            return False
        return any(o.role in (DATA, WEIGHT) and o.type == x for o in _operands(op, x))

    if fits(_default_type(op, dtype)):
        return
    squares = (TensorType((*lead, n, n), dtype) for n in range(2, 9) for lead in ((), (2,)))
    x = next(filter(fits, squares), None)
    if x is None:
        return
    yield f"{dtype}-squared", _times_itself(op, x, {})
    for parameter in op.parameters:
        if parameter.name.startswith("transpose"):
            for label in parameter.values(x, {}):
                made = _times_itself(op, x, {parameter.name: label})
                yield f"{dtype}-squared-{parameter.name}_{label}", made


def _times_itself(op: Operator, x: TensorType, forced: Mapping[str, str]) -> Made:
    def pick(name: str, classes: Mapping[str, Sequence[Any]]) -> Any:
        return classes[forced[name]][0] if name in forced else first(name, classes)

    builder = Builder(seed=1)
    lead = builder.lead(op, x)

    def supply(operand: Operand, position: int) -> str:
        return lead if operand.role in (DATA, WEIGHT) and operand.type == x else builder.fresh(operand)

    return Made(builder.graph(*builder.apply(op, lead, choose_parameters(op, x, pick), supply)))


def _shape_label(shape: tuple[int, ...]) -> str:
    return "shape_" + ("x".join(map(str, shape)) if shape else "scalar")


def _rich(op: Operator) -> tuple[tuple[int, ...], ...]:
    """The shapes with at least two dimensions above 1, or else those with the most."""
    telling = [sum(d > 1 for d in s) for s in op.shapes]
    least = min(2, max(telling))
    return tuple(s for s, n in zip(op.shapes, telling) if n >= least)


def _pairs(op: Operator, dtype: str) -> Iterator[tuple[str, Made]]:
    """Any two parameters in any two of their classes together, as many pairs in a graph as fit."""
    met: set[frozenset[tuple[str, str]]] = set()
    found: list[Made] = []
    several = _rich(op)
    names = [p.name for p in op.parameters]
    for i, j in combinations(range(len(names)), 2):
        for a in _class_names(op, i, dtype):
            for b in _class_names(op, j, dtype):
                if frozenset({(names[i], a), (names[j], b)}) in met:
                    continue
                forced = {names[i]: a, names[j]: b}
                made = (_pair(op, TensorType(s, dtype), forced, met) for s in several)
                graph = next((g for g in made if g is not None), None)
                if graph is not None:
                    found.append(graph)
                    yield f"{names[i]}_{a}-{names[j]}_{b}", graph
    yield from _conditional_pairs(op, dtype, found, met)


def _conditional_pairs(
    op: Operator, dtype: str, found: Sequence[Made], met: set[frozenset[tuple[str, str]]]
) -> Iterator[tuple[str, Made]]:
    """Pairs of classes that exist only with other parameters off their defaults: weights whose layout is that
    of depthwise convolutions, of several results for each channel."""
    usual = {(p.name, label) for i, p in enumerate(op.parameters) for label in _class_names(op, i, dtype)}
    labels = {one for made in found for one in made.classes} - usual
    ordered = [(p.name, label) for p in op.parameters for name, label in sorted(labels) if name == p.name]
    for (p, a), (q, b) in combinations(ordered, 2):
        if p == q or frozenset({(p, a), (q, b)}) in met:
            continue
        # As in a graph that has one of the two.
        bases = [dict(made.classes) for made in found if made.classes & {(p, a), (q, b)}]
        made = (
            _pair(op, TensorType(s, dtype), {**base, p: a, q: b}, met) for base in bases for s in _rich(op)
        )
        graph = next((g for g in made if g is not None), None)
        if graph is not None:
            yield f"{p}_{a}-{q}_{b}", graph


def _pair(
    op: Operator, x: TensorType, forced: Mapping[str, str], met: set[frozenset[tuple[str, str]]]
) -> Made | None:
    """The graph with the two forced classes, the others chosen to make pairs not met yet."""
    labels: list[tuple[str, str]] = []

    def new(name: str, label: str) -> int:
        return sum(frozenset({(name, label), other}) not in met for other in labels)

    def pick(name: str, classes: Mapping[str, Sequence[Any]]) -> Any:
        if name in forced and forced[name] not in classes:
            raise _Unavailable
        label = forced.get(name) or max(classes, key=lambda c: new(name, c))
        labels.append((name, label))
        return classes[label][0]

    graph = _one_node(op, x, pick, "weights")
    if graph is not None:
        met.update(frozenset(pair) for pair in combinations(labels, 2))
    return graph


def _large_values(op: Operator, dtypes: Sequence[str]) -> Iterator[tuple[str, Made | None]]:
    """Values at which exp() overflows, and integers that a float32 cannot hold."""
    if op.domain is not None:
        return
    for dtype, limit in (("float32", 100.0), ("int32", 2.0**23)):
        # Integers that grow as quickly overflow.
        if dtype in dtypes and not (op.steep and dtype in INTEGERS):
            x = TensorType(op.shapes[0], dtype)
            yield dtype + _LARGE_VALUES, _one_node(op, x, first, "weights", limit)


def _default_type(op: Operator, dtype: str) -> TensorType:
    return TensorType(op.shapes[0], dtype)


def _default_operands(op: Operator, dtype: str) -> tuple[Operand, ...]:
    return _operands(op, _default_type(op, dtype))


def _operands(op: Operator, x: TensorType) -> tuple[Operand, ...]:
    return op.operands(x, choose_parameters(op, x, first))


def _class_names(op: Operator, position: int, dtype: str) -> list[str]:
    """Class names of a parameter over all shapes, other parameters at their defaults."""
    names: dict[str, None] = {}
    for shape in op.shapes:
        x = TensorType(shape, dtype)
        chosen: dict[str, Any] = {}
        for parameter in op.parameters[:position]:
            chosen[parameter.name] = first(parameter.name, parameter.values(x, chosen))
        names.update(dict.fromkeys(op.parameters[position].values(x, chosen)))
    return list(names)


def _other_classes(op: Operator, dtypes: Sequence[str]) -> Iterator[tuple[str, Parameter, str]]:
    """Classes that the first dtype does not have: (dtype, parameter, class)."""
    known = [_class_names(op, i, dtypes[0]) for i in range(len(op.parameters))]
    for dtype in dtypes[1:]:
        for position, parameter in enumerate(op.parameters):
            for label in _class_names(op, position, dtype):
                if label not in known[position]:
                    yield dtype, parameter, label


def _with_class(
    op: Operator, dtype: str, shapes: Sequence[tuple[int, ...]], name: str, label: str
) -> Made | None:
    """The first of the shapes for which the parameter has that class."""
    made = (_graph(op, TensorType(s, dtype), {name: label}) for s in shapes)
    return next((g for g in made if g is not None), None)


class _Unavailable(Exception):
    pass


def _graph(
    op: Operator, x: TensorType, forced: Mapping[str, str], constants: str | None = "weights"
) -> Made | None:
    """One node with the forced classes, everything else at its default.

    constants: "weights": weights and biases are constants; DATA: data operands are constants too;
    None: nothing is. None is returned where a forced class does not exist for this operand.
    """

    def pick(name: str, classes: Mapping[str, Sequence[Any]]) -> Any:
        if name in forced:
            if forced[name] not in classes:
                raise _Unavailable
            return classes[forced[name]][0]
        return first(name, classes)

    return _one_node(op, x, pick, constants)


def _mixed(op: Operator, dtype: str, turn: int) -> Made | None:
    def pick(name: str, classes: Mapping[str, Sequence[Any]]) -> Any:
        values = list(classes.values())
        chosen = values[min(turn, len(values) - 1)]
        return chosen[-1]

    return _one_node(op, TensorType(op.shapes[min(turn, len(op.shapes) - 1)], dtype), pick, "weights")


def _one_node(
    op: Operator, x: TensorType, pick: Any, constants: str | None, limit: float = 0.0
) -> Made | None:
    builder = Builder(seed=1)
    lead = builder.input(x, -limit, limit) if limit else builder.lead(op, x)
    classes: list[tuple[str, str]] = []

    def noted(name: str, values: Mapping[str, Sequence[Any]]) -> Any:
        if not values:
            raise _Unavailable
        value = pick(name, values)
        classes.append((name, next(label for label, some in values.items() if value in some)))
        return value

    try:
        chosen = choose_parameters(op, x, noted)
    except _Unavailable:
        return None

    def supply(operand: Operand, position: int) -> str:
        # Products of two large integers would overflow.
        if limit and operand.role == DATA and x.dtype not in INTEGERS:
            return builder.input(operand.type, -limit, limit)
        if operand.role == CONSTANT or constants == DATA:
            return builder.constant(operand.type, *operand.range(), operand.data)
        if constants is None:
            return builder.input(operand.type, *operand.range(), operand.data)
        return builder.fresh(operand)

    return Made(builder.graph(*builder.apply(op, lead, chosen, supply)), frozenset(classes))


def _constant_lead(op: Operator, dtype: str) -> Made | None:
    """The first operand a constant, the others inputs."""
    builder = Builder(seed=1)
    x = _default_type(op, dtype)
    lead = builder.constant(x, *op.range(dtype))
    return Made(builder.graph(*builder.apply(op, lead, choose_parameters(op, x, first))))
