"""Converts a graph to an ONNX model, operator by operator; constants become initializers.

`MAPPING` holds the function that writes each operator. An operator without one, or with attributes
that ONNX cannot express, raises NotExpressible. """

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..core.graph import Graph, Node, TensorType
from ..operators.record import normalize_axis
from ..operators.reduction import reduced_axes

#: Opset 19 is the first in which AveragePool has dilations; it came with IR version 9.
OPSET = 19
IR_VERSION = 9


class NotExpressible(ValueError):
    """Raised if ONNX can't express a graph; the message is a sentence."""


class _Writer:
    """The ONNX nodes and initializers of a graph, collected operator by operator."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self._count = 0

    def name(self) -> str:
        self._count += 1
        return "_%d" % self._count

    def constant(self, array: np.ndarray, name: str | None = None) -> str:
        from onnx import numpy_helper

        name = name or self.name()
        try:
            self.initializers.append(numpy_helper.from_array(np.array(array, order="C"), name))
        except (RuntimeError, KeyError, TypeError):  # It depends on the version of onnx.
            raise NotExpressible("ONNX has no tensors of %s here." % array.dtype) from None
        return name

    def ints(self, values: Sequence[int]) -> str:
        return self.constant(np.array(list(values), np.int64))

    def add(
        self, op: str, inputs: Sequence[str], outputs: Sequence[str] | None = None, **attrs: Any
    ) -> str:
        """Adds an ONNX node and returns the name of its first output."""
        from onnx import helper

        outputs = list(outputs or [self.name()])
        self.nodes.append(helper.make_node(op, list(inputs), outputs, **attrs))
        return outputs[0]

    def transpose(self, x: str, order: Sequence[int], outputs: Sequence[str] | None = None) -> str:
        # ONNX cannot infer the type of an empty list.
        perm = {"perm": [int(i) for i in order]} if len(order) else {}
        return self.add("Transpose", [x], outputs, **perm)


class _Context:
    """The node of the graph that is written. x: type of its first operand. out: type of its first
    result."""

    def __init__(self, writer: _Writer, node: Node) -> None:
        self.writer, self.node, self.attrs = writer, node, node.attrs
        self.types = [writer.graph.type_of(i) for i in node.inputs]

    @property
    def x(self) -> TensorType:
        return self.types[0]

    @property
    def out(self) -> TensorType:
        return self.node.types[0]

    def result(self, op: str, inputs: Sequence[str], **attrs: Any) -> None:
        """Adds the ONNX node that computes the outputs of the graph's node."""
        self.writer.add(op, inputs, self.node.outputs, **attrs)


Write = Callable[[_Context], None]


def _same(op: str, **names: str) -> Write:
    """Returns a writer for an ONNX operator with the same operands. names: TVM's attribute to
    ONNX's."""

    def write(c: _Context) -> None:
        c.result(op, c.node.inputs, **{onnx: c.attrs[tvm] for tvm, onnx in names.items()})

    return write


def _leaky_relu(c: _Context) -> None:
    if c.x.dtype == "float64":  # The alpha of LeakyRelu is a float32.
        slope = c.writer.constant(np.array(c.attrs["alpha"], c.x.dtype))
        c.result("PRelu", [c.node.inputs[0], slope])
    else:
        c.result("LeakyRelu", c.node.inputs, alpha=c.attrs["alpha"])


def _clip(c: _Context) -> None:
    bounds = [c.writer.constant(np.array(c.attrs[k], c.x.dtype)) for k in ("a_min", "a_max")]
    c.result("Clip", [c.node.inputs[0], *bounds])


# --- images: ONNX has only the layouts NCHW and OIHW ---------------------------------------------


def _channels_first(c: _Context, layout: str, x: str = "") -> str:
    x = x or c.node.inputs[0]
    if layout == "NCHW":
        return x
    return c.writer.transpose(x, [layout.index(a) for a in "NCHW"])


def _image(c: _Context, layout: str, op: str, inputs: Sequence[str], **attrs: Any) -> None:
    """Writes `op` on NCHW, and a transposition of its result to the layout."""
    if not c.x.dtype.startswith("float"):
        raise NotExpressible("ONNX has no %s of %s." % (op, c.x.dtype))
    if layout == "NCHW":
        c.result(op, inputs, **attrs)
    else:
        y = c.writer.add(op, inputs, **attrs)
        c.writer.transpose(y, ["NCHW".index(a) for a in layout], c.node.outputs)


def _widened(c: _Context) -> list[str]:
    """Returns the operands, cast to the dtype in which their products are summed."""
    to = c.attrs.get("out_dtype", c.x.dtype)
    if to == c.x.dtype:
        return list(c.node.inputs)
    return [c.writer.add("Cast", [i], to=_element_type(to)) for i in c.node.inputs]


