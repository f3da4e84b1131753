"""Tests of the C generator of ``example_c``, without TVM: generate, compile, call, compare with
NumPy."""

from __future__ import annotations

import ctypes
import itertools
import shutil
import subprocess
import threading

import numpy as np
import pytest

from pytest_byoc.examples.example_c.adapters import Unsupported, strided_slice
from pytest_byoc.examples.example_c.c_source import generate
from pytest_byoc.examples.example_c.c_text import literal
from pytest_byoc.examples.example_c.extent import Extent
from pytest_byoc.examples.example_c.kernels import KERNELS
from pytest_byoc.examples.example_c.subgraph import Argument, Buffer, Step, Subgraph, fuse
from pytest_byoc.examples.example_c.support import DTYPES, reason_unsupported

COMPILERS = {
    "c": ["gcc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"],
    "c++": ["g++", "-x", "c++", "-Wall", "-Wextra", "-Werror"],
}

needs_compiler = pytest.mark.skipif(
    not (shutil.which("gcc") and shutil.which("g++")), reason="no C compiler (gcc and g++)"
)

_serial = itertools.count()


def compiled(graph, directory, language):
    """Returns the compiled subgraph as a function of pointers."""
    entry = 'extern "C" ' if language == "c++" else ""
    source = generate(graph) + (
        f"{entry}const char* call(void* const* args);\n"
        f"{entry}const char* call(void* const* args) {{ return {graph.symbol}_run(args); }}\n"
    )
    path = directory / f"{graph.symbol}_{next(_serial)}.c"
    path.write_text(source)
    library = path.with_suffix(".so")
    flags = ["-O1", "-shared", "-fPIC", str(path), "-o", str(library), "-lm"]
    subprocess.run([*COMPILERS[language], *flags], check=True)
    call = ctypes.CDLL(str(library)).call
    call.restype = ctypes.c_char_p
    return call


def build(graph, directory, language="c++"):
    """Returns the compiled subgraph as a Python function of arrays."""
    call = build_open(graph, directory, language)
    return lambda *inputs: call(inputs, [b.shape for b in graph.outputs])


def build_open(graph, directory, language):
    """Returns it as a function of arrays, the shapes of its outputs, and the values of its extents."""
    call = compiled(graph, directory, language)

    def run(inputs, shapes, extents=()):
        # Outputs are poisoned, so that elements the function does not write are seen.
        outputs = [np.full(shape, 77, b.dtype) for shape, b in zip(shapes, graph.outputs)]
        arrays = [*inputs, *outputs, *(np.array(extent, "int64") for extent in extents)]
        pointers = (ctypes.c_void_p * len(arrays))(*[a.ctypes.data for a in arrays])
        error = call(pointers)
        assert error is None, error
        return outputs

    return run


def single(kernel, arrays, out_shapes, attrs=None, dtype=None):
    """Returns a subgraph of one step whose inputs have the shapes and dtypes of ``arrays``."""
    graph = Subgraph("single")
    inputs = tuple(graph.input(a.shape, str(a.dtype)) for a in arrays)
    outputs = tuple(Buffer(shape, dtype or str(arrays[0].dtype)) for shape in out_shapes)
    step = Step(kernel, inputs, outputs, attrs or {})
    assert reason_unsupported(step) is None
    graph.add(step)
    graph.outputs = list(outputs)
    return graph


def random(*shape, dtype="float32", seed=0):
    values = np.random.RandomState(seed + sum(shape)).uniform(-3, 3, size=shape)
    return np.ascontiguousarray(np.array(values).astype(dtype))


def assert_close(actual, expected):
    bound = 1e-5 if actual.dtype == np.float32 else 1e-12
    np.testing.assert_allclose(actual, expected, rtol=bound, atol=bound)


def test_the_dtype_table_names_exactly_the_existing_kernels():
    assert set(DTYPES) == set(KERNELS)


UNARY = {
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "exp": np.exp,
    "negative": np.negative,
    "abs": np.abs,
}


@needs_compiler
@pytest.mark.parametrize("shape", [(), (1,), (2, 3)])
@pytest.mark.parametrize("kernel", sorted(UNARY))
def test_unary(kernel, shape, tmp_path):
    for dtype in DTYPES[kernel]:
        x = random(*shape, dtype=dtype)
        (y,) = build(single(kernel, [x], [shape]), tmp_path)(x)
        assert_close(y, UNARY[kernel](x))


