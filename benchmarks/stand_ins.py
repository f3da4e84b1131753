"""Stand-ins for functions that checks of pattern tables inside TVM call and that no wheel contains.

Wheels contain neither the vendors' SDKs nor TVM's own C++ for them; without these, checks refuse
everything or raise. Each stand-in returns the documented result of the real function, as far as it
depends on the graph and not on a device.
"""

from __future__ import annotations

import contextlib
import importlib
from typing import Any

#: Names of the functions of Ethos-N's support library that TVM's module calls.
_ETHOSN = (
    "conv2d", "fc", "avg_pool2d", "mean", "conv2d_transpose", "sigmoid", "tanh", "leaky_relu",
    "reinterpret_quantize", "requantize", "resize", "addition", "max_pool2d", "reshape", "concatenate",
    "split", "depth_to_space", "relu",
)


def provide(table: str) -> None:
    """Adds the stand-ins that the table of this name needs to its module."""
    known = {"ethos-n": _ethosn, "ethos-u": _ethosu, "tensorrt": _tensorrt, "cmsis-nn": _cmsisnn}
    if table in known:
        known[table]()


# --- Ethos-N -------------------------------------------------------------------------------------


def _ethosn() -> None:
    """Accepts a batch of 1, up to four axes, 8-bit inputs and outputs, layout NHWC and no dilation.
    TVM itself checks these conditions before it calls the library, or the library requires them for
    every operator. The conversions accept constants of the shapes that the patterns' comments
    name."""
    from tvm.relay.op.contrib import _ethosn as functions
    from tvm.relay.op.contrib import ethosn

    ethosn.ethosn_available = lambda: True
    ethosn.ethosn_api_version = lambda: "3.2.0"
    for name in _ETHOSN:
        setattr(functions, name, _supported_by_ethosn)
    for operation in ("Multiply", "Add"):
        name = "ConvertQnn" + operation + "To"
        setattr(functions, name + "ReinterpretQuantize", lambda call: _with_constant(call, True))
        setattr(functions, name + "Depthwise", lambda call: _with_constant(call, False))


def _tensors(type_: Any) -> list[Any]:
    return list(type_.fields) if hasattr(type_, "fields") else [type_]


def _supported_by_ethosn(call: Any) -> bool:
    from tvm import relay

    attributes: dict[str, Any] = {}
    outside = _tensors(call.checked_type)

    def visit(e: Any) -> None:
        if isinstance(e, relay.Var):
            outside.extend(_tensors(e.checked_type))
        elif isinstance(e, relay.Call) and e.attrs is not None:
            names = e.attrs.keys()
            attributes.update({str(name): e.attrs[name] for name in names})

    relay.analysis.post_order_visit(call, visit)
    fit = all(
        t.dtype in ("int8", "uint8") and len(t.shape) <= 4 and (len(t.shape) == 0 or int(t.shape[0]) == 1)
        for t in outside
    )
    layouts = {str(attributes.get(k, "NHWC")) for k in ("layout", "data_layout")}
    dilation = {int(d) for d in attributes.get("dilation") or (1,)}
    return fit and layouts == {"NHWC"} and dilation == {1}


def _with_constant(call: Any, scalar: bool) -> Any:
    """Returns the call if its constant operand has one element (`scalar`), or one element per
    channel (not `scalar`); otherwise None."""
    from tvm import relay

    data, constant = call.args[:2]
    if isinstance(data, relay.Constant):
        data, constant = constant, data
    if not isinstance(constant, relay.Constant) or isinstance(data, relay.Constant):
        return None
    shape, channels = constant.data.shape, data.checked_type.shape
    size = 1
    for d in shape:
        size *= int(d)
    if scalar:
        return call if size == 1 else None
    return call if shape and channels and size == int(shape[-1]) == int(channels[-1]) else None


# --- Ethos-U -------------------------------------------------------------------------------------


def _ethosu() -> None:
    """Imports the package ethos-u-vela, which the checks need and which has no stand-in, if it is
    installed, so that forked processes need not import it again."""
    with contextlib.suppress(ImportError):
        importlib.import_module("ethosu.vela.api")


# --- TensorRT ------------------------------------------------------------------------------------


def _tensorrt() -> None:
    """Returns the documented defaults of the target kind `tensorrt`, which the wheel does not
    define. Only the version differs, since the default 6.0.1 is too old for a part of the table."""
    from tvm.relay.op.contrib import tensorrt

    tensorrt.get_tensorrt_version = lambda: (8, 5, 3)
    tensorrt.get_tensorrt_use_implicit_batch_mode = lambda: True
    tensorrt.get_tensorrt_remove_no_mac_subgraphs = lambda: False
    tensorrt.get_tensorrt_use_fp16 = lambda: False


# --- CMSIS-NN ------------------------------------------------------------------------------------


def _cmsisnn() -> None:
    """Adds GetEffectiveConv2DPadding, which returns the sum of the padding of nn.pad and of the
    convolution after it, as top, left, bottom, right."""
    from tvm.relay.op.contrib import cmsisnn

    def padding(convolution: Any, pad: Any) -> Any:
        widths = [[int(n) for n in pair] for pair in pad.attrs.pad_width]
        layout = str(convolution.attrs.data_layout)
        h, w = widths[layout.index("H")], widths[layout.index("W")]
        own = [int(n) for n in convolution.attrs.padding]
        return [a + b for a, b in zip(own, (h[0], w[0], h[1], w[1]))]

    cmsisnn.GetEffectiveConv2DPadding = padding
