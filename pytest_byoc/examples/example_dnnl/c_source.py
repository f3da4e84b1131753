"""From the steps of a region to C: the tables that `runtime.c` reads. Knows neither IR."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Sequence

import numpy as np

from .steps import DTYPES, Operand, Step, Tensor

_RUNTIME = Path(__file__).with_name("runtime.c").read_text()


class Region:
    """What one partitioned function computes: `outputs` may hold inputs, constants, and a tensor twice."""

    def __init__(self, symbol: str) -> None:
        self.symbol = symbol
        self.inputs: List[Tensor] = []
        self.constants: List[Tensor] = []
        self.steps: List[Step] = []
        self.outputs: List[Tensor] = []

    def input(self, shape: Sequence[Any], dtype: str) -> Tensor:
        self.inputs.append(Tensor(shape, dtype))
        return self.inputs[-1]

    def constant(self, data: np.ndarray, dtype: str) -> Tensor:
        self.constants.append(Tensor(data.shape, dtype, data))
        return self.constants[-1]


def generate(region: Region, error: str) -> str:
    """C11 with the function `<symbol>_run(void* const* args, int count)`; the data pointers of inputs and
    outputs are its arguments. error: a C expression that reports the message `error` to TVM."""
    tensors = [*region.inputs, *region.constants, *(step.result for step in region.steps)]
    numbers = {tensor: number for number, tensor in enumerate(tensors, 1)}
    s, parts = region.symbol, [_RUNTIME]
    rows = ["{0}"]
    for tensor, number in numbers.items():
        if tensor.data is not None:
            # As words, since decimal digits would round.
            data = tensor.data.tobytes()
            words = np.frombuffer(data + bytes(-len(data) % 8), "<u8").tolist()
            parts.append(
                f"static const unsigned long long {s}_constant_{number}[] __attribute__((aligned(64))) = "
                f"{{{', '.join(f'{word:#x}' for word in words)}}};"
            )
        pointer = "NULL" if tensor.data is None else f"{s}_constant_{number}"
        shape = tensor.shape or (1,)
        size = int(np.prod(shape)) * (2 if tensor.dtype == "bfloat16" else np.dtype(tensor.dtype).itemsize)
        kind = DTYPES.get(tensor.dtype) if len(shape) <= 5 and size else None
        kind = kind or "dnnl_data_type_undef"  # such a tensor is only passed through
        rows.append(f"{{{kind}, {len(shape)}, {size}, {_list(shape)}, {pointer}}}")
    parts.append(f"static const Tensor {s}_tensors[] = {{\n  " + ",\n  ".join(rows) + "\n};")

    rows = []
    for i, step in enumerate(region.steps):
        operands = ",\n  ".join(_operand(operand, numbers) for operand in step.operands)
        parts.append(f"static const Operand {s}_operands_{i}[] = {{\n  {operands}\n}};")
        fields = "".join(f", .{name} = {_value(value)}" for name, value in sorted(step.fields.items()))
        name = f"{step.kind[5:]} of {s}"
        rows.append(f'{{.kind = {step.kind}, .name = "{name}", .operands = {len(step.operands)}, '
                    f".operand = {s}_operands_{i}{fields}}}")
    parts.append(f"static const Step {s}_steps[] = {{\n  " + ",\n  ".join(rows or ["{0}"]) + "\n};")
    outputs = ", ".join(str(numbers[tensor]) for tensor in region.outputs)
    parts.append(f"static const int {s}_outputs[] = {{{outputs}}};")
    counts = f"{len(tensors) + 1}, {len(rows)}, {len(region.inputs)}, {len(region.outputs)}"
    parts.append(f"""\
static const Tables {s}_tables = {{{counts}, {s}_tensors, {s}_steps, {s}_outputs}};
static Region {s}_region;
static __attribute__((destructor)) void {s}_end(void) {{ release(&{s}_region); }}
static int {s}_run(void* const* args) {{
  const char* const error = example_dnnl_run(&{s}_region, &{s}_tables, args);
  if (error != NULL) {error};
  return error == NULL ? 0 : -1;
}}
""")
    return "\n".join(parts)


def _operand(operand: Operand, numbers: Dict[Tensor, int]) -> str:
    code, tensor, dims, axes, layout = operand
    return f"{{{code}, {numbers[tensor]}, {layout}, {len(dims)}, {_list(dims)}, {_list(axes)}}}"


def _list(values: Sequence[int]) -> str:
    return "{" + ", ".join(map(str, values)) + "}"


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{float(np.float32(value)).hex()}f"
    return _list(value) if isinstance(value, (list, tuple)) else str(value)
