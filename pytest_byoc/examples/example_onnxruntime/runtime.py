"""The runtime of example_onnxruntime: the packed function that artifacts call, which runs models of ONNX.

Import this file where artifacts are loaded. It imports TVM's runtime alone, NumPy and ONNX Runtime.
"""

from __future__ import annotations

import ctypes
import os
import re
import threading
from collections import OrderedDict
from typing import Any, List, Tuple

import numpy as np
import tvm

NAME = "example_onnxruntime.run"
VERSION = (1, 17)
#: The largest number of sessions that are kept.
LIMIT = 256
_REMEDY = "Install it with `pip install 'pytest-byoc[onnxruntime]'`."

# It starts a thread, which a forked process has not, and sends to the network.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
try:
    import onnxruntime
except ImportError as e:
    raise ImportError(f"example_onnxruntime: onnxruntime cannot be imported: {e}. {_REMEDY}") from None
_found = getattr(onnxruntime, "__version__", "of an unknown version")
if tuple(int(part) for part in re.findall(r"\d+", _found)[:2]) < VERSION:
    raise ImportError(
        f"example_onnxruntime: this is ONNX Runtime {_found}; {'.'.join(map(str, VERSION))} or later is "
        f"needed. {_REMEDY}"
    )
for _name in ("InferenceSession", "SessionOptions"):
    if not hasattr(onnxruntime, _name):
        raise ImportError(f"example_onnxruntime: ONNX Runtime {_found} has no {_name}. {_REMEDY}")

_DTYPES = {"float": "float32", "double": "float64"}


class _Region(ctypes.Structure):
    """The C struct of the same name."""

    _fields_ = [("digest", ctypes.c_char_p), ("model", ctypes.c_void_p), ("bytes", ctypes.c_int64)]


class _Tensor(ctypes.Structure):
    """DLTensor. Where Relay's AOT executor is the caller, it has no shape."""

    _fields_ = [
        ("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("ndim", ctypes.c_int32),
        ("dtype", ctypes.c_int32), ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.c_void_p), ("byte_offset", ctypes.c_uint64),
    ]  # fmt: skip


class Session:
    """A session of ONNX Runtime, and what its inputs and outputs are. Threads may share it."""

    def __init__(self, region: _Region) -> None:
        model = ctypes.string_at(region.model, region.bytes)
        options = onnxruntime.SessionOptions()
        # One thread, as the caller decides how many there are.
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.use_deterministic_compute = True
        options.log_severity_level = 4  # errors are raised, and need not be printed
        # In 1.23, a Pad that becomes a part of AveragePool is counted wrongly.
        given = {"providers": ["CPUExecutionProvider"], "disabled_optimizers": ["Pad_Fusion"]}
        try:
            self.session = onnxruntime.InferenceSession(model, options, **given)
        except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
            # Some fusions of 1.23 make nodes of float64 that it has no kernels for.
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
            self.session = onnxruntime.InferenceSession(model, options, **given)
        self.inputs = list(map(_described, self.session.get_inputs()))
        self.outputs = list(map(_described, self.session.get_outputs()))

    def run(self, tensors: List[Any]) -> None:
        """Runs the model on the memory of the tensors: the inputs, then the outputs."""
        binding = self.session.io_binding()
        binds = [binding.bind_input] * len(self.inputs) + [binding.bind_output] * len(self.outputs)
        for bind, (name, dtype, extents), pointer in zip(binds, self.inputs + self.outputs, tensors):
            tensor = pointer.contents
            shape = [n if isinstance(n, int) else tensor.shape[i] for i, n in enumerate(extents)]
            bind(name, "cpu", 0, dtype, shape, tensor.data + tensor.byte_offset)
        self.session.run_with_iobinding(binding)


def _described(value: Any) -> Tuple[str, Any, List[Any]]:
    """Name, dtype and shape of an input or output. An open extent is a string or None."""
    kind = value.type[len("tensor(") : -1]
    return value.name, np.dtype(_DTYPES.get(kind, kind)), value.shape


_sessions: OrderedDict[bytes, Session] = OrderedDict()
_lock = threading.Lock()


def _session(region: _Region) -> Session:
    """The session of a region. Regions with the same content share one; the least recently used are freed."""
    with _lock:
        session = _sessions.pop(region.digest, None) or Session(region)
        _sessions[region.digest] = session
        if len(_sessions) > LIMIT:
            _sessions.popitem(last=False)
        return session


def run(region: ctypes.c_void_p, tensors: Any) -> None:
    """Runs a region. tensors: an array of pointers to its inputs and outputs."""
    session = _session(ctypes.cast(region, ctypes.POINTER(_Region)).contents)
    count = len(session.inputs) + len(session.outputs)
    session.run((ctypes.POINTER(_Tensor) * count).from_address(tensors.value)[:])


def run_for_relay(region: ctypes.c_void_p, tensors: Any) -> str:
    """The same. Returns the message of an exception, which Relay's TVM loses on the way through C."""
    try:
        run(region, tensors)
    except Exception as e:
        return f"example_onnxruntime: {type(e).__name__}: {e}"
    return ""


if hasattr(tvm, "register_global_func"):
    tvm.register_global_func(NAME, run, override=True)
else:
    tvm.register_func(NAME, run_for_relay, override=True)
