"""Tests of the operator records: properties that generation, lowering and coverage rely on."""

from __future__ import annotations

import random
import subprocess
import sys
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from pytest_byoc.core.graph import TensorType
from pytest_byoc.generation import data
from pytest_byoc.generation.random_graphs import some
from pytest_byoc.generation.systematic import cases
from pytest_byoc.operators import FAMILIES, OPERATORS
from pytest_byoc.operators.convolution import conv_out
from pytest_byoc.operators.record import (
    ANY,
    LEAD,
    ROLES,
    UNSET,
    Operator,
    TypeRuleError,
    broadcast,
    normalize_axis,
)
from pytest_byoc.operators.reshaping import reshaped
from pytest_byoc.reference_kernels import KERNELS, Bounded, exact

#: Operators whose second operand (indices or boundaries) may have any shape.
ANY_SHAPE = ("take", "adv_index", "bucketize", "meshgrid", "image.grid_sample")
EVERY = pytest.mark.parametrize("op", list(OPERATORS.values()), ids=list(OPERATORS))


def choices(op: Operator, x: TensorType) -> Iterator[tuple[dict[str, Any], set[tuple[str, str]]]]:
    """Yields choices of the parameters: the default, each value of each class in turn, random ones.

    Each choice comes with its set of (parameter, class) pairs.
    """
    draw = random.Random(zlib.crc32(str((op.name, x)).encode()))

    def choose(forced: tuple[str, str, int] | None, at_random: bool) -> Any:
        selected: dict[str, Any] = {}
        pairs = set()
        for parameter in op.parameters:
            values = parameter.values(x, selected)
            assert values, f"{parameter.name} has no value for {x} after {selected}"
            name, index = next(iter(values)), 0
            if at_random:
                name = draw.choice(list(values))
                index = draw.randrange(len(values[name]))
            if forced and forced[0] == parameter.name:
                name, index = forced[1:]
            pairs.add((parameter.name, name))
            selected[parameter.name] = values[name][index]
        return selected, pairs

    default, _ = choose(None, False)
    yield choose(None, False)
    for parameter in op.parameters:
        before = {}
        for p in op.parameters[: op.parameters.index(parameter)]:
            before[p.name] = default[p.name]
        for name, values in parameter.values(x, before).items():
            for i in range(len(values)):
                yield choose((parameter.name, name, i), False)
    for _ in range(30 if op.parameters else 0):
        yield choose(None, True)


def applied(op: Operator, dtype: str) -> Iterator[tuple[TensorType, dict[str, Any]]]:
    for shape in op.shapes:
        x = TensorType(shape, dtype)
        for selected, _ in choices(op, x):
            yield x, selected


def test_names_are_unique() -> None:
    names = [op.name for family in FAMILIES for op in family.OPERATORS]
    assert sorted(names) == sorted(OPERATORS)


def test_records_and_kernels_have_the_same_names() -> None:
    assert set(KERNELS) == set(OPERATORS)


