"""Tests of ``example_uma``: what the accelerator is given, conformance at smoke, artifacts in a process of
their own, and planted mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.faults import Patch

from .example_helpers import (
    EXPECTED,
    Mistake,
    assert_conforms,
    assert_found,
    built,
    planted,
    python,
    result_of,
)

TARGET = "pytest_byoc.examples.example_uma:target"

#: Prints how many regions there are, and how often their code calls the accelerator, for a convolution with
#: strides, dilation and padding, a product of int8, and two products with relu between them.
GIVEN = """
import tvm
from pytest_byoc.examples.example_uma import target

def relay_modules():
    from tvm import relay
    nn = relay.nn
    def var(name, shape, dtype="float32"):
        return relay.var(name, shape=shape, dtype=dtype)
    x, w = var("x", (2, 3, 9, 8)), var("w", (4, 3, 3, 2))
    yield nn.conv2d(x, w, strides=(2, 1), dilation=(1, 3), padding=(1, 0, 2, 3))
    yield nn.dense(var("x", (3, 5), "int8"), var("w", (4, 5), "int8"), out_dtype="int32")
    x = nn.relu(nn.dense(var("x", (3, 5)), var("v", (4, 5))))
    yield nn.dense(x, var("w", (6, 4)))

def relax_modules():
    from tvm import relax
    def var(name, shape, dtype="float32"):
        return relax.Var(name, relax.TensorType(shape, dtype))
    def returned(inputs, *steps):
        builder = relax.BlockBuilder()
        with builder.function("main", inputs):
            with builder.dataflow():
                value = None
                for step in steps:
                    value = builder.emit(step(value))
                value = builder.emit_output(value)
            builder.emit_func_output(value)
        return builder.get()
    op = relax.op
    x, w = var("x", (2, 3, 9, 8)), var("w", (4, 3, 3, 2))
    yield returned(
        [x, w], lambda _: op.nn.conv2d(x, w, strides=(2, 1), dilation=(1, 3), padding=(1, 0, 2, 3))
    )
    a, b = var("a", (3, 5), "int8"), var("b", (5, 4), "int8")
    yield returned([a, b], lambda _: op.matmul(a, b, out_dtype="int32"))
    x, v, w = var("x", (3, 5)), var("v", (5, 4)), var("w", (4, 6))
    yield returned([x, v, w], lambda _: op.matmul(x, v), op.nn.relu, lambda y: op.matmul(y, w))

ir = "relay" if tvm.__version__ < "0.2" else "relax"
for given in globals()[f"{ir}_modules"]():
    if ir == "relay":
        from tvm import relay
        given = tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(given), given))
    partitioned = target.partition(given)
    attribute = "Compiler" if ir == "relay" else "Codegen"
    regions = [f for f in partitioned.functions.values() if f.attrs and attribute in f.attrs.keys()]
    if ir == "relay":
        modules = [tvm.get_global_func("relay.ext.example_uma")(region) for region in regions]
        sources = [module.get_source() for module in modules]
    else:
        modules = tvm.get_global_func("relax.ext.example_uma")(regions, {}, {})
        sources = [module.inspect_source() for module in modules]
    code = "".join(source.partition("#endif")[2] for source in sources)
    print(len(regions), code.count("  example_uma_float32("), code.count("  example_uma_int8("))
