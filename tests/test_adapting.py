"""Tests of graphs adapted to the only form a target offloads: channels last, batch 1, four axes or
two, a dtype, attributes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fixtures.faults import Fault, Patch, apply
from pytest_byoc.core.graph import Graph, TensorType
from pytest_byoc.examination.outcome import NOT_OFFLOADED, PASS
from pytest_byoc.generation import data
from pytest_byoc.generation.adapting import (
    adapted,
    channels_last,
    demands,
    forms,
    has_layout,
    joined,
    keeps_operands,
    lead,
)
from pytest_byoc.generation.adapting.parts import data_sources, parts
from pytest_byoc.generation.builder import Builder
from pytest_byoc.generation.random_graphs import some
from pytest_byoc.generation.structures import STRUCTURES, Vocabulary
from pytest_byoc.generation.systematic import Case, cases, default_case
from pytest_byoc.operators import OPERATORS
from pytest_byoc.oracle import evaluation
from pytest_byoc.suite.cases import Suite
from pytest_byoc.suite.session import TargetSession

from .conftest import declaration, make_settings

EVERYTHING = Vocabulary(frozenset(OPERATORS) - {"floor"})
FEW = ("nn.conv2d", "nn.max_pool2d", "nn.bias_add", "add", "nn.relu")
#: Structures with images that have no version with channels last.
UNCONVERTED = {"inputs_of_many_kinds", "viewed_and_read", "quantised_operators", "quantised_layers"}
#: Structures with equal extents, whose shapes do not tell `moved` how an operand was converted.
EQUAL = {"conv_operands"}
#: Structures that have channels last already.
LAST = {"conv_nhwc_operands"}
#: example_c that offloads only batches of one in float64.
ONE_IN_FLOAT64 = Fault(
    "one_in_float64", 7, "it takes batches of one alone, and float64", FEW, None,
    (
        Patch("support.py", "    if dtype not in DTYPES[step.kernel]:",
              '    if dtype != "float64" or buffers[0].shape[:1] not in ((), (1,)):'),
    ),
)
#: example_c that offloads convolutions and poolings in NHWC only.
NHWC_ALONE = Fault(
    "nhwc_alone", 9, "it takes channels last alone", ("nn.conv2d", "nn.max_pool2d"), None,
    (
        Patch("support.py", "    if layouts not in CONV_LAYOUTS:",
              '    if layouts[0] != "NHWC" or layouts not in CONV_LAYOUTS:'),
        Patch("support.py", 'if attrs["layout"] not in ("NCHW", "NHWC"):', 'if attrs["layout"] != "NHWC":'),
    ),
)
#: example_c that offloads averages only where the padding counts.
PADDING_COUNTS = Fault(
    "padding_counts", 36, "it takes count_include_pad alone", ("nn.avg_pool2d",), None,
    (
        Patch("support.py", "    attrs = step.attrs\n    if attrs[\"layout\"] not in",
              '    attrs = step.attrs\n    if not attrs.get("count_include_pad", True):\n'
              '        return "no"\n    if attrs["layout"] not in'),
    ),
)


def moved(graph: Graph, last: Graph) -> dict[str, Any]:
    """Returns, by value name, the function that converts its array to channels last."""
    nodes = {node.outputs[0]: node for node in last.nodes}
    conversions: dict[str, Any] = {}
    for part in parts(graph):
        changed = [n for n in part.nodes if has_layout(n.op) and n.attrs != nodes[n.outputs[0]].attrs]
        if not changed:
            continue
        rank = part.type_of(changed[0].inputs[0]).rank
        order = (0, *range(2, rank), 1)
        names = [s.name for s in part.sources()] + [o for n in part.nodes for o in n.outputs]
        for name in names:
            shape = part.type_of(name).shape
            if len(shape) == rank:
                conversions[name] = partial(np.transpose, axes=order)
            elif last.type_of(name).shape != shape:
                whole = (1,) * (rank - len(shape)) + shape
                conversions[name] = partial(_beside, whole=whole, order=order, shape=last.type_of(name).shape)
        for node in changed:
            if "kernel_layout" in node.attrs:
                layouts = node.attrs["kernel_layout"], nodes[node.outputs[0]].attrs["kernel_layout"]
                axes = [layouts[0].index(letter) for letter in layouts[1]]
                conversions[node.inputs[1]] = partial(np.transpose, axes=axes)
    return conversions


def _beside(array: Any, whole: tuple[int, ...], order: tuple[int, ...], shape: tuple[int, ...]) -> Any:
    return array.reshape(whole).transpose(order).reshape(shape)


def compared_outputs(graph: Graph, last: Graph) -> tuple[list[Any], list[Any]]:
    """Returns the outputs of `graph`, converted to channels last, and the outputs of `last`."""
    move = moved(graph, last)
    given = {**data.inputs(graph, 0), **data.constants(graph)}
    again = {name: move.get(name, np.asarray)(array) for name, array in given.items()}
    one = [bounded.value for bounded in evaluation.evaluate(graph, given)]
    other = [bounded.value for bounded in evaluation.evaluate(last, again)]
    return [move.get(name, np.asarray)(array) for name, array in zip(graph.outputs, one)], other


def image_structures() -> dict[str, Graph]:
    return {name: g for name, g in structures().items() if any(has_layout(o) for o in g.operators)}


def test_structures_compute_the_same_values_with_channels_last(ir: str) -> None:
    kept = set()
    for name, graph in image_structures().items():
        last = channels_last(graph, ir)
        if last is None:
            kept.add(name)
            continue
        if name in EQUAL:
            continue
        one, other = compared_outputs(graph, last)
        for a, b in zip(one, other):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12, err_msg=name)
        layouts = {n.attrs.get("data_layout", n.attrs.get("layout")) for n in last.nodes if has_layout(n.op)}
        assert "NCHW" not in layouts or "NHWC" in layouts
    assert kept == UNCONVERTED | LAST


@pytest.mark.parametrize("op", ["nn.conv2d", "nn.conv1d", "nn.conv3d", "nn.max_pool2d", "nn.avg_pool2d"])
def test_systematic_cases_have_channels_last(ir: str, op: str) -> None:
    pairs = [(case, channels_last(case.graph, ir)) for case in cases([op], ir)]
    key = "data_layout" if "conv" in op else "layout"
    before = [case.graph.nodes[0].attrs[key] for case, last in pairs if last is not None]
    assert before and all(layout.startswith("NC") for layout in before)
    assert {last.nodes[0].attrs[key][-1] for _, last in pairs if last is not None} == {"C"}
    # Cases that are not converted have channels last already.
    assert all(case.graph.nodes[0].attrs[key].endswith("C") for case, last in pairs if last is None)


def test_depthwise_weights_are_converted_with_the_layout(ir: str) -> None:
    builder = Builder(seed=1)
    y = builder.simple("nn.conv2d", builder.input(TensorType((1, 4, 5, 6), "float32")), groups=4, channels=4)
    last = channels_last(builder.graph(y), ir)
    assert last is not None
    assert last.nodes[0].attrs["kernel_layout"] == "HWOI" and last.constants[0].type.shape == (3, 3, 4, 1)
    assert last.nodes[0].types[0].shape == (1, 3, 4, 4)


def test_graphs_without_a_channel_axis_are_not_converted(ir: str) -> None:
    builder = Builder(seed=1)
    x = builder.input(TensorType((1, 4, 5, 6), "float32"))
    flat = builder.simple("nn.batch_flatten", builder.simple("nn.max_pool2d", x))
    assert channels_last(builder.graph(flat), ir) is None
    assert channels_last(default_case("nn.relu", "float32").graph, ir) is None


def structures() -> dict[str, Graph]:
    # The parts of each_once depend on the target.
    makers = {n: make for n, make in STRUCTURES.items() if n != "each_once"}
    return {name: make(Builder(seed=1), EVERYTHING) for name, make in makers.items()}


def evaluated(graph: Graph) -> list[np.ndarray]:
    given = {**data.inputs(graph, 0), **data.constants(graph)}
    return [np.asarray(bounded.value, np.float64) for bounded in evaluation.evaluate(graph, given)]


@pytest.mark.once
def test_structures_in_four_axes_compute_the_same_values(ir: str) -> None:
    pairs = {name: (graph, adapted(graph, ("four axes",), ir)) for name, graph in structures().items()}
    changed = {name: (graph, new) for name, (graph, new) in pairs.items() if new is not None}
    for name, (graph, new) in changed.items():
        for one, other in zip(evaluated(graph), evaluated(new)):
            assert one.size == other.size, name
            np.testing.assert_allclose(one.reshape(-1), other.reshape(-1), 1e-12, 1e-12, err_msg=name)
    assert len(changed) > 40
    assert {"diamond", "long_chain", "constants_in_one_region"} <= set(changed)


@pytest.mark.once
@pytest.mark.parametrize("form", ["two axes", "a batch of one"])
@pytest.mark.parametrize(
    "name", ["nn.relu", "add", "sum", "nn.softmax", "nn.layer_norm", "reshape", "concatenate"]
)
def test_cases_are_adapted(ir: str, form: str, name: str) -> None:
    """Those with a suitable operand are, and compute what their types say."""
    left = []
    for case in cases([name], ir):
        lead = case.graph.inputs[0].type.shape if case.graph.inputs else ()
        wanted = len(lead) > 2 if form == "two axes" else len(lead) > 1 and lead[0] > 1
        new = adapted(case.graph, (form,), ir)
        if new is None:
            left += [case.id] * wanted
            continue
        shape = new.inputs[0].type.shape
        left += [case.id] * (wanted and len(shape) != 2 if form == "two axes" else wanted and shape[0] != 1)
        assert [o.shape for o in evaluated(new)] == [new.type_of(o).shape for o in new.outputs], case.id
    assert len(left) < 0.4 * len(cases([name], ir)), left


@pytest.mark.once
def test_structures_adapted_to_a_batch_of_one(ir: str) -> None:
    changed = 0
    for name, graph in structures().items():
        new = adapted(graph, ("a batch of one",), ir)
        if new is None:
            continue
        changed += 1
        for part, before in zip(parts(new), parts(graph)):
            names = data_sources(part) if part != before else ()
            leads = [s.type for s in part.sources() if s.name in names]
            assert all(t.shape[0] == 1 for t in leads if t.rank > 1), name
        assert [o.shape for o in evaluated(new)] == [new.type_of(o).shape for o in new.outputs], name
    assert changed > 90


@pytest.mark.once
@pytest.mark.parametrize("dtype", ["float16", "int8", "uint8", "int32", "float64"])
def test_structures_adapted_to_another_dtype(ir: str, dtype: str) -> None:
    changed = 0
    for name, graph in structures().items():
        new = adapted(graph, (dtype,), ir)
        if new is None:
            continue
        changed += 1
        for part, before in zip(parts(new), parts(graph)):
            types = {s.type.dtype for s in part.sources()}
            assert part == before or "float32" not in types, name
        for source in new.sources():
            if source.type.dtype == dtype and dtype not in ("float16", "float64") and source.data is None:
                assert source.high - source.low >= 1 and (dtype != "uint8" or source.low >= 0), name
        assert all(o.shape == new.type_of(n).shape for n, o in zip(new.outputs, evaluated(new))), name
    assert changed > (90 if dtype.startswith("float") else 20)


@pytest.mark.once
def test_forms_with_the_fewest_adaptations_come_first() -> None:
    ordered = list(forms())
    assert len(ordered) == len(set(ordered)) and ordered[0] == ("four axes",)
    assert ordered.index(("a batch of one", "channels last")) < ordered.index(("float16",))
    assert joined([("channels last",), (), ("a batch of one", "int8"), ("float16",)]) == (
        "a batch of one", "channels last", "int8"
    )


def test_new_operands_of_random_graphs_have_the_form(ir: str) -> None:
    form = ("four axes", "a batch of one")
    assert lead(TensorType((3, 5), "int8"), form) == TensorType((1, 1, 1, 5), "int8")
    assert lead(TensorType((), "int8"), form).shape == ()
    names = ["nn.relu", "add", "multiply", "concatenate"]
    leads: list[TensorType] = []
    for graph in some(20, "form", operators=names, ir=ir, focus="nn.relu", fit=partial(lead, form=form)):
        first = {node.inputs[0] for node in graph.nodes}
        leads += [s.type for s in graph.sources() if s.name in first]
    # Operands with fewer axes are broadcast, or scalars.
    assert sum(t.rank >= 4 for t in leads) > 10 and all(t.rank < 4 or t.shape[0] == 1 for t in leads)


def opened(tmp_path: Path, target: str, ir: str, operators: tuple[str, ...] = FEW) -> TargetSession:
    settings = replace(make_settings(tmp_path, 120.0), operators=operators)
    session = TargetSession(settings, declaration(target, ir))
    session.open()
    return session


def test_cases_are_adapted_to_the_only_layout_of_the_target(tmp_path: Path, ir: str) -> None:
    target = apply(NHWC_ALONE, tmp_path)
    session = opened(tmp_path, f"{target / '__init__.py'}:target", ir)
    try:
        by_id = {case.id: case for case in cases(["nn.conv2d"], ir)}
        simplest = next(case for case in by_id.values() if case.simplest)
        suite = Suite(session)
        assert suite.check_case(simplest).outcome == NOT_OFFLOADED
        other = next(c for c in by_id.values() if c.id.endswith("-padding_asymmetric]"))
        assert other.graph.nodes[0].attrs["data_layout"] == "NCHW"
        verdict = suite.check_case(other)
        assert verdict.outcome == PASS and verdict.graph.nodes[0].attrs["data_layout"] == "NHWC"
        verdict = suite.check_structure("plain_convolutions")
        assert verdict.outcome == PASS and all(verdict.offloaded)
        notes = [text for text in session.record.not_checked if "only with channels last;" in text]
        assert len(notes) == len(set(notes)) and any(text.startswith("nn.conv2d, ") for text in notes)
    finally:
        session.close()


@pytest.mark.once
def test_cases_are_adapted_to_the_only_batch_and_dtype_of_the_target(tmp_path: Path, ir: str) -> None:
    target = apply(ONE_IN_FLOAT64, tmp_path)
    session = opened(tmp_path, f"{target / '__init__.py'}:target", ir)
    try:
        suite = Suite(session)
        for name in ("plain_convolutions", "diamond", "deep_layers"):
            verdict = suite.check_structure(name)
            assert verdict.outcome == PASS and all(verdict.offloaded), name
        assert {s.type.dtype for s in verdict.graph.sources()} == {"float64"}
        assert verdict.graph.inputs[0].type.shape[0] == 1
        assert suite.offloaded.fit("add")(TensorType((3, 5), "float64")).shape == (1, 5)
        notes = [text for text in session.record.not_checked if "only with" in text]
        assert any("nn.relu" in t and "only with a batch of one, float64;" in t for t in notes), notes
        # A graph in another form is not offloaded, and does not count as a pass.
        simplest = next(case for case in cases(["add"], ir) if case.simplest)
        assert suite.check_case(simplest).outcome == NOT_OFFLOADED
    finally:
        session.close()


def test_cases_are_adapted_to_the_only_attributes_of_the_target(tmp_path: Path, ir: str) -> None:
    target = apply(PADDING_COUNTS, tmp_path)
    session = opened(tmp_path, f"{target / '__init__.py'}:target", ir, ("nn.avg_pool2d", "nn.relu"))
    try:
        suite = Suite(session)
        found = cases(["nn.avg_pool2d"], ir)
        # A class of another parameter, another dtype, and special values are examined all the same.
        for ending in ("-padding_asymmetric]", "[float64]", "-infinities]"):
            case = next(c for c in found if c.id.endswith(ending))
            assert case.graph.nodes[0].attrs["count_include_pad"] is False
            verdict = suite.check_case(case)
            assert verdict.outcome == PASS and verdict.graph.nodes[0].attrs["count_include_pad"] is True
        verdict = suite.check_structure("plain_poolings")
        assert verdict.outcome == PASS and all(verdict.offloaded)
        notes = [text for text in session.record.not_checked if "only with count_include_pad=true;" in text]
        assert [text.partition(":")[0] for text in notes] == ["nn.avg_pool2d"]
    finally:
        session.close()


@pytest.mark.once
def test_single_attributes_are_demanded_before_several() -> None:
    simplest = default_case("take", "float32").graph.nodes[0]
    other = replace(simplest, attrs={**simplest.attrs, "mode": "fast", "axis": 1})
    assert list(map(str, demands(simplest, [simplest, other]))) == [
        "axis=1", 'mode="fast"', 'axis=1, mode="fast"',
    ]


@pytest.mark.once
@pytest.mark.parametrize(
    ("name", "attribute", "value", "kept"),
    # Indices may lie outside in all modes but one.
    [("take", "mode", "fast", False), ("nn.avg_pool2d", "count_include_pad", True, True)],
)
def test_attributes_that_keep_the_operands(name: str, attribute: str, value: Any, kept: bool) -> None:
    graph = default_case(name, "float32").graph
    (node,) = graph.nodes
    (demand,) = demands(node, [replace(node, attrs={**node.attrs, attribute: value})])
    assert keeps_operands(OPERATORS[name], graph.type_of(node.inputs[0]), demand) is kept


@pytest.mark.once
def test_what_the_target_takes_is_told_once(tmp_path: Path, ir: str) -> None:
    target = apply(PADDING_COUNTS, tmp_path)
    session = opened(tmp_path, f"{target / '__init__.py'}:target", ir, ("nn.avg_pool2d",))
    try:
        offloaded = Suite(session).offloaded
        for _ in range(2):
            # These two are not among the session's operators.
            for name in ("tan", "floor"):
                assert offloaded.fit(name)(TensorType((2, 3), "float32")).shape == (2, 3)
            assert [c.id for c in offloaded.cases("nn.avg_pool2d") if c.simplest]
        notes = session.record.not_checked
        assert len(notes) == len(set(notes)) and sum("only with" in text for text in notes) == 1
    finally:
        session.close()


def test_cases_are_not_adapted_for_a_target_without_restrictions(tmp_path: Path, ir: str) -> None:
    session = opened(tmp_path, "example_c", ir)
    try:
        suite = Suite(session)
        adapted_cases: list[Case] = suite.offloaded.cases("nn.conv2d", "nn.max_pool2d")
        plain = {case.id: case.graph for case in cases(["nn.conv2d", "nn.max_pool2d"], ir)}
        assert all(case.graph == plain[case.id] for case in adapted_cases if case.id in plain)
        assert not any("channels last" in text for text in session.record.not_checked)
    finally:
        session.close()
