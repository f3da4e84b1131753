"""The systematic cases: every operator alone, with each class of each parameter at least once.

Their ids, such as `nn.conv2d[float32-padding_asymmetric]`, are their only numbering; they stay the
same from run to run, and from version to version as long as the operator's record does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from typing import Any

from ..core.graph import Graph, TensorType
from ..operators import OPERATORS, within
from ..operators.measured import dtypes as runnable
from ..operators.measured import left_out
from ..operators.record import BIAS, DATA, FRESH, INTEGERS, UNSET, WEIGHT, Operator, Parameter
from . import boundary
from .builder import Builder, first
from .extents import narrow, of_extents
from .pairs import ALONE, alone, pairs, threes
from .single import (
    OneNodeGraph,
    by_default,
    class_names,
    constant_lead,
    default_operands,
    default_type,
    one_node,
    others_constant,
    squared,
    varied,
    with_class,
)

#: Endings of the labels of cases that come right after the simplest one: everything off its
#: default, and operands that are constants, inputs or one value where by default they are not.
_SQUARED = "-squared"
_EARLY = (
    "-mixed_1", "-mixed_2", "-constant_operand", "-same_operand", _SQUARED, "-constant_first",
    "-weight_input",
)
#: Ending of the labels of cases whose indices are constants, which a codegen may convert itself; the
#: class with which level smoke has them.
_CONSTANT, _OUTSIDE = "-constant", ("beyond", "outside")
#: Groups of cases, in the order in which they are examined.
EARLY, FEW, REST = "early", "few", "rest"
_LARGE, _LARGE_VALUES = "-large", "-large_values"
#: Cases of several classes in a narrow dtype: their name and number.
_SEVERAL, _OF_NARROW = "several", 3
#: Endings of labels of edge cases in level smoke: each tests something else, in little time.
_EDGES = (
    _LARGE_VALUES, "-nan", "-infinities", "-same_operand_special", "-subnormals", "-empty", "-edges",
    "-out_dtype_float64", "-tiles_16x19x16", "-tiles_19x19x19", "-channels",
    *(f"-{boundary.TILED}{rows}x{depth}x{columns}" for rows, depth, columns in boundary.SIZES),
    *(f"-{boundary.POINTWISE}{rows}x{depth}x{columns}" for rows, depth, columns in boundary.SIZES[2::3]),
    f"-{UNSET}", "-equal_extents", "-long_ends", "-long_middle", "-five_axes", f"-{boundary.RANGE}",
    f"-{boundary.SUMS}", f"-{boundary.MEAN}", f"-{boundary.POSITIONS}",
    f"-{boundary.TIES}", f"-{ALONE}", *(f"-{_SEVERAL}_{number}" for number in range(1, _OF_NARROW + 1)),
)
#: Kinds of cases on which level standard makes more checks (`config/plan.py`), by endings of labels.
_LARGE_TENSORS = "large tensors"
_KINDS = {
    _LARGE: _LARGE_TENSORS, "x1": "one element", "-aligned": "aligned",
    "-padding_symmetric": "padded", "-padding_asymmetric": "padded",
}
#: Operators with at least MANY parameters get cases for pairs of their classes; level smoke
#: has PAIRED of these for each operator.
MANY, PAIRED = 2, 7


@dataclass(frozen=True)
class Case:
    """A systematic case.

    id: stable, and fit for pytest's `-k`. operator: its name. graph: has one node.
    smoke: True if level smoke has the case. These are graphs with one class of one parameter, those
        with the most pairs of classes, a matrix times itself or with one row, two to four
        axes, one element, a large tensor (if there are parameters), the cases of _EDGES, and the
        early ones.
    early: True for the simplest case in each dtype and the cases of _EARLY: few that show most.
    simplest: True for the operator's first case.
    without_llvm: True if TVM's own build cannot judge the case (see `without_llvm`).
    kinds: on cases of some kinds level standard makes more checks (`config/plan.py`).
    """

    id: str
    operator: str
    graph: Graph
    smoke: bool = False
    early: bool = False
    simplest: bool = False
    without_llvm: bool = False
    kinds: frozenset[str] = frozenset()

    @property
    def phase(self) -> str:
        """Returns the case's group: EARLY, FEW (the rest of level smoke) or REST. Large tensors are
        in REST, because level standard makes more checks on them."""
        few = self.smoke and _LARGE_TENSORS not in self.kinds
        return EARLY if self.early else FEW if few else REST


def cases(operators: Sequence[str], ir: str | None) -> list[Case]:
    """Returns all systematic cases of an IR's operators (None: any IR's), in a fixed order."""
    result: list[Case] = []
    for name in operators:
        if ir is None or ir in OPERATORS[name].irs():
            result += _cases(name, ir)
    return result


@cache
def _cases(name: str, ir: str | None) -> tuple[Case, ...]:
    return tuple(_cases_of(within(name, ir), runnable(OPERATORS[name], ir), ir))


def preferring(name: str, ir: str | None, values: Mapping[str, Any]) -> dict[str, Graph]:
    """Returns the graphs of an operator's systematic cases, by id, made with these values as the defaults
    of its parameters."""
    op = within(name, ir).preferring(values)
    return {case.id: case.graph for case in _cases_of(op, runnable(op, ir), ir)}


def default_case(name: str, dtype: str, ir: str | None = None) -> Case:
    """Returns an operator's simplest case: first shape, default parameters (the IR's, if given)."""
    op = within(name, ir)
    graph = by_default(op, TensorType(op.shapes[0], dtype), {})
    assert graph is not None  # nothing is forced
    return Case(f"{name}[{dtype}]", name, graph.graph, True)


def _cases_of(op: Operator, dtypes: Sequence[str], ir: str | None) -> Iterator[Case]:
    by_graph: dict[Graph, tuple[str, OneNodeGraph]] = {}
    for label, one in _labelled(op, dtypes, ir):
        if one is not None and left_out(op, label, ir) is None:
            by_graph.setdefault(one.graph, (label, one))
    made = [made for _, made in by_graph.values()]
    few = _covering(made, 1) | _covering(made, 2, PAIRED)
    single = {
        f"{dtypes[0]}-{parameter.name}_{label}"
        for position, parameter in enumerate(op.parameters)
        for label in class_names(op, position, dtypes[0])
    }
    # Of one axis there is the case of one element, and of more there are five_axes.
    by_rank = {len(shape): shape for shape in reversed(op.shapes) if 1 < len(shape) <= 4}
    single.update(f"{dtypes[0]}-{_shape_label(shape)}" for shape in by_rank.values())
    # Only the first of the shapes with one element is in level smoke.
    labels = [label for label, _ in by_graph.values()]
    ones = (f"{dtypes[0]}-{_shape_label((1,) * rank)}" for rank in range(1, 6))
    single.update([label for label in ones if label in labels][:1])
    if op.parameters:
        single.add(dtypes[0] + _LARGE)
    # One of the products whose matrices have one row is in level smoke.
    rows = (f"{dtypes[0]}-{_shape_label(s)}" for s in op.shapes if len(s) > 1 and s[-2] == 1 < s[-1])
    if any(_SQUARED in label for label in labels):
        single.update([label for label in rows if label in labels][:1])
    for label, one in windows(op, dtypes[0]):
        if left_out(op, label, ir) is None:
            by_graph.setdefault(one.graph, (label, one))
    ordered = [(graph, label) for graph, (label, _) in by_graph.items()]
    ordered[1:] = sorted(ordered[1:], key=lambda case: not case[1].endswith(_EARLY))
    for number, (graph, label) in enumerate(ordered):
        early = number == 0 or label in dtypes or label.endswith(_EARLY)
        smoke = early or graph in few or label in single or label.endswith(_EDGES) or _SQUARED in label
        smoke |= label.endswith(_CONSTANT) and _OUTSIDE in by_graph[graph][1].classes
        kinds = frozenset(kind for ending, kind in _KINDS.items() if label.endswith(ending))
        yield Case(f"{op.name}[{label}]", op.name, graph, smoke, early, number == 0, kinds=kinds)


def windows(op: Operator, dtype: str) -> Iterator[tuple[str, OneNodeGraph]]:
    """Yields the labels and graphs of `pairs.threes`, without those that `pairs.pairs` covers."""
    for label, one in threes(op, dtype, (one for _, one in pairs(op, dtype))):
        yield f"{dtype}-{label}", one


def measured_cases(
    op: Operator, dtypes: Sequence[str], ir: str | None
) -> Iterator[tuple[str, OneNodeGraph | None]]:
    """Yields the cases that are left out where TVM's own build was measured to fail, besides boundary
    cases: (label, graph or None)."""
    yield from windows(op, dtypes[0])
    yield from of_extents(op, dtypes, ir)
    if len(op.parameters) >= MANY:
        yield from _in_narrow_dtypes(op, dtypes, [graph for _, graph in pairs(op, dtypes[0])])


def _covering(graphs: Sequence[OneNodeGraph], together: int, most: int | None = None) -> set[Graph]:
    """Returns a few graphs that together hold every set of `together` classes that any graph holds;
    each is the one with the most sets still missing. most: the largest number of graphs (None: no
    limit)."""
    held = {m.graph: set(combinations(sorted(m.classes), together)) for m in graphs}
    missing = set().union(*held.values())
    few: list[Graph] = []
    while missing and len(few) != most:
        few.append(max(held, key=lambda graph: len(held[graph] & missing)))
        missing -= held[few[-1]]
    return set(few)


def _labelled(
    op: Operator, dtypes: Sequence[str], ir: str | None
) -> Iterator[tuple[str, OneNodeGraph | None]]:
    """Yields each case's label and graph (None if there is none); graphs may occur twice."""
    for dtype in dtypes:
        yield dtype, by_default(op, TensorType(op.shapes[0], dtype), {})
    for other, parameter, label in _other_classes(op, dtypes):
        graph = with_class(op, other, op.shapes, {parameter.name: label})
        yield f"{other}-{parameter.name}_{label}", graph
    dtype = dtypes[0]
    for shape in op.shapes[1:]:
        yield f"{dtype}-{_shape_label(shape)}", by_default(op, TensorType(shape, dtype), {})
    yield from varied(op, dtype)
    for label, graph in alone(op, dtype):
        yield f"{dtype}-{label}", graph
    if len(op.parameters) >= MANY:
        paired = list(pairs(op, dtype))
        for label, graph in paired:
            yield f"{dtype}-{label}", graph
            if any(parameter.name == boundary.INDICES for parameter in op.parameters):
                yield f"{dtype}-{label}{_CONSTANT}", others_constant(graph)
        yield from _in_narrow_dtypes(op, dtypes, [graph for _, graph in paired])
    for label, graph in _large_values(op, dtypes):
        yield label, graph
    yield f"{dtype}-{UNSET}", _unset(op, dtype, ir)
    if op.used is not None and (simplest := by_default(op, default_type(op, dtype), {})) is not None:
        (node,) = simplest.graph.nodes
        yield f"{dtype}-all_results", OneNodeGraph(replace(simplest.graph, outputs=node.outputs))
    for label, make in boundary.candidates(op, dtypes):
        if left_out(op, label, ir) is None:
            yield label, OneNodeGraph(make())
    yield from of_extents(op, dtypes, ir)
    roles = [o.role for o in default_operands(op, dtype)]
    if DATA in roles or FRESH in roles:
        for other in (dtype, *[d for d in dtypes[1:] if d in INTEGERS][:1]):
            graph = by_default(op, default_type(op, other), {}, DATA)
            yield f"{other}-constant_operand", graph
        builder = Builder(seed=1)
        lead = builder.lead(op, default_type(op, dtype))
        yield f"{dtype}-same_operand", OneNodeGraph(boundary.with_itself(op, builder, lead))
        yield f"{dtype}-constant_first", constant_lead(op, dtype)
    yield from squared(op, dtype)
    if WEIGHT in roles or BIAS in roles:
        yield f"{dtype}-weight_input", by_default(op, default_type(op, dtype), {}, None)