def test_records_import_neither_numpy_nor_tvm() -> None:
    """Workers import the records in interpreters with few packages."""
    code = (
        "import sys; sys.modules.update(numpy=None, tvm=None);"
        "import pytest_byoc.operators as o; assert len(o.OPERATORS) > 40"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@EVERY
def test_record_is_complete(op: Operator) -> None:
    assert op.irs(), "lowers to no IR"
    assert op.accuracy and op.shapes and set(op.dtypes) <= set(ANY)
    # float32 is the default dtype.
    assert op.dtypes[0] == "float32" or "float32" not in op.dtypes
    names = [p.name for p in op.parameters]
    assert len(set(names)) == len(names)
    for shape in op.shapes:
        x = TensorType(shape, op.dtypes[0])
        assert op.takes(x) and x.size <= 2000
    assert not op.takes(TensorType(op.shapes[0], "complex64"))


@EVERY
def test_classes_are_all_reached(op: Operator) -> None:
    """Every class that a parameter names has a value for at least one of the record's shapes."""
    named, reached = set(), set()
    for shape in op.shapes:
        x = TensorType(shape, op.dtypes[0])
        for selected, pairs in choices(op, x):
            assert set(selected) == {p.name for p in op.parameters}
            reached |= pairs
            for p in op.parameters:
                classes = p.classes(x, selected) if callable(p.classes) else p.classes
                named |= {(p.name, name) for name in classes}
    assert named == reached


@EVERY
def test_the_type_rule_accepts_the_operands_of_every_choice(op: Operator) -> None:
    for dtype in op.dtypes:
        for x, selected in applied(op, dtype):
            operands = op.operands(x, selected)
            roles = [o.role for o in operands]
            assert roles.count(LEAD) == 1 and set(roles) <= set(ROLES)
            assert operands[roles.index(LEAD)].type == x
            assert all(o.range()[0] <= o.range()[1] for o in operands)
            results = op.infer([o.type for o in operands], op.attrs(selected))
            assert results and all(t.size > 0 and t.size <= 20000 for t in results), (x, selected)


@EVERY
def test_kernels_agree_with_the_type_rule(op: Operator) -> None:
    for dtype in op.dtypes:
        # One shape in two is enough: the kernels' own tests draw the rest.
        for shape in op.shapes[::2]:
            x = TensorType(shape, dtype)
            for selected, _ in list(choices(op, x))[::3]:
                types = [o.type for o in op.operands(x, selected)]
                ones = [exact(np.ones(t.shape, data.numpy_dtype(t.dtype))) for t in types]
                result = KERNELS[op.name](ones, op.attrs(selected))
                results = (result,) if isinstance(result, Bounded) else result
                for part in ("value", "error", "ambiguous"):
                    shapes = [getattr(y, part).shape for y in results]
                    assert shapes == [t.shape for t in op.infer(types, op.attrs(selected))]
                assert [y.dtype for y in results] == [t.dtype for t in op.infer(types, op.attrs(selected))]


@pytest.mark.parametrize("ir", ["relay", "relax"])
def test_parameters_within_an_ir_have_only_its_values(ir: str) -> None:
    """Within an IR, every parameter of an operator has a value left, and none that its lowering
    refuses."""
    for record in OPERATORS.values():
        op, lowering = record.within(ir), getattr(record, ir)
        if lowering is None:
            continue
        named = {*lowering.only, *lowering.lacks, *lowering.unbuilt}
        if not named:
            assert op is record
            continue
        assert named <= {p.name for p in op.parameters}
        for shape in op.shapes:
            for selected, _ in choices(op, TensorType(shape, op.dtypes[0])):
                assert all(selected[name] in allowed for name, allowed in lowering.only.items())
                assert not any(lacks(selected[name], selected) for name, lacks in lowering.lacks.items())
                assert not lowering.is_unbuilt(selected)
        for name in lowering.only:
            with pytest.raises(TypeRuleError, match=name):
                lowering(None, [], {name: "other"}, [])


@EVERY
def test_operands_that_do_not_fit_are_refused(op: Operator) -> None:
    """The two operands have different dtypes, or the second has a shape that fits no first one."""
    if op.name == "cast_like":  # it accepts any
        return
    x = TensorType(op.shapes[0], op.dtypes[0])
    selected = next(choices(op, x))[0]
    operands = op.operands(x, selected)
    if len(operands) == 1:
        assert op.infer([x], op.attrs(selected))
        return
    types = [o.type for o in operands]
    with pytest.raises(TypeRuleError):
        op.infer([types[0], TensorType(types[1].shape, "float64"), *types[2:]], op.attrs(selected))
    if op.name in ANY_SHAPE:
        return
    shape = types[1].shape
    # A scalar has no dimension that could be wrong.
    for unfit in (tuple(d + 7 for d in shape), shape[:-2] + tuple(d + 7 for d in shape[-2:])):
        # Any vector fits an outer product.
        unfit = (1, *unfit) if op.name == "outer" else unfit
        if not unfit:
            continue
        with pytest.raises(TypeRuleError):
            op.infer([types[0], TensorType(unfit, types[1].dtype), *types[2:]], op.attrs(selected))


# --- type rules, by example ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "shapes", "attrs", "expected"),
    [
        ("nn.dense", [(3, 8), (6, 8)], {"units": 6}, [(3, 6)]),
        (
            "nn.batch_matmul",
            [(2, 3, 8), (1, 8, 5)],
            {"transpose_a": False, "transpose_b": False},
            [(2, 3, 5)],
        ),
        ("sum", [(2, 3, 5)], {"axis": (-1, 0), "keepdims": True, "exclude": False}, [(1, 3, 1)]),
        ("sum", [(2, 3, 5)], {"axis": (1,), "keepdims": False, "exclude": True}, [(3,)]),
        ("mean", [(2, 3)], {"axis": None, "keepdims": False, "exclude": False}, [()]),
        ("split", [(2, 6)], {"indices_or_sections": (1, 4), "axis": -1}, [(2, 1), (2, 3), (2, 2)]),
        ("squeeze", [(1, 3, 1)], {"axis": None}, [(3,)]),
        ("squeeze", [(1, 3, 1)], {"axis": (-1,)}, [(1, 3)]),
        ("expand_dims", [(2, 3)], {"axis": -1, "num_newaxis": 2}, [(2, 3, 1, 1)]),
        ("concatenate", [(2, 3), (2, 1)], {"axis": -1}, [(2, 4)]),
        (
            "nn.pad",
            [(2, 3)],
            {"pad_mode": "constant", "pad_width": ((0, 1), (2, 0)), "pad_value": 0.0},
            [(3, 5)],
        ),
        (
            "strided_slice",
            [(5, 4)],
            {"axes": (0,), "begin": (-1,), "end": (-6,), "strides": (-2,)},
            [(3, 4)],
        ),
    ],
)
def test_type_rule(name: str, shapes: Any, attrs: dict[str, Any], expected: Any) -> None:
    types = [TensorType(s, "float32") for s in shapes]
    assert [t.shape for t in OPERATORS[name].infer(types, attrs)] == expected


