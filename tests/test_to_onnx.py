"""Tests of graphs written as ONNX models, which ONNX's reference evaluator runs."""

from __future__ import annotations

import pytest
from onnx.reference import ReferenceEvaluator

from pytest_byoc.core.graph import Graph, Node, TensorType
from pytest_byoc.evidence.comparison import compare
from pytest_byoc.generation import data, systematic
from pytest_byoc.generation.builder import Builder
from pytest_byoc.operators import OPERATORS
from pytest_byoc.oracle.evaluation import evaluate
from pytest_byoc.report import to_onnx

from .conftest import NEW_ONNX, several_outputs

#: Operators that ONNX has only for float types and 8-bit integers.
FLOAT_ALONE = (
    *("nn.conv2d", "nn.max_pool2d", "nn.global_max_pool2d"),
    *("nn.avg_pool2d", "nn.global_avg_pool2d"),
)
#: Dtypes that most of ONNX's operators support; a graph with others may be refused.
COMMON = ("float32", "float64", "float16", "int32")


#: Cases that ONNX's evaluator gets wrong, by the exception that the comparison raises.
EVALUATED_WRONG: dict[str, type[Exception]] = {
    # The logarithm of an underflowed softmax is -inf there.
    "nn.log_softmax[float32-large_values]": AssertionError,
    # NaN stands for padding there.
    **dict.fromkeys(
        (
            f"nn.avg_pool2d[{v}]"
            for v in (
                "float32-nan", "float32-layout_nhwc-nan", "float64-special_values", "float16-special_values",
            )
        ),
        AssertionError,
    ),
    # With ceil_mode it adds padding, and it ignores a dilation. (ONNX Runtime agrees with our
    # kernels.)
    **dict.fromkeys(
        (
            "nn.max_pool2d[float32-layout_nhwc-ceil_mode_yes-padding_symmetric]",
            "nn.avg_pool2d[float32-layout_nhwc-pool_size_uneven-padding_none]",
        ),
        AssertionError,
    ),
    "nn.global_avg_pool2d[float32-empty]": ZeroDivisionError,
    "nn.batch_flatten[float32-empty]": ValueError,
    **({} if NEW_ONNX else {"nn.conv2d[float32-empty]": ValueError}),
}


def check_model(graph: Graph) -> None:
    """Checks that ONNX's reference evaluator computes the values of our kernels from the model."""
    constants, inputs = data.constants(graph), data.inputs(graph, 0)
    model = to_onnx.to_model(graph, constants)
    actual = ReferenceEvaluator(model).run(None, inputs)
    assert isinstance(actual, list)
    expected = evaluate(graph, {**constants, **inputs})
    for name, array, bounded in zip(graph.outputs, actual, expected):
        assert str(graph.type_of(name)) == str(TensorType(array.shape, str(array.dtype)))
        assert not compare(array, bounded).outside.any(), graph.to_json()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("operator", to_onnx.MAPPING)
def test_onnx_models_compute_the_values_of_the_kernels(operator: str) -> None:
    for case in systematic.cases([operator], None):
        types = [s.type for s in case.graph.sources()] + [t for n in case.graph.nodes for t in n.types]
        if any(t.dtype not in COMMON for t in types):
            try:
                to_onnx.to_model(case.graph, data.constants(case.graph))
            except to_onnx.NotExpressible:
                continue
            if not NEW_ONNX:
                continue  # its evaluator supports few operators in these dtypes
        if operator in FLOAT_ALONE and case.graph.inputs[0].type.dtype == "int32":
            with pytest.raises(to_onnx.NotExpressible, match=r"ONNX has no .* of int32"):
                check_model(case.graph)
        elif case.id in EVALUATED_WRONG:
            with pytest.raises(EVALUATED_WRONG[case.id]):
                check_model(case.graph)
        else:
            check_model(case.graph)


def test_operators_without_an_onnx_mapping_are_refused() -> None:
    assert set(to_onnx.MAPPING) <= set(OPERATORS)
    for name in sorted(set(OPERATORS) - set(to_onnx.MAPPING)):
        graph = systematic.default_case(name, OPERATORS[name].dtypes[0]).graph
        with pytest.raises(to_onnx.NotExpressible, match=f"does not write {name} as ONNX"):
            to_onnx.to_model(graph, data.constants(graph))


def test_onnx_outputs_may_be_inputs_constants_and_repeated() -> None:
    graph = several_outputs()
    check_model(graph)
    model = to_onnx.to_model(graph, data.constants(graph))
    names = ["v4", "v3", "output_2", "output_3", "output_4"]
    assert [o.name for o in model.graph.output] == names
    assert model.graph.initializer[0].name == "c0"


def test_an_operator_without_a_record_is_refused() -> None:
    t = TensorType((2,), "float32")
    b = Builder()
    x = b.input(t)
    graph = Graph(tuple(b.inputs), (), (Node("no.such", (x,), {}, ("v0",), (t,)),), ("v0",))
    with pytest.raises(to_onnx.NotExpressible, match=r"does not write no\.such as ONNX"):
        to_onnx.to_model(graph, {})
