"""Tests of boundary cases: their values, and the kernels' results for them. Without TVM."""

from __future__ import annotations

import re
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_byoc.core.graph import Graph
from pytest_byoc.evidence.comparison import compare, judged, lost
from pytest_byoc.generation import boundary, data
from pytest_byoc.generation.systematic import cases, measured_cases
from pytest_byoc.operators import OPERATORS, measured
from pytest_byoc.operators.record import FLOATS
from pytest_byoc.oracle import evaluation
from pytest_byoc.reference_kernels import KERNELS, Bounded, exact
from pytest_byoc.reference_kernels.bounded import integer, maybe_flushed, unwrapped

from .plain import plain

INF, NAN = np.inf, np.nan
NAMES = pytest.mark.parametrize("name", list(OPERATORS))


def graph_of(name: str, label: str) -> Graph:
    op = OPERATORS[name]
    return dict(boundary.candidates(op, op.dtypes))[label]()


def operands(graph: Graph) -> list[np.ndarray]:
    arrays = {**data.inputs(graph, 0), **data.constants(graph)}
    return [arrays[i] for i in graph.nodes[0].inputs]


def has_special_values(label: str) -> bool:
    return label.endswith(("-edges", "-special_values", *(f"-{n}" for n in boundary.FLOAT_LABELS)))


# --- generated values ------------------------------------------------------------------------


@NAMES
@pytest.mark.parametrize("ir", ["relay", "relax"])
def test_floating_operators_have_each_kind_of_special_value_or_a_reason(name: str, ir: str) -> None:
    op = OPERATORS[name]
    if ir not in op.irs():
        return
    ids = {c.id for c in cases([name], ir)}
    floats = [d for d in measured.dtypes(op, ir) if d in FLOATS]
    for label in [f"{d}-{v}" for d in floats[:1] for v in boundary.FLOAT_LABELS]:
        assert (f"{name}[{label}]" in ids) == (measured.left_out(op, label, ir) is None), label


@pytest.mark.parametrize(
    ("label", "among"),
    [
        ("nan", [NAN, 1.0]),
        ("infinities", [INF, -INF, 0.0, 1.0]),
        ("extremes", [np.finfo("f").max, -np.finfo("f").max, np.finfo("f").tiny, 1.0]),
    ],
)
def test_any_two_special_values_are_paired(label: str, among: list[float]) -> None:
    a, b = operands(graph_of("add", f"float32-{label}"))
    pairs = {(repr(p), repr(q)) for p, q in zip(a.ravel().tolist(), b.ravel().tolist(), strict=True)}
    for p, q in product(among, repeat=2):
        if (p, q) != (1.0, 1.0):
            assert (repr(float(p)), repr(float(q))) in pairs


@pytest.mark.parametrize("dtype", boundary.EDGED)
def test_extreme_integers_are_paired(dtype: str) -> None:
    a, b = operands(graph_of("maximum", f"{dtype}-edges"))
    info = np.iinfo(dtype)
    pairs = set(zip(a.ravel().tolist(), b.ravel().tolist(), strict=True))
    assert set(product([info.min, info.max, *([-1] if info.min else [])], repeat=2)) <= pairs


def test_some_rows_have_no_special_value() -> None:
    """A NaN stands at either end of the tensor: the rows between show whether it spreads."""
    (x,) = operands(graph_of("sum", "float32-nan"))
    assert np.isnan(x.flat[0]) and np.isnan(x.flat[-1]) and np.isnan(x).sum() == 2
    assert (~np.isnan(x).any(axis=-1)).sum() >= 4


def test_negative_zeros_and_subnormals_are_generated() -> None:
    (x,) = operands(graph_of("nn.relu", "float32-negative_zero"))
    assert np.signbit(x[x == 0]).any()
    (x,) = operands(graph_of("nn.relu", "float32-subnormals"))
    assert ((x != 0) & (np.abs(x) < np.finfo("f").tiny)).sum() == 5


@NAMES
def test_a_large_tensor_is_large_but_not_huge(name: str) -> None:
    op = OPERATORS[name]
    label = f"{op.dtypes[0]}-large"
    if any(measured.left_out(op, label, ir) is None for ir in op.irs()):
        x = graph_of(name, label).inputs[0].type
        assert 1000 <= x.size <= boundary.LARGE