"""


def test_sums_of_products_are_given_to_the_accelerator(ir: str) -> None:
    done = python(GIVEN)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["1 1 0", "1 0 1", "1 2 0"]


def test_an_artifact_runs_with_the_runtime_alone(ir: str, tmp_path: Path) -> None:
    artifacts = built(ir, TARGET, tmp_path, kinds=("aot", "graph"))
    assert {result_of(artifact) for artifact in artifacts} == {EXPECTED}


def test_it_conforms(pytester: pytest.Pytester, ir: str) -> None:
    tests = "test_operator and (float32] or groups or padding or int8) or test_thoroughly and diamond"
    assert_conforms(pytester, ir, "example_uma", "nn.conv2d,matmul,nn.dense,add,nn.relu", tests)


def test_only_code_in_c_can_be_registered() -> None:
    done = python(
        "from pytest_byoc.examples.example_uma.backend import Backend\n"
        "Backend('relax')._register_codegen('llvm')"
    )
    assert "ValueError" in done.stderr and "'llvm' is no format of code" in done.stderr


MISTAKES = {
    "strides_of_the_operands_exchanged": Mistake(
        [Patch("accelerator.c", "loop->left = left;", "loop->left = right;"),
         Patch("accelerator.c", "loop->right = right;", "loop->right = left;")],
        "nn.conv2d", "test_operator and float32", {"numerics", "process", "outputs-written"},
    ),
    "sum_begins_with_what_was_in_memory": Mistake(
        [Patch("accelerator.c", "left, right, 0);", "left, right, *result);")],
        "nn.conv2d,matmul,nn.dense", "test_operator and float32", {"numerics", "outputs-written", "rerun"},
    ),
    "products_of_int8_in_int8": Mistake(
        [Patch("accelerator.c", "sum + (RESULT)*left * (RESULT)*right;", "sum + (OPERAND)(*left * *right);")],
        "nn.conv2d", "test_operator and int8", {"numerics"},
    ),
    "addition_lost": Mistake(
        [Patch("multiply_add.py", "statements = [call or nest for call, nest in zip(calls, nests)]",
               'statements = [c or n for c, n in zip(calls, nests) if "T_add" not in str(n)]')],
        "nn.conv2d,add", "test_random or test_structure or test_thoroughly",
        {"numerics", "outputs-written", "process"},
    ),
    "weights_of_the_first_call_kept": Mistake(
        [Patch("accelerator.c", "    NAME##_each(example_uma_registers()",
               "    static void* kept; \\\n"
               "    if (kept == 0) kept = (void*)right; \\\n"
               "    right = (OPERAND*)kept; \\\n"
               "    NAME##_each(example_uma_registers()")],
        "nn.conv2d,matmul,nn.dense", "test_operator and float32 or test_structure",
        {"numerics", "process", "rerun", "instances", "threads", "outputs-written"},
    ),
    "registers_of_all_threads": Mistake(
        [Patch("accelerator.c", "static __thread ExampleUmaLoop", "static ExampleUmaLoop")],
        "nn.conv2d,matmul,nn.dense,add", "test_thoroughly", {"threads"},
    ),
    "passes_left_out_at_a_low_opt_level": Mistake(
        [Patch("relax.py", "mod = getattr(relax.transform, pass_)()(mod)",
               "mod = tvm.transform.Sequential([getattr(relax.transform, pass_)()])(mod)")],
        "nn.relu,add", "test_thoroughly and diamond", {"opt-levels"}, irs=("relax",),
    ),
    "names_of_inputs_kept": Mistake(
        [Patch("relax.py", 'relax.Var(f"x{i}", _type(param))', "relax.Var(_name(param), _type(param))"),
         Patch("relax.py", "def _with_caller",
               'def _name(var: Any) -> str:\n    return getattr(var, "name", None) or var.name_hint\n\n\n'
               "def _with_caller")],
        "add", "test_structure", {"process"}, irs=("relax",),
    ),
}  # fmt: skip


@pytest.mark.once
def test_mistakes_can_be_planted(tmp_path: Path) -> None:
    for name, mistake in MISTAKES.items():
        planted("example_uma", name, mistake.patches, tmp_path)


@pytest.mark.of_examples
@pytest.mark.parametrize("name", MISTAKES)
def test_a_planted_mistake_is_found(name: str, pytester: pytest.Pytester, ir: str) -> None:
    assert_found(pytester, ir, "example_uma", name, MISTAKES[name])
