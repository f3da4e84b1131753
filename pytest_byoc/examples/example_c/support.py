"""The decision what is offloaded: a table of dtypes, and a check for each kernel with conditions.

The predicates of partitioning and the code generator both call :func:`reason_unsupported`, so the
generator never refuses a step that a predicate has accepted. The checks read only shapes and
attributes, never an IR. A front end does not offload a call that it cannot translate into a step.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional, Tuple

from .subgraph import Step

_FLOATS = ("float32", "float64")
_ALL = ("float32", "float64", "int32")

# int32 is left out for operators that round (divide, mean, avg_pool2d) and for those whose
# attributes are real numbers (clip, leaky_relu).
DTYPES: Dict[str, Tuple[str, ...]] = {
    "add": _ALL,
    "subtract": _ALL,
    "multiply": _ALL,
    "divide": _FLOATS,
    "maximum": _ALL,
    "bias_add": _ALL,
    "relu": _ALL,
    "leaky_relu": _FLOATS,
    "clip": _FLOATS,
    "sigmoid": _FLOATS,
    "tanh": _FLOATS,
    "exp": _FLOATS,
    "sqrt": _FLOATS,
    "abs": _ALL,
    "negative": _ALL,
    "conv2d": _FLOATS,
    "matmul": _FLOATS,
    "max_pool2d": _ALL,
    "avg_pool2d": _FLOATS,
    "softmax": _FLOATS,
    "sum": _ALL,
    "mean": _FLOATS,
    "max": _ALL,
    "reshape": _ALL,
    "transpose": _ALL,
    "concatenate": _ALL,
    "split": _ALL,
    "strided_slice": _ALL,
}

# HWOI is Relay's layout for the weights of a depthwise convolution in NHWC.
CONV_LAYOUTS = (("NCHW", "OIHW"), ("NHWC", "HWIO"), ("NHWC", "OHWI"), ("NHWC", "HWOI"))


def reason_unsupported(step: Step) -> Optional[str]:
    """Returns the reason why a step cannot be offloaded, or None if it can."""
    if step.kernel not in DTYPES:
        return f"{step.kernel} is not supported"
    buffers = step.inputs + step.outputs
    dtype = buffers[0].dtype
    if dtype not in DTYPES[step.kernel]:
        return f"{step.kernel} does not support {dtype}"
    if any(buffer.dtype != dtype for buffer in buffers):
        return f"{step.kernel} needs one dtype throughout"
    if any(buffer.size == 0 for buffer in buffers):
        return "tensors without elements are left to the host"
    check = _CHECKS.get(step.kernel)
    return check(step) if check else None


def _check_conv2d(step: Step) -> Optional[str]:
    (data, weight), attrs = step.inputs[:2], step.attrs
    layouts = (attrs["data_layout"], attrs["kernel_layout"])
    if layouts not in CONV_LAYOUTS:
        return f"conv2d does not support the layouts {layouts}"
    channels = dict(zip(layouts[0], data.shape))["C"]
    out_channels = dict(zip(layouts[0], step.outputs[0].shape))["C"]
    w, groups = dict(zip(layouts[1], weight.shape)), attrs["groups"]
    if layouts[1] == "HWOI":
        if groups != channels or w["O"] != channels or w["O"] * w["I"] != out_channels:
            return "conv2d takes HWOI weights for depthwise convolution alone"
    elif channels != w["I"] * groups or w["O"] != out_channels or out_channels % groups:
        return "conv2d: the weights do not fit the data and the groups"
    return None


def _check_matmul(step: Step) -> Optional[str]:
    if min(len(step.inputs[0].shape), len(step.inputs[1].shape)) < 2:
        return "matmul needs operands of rank 2 or more"
    return None


def _check_pool2d(step: Step) -> Optional[str]:
    attrs = step.attrs
    if attrs["layout"] not in ("NCHW", "NHWC"):
        return f"pooling does not support the layout {attrs['layout']}"
    sizes = dict(zip(attrs["layout"], step.inputs[0].shape))
    counts = dict(zip(attrs["layout"], step.outputs[0].shape))
    if not all(isinstance(shape[letter], int) for shape in (sizes, counts) for letter in "HW"):
        return "pooling needs to know the height and width"
    for axis, letter in enumerate("HW"):
        windows = range(counts[letter])
        if not all(_sees_data(axis, window, sizes[letter], attrs) for window in windows):
            # This happens with ceil_mode, or if there is more padding than kernel. The result is not
            # defined: TVM divides 0 by 0.
            return "pooling does not support windows that lie outside the tensor"
    return None


def _sees_data(axis: int, window: int, size: int, attrs: Dict[str, Any]) -> bool:
    start = window * attrs["strides"][axis] - attrs["padding"][axis]
    taps = (start + k * attrs["dilation"][axis] for k in range(attrs["pool_size"][axis]))
    return any(0 <= tap < size for tap in taps)


def _check_split(step: Step) -> Optional[str]:
    if not isinstance(step.inputs[0].shape[step.attrs["axis"]], int):
        return "split needs to know the extent of its axis"
    return None


_CHECKS: Dict[str, Callable[[Step], Optional[str]]] = {
    "split": _check_split,
    "conv2d": _check_conv2d,
    "matmul": _check_matmul,
    "max_pool2d": _check_pool2d,
    "avg_pool2d": _check_pool2d,
}