@pytest.mark.parametrize("name", ["nn.dense", "nn.conv1d", "nn.conv2d", "nn.conv3d", "nn.matmul"])
def test_a_large_contraction_sums_many_products(name: str) -> None:
    weight = graph_of(name, "float32-large").constants[0].type
    assert prod(weight.shape) // (weight.shape[1] if name == "nn.matmul" else weight.shape[0]) >= 500


def test_an_empty_tensor_has_no_elements() -> None:
    for label in ("empty", "empty_rows"):
        assert graph_of("nn.relu", f"float32-{label}").inputs[0].type.size == 0


# --- narrow dtypes, long axes ---------------------------------------------------------------


def test_narrow_dtypes_have_cases_of_several_classes_and_of_long_axes() -> None:
    by_id = {case.id: case for case in cases(["nn.max_pool2d", "add"], "relax")}
    several = by_id["nn.max_pool2d[int8-several_3]"]
    assert several.smoke and several.graph.inputs[0].type.dtype == "int8"
    attrs = several.graph.nodes[0].attrs
    assert attrs["layout"] == "NCHW" and attrs["padding"] != (0, 0, 0, 0) and attrs["dilation"] != (1, 1)
    assert by_id["add[int8-long_ends]"].smoke and not by_id["add[float16-long]"].smoke
    row = by_id["add[float32-other_shape_trailing-long_ends]"]
    assert row.smoke and [s.type.shape for s in row.graph.inputs] == [(19, 3, 35), (3, 35)]


# --- cases that are left out -----------------------------------------------------------------


@pytest.mark.parametrize("ir", ["relay", "relax"])
def test_only_cases_that_exist_are_left_out(ir: str) -> None:
    for name, reasons in measured.table()[ir]["left_out"].items():
        op = OPERATORS[name]
        running = measured.dtypes(op, ir)
        known = {label for label, _ in boundary.candidates(op, running)}
        known |= {label for label, _ in (measured_cases(op, running, ir) if running else ())}
        assert set(reasons) <= known, f"measured.json: {ir} {name}: run scripts/measure.py"


@pytest.mark.parametrize("ir", ["relay", "relax"])
def test_every_wrong_result_of_tvm_is_documented(ir: str) -> None:
    """A case left out because LLVM is outside the bound is a fault of TVM or of a kernel; somebody
    has to examine and document it."""
    page = Path(__file__).parent.parent / "docs" / "explanation" / "tvm-faults.md"
    faults = page.read_text(encoding="utf-8")
    listed = set(re.findall(r"`([\w.]+)`", faults))
    for name, reasons in measured.table()[ir]["left_out"].items():
        wrong = [label for label, reason in reasons.items() if reason.startswith("compare")]
        assert not wrong or name in listed, f"tvm-faults.md says nothing of {name} {wrong} in {ir}"


# --- results of the kernels ------------------------------------------------------------------

#: Labels of values for which the plain evaluation of an operator is not valid.
_NOT_PLAIN = {
    # log(x + sqrt(x * x + 1)) overflows before its result.
    "asinh": ("infinities", "extremes", "special_values"),
    "acosh": ("extremes", "special_values"),
    # The quotient of two infinities has no angle.
    "atan2": ("infinities", "special_values"),
    # The plain evaluation goes through float64.
    **dict.fromkeys(("floor_divide", "trunc_divide", "mod", "floor_mod", "trunc_mod"), ("int64-edges",)),
    # Fractions have no NaN and no infinity.
    "qnn.quantize": ("nan", "infinities", "special_values"),
}


@NAMES
def test_a_plain_evaluation_is_inside_the_bound(name: str) -> None:
    op = OPERATORS[name]
    for label, make in boundary.candidates(op, [d for d in op.dtypes if d != "bfloat16"]):
        if not has_special_values(label) or label.endswith(_NOT_PLAIN.get(name, ("none",))):
            continue
        graph = make()
        expected = evaluation.evaluate(graph, {**data.inputs(graph, 0), **data.constants(graph)})
        results = plain(name, operands(graph), dict(graph.nodes[0].attrs))[: op.used]
        for actual, bounded in zip(results, expected, strict=True):
            outside = compare(actual, bounded).outside
            assert not outside.any(), (label, actual[outside], bounded.value[outside], bounded.error[outside])