def _in_narrow_dtypes(
    op: Operator, dtypes: Sequence[str], paired: Sequence[OneNodeGraph]
) -> Iterator[tuple[str, OneNodeGraph | None]]:
    """Yields a few of the graphs with pairs of classes, those with the most classes, in a narrow dtype:
    a target's code for it is often another one. paired: the graphs in the first dtype."""
    layouts = [(i, p.name) for i, p in enumerate(op.parameters) if p.name.endswith("layout")]
    usual = {(name, class_names(op, i, dtypes[0])[0]) for i, name in layouts}
    # Targets mostly take one layout alone.
    found = [one for one in paired if usual <= one.classes]
    some = _covering(found, 1, _OF_NARROW)
    chosen = [one for one in found if one.graph in some]
    for other in narrow(dtypes)[:1]:
        for number, one in enumerate(chosen, 1):
            # The first input is the operand from which the others were derived.
            x = replace(one.graph.inputs[0].type, dtype=other)
            yield f"{other}-{_SEVERAL}_{number}", by_default(op, x, dict(one.classes))


def _shape_label(shape: tuple[int, ...]) -> str:
    return "shape_" + ("x".join(map(str, shape)) if shape else "scalar")


def _large_values(op: Operator, dtypes: Sequence[str]) -> Iterator[tuple[str, OneNodeGraph | None]]:
    """Yields graphs with floats up to 100, for which exp() overflows, and integers up to 2**23."""
    if op.domain is not None:
        return
    for dtype, limit in (("float32", 100.0), ("int32", 2.0**23)):
        # Results of steep operators overflow on such integers.
        if dtype in dtypes and not (op.steep and dtype in INTEGERS):
            x = TensorType(op.shapes[0], dtype)
            yield dtype + _LARGE_VALUES, one_node(op, x, first, "weights", limit)


def _unset(op: Operator, dtype: str, ir: str | None) -> OneNodeGraph | None:
    """Returns the simplest graph without the attributes optional in the IR; None if none is."""
    optional = getattr(op, ir).optional if ir else ()
    simplest = by_default(op, default_type(op, dtype), {})
    if simplest is None or not optional:
        return None
    (node,) = simplest.graph.nodes
    attrs = {**node.attrs, UNSET: optional}
    return OneNodeGraph(replace(simplest.graph, nodes=(replace(node, attrs=attrs),)), simplest.classes)


def _other_classes(op: Operator, dtypes: Sequence[str]) -> Iterator[tuple[str, Parameter, str]]:
    """Yields (dtype, parameter, class) for the classes that the first dtype does not have."""
    known = [class_names(op, i, dtypes[0]) for i in range(len(op.parameters))]
    for dtype in dtypes[1:]:
        for position, parameter in enumerate(op.parameters):
            for label in class_names(op, position, dtype):
                if label not in known[position]:
                    yield dtype, parameter, label
