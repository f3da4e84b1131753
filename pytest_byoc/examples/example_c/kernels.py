"""Emitters of C, one per kernel: each converts a :class:`~.subgraph.Step` to C statements.

Shapes are known at compile time, so strides, broadcasting and layouts are computed here in Python,
and the C consists of loops only. To add a kernel, add one function.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping

from .c_text import C_TYPES, broadcast_strides, literal, loop, loops, offset, strides
from .subgraph import Buffer, Step

Names = Mapping[Buffer, str]
Lines = List[str]
Emitter = Callable[[Step, Names], Lines]

KERNELS: Dict[str, Emitter] = {}


def emit(step: Step, names: Names) -> Lines:
    """Returns the C statements of one step; ``names`` holds the C pointers to its buffers."""
    return KERNELS[step.kernel](step, names)


def _kernel(*kernels: str) -> Callable[[Emitter], Emitter]:
    def register(function: Emitter) -> Emitter:
        KERNELS.update(dict.fromkeys(kernels, function))
        return function

    return register


def _indices(rank: int, prefix: str = "i") -> List[str]:
    return [f"{prefix}{axis}" for axis in range(rank)]


# ---- element by element ------------------------------------------------------------------------
# Comparisons have the order of TVM's own code, so that NaN and -0.0 give the same results:
# max(a, b) is `a > b ? a : b`.


def _unary(kernel: str, x: str, dtype: str, attrs: Mapping[str, Any]) -> str:
    """Returns the C expression of ``kernel`` applied to the variable ``x``."""
    zero, one, f = literal(0, dtype), literal(1, dtype), "f" if dtype == "float32" else ""
    if kernel == "relu":
        return f"{x} > {zero} ? {x} : {zero}"
    if kernel == "leaky_relu":
        return f"{x} > {zero} ? {x} : {x} * {literal(attrs['alpha'], dtype)}"
    if kernel == "sigmoid":
        # There are two branches because exp() of a large positive number overflows.
        above, below = f"{one} / ({one} + exp{f}(-{x}))", f"exp{f}({x}) / ({one} + exp{f}({x}))"
        return f"{x} > {zero} ? {above} : {below}"
    if kernel in ("exp", "tanh", "sqrt"):
        return f"{kernel}{f}({x})"
    if kernel == "negative":
        # Unsigned arithmetic is defined in C even for the least int32, whose negation overflows.
        return f"(int32_t)(0u - (uint32_t){x})" if dtype == "int32" else f"-{x}"
    if kernel == "abs":
        negated = _unary("negative", x, dtype, {})
        return f"{x} < 0 ? {negated} : {x}" if dtype == "int32" else f"fabs{f}({x})"
    raise KeyError(kernel)


def _binary(kernel: str, a: str, b: str, dtype: str) -> str:
    """Returns the C expression of ``kernel`` applied to two expressions without side effects."""
    if kernel == "maximum":
        return f"{a} > {b} ? {a} : {b}"
    sign = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/"}[kernel]
    if dtype == "int32":
        return f"(int32_t)((uint32_t){a} {sign} (uint32_t){b})"
    return f"{a} {sign} {b}"


@_kernel("relu", "leaky_relu", "sigmoid", "exp", "tanh", "sqrt", "negative", "abs")
def _emit_unary(step: Step, names: Names) -> Lines:
    (source,), (result,) = step.inputs, step.outputs
    value = _unary(step.kernel, "x", result.dtype, step.attrs)
    body = [
        f"const {C_TYPES[result.dtype]} x = {names[source]}[i];",
        f"{names[result]}[i] = {value};",
    ]
    return loop("i", result.size, body)


@_kernel("clip")
def _emit_clip(step: Step, names: Names) -> Lines:
    (source,), (result,) = step.inputs, step.outputs
    ctype, dtype = C_TYPES[result.dtype], result.dtype
    low, high = literal(step.attrs["min"], dtype), literal(step.attrs["max"], dtype)
    body = [
        f"const {ctype} x = {names[source]}[i];",
        f"const {ctype} below = x < {high} ? x : {high};",
        f"{names[result]}[i] = below > {low} ? below : {low};",
    ]
    return loop("i", result.size, body)


@_kernel("add", "subtract", "multiply", "divide", "maximum")
def _emit_binary(step: Step, names: Names) -> Lines:
    (left, right), (result,) = step.inputs, step.outputs
    rank = len(result.shape)
    index = _indices(rank)
    a = f"{names[left]}[{offset(broadcast_strides(left.shape, rank), index)}]"
    b = f"{names[right]}[{offset(broadcast_strides(right.shape, rank), index)}]"
    out = f"{names[result]}[{offset(strides(result.shape), index)}]"
    return loops(index, result.shape, [f"{out} = {_binary(step.kernel, a, b, result.dtype)};"])


@_kernel("bias_add")
def _emit_bias_add(step: Step, names: Names) -> Lines:
    (data, bias), (result,) = step.inputs, step.outputs
    axis = step.attrs["axis"] % len(data.shape)
    inner = strides(data.shape)[axis]
    value = _binary("add", f"{names[data]}[i]", f"{names[bias]}[i / {inner} % {bias.size}]",
                    result.dtype)  # fmt: skip
    return loop("i", result.size, [f"{names[result]}[i] = {value};"])


# ---- sums of products --------------------------------------------------------------------------


def _epilogue(step: Step, names: Names, out: str, channel: str) -> Lines:
    """Returns C that adds the fused bias to ``acc``, applies the fused activation and stores it."""
    dtype = step.outputs[0].dtype
    lines = []
    if len(step.inputs) == 3:
        lines.append(f"acc += {names[step.inputs[2]]}[{channel}];")
    value = "acc"
    if step.attrs.get("activation"):
        value = _unary(step.attrs["activation"], "acc", dtype, {})
    return [*lines, f"{out} = {value};"]


@_kernel("conv2d")
def _emit_conv2d(step: Step, names: Names) -> Lines:
    (data, weight), (result,), attrs = step.inputs[:2], step.outputs, step.attrs
    layout, kernel_layout, dtype = attrs["data_layout"], attrs["kernel_layout"], result.dtype
    in_shape, out_shape = dict(zip(layout, data.shape)), dict(zip(layout, result.shape))
    # Sizes and strides are looked up by letter, so the loops are the same for every layout.
    in_steps = dict(zip(layout, strides(data.shape)))
    out_steps = dict(zip(layout, strides(result.shape)))
    w_shape = dict(zip(kernel_layout, weight.shape))
    w_steps = dict(zip(kernel_layout, strides(weight.shape)))
    (stride_h, stride_w), (top, left, _, _) = attrs["strides"], attrs["padding"]
    dilation_h, dilation_w = attrs["dilation"]
    per_group_in = in_shape["C"] // attrs["groups"]
    per_group_out = out_shape["C"] // attrs["groups"]

    x = offset([in_steps[k] for k in "NCHW"],
               ["n", f"(oc / {per_group_out} * {per_group_in} + ic)", "h", "w"])  # fmt: skip
    if kernel_layout == "HWOI":
        # In this depthwise layout "O" is the input channel, "I" the number of outputs for each.
        k = offset([w_steps[k] for k in "HWOI"],
                   ["kh", "kw", f"(oc / {w_shape['I']})", f"(oc % {w_shape['I']})"])  # fmt: skip
    else:
        k = offset([w_steps[k] for k in "OIHW"], ["oc", "ic", "kh", "kw"])
    y = offset([out_steps[k] for k in "NCHW"], ["n", "oc", "oh", "ow"])

    taps = loops(
        ["ic", "kh", "kw"],
        [per_group_in, w_shape["H"], w_shape["W"]],
        [
            f"const int64_t h = oh * {stride_h} - {top} + kh * {dilation_h};",
            f"const int64_t w = ow * {stride_w} - {left} + kw * {dilation_w};",
            f"if (h < 0 || h >= {in_shape['H']} || w < 0 || w >= {in_shape['W']}) continue;",
            f"acc += {names[data]}[{x}] * {names[weight]}[{k}];",
        ],
    )
    body = [f"{C_TYPES[dtype]} acc = 0;", *taps]
    body += _epilogue(step, names, f"{names[result]}[{y}]", "oc")
    return loops(["n", "oc", "oh", "ow"], [out_shape[k] for k in "NCHW"], body)


@_kernel("matmul")
def _emit_matmul(step: Step, names: Names) -> Lines:
    (a, b), (result,), attrs = step.inputs[:2], step.outputs, step.attrs
    rank = len(result.shape)
    batch = _indices(rank - 2)
    row_a, col_a = strides(a.shape)[-2:]
    row_b, col_b = strides(b.shape)[-2:]
    depth = a.shape[-2] if attrs["transpose_a"] else a.shape[-1]
    index_a = ["k", "m"] if attrs["transpose_a"] else ["m", "k"]
    index_b = ["n", "k"] if attrs["transpose_b"] else ["k", "n"]
    # Batch axes broadcast; the two matrix axes do not.
    steps_a = broadcast_strides(a.shape, rank)[:-2] + [row_a, col_a]
    steps_b = broadcast_strides(b.shape, rank)[:-2] + [row_b, col_b]
    left = f"{names[a]}[{offset(steps_a, batch + index_a)}]"
    right = f"{names[b]}[{offset(steps_b, batch + index_b)}]"
    body = [f"{C_TYPES[result.dtype]} acc = 0;"]
    body += loop("k", depth, [f"acc += {left} * {right};"])
    out = f"{names[result]}[{offset(strides(result.shape), batch + ['m', 'n'])}]"
    body += _epilogue(step, names, out, "n")
    return loops([*batch, "m", "n"], result.shape, body)


# ---- pooling, reductions, softmax --------------------------------------------------------------


@_kernel("max_pool2d", "avg_pool2d")
def _emit_pool2d(step: Step, names: Names) -> Lines:
    (data,), (result,), attrs = step.inputs, step.outputs, step.attrs
    layout, ctype = attrs["layout"], C_TYPES[result.dtype]
    in_shape, out_shape = dict(zip(layout, data.shape)), dict(zip(layout, result.shape))
    in_steps = dict(zip(layout, strides(data.shape)))
    out_steps = dict(zip(layout, strides(result.shape)))
    (stride_h, stride_w), (top, left, bottom, right) = attrs["strides"], attrs["padding"]
    (kernel_h, kernel_w), (dilation_h, dilation_w) = attrs["pool_size"], attrs["dilation"]
    height, width = in_shape["H"], in_shape["W"]
    x = f"{names[data]}[{offset([in_steps[k] for k in 'NCHW'], ['n', 'c', 'h', 'w'])}]"
    y = f"{names[result]}[{offset([out_steps[k] for k in 'NCHW'], ['n', 'c', 'oh', 'ow'])}]"

    outside = f"if (h < 0 || h >= {height} || w < 0 || w >= {width}) continue;"
    taps = [
        f"const int64_t h = oh * {stride_h} - {top} + kh * {dilation_h};",
        f"const int64_t w = ow * {stride_w} - {left} + kw * {dilation_w};",
    ]
    if step.kernel == "max_pool2d":
        taps += [outside, f"acc = (count && acc > {x}) ? acc : {x};", "++count;"]
    elif attrs["count_include_pad"]:
        # Padding counts, but the rows beyond it that ceil_mode adds to the last window do not.
        taps += [f"count += h < {height + bottom} && w < {width + right};"]
        taps += [outside, f"acc += {x};"]
    else:
        taps += [outside, "++count;", f"acc += {x};"]
    body = [f"{ctype} acc = 0;", "int64_t count = 0;"]
    body += loops(["kh", "kw"], [kernel_h, kernel_w], taps)
    # Never 0: support.py declines windows that lie outside the tensor.
    body.append(f"{y} = acc;" if step.kernel == "max_pool2d" else f"{y} = acc / ({ctype})count;")
    return loops(["n", "c", "oh", "ow"], [out_shape[k] for k in "NCHW"], body)


@_kernel("sum", "mean", "max")
def _emit_reduce(step: Step, names: Names) -> Lines:
    (data,), (result,) = step.inputs, step.outputs
    rank, axes, ctype = len(data.shape), step.attrs["axes"], C_TYPES[result.dtype]
    index, steps = _indices(rank), strides(data.shape)
    kept = [axis for axis in range(rank) if axis not in axes]
    # keepdims only adds axes of extent 1, which do not change the offsets of the result.
    out = offset(strides([data.shape[axis] for axis in kept]), [index[axis] for axis in kept])
    value = f"{names[data]}[{offset(steps, index)}]"
    if step.kernel == "max":
        inner = [f"acc = acc > {value} ? acc : {value};"]
        # The first element is the initial value. It exists: support.py declines empty tensors.
        first = offset([steps[axis] for axis in kept], [index[axis] for axis in kept])
        start = f"{names[data]}[{first}]"
    else:
        inner = [f"acc = {_binary('add', 'acc', value, result.dtype)};"]
        start = "0"
    count = 1
    for axis in axes:
        count *= data.shape[axis]
    total = f"acc / ({ctype}){count}" if step.kernel == "mean" else "acc"
    body = [f"{ctype} acc = {start};"]
    body += loops([index[axis] for axis in axes], [data.shape[axis] for axis in axes], inner)
    body.append(f"{names[result]}[{out}] = {total};")
    return loops([index[axis] for axis in kept], [data.shape[axis] for axis in kept], body)


@_kernel("softmax")
def _emit_softmax(step: Step, names: Names) -> Lines:
    (data,), (result,) = step.inputs, step.outputs
    axis = step.attrs["axis"] % len(data.shape)
    extent, inner = data.shape[axis], strides(data.shape)[axis]
    ctype, f = C_TYPES[result.dtype], "f" if result.dtype == "float32" else ""
    outer = data.size // (extent * inner)
    x, y = f"{names[data]}[base + k * {inner}]", f"{names[result]}[base + k * {inner}]"
    body = [f"const int64_t base = i * {extent * inner} + j;"]
    # The largest element is subtracted, because exp() may overflow otherwise.
    body += [f"{ctype} top = {names[data]}[base];", f"{ctype} total = 0;"]
    body += loop("k", extent, [f"top = top > {x} ? top : {x};"])
    body += loop("k", extent, [f"{y} = exp{f}({x} - top);", f"total += {y};"])
    body += loop("k", extent, [f"{y} /= total;"])
    return loops(["i", "j"], [outer, inner], body)


# ---- moving data -------------------------------------------------------------------------------


@_kernel("reshape")
def _emit_reshape(step: Step, names: Names) -> Lines:
    (data,), (result,) = step.inputs, step.outputs
    size = f"{data.size} * sizeof({C_TYPES[data.dtype]})"
    return [f"memcpy({names[result]}, {names[data]}, {size});"]


@_kernel("transpose")
def _emit_transpose(step: Step, names: Names) -> Lines:
    (data,), (result,) = step.inputs, step.outputs
    index = _indices(len(result.shape))
    steps = [strides(data.shape)[axis] for axis in step.attrs["axes"]]
    out, value = offset(strides(result.shape), index), offset(steps, index)
    return loops(index, result.shape, [f"{names[result]}[{out}] = {names[data]}[{value}];"])


@_kernel("strided_slice")
def _emit_strided_slice(step: Step, names: Names) -> Lines:
    (data,), (result,) = step.inputs, step.outputs
    index = _indices(len(result.shape))
    own = strides(data.shape)
    start = sum(first * size for first, size in zip(step.attrs["begin"], own))
    steps = [by * size for by, size in zip(step.attrs["strides"], own)]
    out, value = offset(strides(result.shape), index), offset(steps, index, start)
    return loops(index, result.shape, [f"{names[result]}[{out}] = {names[data]}[{value}];"])


def _emit_pieces(step: Step, names: Names, whole: Buffer, pieces: List[Buffer]) -> Lines:
    """Returns C that copies between a tensor and its pieces along an axis, in either direction."""
    axis = step.attrs["axis"] % len(whole.shape)
    inner = strides(whole.shape)[axis]
    row = whole.shape[axis] * inner
    lines: Lines = []
    begin = 0
    for piece in pieces:
        length = piece.shape[axis] * inner
        part, all_ = f"{names[piece]} + i * {length}", f"{names[whole]} + i * {row} + {begin}"
        target, source = (part, all_) if whole is step.inputs[0] else (all_, part)
        copy = f"memcpy({target}, {source}, {length} * sizeof({C_TYPES[whole.dtype]}));"
        lines += loop("i", whole.size // row, [copy])
        begin += length
    return lines


@_kernel("concatenate")
def _emit_concatenate(step: Step, names: Names) -> Lines:
    return _emit_pieces(step, names, step.outputs[0], list(step.inputs))


@_kernel("split")
def _emit_split(step: Step, names: Names) -> Lines:
    return _emit_pieces(step, names, step.inputs[0], list(step.outputs))