def apply(name: str, *arrays: Any, dtype: str = "float32", **attrs: Any) -> Bounded:
    y = KERNELS[name]([exact(np.array(a, dtype)) for a in arrays], attrs)
    return y[0] if isinstance(y, tuple) else y


def test_int64_overflow_is_ambiguous_and_other_results_are_exact() -> None:
    top, least = 2**63 - 1, -(2**63)
    y = apply("add", [top, top, least, top], [1, 0, -1, least], dtype="int64")
    np.testing.assert_array_equal(y.ambiguous, [True, False, True, False])
    np.testing.assert_array_equal(y.value[~y.ambiguous], [top, -1])
    assert apply("abs", least, dtype="int64").ambiguous and apply("negative", least, dtype="int64").ambiguous
    assert apply("multiply", 2**40, 2**40, dtype="int64").ambiguous
    assert apply("sum", [top, 1], dtype="int64", axis=None, keepdims=False).ambiguous
    assert apply("nn.dense", [[top, 1]], [[1, 1]], dtype="int64").ambiguous


def test_integers_are_computed_without_wrap_around() -> None:
    big = np.array([2**62, 2])
    y = integer(unwrapped(np.multiply, big, big), False, "int64")
    np.testing.assert_array_equal(y.ambiguous, [True, False])
    assert y.value.dtype == np.int64 and y.value[1] == 4
    assert unwrapped(np.multiply, np.array([3]), np.array([4])).dtype == np.int64


def test_the_least_int64_sorts_below_all_others() -> None:
    row = exact(np.array([5, -(2**63), 7]))
    attrs = {"axis": (0,), "keepdims": False, "select_last_index": False, "dtype": "int32"}
    least = KERNELS["argmin"]([row], attrs)
    assert isinstance(least, Bounded) and least.value == 1
    order = KERNELS["argsort"]([row], {"axis": 0, "is_ascend": False, "dtype": "int32"})
    assert isinstance(order, Bounded) and order.value.tolist() == [2, 0, 1]


@pytest.mark.parametrize("name", ["nn.relu", "exp", "negative", "sqrt"])
def test_a_subnormal_operand_may_be_flushed_to_zero(name: str) -> None:
    y = apply(name, [1e-40, 0.5])
    at_zero = apply(name, [0.0])
    assert not y.ambiguous[0] and abs(at_zero.value[0] - y.value[0]) <= y.error[0]


def test_results_that_depend_on_flushing_a_subnormal_are_ambiguous() -> None:
    assert apply("log", [1e-40]).ambiguous and apply("divide", [1.0], [1e-40]).ambiguous
    assert apply("less", [0.0], [1e-40]).ambiguous and apply("ceil", [1e-40]).ambiguous
    assert maybe_flushed(exact(np.array([1e-30], "f"))).error == 0


def test_data_movement_keeps_subnormals() -> None:
    y = apply("reshape", [1e-40, 1.0], newshape=(2, 1))
    assert (y.error == 0).all() and not y.ambiguous.any()


def test_layer_norm_of_a_row_with_infinity_is_nan() -> None:
    """One pass over the data and two passes both compute inf - inf."""
    row = {"axes": (-1,), "epsilon": 1e-5, "center": True, "scale": True}
    y = apply("nn.layer_norm", [[INF, 1.0], [2.0, 1.0]], [1.0, 1.0], [0.0, 0.0], **row)
    assert np.isnan(y.value[0]).all() and np.isfinite(y.value[1]).all() and not y.ambiguous.any()


