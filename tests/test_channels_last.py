"""Graphs with channels last: they compute the same, and are what a target gets that takes no others."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fixtures.faults import Fault, Patch, apply
from pytest_byoc import oracle
from pytest_byoc.generation import data
from pytest_byoc.generation.builder import Builder
from pytest_byoc.generation.channels_last import _parts, channels_last, has_layout
from pytest_byoc.generation.structures import STRUCTURES, Vocabulary
from pytest_byoc.generation.systematic import Case, cases, default_case
from pytest_byoc.graph import Graph, TensorType
from pytest_byoc.operators import OPERATORS
from pytest_byoc.outcome import NOT_OFFLOADED, PASS
from pytest_byoc.session import TargetSession

from .conftest import declaration, make_settings

EVERYTHING = Vocabulary(frozenset(OPERATORS) - {"floor"})
FEW = ("nn.conv2d", "nn.max_pool2d", "nn.bias_add", "add", "nn.relu")
#: Structures with images that stay as they are.
KEPT = {"patch_embedding", "inputs_of_many_kinds"}
#: Those that have channels last.
LAST = {"behind_channels_last", "conv_bias_add_nhwc", "conv_bias_relu_nhwc"}
#: example_c with convolutions and poolings in NHWC alone.
NHWC_ALONE = Fault(
    "nhwc_alone", 9, "it takes channels last alone", ("nn.conv2d", "nn.max_pool2d"), None,
    (
        Patch("support.py", "    if layouts not in CONV_LAYOUTS:",
              '    if layouts[0] != "NHWC" or layouts not in CONV_LAYOUTS:'),
        Patch("support.py", 'if attrs["layout"] not in ("NCHW", "NHWC"):', 'if attrs["layout"] != "NHWC":'),
    ),
)


def moved(graph: Graph, last: Graph) -> dict[str, Any]:
    """Of each value what makes of its array the one with channels last."""
    nodes = {node.outputs[0]: node for node in last.nodes}
    found: dict[str, Any] = {}
    for part in _parts(graph):
        changed = [n for n in part.nodes if has_layout(n.op) and n.attrs != nodes[n.outputs[0]].attrs]
        if not changed:
            continue
        rank = part.type_of(changed[0].inputs[0]).rank
        order = (0, *range(2, rank), 1)
        names = [s.name for s in part.sources()] + [o for n in part.nodes for o in n.outputs]
        for name in names:
            shape = part.type_of(name).shape
            if len(shape) == rank:
                found[name] = partial(np.transpose, axes=order)
            elif last.type_of(name).shape != shape:
                whole = (1,) * (rank - len(shape)) + shape
                found[name] = partial(_beside, whole=whole, order=order, shape=last.type_of(name).shape)
        for node in changed:
            if "kernel_layout" in node.attrs:
                layouts = node.attrs["kernel_layout"], nodes[node.outputs[0]].attrs["kernel_layout"]
                axes = [layouts[0].index(letter) for letter in layouts[1]]
                found[node.inputs[1]] = partial(np.transpose, axes=axes)
    return found


def _beside(array: Any, whole: tuple[int, ...], order: tuple[int, ...], shape: tuple[int, ...]) -> Any:
    return array.reshape(whole).transpose(order).reshape(shape)


def both(graph: Graph, last: Graph) -> tuple[list[Any], list[Any]]:
    """Outputs of the one, as they would be with channels last, and of the other."""
    move = moved(graph, last)
    given = {**data.inputs(graph, 0), **data.constants(graph)}
    again = {name: move.get(name, np.asarray)(array) for name, array in given.items()}
    one = [bounded.value for bounded in oracle.evaluate(graph, given)]
    other = [bounded.value for bounded in oracle.evaluate(last, again)]
    return [move.get(name, np.asarray)(array) for name, array in zip(graph.outputs, one)], other


def image_structures() -> dict[str, Graph]:
    found = {name: make(Builder(seed=1), EVERYTHING) for name, make in STRUCTURES.items()}
    return {name: g for name, g in found.items() if any(has_layout(o) for o in g.operators)}


def test_structures_compute_the_same_with_channels_last(ir: str) -> None:
    kept = set()
    for name, graph in image_structures().items():
        last = channels_last(graph, ir)
        if last is None:
            kept.add(name)
            continue
        one, other = both(graph, last)
        for a, b in zip(one, other):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12, err_msg=name)
        layouts = {n.attrs.get("data_layout", n.attrs.get("layout")) for n in last.nodes if has_layout(n.op)}
        assert "NCHW" not in layouts or "NHWC" in layouts
    assert kept == KEPT | LAST


@pytest.mark.parametrize("op", ["nn.conv2d", "nn.conv1d", "nn.conv3d", "nn.max_pool2d", "nn.avg_pool2d"])
def test_systematic_cases_have_channels_last(ir: str, op: str) -> None:
    found = [(case, channels_last(case.graph, ir)) for case in cases([op], ir)]
    key = "data_layout" if "conv" in op else "layout"
    before = [case.graph.nodes[0].attrs[key] for case, last in found if last is not None]
    assert before and all(layout.startswith("NC") for layout in before)
    assert {last.nodes[0].attrs[key][-1] for _, last in found if last is not None} == {"C"}
    # What stays has channels last already.
    assert all(case.graph.nodes[0].attrs[key].endswith("C") for case, last in found if last is None)


def test_depthwise_weights_go_with_the_layout(ir: str) -> None:
    builder = Builder(seed=1)
    y = builder.simple("nn.conv2d", builder.input(TensorType((1, 4, 5, 6), "float32")), groups=4, channels=4)
    last = channels_last(builder.graph(y), ir)
    assert last is not None
    assert last.nodes[0].attrs["kernel_layout"] == "HWOI" and last.constants[0].type.shape == (3, 3, 4, 1)
    assert last.nodes[0].types[0].shape == (1, 3, 4, 4)


def test_what_does_not_say_where_channels_are_stays(ir: str) -> None:
    builder = Builder(seed=1)
    x = builder.input(TensorType((1, 4, 5, 6), "float32"))
    flat = builder.simple("nn.batch_flatten", builder.simple("nn.max_pool2d", x))
    assert channels_last(builder.graph(flat), ir) is None
    assert channels_last(default_case("nn.relu", "float32").graph, ir) is None


def opened(tmp_path: Path, target: str, ir: str) -> TargetSession:
    settings = replace(make_settings(tmp_path, 120.0), operators=FEW)
    session = TargetSession(settings, declaration(target, ir))
    session.open()
    return session


def test_a_target_gets_the_layout_it_takes(tmp_path: Path, ir: str) -> None:
    target = apply(NHWC_ALONE, tmp_path)
    session = opened(tmp_path, f"{target / '__init__.py'}:target", ir)
    try:
        found = {case.id: case for case in cases(["nn.conv2d"], ir)}
        simplest = next(case for case in found.values() if case.simplest)
        assert session.suite.check_case(simplest).outcome == NOT_OFFLOADED
        other = next(c for c in found.values() if c.id.endswith("-padding_asymmetric]"))
        assert other.graph.nodes[0].attrs["data_layout"] == "NCHW"
        verdict = session.suite.check_case(other)
        assert verdict.outcome == PASS and verdict.graph.nodes[0].attrs["data_layout"] == "NHWC"
        verdict = session.suite.check_structure("plain_convolutions")
        assert verdict.outcome == PASS and all(verdict.offloaded)
        told = [text for text in session.record.not_checked if "channels last alone" in text]
        assert len(told) == len(set(told)) and any(text.startswith("nn.conv2d ") for text in told)
    finally:
        session.close()


def test_cases_stay_as_they_are_for_others(tmp_path: Path, ir: str) -> None:
    session = opened(tmp_path, "example_c", ir)
    try:
        found: list[Case] = session.suite.taken.cases("nn.conv2d", "nn.max_pool2d")
        plain = {case.id: case.graph for case in cases(["nn.conv2d", "nn.max_pool2d"], ir)}
        assert all(case.graph == plain[case.id] for case in found if case.id in plain)
        assert not any("channels last" in text for text in session.record.not_checked)
    finally:
        session.close()
