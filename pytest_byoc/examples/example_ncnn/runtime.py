"""The runtime of example_ncnn: the packed function that artifacts call, which runs nets of ncnn.

Import this file where artifacts are loaded. It imports TVM's runtime alone, and ncnn.
"""

from __future__ import annotations

import ctypes
import json
import re
import threading
from collections import OrderedDict
from typing import Any, Dict, List, Tuple

import numpy as np
import tvm

NAME = "example_ncnn.run"
VERSION = (1, 0, 20250503)
#: The largest number of nets that are kept.
LIMIT = 256
_REMEDY = "Install it with `pip install 'pytest-byoc[ncnn]'`."

try:
    import ncnn
except ImportError as e:
    raise ImportError(f"example_ncnn: ncnn cannot be imported: {e}. {_REMEDY}") from None
_found = getattr(ncnn, "__version__", "of an unknown version")
if tuple(int(part) for part in re.findall(r"\d+", _found)[:3]) < VERSION:
    raise ImportError(
        f"example_ncnn: this is ncnn {_found}; {'.'.join(map(str, VERSION))} or later is needed. {_REMEDY}"
    )
for _name in ("Net", "Mat", "DataReader"):
    if not hasattr(ncnn, _name):
        raise ImportError(f"example_ncnn: ncnn {_found} has no {_name}. {_REMEDY}")

_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_memory = ctypes.pythonapi.PyMemoryView_FromMemory
_memory.restype, _memory.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int]
_WRITABLE = 0x200  # PyBUF_WRITE


class _Region(ctypes.Structure):
    """The C struct of the same name."""

    _fields_ = [
        ("digest", ctypes.c_char_p), ("description", ctypes.c_char_p), ("weights", ctypes.c_void_p),
        ("bytes", ctypes.c_int64),
    ]  # fmt: skip


class _Weights(ncnn.DataReader):  # type: ignore[misc]
    """Lets ncnn read the weights of a region, in the order of its layers."""

    def __init__(self, region: _Region) -> None:
        super().__init__()
        self._position, self._left = region.weights, region.bytes

    def read(self, buffer: Any, size: int) -> int:
        size = min(size, self._left)
        ctypes.memmove(_pointer_of(buffer, None), self._position, size)
        self._position += size
        self._left -= size
        return size


class Net:
    """A net of ncnn, and what its inputs and outputs are. It is only read once it has been made."""

    def __init__(self, region: _Region) -> None:
        description: Dict[str, Any] = json.loads(region.description)
        self.inputs: List[Tuple[str, List[int]]] = description["inputs"]
        self.outputs: List[Tuple[str, List[int]]] = description["outputs"]
        #: Source, result and axis of each softmax, in the order of the layers.
        self.softmaxes: List[Tuple[str, str, int]] = description["softmaxes"]
        self.net = ncnn.Net()
        options = self.net.opt
        # One thread, as the caller decides how many there are.
        options.num_threads = 1
        # A blob may have several readers. ncnn's default frees it after the first.
        options.lightmode = False
        for name in dir(options):
            # Storage in 16 bits has 8 or 11 bits of precision. Winograd's algorithm subtracts inputs from
            # each other, so that one infinity makes NaN of several results.
            if re.match("use_(fp16|bf16|winograd)", name):
                setattr(options, name, False)
        if self.net.load_param_mem(description["param"]) or self.net.load_model(_Weights(region)):
            raise RuntimeError("example_ncnn: ncnn does not load the net of a region")

    def run(self, data: List[Any]) -> None:
        """Runs the net. data: the addresses of inputs and outputs."""
        extractor = self.net.create_extractor()
        views = []
        for pointer, (blob, shape) in zip(data, self.inputs):
            views.append(_array(pointer, shape))
            mat = ncnn.Mat(views[-1])
            # ncnn reads the input where it is, unless it is not aligned as ncnn's layers expect it: they
            # load vectors, and compute where a channel begins from its size rounded up to 16 bytes.
            if pointer % 64 or (len(shape) > 2 and mat.cstep % 4):
                mat = mat.clone()
            _check(extractor.input(blob, mat), blob)
        for source, blob, axis in self.softmaxes:
            # Where a row holds NaN or +inf, TVM's softmax is NaN. ncnn's has numbers there, since its exp
            # limits its operand. The layers behind it have not run yet, and read what is set here.
            rows = ~(_extract(extractor, source).numpy().max(axis, keepdims=True) < np.inf)
            if rows.any():
                mat = _extract(extractor, blob)
                np.copyto(mat.numpy(), np.nan, where=rows)
                _check(extractor.input(blob, mat), blob)
        for pointer, (blob, shape) in zip(data[len(self.inputs) :], self.outputs):
            # A channel of ncnn may be followed by padding, so this is a copy.
            np.copyto(_array(pointer, shape), _extract(extractor, blob).numpy().reshape(shape))


def _array(pointer: int, shape: List[int]) -> np.ndarray:
    """The memory of a tensor as an array."""
    memory = _memory(pointer, 4 * int(np.prod(shape)), _WRITABLE)
    return np.frombuffer(memory, "float32").reshape(shape)


def _extract(extractor: Any, blob: str) -> Any:
    """The result of a layer, which runs if it has not yet, after the layers that it needs."""
    status, mat = extractor.extract(blob)
    _check(status, blob)
    return mat


def _check(status: int, blob: str) -> None:
    if status:
        raise RuntimeError(f"example_ncnn: ncnn ends with {status} at {blob}")


_nets: OrderedDict[bytes, Net] = OrderedDict()
_lock = threading.Lock()


def _net(region: _Region) -> Net:
    """The net of a region. Regions with the same content share one; the least recently used are freed."""
    with _lock:
        net = _nets.pop(region.digest, None) or Net(region)
        _nets[region.digest] = net
        if len(_nets) > LIMIT:
            _nets.popitem(last=False)
        return net


def run(region: ctypes.c_void_p, data: Any) -> None:
    """Runs a region. data: an array of the addresses of its inputs and outputs."""
    net = _net(ctypes.cast(region, ctypes.POINTER(_Region)).contents)
    count = len(net.inputs) + len(net.outputs)
    net.run((ctypes.c_void_p * count).from_address(data.value)[:])


def run_for_relay(region: ctypes.c_void_p, data: Any) -> str:
    """The same. Returns the message of an exception, which Relay's TVM loses on the way through C."""
    try:
        run(region, data)
    except Exception as e:
        return f"{type(e).__name__}: {e}"
    return ""


if hasattr(tvm, "register_global_func"):
    tvm.register_global_func(NAME, run, override=True)
else:
    tvm.register_func(NAME, run_for_relay, override=True)