def test_squares_that_may_overflow_make_a_norm_ambiguous() -> None:
    row = {"axes": (-1,), "epsilon": 1e-5, "center": True, "scale": True}
    y = apply("nn.layer_norm", [[3e38, 1.0], [2.0, 1.0]], [1.0, 1.0], [0.0, 0.0], **row)
    np.testing.assert_array_equal(y.ambiguous, [[True, True], [False, False]])
    attrs = {"axis": 1, "size": 3, "bias": 2.0, "alpha": 1.0, "beta": 0.5}
    y = apply("nn.lrn", [[[[300.0]], [[1.0]]]], dtype="float16", **attrs)
    assert y.ambiguous.all()


def test_floor_divide_of_infinity_is_ambiguous() -> None:
    np.testing.assert_array_equal(apply("floor_divide", [INF, 5.0], [2.0, 2.0]).ambiguous, [True, False])


# --- extents of products ---------------------------------------------------------------------


@pytest.mark.parametrize("name", ["nn.dense", "nn.matmul", "nn.batch_matmul", "nn.conv2d", "qnn.dense"])
def test_tiled_extents_have_every_kind_of_remainder(name: str) -> None:
    """Rows, depth and columns have no remainder, a remainder in one of them, or a remainder in
    all."""
    left = set()
    for extents in boundary.TILES:
        graph = graph_of(name, f"{OPERATORS[name].dtypes[0]}-{boundary.TILED}" + "x".join(map(str, extents)))
        rows, depth, columns = extents
        x, (y,) = graph.type_of(graph.nodes[0].inputs[0]).shape, graph.nodes[0].types
        if name == "nn.conv2d":
            assert (x[1], y.shape[1], y.shape[3]) == (depth, columns, rows)
        else:
            assert (x[-2], x[-1], y.shape[-1]) == (rows, depth, columns)
        left.add(tuple(bool(extent % 16) for extent in extents))
    few = {(i == 0, i == 1, i == 2) for i in range(3)}
    assert left == {(False,) * 3, (True,) * 3, *few}


@pytest.mark.parametrize("name", ["nn.dense", "nn.batch_matmul", "matmul", "qnn.dense"])
def test_products_have_every_pair_of_a_small_a_middle_and_a_large_extent(name: str) -> None:
    pairs = set()
    for rows, depth, columns in boundary.SIZES:
        label = f"{OPERATORS[name].dtypes[0]}-{boundary.TILED}{rows}x{depth}x{columns}"
        graph = graph_of(name, label)
        x, (y,) = graph.type_of(graph.nodes[0].inputs[0]).shape, graph.nodes[0].types
        assert (x[-2], x[-1], y.shape[-1]) == (rows, depth, columns)
        pairs |= {("rows, depth", rows, depth), ("rows, columns", rows, columns)}
        pairs.add(("depth, columns", depth, columns))
    assert len(pairs) == 3 * 3 * 3


# --- extents, and channels last --------------------------------------------------------------


def test_channels_last_has_its_own_boundary_cases() -> None:
    by_id = {c.id: c for c in cases(("nn.max_pool2d",), "relay")}
    for label, shape in (("aligned", (1, 4, 4, 16)), ("short_rows-aligned", (1, 4, 4, 1))):
        (node,) = (graph := by_id[f"nn.max_pool2d[float32-layout_nhwc-{label}]"].graph).nodes
        assert node.attrs["layout"] == "NHWC" and graph.inputs[0].type.shape == shape
    with_nan = by_id["nn.max_pool2d[float32-layout_nhwc-nan]"]
    (source,) = with_nan.graph.inputs
    assert source.data is not None and source.data[0] == "nan" and with_nan.smoke


@pytest.mark.parametrize(
    ("name", "dtype"), [("nn.softmax", "float32"), ("qnn.dense", "int8"), ("add", "float32")]
)
def test_short_rows_fill_whole_cache_lines(name: str, dtype: str) -> None:
    by_id = {c.id: c for c in cases((name,), "relay")}
    type_ = by_id[f"{name}[{dtype}-short_rows-aligned]"].graph.inputs[0].type
    size = int(dtype.lstrip("floatin")) // 8
    assert type_.size * size % 64 == 0 and type_.shape[-1] * size == 4
    equal = by_id[f"{name}[{dtype}-equal_extents]"].graph.inputs[0].type
    assert len(set(equal.shape)) == 1 and equal.rank > 1