@needs_compiler
@pytest.mark.parametrize(
    "shapes", [((2, 3), (2, 3)), ((2, 1, 3), (4, 1)), ((), (2,)), ((), ())], ids=str
)
def test_binary_broadcasts_as_numpy_does(shapes, tmp_path):
    a, b = random(*shapes[0]), random(*shapes[1], seed=9)
    expected = a - b
    (y,) = build(single("subtract", [a, b], [expected.shape]), tmp_path)(a, b)
    assert_close(y, expected)


@needs_compiler
@pytest.mark.parametrize("language", sorted(COMPILERS))
def test_int32_arithmetic_wraps(language, tmp_path):
    a = np.array([2**31 - 1, -(2**31), 5], "int32")
    b = np.array([1, -1, -7], "int32")
    (y,) = build(single("add", [a, b], [(3,)]), tmp_path, language)(a, b)
    np.testing.assert_array_equal(y, np.array([-(2**31), 2**31 - 1, -2], "int32"))


@needs_compiler
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_conv2d_with_bias_and_relu(layout, tmp_path):
    x, w, b = random(2, 4, 7, 5), random(6, 2, 3, 2, seed=1), random(6, seed=2)
    top, left, bottom, right = 1, 0, 2, 1
    padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    expected = np.zeros((2, 6, 3, 3), "float32")
    for n, o, i, j in np.ndindex(*expected.shape):
        group = o // 3
        window = padded[n, group * 2 : group * 2 + 2, i * 2 : i * 2 + 5 : 2, j * 2 : j * 2 + 2]
        expected[n, o, i, j] = max((window * w[o]).sum() + b[o], 0)
    attrs = {
        "strides": (2, 2),
        "padding": (top, left, bottom, right),
        "dilation": (2, 1),
        "groups": 2,
        "data_layout": layout,
        "kernel_layout": "OIHW" if layout == "NCHW" else "HWIO",
        "activation": "relu",
    }
    if layout == "NHWC":
        x = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
        w = np.ascontiguousarray(w.transpose(2, 3, 1, 0))
        expected = expected.transpose(0, 2, 3, 1)
    (y,) = build(single("conv2d", [x, w, b], [expected.shape], attrs), tmp_path)(x, w, b)
    assert_close(y, expected)


@needs_compiler
@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_matmul_broadcasts_its_batches(transpose_a, transpose_b, tmp_path):
    a, b = random(3, 1, 2, 4), random(5, 4, 6, seed=1)
    expected = a @ b
    a = np.ascontiguousarray(a.swapaxes(-1, -2)) if transpose_a else a
    b = np.ascontiguousarray(b.swapaxes(-1, -2)) if transpose_b else b
    attrs = {"transpose_a": transpose_a, "transpose_b": transpose_b}
    (y,) = build(single("matmul", [a, b], [expected.shape], attrs), tmp_path)(a, b)
    assert_close(y, expected)


@needs_compiler
@pytest.mark.parametrize("count_include_pad", [False, True])
def test_avg_pool2d_does_not_count_elements_added_by_ceil_mode(count_include_pad, tmp_path):
    x = random(1, 1, 6, 5)
    attrs = {
        "pool_size": (3, 2),
        "strides": (2, 2),
        "dilation": (1, 1),
        "padding": (1, 0, 0, 1),
        "layout": "NCHW",
        "count_include_pad": count_include_pad,
    }
    expected = np.zeros((1, 1, 3, 3), "float32")
    for i, j in np.ndindex(3, 3):
        rows, columns = range(i * 2 - 1, i * 2 + 2), range(j * 2, j * 2 + 2)
        inside = [x[0, 0, r, c] for r in rows for c in columns if 0 <= r < 6 and c < 5]
        counted = [(r, c) for r in rows for c in columns if r < 6 + 0 and c < 5 + 1]
        expected[0, 0, i, j] = sum(inside) / len(counted if count_include_pad else inside)
    (y,) = build(single("avg_pool2d", [x], [expected.shape], attrs), tmp_path)(x)
    assert_close(y, expected)


@needs_compiler
@pytest.mark.parametrize("axes", [(), (1,), (0, 2), (0, 1, 2)], ids=str)
def test_reductions(axes, tmp_path):
    x = random(2, 3, 4)
    for kernel, function in [("sum", np.sum), ("mean", np.mean), ("max", np.max)]:
        expected = np.array(function(x, axis=axes))
        graph = single(kernel, [x], [expected.shape], {"axes": axes})
        assert_close(build(graph, tmp_path)(x)[0], expected)