@pytest.mark.parametrize(
    ("ceil_mode", "padding", "expected"),
    [(False, (0, 0, 0, 0), 3), (True, (0, 0, 0, 0), 4), (False, (1, 0, 1, 0), 4)],
)
def test_pool_length(ceil_mode: bool, padding: tuple[int, ...], expected: int) -> None:
    attrs = {"layout": "NCHW", "pool_size": (2, 2), "strides": (2, 2), "dilation": (1, 1)}
    attrs.update(padding=padding, ceil_mode=ceil_mode)
    (y,) = OPERATORS["nn.max_pool2d"].infer([TensorType((1, 1, 7, 4), "float32")], attrs)
    assert y.shape == (1, 1, expected, 2)


def test_a_pool_window_of_padding_alone_is_refused() -> None:
    attrs = {"layout": "NCHW", "pool_size": (2, 2), "strides": (2, 2), "dilation": (1, 1)}
    attrs.update(padding=(0, 0, 2, 0), ceil_mode=False)
    with pytest.raises(TypeRuleError, match="nothing but padding"):
        OPERATORS["nn.avg_pool2d"].infer([TensorType((1, 1, 4, 4), "float32")], attrs)


@pytest.mark.parametrize(
    ("shape", "newshape", "expected"),
    [
        # The examples come from the documentation of relay.reshape.
        ((2, 3, 4), (4, 0, 2), (4, 3, 2)),
        ((2, 3, 4), (2, 0, 0), (2, 3, 4)),
        ((2, 3, 4), (6, 1, -1), (6, 1, 4)),
        ((2, 3, 4), (3, -1, 8), (3, 1, 8)),
        ((2, 3, 4), (-1,), (24,)),
        ((2, 3, 4), (-2,), (2, 3, 4)),
        ((2, 3, 4), (2, -2), (2, 3, 4)),
        ((2, 3, 4), (-2, 1, 1), (2, 3, 4, 1, 1)),
        ((2, 3, 4), (-3, 4), (6, 4)),
        ((2, 3, 4, 5), (-3, -3), (6, 20)),
        ((2, 3, 4), (0, -3), (2, 12)),
        ((2, 3, 4), (-3, -2), (6, 4)),
        ((2, 3, 4), (-4, 1, 2, -2), (1, 2, 3, 4)),
        ((2, 3, 4), (2, -4, -1, 3, -2), (2, 1, 3, 4)),
        ((), (1, 1), (1, 1)),
    ],
)
def test_reshaped(shape: Any, newshape: Any, expected: Any) -> None:
    assert reshaped(shape, newshape) == expected


@pytest.mark.parametrize(
    ("shape", "newshape"), [((2, 3), (7,)), ((2, 3), (4, -1)), ((2,), (0, 0)), ((4,), (-1, -1))]
)
def test_reshaped_refuses(shape: Any, newshape: Any) -> None:
    with pytest.raises(TypeRuleError):
        reshaped(shape, newshape)


def test_broadcast() -> None:
    assert broadcast((2, 1, 3), (4, 1)) == (2, 4, 3)
    assert broadcast((), (0, 1)) == (0, 1)
    with pytest.raises(TypeRuleError):
        broadcast((2, 3), (2,))