def _conv2d(c: _Context) -> None:
    a = c.attrs
    if a.get("out_layout"):
        raise NotExpressible("nn.conv2d with out_layout has no ONNX operator.")
    (x, weight), layout = _widened(c), a["kernel_layout"]
    if layout != "OIHW":
        weight = c.writer.transpose(weight, [layout.index(d) for d in "OIHW"])
    if layout == "HWOI" and a["groups"] > 1:
        shape = [a["channels"], 1, *a["kernel_size"]]
        weight = c.writer.add("Reshape", [weight, c.writer.ints(shape)])
    _image(
        c, a["data_layout"], "Conv", [_channels_first(c, a["data_layout"], x), weight],
        kernel_shape=list(a["kernel_size"]), pads=list(a["padding"]), strides=list(a["strides"]),
        dilations=list(a["dilation"]), group=a["groups"],
    )


def _pool(op: str) -> Write:
    def write(c: _Context) -> None:
        a = c.attrs
        x, pads = _channels_first(c, a["layout"]), list(a["padding"])
        if a.get("count_include_pad"):
            # Padding that counts becomes part of the image. Evaluators of ONNX's count_include_pad
            # disagree on whether the elements that ceil_mode adds count too.
            around = c.writer.ints([0, 0, *pads[:2], 0, 0, *pads[2:]])
            x = c.writer.add("Pad", [x, around, c.writer.constant(np.array(0, c.x.dtype))])
            pads = [0, 0, 0, 0]
        _image(
            c, a["layout"], op, [x],
            kernel_shape=list(a["pool_size"]), pads=pads, strides=list(a["strides"]),
            dilations=list(a["dilation"]), ceil_mode=int(a["ceil_mode"]),
        )

    return write


def _global_pool(op: str) -> Write:
    def write(c: _Context) -> None:
        _image(c, c.attrs["layout"], op, [_channels_first(c, c.attrs["layout"])])

    return write


# --- matrices, bias ------------------------------------------------------------------------------


def _dense(c: _Context) -> None:
    c.result("Gemm", _widened(c), transB=1)


def _matmul(c: _Context) -> None:
    operands = []
    for name, type_, flag in zip(_widened(c), c.types, ("transpose_a", "transpose_b")):
        order = list(range(type_.rank))
        order[-2:] = [order[-1], order[-2]]
        operands.append(c.writer.transpose(name, order) if c.attrs[flag] else name)
    c.result("MatMul", operands)


def _bias_add(c: _Context) -> None:
    after = c.x.rank - 1 - normalize_axis(c.attrs["axis"], c.x.rank)
    shape = c.writer.ints(c.types[1].shape + (1,) * after)
    bias = c.writer.add("Reshape", [c.node.inputs[1], shape])
    c.result("Add", [c.node.inputs[0], bias])


def _pad(c: _Context) -> None:
    pads = [w[0] for w in c.attrs["pad_width"]] + [w[1] for w in c.attrs["pad_width"]]
    operands = [c.node.inputs[0], c.writer.ints(pads)]
    if c.attrs["pad_mode"] == "constant":
        operands.append(c.writer.constant(np.array(c.attrs["pad_value"], c.x.dtype)))
    c.result("Pad", operands, mode=c.attrs["pad_mode"])


def _flatten(c: _Context) -> None:
    c.result("Flatten", c.node.inputs, axis=1)


# --- reductions, shapes --------------------------------------------------------------------------


def _reduce(op: str) -> Write:
    def write(c: _Context) -> None:
        axes = reduced_axes(c.x.rank, c.attrs)
        if c.x.rank and not axes:
            # For ONNX an empty list of axes means all axes.
            c.result("Identity", [c.node.inputs[0]])
        else:
            operands = [c.node.inputs[0], c.writer.ints(axes)]
            c.result(op, operands, keepdims=int(c.attrs["keepdims"]))

    return write


def _with_shape(op: str) -> Write:
    """Returns a writer for an operator whose second operand is the shape of the output."""

    def write(c: _Context) -> None:
        c.result(op, [c.node.inputs[0], c.writer.ints(c.out.shape)])

    return write


def _transpose(c: _Context) -> None:
    axes = c.attrs["axes"]
    order = range(c.x.rank)[::-1] if axes is None else [normalize_axis(a, c.x.rank) for a in axes]
    c.writer.transpose(c.node.inputs[0], order, c.node.outputs)


def _split(c: _Context) -> None:
    axis = normalize_axis(c.attrs["axis"], c.x.rank)
    sizes = c.writer.ints([t.shape[axis] for t in c.node.types])
    c.result("Split", [c.node.inputs[0], sizes], axis=axis)


def _squeeze(c: _Context) -> None:
    axes = c.attrs["axis"]
    axes = [i for i, d in enumerate(c.x.shape) if d == 1] if axes is None else axes
    if not axes:  # There is no axis to remove.
        c.result("Identity", c.node.inputs)
        return
    c.result("Squeeze", [c.node.inputs[0], c.writer.ints(axes)])