# --- values of interest ----------------------------------------------------------------------


def test_functions_are_tested_from_where_they_are_linear_to_where_they_have_saturated() -> None:
    values = np.array(graph_of("sigmoid", "float32-range").inputs[0].data)
    assert np.abs(values).min() < 0.001 and np.abs(values).max() == 90
    assert (np.diff(np.sort(np.abs(values))) <= 20).all()
    # A sigmoid that is 1 from 8 on differs from the true one by much more than the bound.
    (result,) = evaluation.evaluate(graph_of("sigmoid", "float32-range"), {"x0": values.astype("float32")})
    assert (np.abs(1.0 - result.value[values >= 8]) > 4 * result.error[values >= 8]).sum() >= 5


@pytest.mark.parametrize("name", [n for n, op in OPERATORS.items() if op.interesting])
def test_most_values_of_interest_can_be_judged(name: str) -> None:
    graph = graph_of(name, "float32-range")
    values = np.array(graph.inputs[0].data, "float32")
    (result,) = evaluation.evaluate(graph, {"x0": values})
    assert judged(result).mean() > 0.5


def _graphs(operator: str, ending: str, ir: str = "relay") -> dict[str, Graph]:
    return {c.id: c.graph for c in cases([operator], ir) if c.id.endswith(f"-{ending}]") and c.smoke}


def test_two_parameters_of_a_window_alone() -> None:
    """Level smoke has them off their defaults together, and everything else at its default."""
    (default,) = [c.graph.nodes[0].attrs for c in cases(["nn.conv2d"], "relay") if c.simplest]
    for graph in _graphs("nn.conv2d", "alone").values():
        attrs = graph.nodes[0].attrs
        assert len([name for name in default if attrs[name] != default[name]]) == 2
    assert len(_graphs("nn.conv2d", "alone")) == len(_graphs("nn.avg_pool2d", "alone")) == 3
    assert not _graphs("nn.softmax", "alone")


def test_ties_are_decided_by_the_parameter() -> None:
    first, last = _graphs("argmax", "ties").values()
    values = data.inputs(first, 0)["x0"]
    assert (np.sum(values == values.max(axis=-1, keepdims=True), axis=-1) > 1).all()
    results = [evaluation.evaluate(g, data.inputs(g, 0))[0] for g in (first, last)]
    assert not any(r.ambiguous.any() for r in results) and (results[0].value < results[1].value).all()


def test_conversions_to_bool_of_fractions_and_of_numbers_whose_low_byte_is_0() -> None:
    graph = _graphs("cast", "range")["cast[float32-dtype_boolean-range]"]
    values = data.inputs(graph, 0)["x0"].reshape(-1)
    assert {0.25, 256.0, 65536.0} <= set(values.tolist())
    (result,) = evaluation.evaluate(graph, data.inputs(graph, 0))
    assert result.value.all() and not result.ambiguous.any()


@pytest.mark.parametrize("operator", ["cumsum", "sum", "concatenate", "nn.softmax", "argmax"])
def test_negative_axes_are_not_the_last_one_alone(operator: str) -> None:
    axes = set()
    for case in cases([operator], "relax"):
        axis = case.graph.nodes[0].attrs["axis"]
        if case.smoke and "axis" in case.id:
            axes.add(axis[0] if isinstance(axis, tuple) and axis else axis)
    assert any(axis is not None and axis != () and axis < -1 for axis in axes)


def test_a_variance_that_is_all_rounding_has_to_be_a_number() -> None:
    """The result is ambiguous in float32, and would be known in float64."""
    graph = _graphs("nn.layer_norm", boundary.MEAN)[f"nn.layer_norm[float32-{boundary.MEAN}]"]
    (expected,) = evaluation.evaluate(graph, {**data.inputs(graph, 0), **data.constants(graph)})
    right = expected.value.astype("float32")
    assert expected.ambiguous.all() and not lost(right, expected, right).any()
    assert lost(np.full_like(right, np.nan), expected, right).all()
    # LLVM's is no number either.
    assert not lost(np.full_like(right, np.nan), expected, np.full_like(right, np.inf)).any()