@needs_compiler
def test_softmax_survives_large_values(tmp_path):
    x = random(2, 5, 3) * 1000
    (y,) = build(single("softmax", [x], [x.shape], {"axis": 1}), tmp_path)(x)
    e = np.exp(x.astype("float64") - x.max(axis=1, keepdims=True))
    assert_close(y, e / e.sum(axis=1, keepdims=True))


@needs_compiler
def test_data_movement(tmp_path):
    x, y = random(2, 3, 4), random(2, 1, 4, seed=1)
    cases = [
        ("transpose", [x], {"axes": (2, 0, 1)}, [x.transpose(2, 0, 1)]),
        ("concatenate", [x, y, x], {"axis": 1}, [np.concatenate([x, y, x], 1)]),
        ("split", [x], {"axis": 2}, [x[:, :, :1], x[:, :, 1:]]),
        ("strided_slice", [x], {"begin": (0, 1, 1), "strides": (1, 1, 2)}, [x[:, 1:, 1::2]]),
        ("reshape", [x], {}, [x.reshape(4, 6)]),
    ]
    for kernel, inputs, attrs, expected in cases:
        graph = single(kernel, inputs, [e.shape for e in expected], attrs)
        for actual, wanted in zip(build(graph, tmp_path)(*inputs), expected):
            np.testing.assert_array_equal(actual, wanted)


def chain():
    """Returns a graph of several steps; its outputs include a repeated value, an input and a
    constant."""
    graph = Subgraph("chain")
    x = graph.input((2, 3), "float32")
    c = graph.constant(np.array([0.1, -0.0, np.inf], "float32"))
    first, second, unused = (Buffer((2, 3), "float32") for _ in range(3))
    graph.add(Step("add", (x, x), (first,), {}))
    graph.add(Step("maximum", (first, c), (second,), {}))
    graph.add(Step("negative", (second,), (unused,), {}))
    graph.outputs = [second, x, second, c]
    return graph


@needs_compiler
@pytest.mark.parametrize("language", sorted(COMPILERS))
def test_outputs_may_repeat_and_may_be_inputs_or_constants(language, tmp_path):
    run, x = build(chain(), tmp_path, language), random(2, 3)
    constant = np.array([0.1, -0.0, np.inf], "float32")
    expected = np.maximum(x + x, constant)
    for actual, wanted in zip(run(x), [expected, x, expected, constant]):
        np.testing.assert_array_equal(actual, wanted)


@needs_compiler
def test_the_generated_function_is_re_entrant(tmp_path):
    run, wrong = build(chain(), tmp_path), []
    constant = np.array([0.1, -0.0, np.inf], "float32")

    def work(seed):
        x = random(2, 3, seed=seed)
        for _ in range(200):
            if not np.array_equal(run(x)[0], np.maximum(x + x, constant)):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (1.0, "float32", "1.0f"),
        (-0.0, "float64", "-0.0"),
        (0.1, "float32", "0x1.99999ap-4f"),
        (-(2**31), "int32", "(-2147483647 - 1)"),
        (1e300, "float32", "(1.0f / 0.0f)"),
    ],
)
def test_literals_are_exact(value, dtype, text):
    assert literal(value, dtype) == text


def conv_step(shape=(1, 4, 3, 3)):
    attrs = {
        "strides": (1, 1), "padding": (0, 0, 0, 0), "dilation": (1, 1), "groups": 1,
        "data_layout": "NCHW", "kernel_layout": "OIHW",
    }  # fmt: skip
    inputs = (Buffer((1, 2, 4, 4), "float32"), Buffer((4, 2, 2, 2), "float32"))
    return Step("conv2d", inputs, (Buffer(shape, "float32"),), attrs)


