"""A region as a model in OpenVINO's own format: layers in XML, constants in one block of bytes.

It is written by hand, because the Python package would have to be imported for it (`library.py` says why it
is not). The library reads the model, infers every shape again, and refuses what does not fit.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

#: By TVM's dtype: OpenVINO's names in a layer, at a port, and in C.
DTYPES = {
    "float32": ("f32", "FP32", "F32"), "bool": ("boolean", "BOOL", "BOOLEAN"), "int64": ("i64", "I64", "I64"),
}  # fmt: skip


class Type(NamedTuple):
    """The type of a tensor. An open extent is any value but an int; two are the same if they are equal."""

    shape: Tuple[Any, ...]
    dtype: str

    @property
    def dims(self) -> List[int]:
        """The extents, -1 for open ones."""
        return [extent if isinstance(extent, int) else -1 for extent in self.shape]

    @property
    def is_closed(self) -> bool:
        return -1 not in self.dims


class Tensor(NamedTuple):
    """The result of a layer; or a constant of TVM's, with its values, that has no layer yet."""

    layer: int
    type: Type
    data: Optional[np.ndarray] = None

    @property
    def shape(self) -> Tuple[Any, ...]:
        return self.type.shape


def constant(array: np.ndarray) -> Tensor:
    """A constant of TVM's, which the layer that reads it adds to the model."""
    return Tensor(-1, Type(tuple(array.shape), str(array.dtype)), array)


class Net:
    """A model: `outputs` may hold inputs, constants, and a tensor twice."""

    def __init__(self, symbol: str = "") -> None:
        self.symbol = symbol
        self.inputs: List[Tensor] = []
        #: Constants that are further inputs of the model, with the offsets of their values in `weights`.
        self.held: List[Tuple[Tensor, int]] = []
        self.outputs: List[Tensor] = []
        self.weights = bytearray()
        self._layers: List[str] = []
        self._edges: List[str] = []
        self._ports: List[int] = []

    def input(self, type_: Type) -> Tensor:
        """Appends an input. All of them come before the first layer."""
        self.inputs.append(self._parameter(type_))
        return self.inputs[-1]

    def _parameter(self, type_: Type) -> Tensor:
        shape = ",".join("?" if extent < 0 else str(extent) for extent in type_.dims)
        data = {"shape": shape, "element_type": DTYPES[type_.dtype][0]}
        return self._add("Parameter", [], type_, data)

    def number(self, value: float) -> Tensor:
        return self._constant(np.array(value, "float32"))

    def integers(self, values: Sequence[int]) -> Tensor:
        return self._constant(np.array(values, "int64"))

    def _constant(self, array: np.ndarray) -> Tensor:
        self.weights += bytes(-len(self.weights) % 64)
        type_, offset = Type(tuple(array.shape), str(array.dtype)), len(self.weights)
        self.weights += array.tobytes()
        if type_.dtype == "float32" and np.any((array != 0) & (np.abs(array) < np.finfo("float32").tiny)):
            # OpenVINO makes zero of subnormal numbers in constants, also where they are only moved.
            self.held.append((self._parameter(type_), offset))
            return self.held[-1][0]
        data = {
            "element_type": DTYPES[type_.dtype][0], "shape": ",".join(map(str, array.shape)),
            "offset": offset, "size": array.nbytes,
        }  # fmt: skip
        return self._add("Const", [], type_, data)

    def add(self, kind: str, sources: Sequence[Tensor], type_: Type, **data: Any) -> Tensor:
        """Appends a layer. kind: its name, and the number of its operation set if that is not the first."""
        return self._add(kind, sources, type_, data)

    def _add(self, kind: str, sources: Sequence[Tensor], type_: Type, data: Dict[str, Any]) -> Tensor:
        sources = [s if s.data is None else self._constant(s.data) for s in sources]
        number = len(self._layers)
        name, _, opset = kind.partition("-")
        attributes = " ".join(f'{key}="{_text(value)}"' for key, value in data.items())
        ports = "".join(f'<port id="{i}" precision="{_precision(s.type)}"/>' for i, s in enumerate(sources))
        result = f'<output><port id="{len(sources)}" precision="{_precision(type_)}"/></output>'
        self._layers.append(
            f'<layer id="{number}" name="{name}{number}" type="{name}" version="opset{opset or 1}">'
            f"<data {attributes}/><input>{ports}</input>{'' if name == 'Result' else result}</layer>"
        )
        for i, source in enumerate(sources):
            port = self._ports[source.layer]
            self._edges.append(
                f'<edge from-layer="{source.layer}" from-port="{port}" to-layer="{number}" to-port="{i}"/>'
            )
        self._ports.append(len(sources))
        return Tensor(number, type_)

    @property
    def tensors(self) -> List[Tensor]:
        """What the model reads and writes: inputs, outputs, constants that are inputs."""
        return [*self.inputs, *self.outputs, *(tensor for tensor, _ in self.held)]

    def source_of(self, output: Tensor) -> int:
        """The number (in `tensors`) of the input that an output is, or -1. OpenVINO writes no such outputs,
        and takes their memory for the input's."""
        inputs = [tensor.layer for tensor in self.tensors]
        inputs[len(self.inputs) : len(self.inputs) + len(self.outputs)] = [-1] * len(self.outputs)
        return inputs.index(output.layer) if output.layer in inputs else -1

    def xml(self) -> str:
        """The model. To be called once, when it is complete."""
        self.outputs = [t if t.data is None else self._constant(t.data) for t in self.outputs]
        for output in self.outputs:
            if self.source_of(output) < 0:
                self._add("Result", [output], output.type, {})
        layers, edges = "\n".join(self._layers), "\n".join(self._edges)
        return (
            f'<?xml version="1.0"?>\n<net name="{self.symbol}" version="11">\n<layers>\n{layers}\n</layers>\n'
            f"<edges>\n{edges}\n</edges>\n</net>\n"
        )


def _precision(type_: Type) -> str:
    return DTYPES[type_.dtype][1]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
