"""From the layers of a region to C: ncnn's description of a net, and the call of the function that runs it.

Knows neither IR.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Dict, List, Optional, Sequence

import numpy as np

from .layers import Layer, Tensor

FUNCTION = "example_ncnn.run"
MISSING = (
    f"the global function {FUNCTION} is not registered with TVM: import example_ncnn's runtime.py before the "
    "artifact runs, or register a function of this name that takes two pointers, the region and its tensors"
)


class Region:
    """What one partitioned function computes: layers, of which some give the outputs."""

    def __init__(self, symbol: str) -> None:
        self.symbol = symbol
        self.inputs: List[Tensor] = []
        self.layers: List[Layer] = []
        self.outputs: List[Tensor] = []

    def input(self, shape: Sequence[Any], dtype: str) -> Tensor:
        self.inputs.append(Tensor(shape, dtype))
        return self.inputs[-1]

    def add(self, layer: Optional[Layer]) -> Tensor:
        """Appends a layer, which the predicates have promised, and returns its result."""
        if layer is None:
            raise NotImplementedError(f"no layer of ncnn for a composite of {self.symbol}")
        self.layers.append(layer)
        return layer.result


def generate(region: Region) -> str:
    """C with the table `<symbol>_region`, which the runtime reads."""
    weights = bytearray()
    lines: List[str] = []
    blobs: Dict[Tensor, str] = {}
    softmaxes = []

    def add(kind: str, sources: List[str], params: Dict[int, int]) -> str:
        name = f"{kind}{len(lines)}"
        values = [f"{key}={value}" for key, value in params.items()]
        lines.append(" ".join([kind, name, str(len(sources)), "1", *sources, name, *values]))
        return name

    for tensor in region.inputs:
        blobs[tensor] = add("Input", [], {})
    for layer in [part for whole in region.layers for part in (whole.before, whole) if part is not None]:
        source = blobs[layer.before.result if layer.before else layer.source]
        blobs[layer.result] = add(layer.kind, [source], layer.params)
        if layer.kind == "Softmax":
            softmaxes.append((source, blobs[layer.result], layer.params[0]))
        weights += b"".join(array.astype("<f4").tobytes() for array in layer.weights)
    inputs = [(blobs[tensor], tensor.shape[1:]) for tensor in region.inputs]
    outputs = [(blobs[tensor], tensor.shape[1:]) for tensor in region.outputs]
    count = len(lines)  # of layers and of blobs; 7767517 is how ncnn's text format begins
    param = "\n".join(["7767517", f"{count} {count}", *lines, ""])
    text = json.dumps({"param": param, "inputs": inputs, "outputs": outputs, "softmaxes": softmaxes})
    digest = hashlib.sha256(text.encode() + bytes(weights)).hexdigest()
    # As words, since decimal digits would round.
    words = np.frombuffer(bytes(weights) + bytes(8 - len(weights) % 8), "<u8").tolist()
    s = region.symbol
    return f"""\
typedef struct {{
  const char* digest;
  const char* description;
  const void* weights;
  int64_t bytes;
}} {s}_Region;
static const unsigned long long {s}_weights[] = {{{", ".join(f"{word:#x}" for word in words)}}};
static const {s}_Region {s}_region = {{
  "{digest}",
  {json.dumps(text)},
  {s}_weights, {len(weights)}
}};
"""
