"""Stand-ins for what pattern tables inside TVM ask of functions that no wheel holds.

Vendors' SDKs and TVM's own C++ for them are left out of wheels; without them checks refuse everything or
raise. Each function here answers what the real one is documented to answer, as far as it depends on the
graph and not on a device.
"""

from __future__ import annotations

import contextlib
import importlib
from typing import Any

#: What Ethos-N's support library is asked of, by the names TVM's module looks for.
_ETHOSN = (
    "conv2d", "fc", "avg_pool2d", "mean", "conv2d_transpose", "sigmoid", "tanh", "leaky_relu",
    "reinterpret_quantize", "requantize", "resize", "addition", "max_pool2d", "reshape", "concatenate",
    "split", "depth_to_space", "relu",
)


def provide(table: str) -> None:
    """Puts what the table of that name needs into its module."""
    known = {"ethos-n": _ethosn, "ethos-u": _ethosu, "tensorrt": _tensorrt, "cmsis-nn": _cmsisnn}
    if table in known:
        known[table]()


# --- Ethos-N -------------------------------------------------------------------------------------


def _ethosn() -> None:
    """Yes to a batch of 1, up to four axes, 8-bit values outside, layout NHWC, no dilation: what TVM itself
    checks before it asks the library, and the part of the library's answers that holds for every operator.
    The conversions agree to constants of the shapes that the patterns' comments name."""
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
    """The call, where its constant operand is one number (scalar) or one number a channel; else None."""
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
    """Nothing stands in for the package ethos-u-vela, which its checks import: where it is installed it is
    imported once, and not again in every process."""
    with contextlib.suppress(ImportError):
        importlib.import_module("ethosu.vela.api")


# --- TensorRT ------------------------------------------------------------------------------------


def _tensorrt() -> None:
    """The answers of a `tensorrt` target, of which the wheel does not define the kind: its documented
    defaults, but for the version, of which the default, 6.0.1, is too old for a part of the table."""
    from tvm.relay.op.contrib import tensorrt

    tensorrt.get_tensorrt_version = lambda: (8, 5, 3)
    tensorrt.get_tensorrt_use_implicit_batch_mode = lambda: True
    tensorrt.get_tensorrt_remove_no_mac_subgraphs = lambda: False
    tensorrt.get_tensorrt_use_fp16 = lambda: False


# --- CMSIS-NN ------------------------------------------------------------------------------------


def _cmsisnn() -> None:
    """GetEffectiveConv2DPadding: what nn.pad and the convolution behind it pad together, as top, left,
    bottom, right."""
    from tvm.relay.op.contrib import cmsisnn

    def padding(convolution: Any, pad: Any) -> Any:
        widths = [[int(n) for n in pair] for pair in pad.attrs.pad_width]
        layout = str(convolution.attrs.data_layout)
        h, w = widths[layout.index("H")], widths[layout.index("W")]
        own = [int(n) for n in convolution.attrs.padding]
        return [a + b for a, b in zip(own, (h[0], w[0], h[1], w[1]))]

    cmsisnn.GetEffectiveConv2DPadding = padding