@pytest.mark.parametrize(
    ("bias", "fits"), [((4, 1, 1), True), ((1, 4, 1, 1), True), ((3,), False), ((), False)]
)
def test_fuse_accepts_only_a_bias_per_channel(bias, fits):
    conv = conv_step()
    result = Buffer(conv.outputs[0].shape, "float32")
    add = Step("add", (conv.outputs[0], Buffer(bias, "float32")), (result,), {})
    fused = fuse([conv, add])
    assert (fused is not None) == fits
    assert not fits or (len(fused.inputs) == 3 and fused.outputs == (result,))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"data_layout": "NCHW4c"}, "layouts"),
        ({"groups": 2}, "weights do not fit"),
    ],
)
def test_unsupported_convolutions_are_declined(change, reason):
    step = conv_step()
    assert reason_unsupported(step) is None
    assert reason in reason_unsupported(step._replace(attrs=dict(step.attrs, **change)))


def test_mixed_unknown_and_empty_operands_are_declined():
    def add(left, right):
        return Step("add", (Buffer((2,), left), Buffer((2,), right)), (Buffer((2,), left),), {})

    assert "does not support" in reason_unsupported(add("int64", "int64"))
    assert "one dtype" in reason_unsupported(add("float32", "float64"))
    empty = Buffer((0,), "float32")
    assert "without elements" in reason_unsupported(Step("relu", (empty,), (empty,), {}))


def test_pooling_windows_outside_the_tensor_are_declined():
    attrs = {
        "pool_size": (1, 1), "strides": (3, 3), "dilation": (1, 1),
        "padding": (0, 0, 0, 0), "layout": "NCHW",
    }  # fmt: skip
    data, result = Buffer((1, 1, 5, 5), "float32"), Buffer((1, 1, 3, 3), "float32")
    assert "outside" in reason_unsupported(Step("max_pool2d", (data,), (result,), attrs))


@needs_compiler
@pytest.mark.parametrize("language", sorted(COMPILERS))
def test_open_extents_are_read_when_the_code_runs(language, tmp_path):
    """One function computes for several sizes; the pointers to them follow those to the outputs."""
    graph = Subgraph("open")
    n, m = (graph.extent(Argument(0, axis, False)) for axis in (0, 1))
    x, row, more = (graph.input(shape, "float32") for shape in ((n, m, 4), (1, 4), (n, 1, 4)))
    added, joined = Buffer((n, m, 4), "float32"), Buffer((n, m + 1, 4), "float32")
    flat, result = Buffer((n * (m + 1), 4), "float32"), Buffer((4, n * (m + 1)), "float32")
    for kernel, inputs, output, attrs in (
        ("add", (x, row), added, {}),
        ("concatenate", (added, more), joined, {"axis": 1}),
        ("softmax", (joined,), softened := Buffer(joined.shape, "float32"), {"axis": 1}),
        ("reshape", (softened,), flat, {}),
        ("transpose", (flat,), result, {"axes": (1, 0)}),
    ):
        step = Step(kernel, inputs, (output,), attrs)
        assert reason_unsupported(step) is None
        graph.add(step)
    graph.outputs = [result]
    call = build_open(graph, tmp_path, language)
    for sizes in ((2, 3), (7, 9), (2, 3)):
        arrays = [random(*sizes, 4), random(1, 4, seed=1), random(sizes[0], 1, 4, seed=2)]
        (y,) = call(arrays, [(4, sizes[0] * (sizes[1] + 1))], sizes)
        whole = np.exp(np.concatenate([arrays[0] + arrays[1], arrays[2]], axis=1))
        assert_close(y, (whole / whole.sum(axis=1, keepdims=True)).reshape(-1, 4).T)


def test_extents_are_calculated_as_integers_are():
    n = Extent("n")
    assert str(n * 1 + 0) == str(n // 1) == "n" and 1 * n == n == 0 + n
    assert str((n + 1) * 4) == "((n + 1) * 4)" and 4 * n != n * 4


def test_what_needs_a_known_extent_is_declined():
    n = Extent("n")
    image, pooled = Buffer((1, 2, n, 4), "float32"), Buffer((1, 2, n, 2), "float32")
    window = {"pool_size": (1, 2), "strides": (1, 2), "dilation": (1, 1), "padding": (0, 0, 0, 0)}
    attrs = {"layout": "NCHW", **window}
    assert "height" in reason_unsupported(Step("max_pool2d", (image,), (pooled,), attrs))
    half = Buffer((n // 2, 3), "float32")
    split = Step("split", (Buffer((n, 3), "float32"),), (half, half), {"axis": 0})
    assert "extent" in reason_unsupported(split)
    with pytest.raises(Unsupported):
        strided_slice(Buffer((n, 3), "float32"), half, [0], [0], [2], [1])