def test_normalize_axis() -> None:
    assert [normalize_axis(a, 3) for a in (-3, -1, 0, 2)] == [0, 2, 0, 2]
    for axis in (-4, 3):
        with pytest.raises(TypeRuleError):
            normalize_axis(axis, 3)


def test_conv_out() -> None:
    assert conv_out(7, 3, 2, 0, 1) == 3 and conv_out(7, 3, 1, 2, 2) == 5
    with pytest.raises(TypeRuleError):
        conv_out(3, 3, 1, 0, 2)


@pytest.mark.parametrize(("dtype", "most"), [("int8", 127), ("uint8", 255), ("int16", 32767)])
def test_mean_of_integers_is_limited_by_the_largest_count(dtype: str, most: int) -> None:
    """Relay makes the count a constant of the dtype, and refuses a count that does not fit."""
    mean = OPERATORS["mean"]
    assert mean.takes(TensorType((most,), dtype))
    assert not mean.takes(TensorType((most + 1,), dtype))
    assert OPERATORS["sum"].takes(TensorType((most + 1,), dtype))
    assert mean.takes(TensorType((most + 1,), "float16"))


def test_a_slice_has_bounds_for_each_axis() -> None:
    bounds = {"axes": None, "begin": [0, 0, 1], "end": [1, 1, 3], "strides": [1, 1, 1]}
    infer = OPERATORS["strided_slice"].infer
    assert infer([TensorType((2, 2, 4), "float32")], bounds)[0].shape == (1, 1, 2)
    for shape in ((2, 4), (1, 2, 2, 4)):
        with pytest.raises(TypeRuleError, match="by 3 bounds"):
            infer([TensorType(shape, "float32")], bounds)


def test_a_long_axis_is_split_at_its_ends_and_in_the_middle() -> None:
    (sections,) = (p for p in OPERATORS["split"].parameters if p.name == "indices_or_sections")
    classes = sections.values(TensorType((10_000,), "float32"), {"axis": 0})
    assert len(classes["indices"]) < 200
    assert {(1, 2), (4999, 5000), (1, 9999)} <= set(classes["indices"])
    short = sections.values(TensorType((4,), "float32"), {"axis": 0})
    assert set(short["indices"]) == {(1, 2), (1, 3), (2, 3)}


# --- attributes that are not written ---------------------------------------------------------


class Recorded:
    """A namespace of operators that returns the name and arguments of each call."""

    def __getattr__(self, name: str) -> Any:
        if name == "nn":
            return self
        return lambda *args, **attrs: (name, args, attrs)


@pytest.mark.parametrize(
    ("name", "ir", "lacks"),
    [("nn.conv2d", "relay", {"channels", "kernel_size"}), ("strided_slice", "relay", {"strides"})],
)
def test_optional_attributes_can_be_left_out(name: str, ir: str, lacks: set[str]) -> None:
    (case,) = [c for c in cases([name], ir) if c.id.endswith(f"-{UNSET}]")]
    (node,) = case.graph.nodes
    lowering = getattr(OPERATORS[name], ir)
    args = [f"%{i}" for i in node.inputs]
    types = [case.graph.type_of(i) for i in node.inputs]
    *_, written = lowering(Recorded(), args, node.attrs, types)
    *_, usual = lowering(Recorded(), args, {k: v for k, v in node.attrs.items() if k != UNSET}, types)
    assert set(usual) - set(written) == lacks == set(node.attrs[UNSET])
    assert case.smoke


def test_an_empty_list_of_axes_reduces_nothing_in_relax_only() -> None:
    (case,) = [c for c in cases(["sum"], "relax") if c.id == "sum[float32-axis_none]"]
    (node,) = case.graph.nodes
    assert node.types == (case.graph.type_of(node.inputs[0]),) and node.attrs["axis"] == ()
    assert not [c for c in cases(["sum"], "relay") if "axis_none" in c.id]


def test_most_graphs_return_only_the_first_result_of_batch_norm() -> None:
    """A pattern for the first result matches nothing where the other results are read."""
    ids = {len(c.graph.outputs): c.id for c in cases(["nn.batch_norm"], "relay")}
    assert set(ids) == {1, 3} and ids[3] == "nn.batch_norm[float32-all_results]"
    random = some(60, 1, operators=["nn.batch_norm", "nn.relu"], focus="nn.batch_norm", max_nodes=2)
    alone = [{o for n in g.nodes for o in n.outputs[1:]}.isdisjoint(g.outputs) for g in random]
    assert 0.5 < sum(alone) / len(alone) < 1