def _expand_dims(c: _Context) -> None:
    axis = normalize_axis(c.attrs["axis"], c.x.rank + 1)
    axes = range(axis, axis + c.attrs["num_newaxis"])
    c.result("Unsqueeze", [c.node.inputs[0], c.writer.ints(axes)])


def _slice(c: _Context) -> None:
    a = c.attrs
    axes = range(c.x.rank) if a["axes"] is None else a["axes"]
    parts = [c.writer.ints(v) for v in (a["begin"], a["end"], axes, a["strides"])]
    c.result("Slice", [c.node.inputs[0], *parts])


def _cast(c: _Context) -> None:
    c.result("Cast", c.node.inputs, to=_element_type(c.attrs["dtype"]))


#: Name of an operator to the function that writes it.
MAPPING: Mapping[str, Write] = {
    "nn.relu": _same("Relu"),
    "nn.leaky_relu": _leaky_relu,
    "clip": _clip,
    "sigmoid": _same("Sigmoid"),
    "tanh": _same("Tanh"),
    "exp": _same("Exp"),
    "log": _same("Log"),
    "sqrt": _same("Sqrt"),
    "abs": _same("Abs"),
    "negative": _same("Neg"),
    "floor": _same("Floor"),
    "ceil": _same("Ceil"),
    "add": _same("Add"),
    "subtract": _same("Sub"),
    "multiply": _same("Mul"),
    "divide": _same("Div"),
    "maximum": _same("Max"),
    "minimum": _same("Min"),
    "nn.conv2d": _conv2d,
    "nn.dense": _dense,
    "nn.matmul": _matmul,
    "nn.batch_matmul": _matmul,
    "nn.max_pool2d": _pool("MaxPool"),
    "nn.avg_pool2d": _pool("AveragePool"),
    "nn.global_avg_pool2d": _global_pool("GlobalAveragePool"),
    "nn.global_max_pool2d": _global_pool("GlobalMaxPool"),
    "nn.bias_add": _bias_add,
    "nn.softmax": _same("Softmax", axis="axis"),
    "nn.log_softmax": _same("LogSoftmax", axis="axis"),
    "nn.batch_flatten": _flatten,
    "nn.pad": _pad,
    "sum": _reduce("ReduceSum"),
    "mean": _reduce("ReduceMean"),
    "max": _reduce("ReduceMax"),
    "min": _reduce("ReduceMin"),
    "prod": _reduce("ReduceProd"),
    "reshape": _with_shape("Reshape"),
    "transpose": _transpose,
    "concatenate": _same("Concat", axis="axis"),
    "split": _split,
    "squeeze": _squeeze,
    "expand_dims": _expand_dims,
    "strided_slice": _slice,
    "broadcast_to": _with_shape("Expand"),
    "cast": _cast,
}


def _element_type(dtype: str) -> int:
    from onnx import helper

    try:
        return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
    except (TypeError, ValueError, KeyError):
        raise NotExpressible("ONNX has no tensors of %s here." % dtype) from None


def to_model(graph: Graph, constants: Mapping[str, np.ndarray]) -> Any:
    """Returns the graph as a checked `onnx.ModelProto`. Outputs have the graph's names; one that is
    an input, a constant or returned twice is named `output_` and its position.

    Raises NotExpressible, or ImportError without the package onnx.
    """
    import onnx
    from onnx import helper

    def info(name: str, t: TensorType) -> Any:
        return helper.make_tensor_value_info(name, _element_type(t.dtype), list(t.shape))

    writer = _Writer(graph)
    for s in graph.constants:
        writer.constant(np.asarray(constants[s.name]), s.name)
    for node in graph.nodes:
        if node.op not in MAPPING:
            raise NotExpressible("pytest-byoc does not write %s as ONNX." % node.op)
        try:
            MAPPING[node.op](_Context(writer, node))
        except KeyError as e:
            raise NotExpressible("%s has no attribute %s." % (node.op, e)) from None
    outputs = []
    unusable = {s.name for s in graph.sources()}
    for i, name in enumerate(graph.outputs):
        shown = name
        if name in unusable:
            shown = writer.add("Identity", [name], ["output_%d" % i])
        unusable.add(name)
        outputs.append(info(shown, graph.type_of(name)))
    inputs = [info(s.name, s.type) for s in graph.inputs]
    proto = helper.make_graph(writer.nodes, "pytest_byoc", inputs, outputs, writer.initializers)
    model = helper.make_model(proto, opset_imports=[helper.make_opsetid("", OPSET)])
    model.ir_version = IR_VERSION
    try:
        onnx.checker.check_model(model, full_check=True)
    except Exception as e:  # Not every version exports a common base of its exceptions.
        raise NotExpressible("ONNX's checker rejects the model: %s" % str(e).strip()) from None
    return model


def save(graph: Graph, constants: Mapping[str, np.ndarray], path: Path) -> None:
    """Writes the model to a file. Raises like `to_model`."""
    path.write_bytes(to_model(graph, constants).SerializeToString())
