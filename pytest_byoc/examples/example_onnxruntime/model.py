"""A model of ONNX that grows by nodes, its bytes, and C that holds them. Knows neither IR."""

from __future__ import annotations

import hashlib
from typing import Any, Callable, Dict, List, NamedTuple, Sequence, Tuple

import numpy as np

FUNCTION = "example_onnxruntime.run"
MISSING = (
    f"the global function {FUNCTION} is not registered with TVM: import example_onnxruntime's runtime.py "
    "before the artifact runs, or register a function of this name that takes two pointers, the region and "
    "its tensors"
)
# The oldest that has all operators and types that are used. ONNX Runtime reads it from version 1.17 on.
OPSET, IR_VERSION = 20, 9


class Unsupported(Exception):
    """Raised where a call stays with TVM."""


class Tensor(NamedTuple):
    """A value of the model. An open extent is an expression of TVM."""

    name: str
    shape: Tuple[Any, ...]
    dtype: str


class Model:
    """Values are tensors, or the names of tensors."""

    def __init__(self) -> None:
        self.inputs: List[Tensor] = []
        self.outputs: List[Tensor] = []
        self.nodes: List[Tuple[str, List[str], List[str], Dict[str, Any]]] = []
        self.constants: Dict[str, np.ndarray] = {}
        #: What adds the nodes that calculate a variable of TVM's, which stands for an extent. None are known
        #: before the region is.
        self.variables: Dict[Any, Callable[[], Any]] = {}

    def input(self, shape: Sequence[Any], dtype: str) -> Tensor:
        self.inputs.append(Tensor(f"input{len(self.inputs)}", tuple(shape), str(dtype)))
        return self.inputs[-1]

    def constant(self, data: Any) -> str:
        """data: an array, or integers."""
        name = f"constant{len(self.constants)}"
        self.constants[name] = data if isinstance(data, np.ndarray) else np.asarray(data, "int64")
        return name

    def node(self, operator: str, *inputs: Any, results: int = 0, **attrs: Any) -> Any:
        """Adds a node. Returns its result, or the list of so many results.

        inputs: values, "" for one that is left out, or what becomes a constant.
        """
        values = [getattr(value, "name", value) for value in inputs]
        names = [value if isinstance(value, str) else self.constant(value) for value in values]
        outputs = [f"{operator}{len(self.nodes)}_{i}" for i in range(max(results, 1))]
        self.nodes.append((operator, names, outputs, attrs))
        return outputs if results else outputs[0]

    def cast(self, value: Any, dtype: str) -> str:
        return str(self.node("Cast", value, to=np.dtype(dtype)))

    def arrange(self, value: Any, layout: str, wanted: str) -> Any:
        """The value with its axes in another order, such as NHWC as NCHW."""
        if sorted(layout) != sorted(wanted):
            raise Unsupported  # a layout in blocks
        axes = [layout.index(letter) for letter in wanted]
        return value if layout == wanted else self.node("Transpose", value, perm=axes)

    def extents(self, shape: Sequence[Any]) -> Any:
        """A shape as a value."""
        numbers = [getattr(extent, "value", extent) for extent in shape]
        if all(isinstance(number, int) for number in numbers):
            return numbers
        return self.node("Concat", *map(self._extent, shape), axis=0)

    def _extent(self, extent: Any) -> Any:
        """One extent as a value, calculated as TVM's expression says."""
        number = getattr(extent, "value", extent)
        if isinstance(number, int):
            return [number]
        kind = type(extent).__name__
        if kind == "Var":
            return self.variables[extent]() if self.variables else "x"
        if kind not in _CALCULATED:
            raise Unsupported
        return self.node(_CALCULATED[kind], self._extent(extent.a), self._extent(extent.b))

    def finish(self, outputs: Sequence[Tensor]) -> None:
        """Names the outputs. They may be inputs or constants, and a value may be there twice."""
        self.outputs = [tensor._replace(name=self.node("Identity", tensor)) for tensor in outputs]

    def serialize(self) -> bytes:
        """The model in ONNX's format."""
        from onnx import helper, numpy_helper  # where artifacts run it is not needed

        def type_of(dtype: Any) -> int:
            return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))

        # ONNX Runtime takes dimensions of one name for equal, and two variables of TVM may have one name.
        names: Dict[Any, str] = {}

        def info(tensor: Tensor) -> Any:
            shape = [n if isinstance(n, int) else names.setdefault(n, f"n{len(names)}") for n in tensor.shape]
            return helper.make_tensor_value_info(tensor.name, type_of(tensor.dtype), shape)

        nodes = []
        for operator, inputs, outputs, attrs in self.nodes:
            fields = {name: type_of(value) if name == "to" else value for name, value in attrs.items()}
            nodes.append(helper.make_node(operator, inputs, outputs, **fields))  # type: ignore[arg-type]
        graph = helper.make_graph(
            nodes, "region", list(map(info, self.inputs)), list(map(info, self.outputs)),
            [numpy_helper.from_array(np.asarray(a, order="C"), name) for name, a in self.constants.items()],
        )  # fmt: skip
        opsets = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
        return bytes(model.SerializeToString(deterministic=True))


# Extents are not negative, so that it does not matter how Div rounds.
_CALCULATED = {"Add": "Add", "Sub": "Sub", "Mul": "Mul", "FloorDiv": "Div", "Min": "Min", "Max": "Max"}


def generate(model: Model, symbol: str) -> str:
    """C with the table `<symbol>_region`, which the runtime reads."""
    data = model.serialize()
    # As words, which compile faster than bytes.
    words = np.frombuffer(data + bytes(-len(data) % 8), "<u8").tolist()
    return f"""\
typedef struct {{
  const char* digest;
  const void* model;
  int64_t bytes;
}} {symbol}_Region;
static const unsigned long long {symbol}_model[] = {{{", ".join(f"{word:#x}" for word in words)}}};
static const {symbol}_Region {symbol}_region = {{
  "{hashlib.sha256(data).hexdigest()}", {symbol}_model, {len(data)}
}};
"""
