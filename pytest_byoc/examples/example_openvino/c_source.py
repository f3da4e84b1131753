"""From the model of a region to C. Knows neither IR."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from .library import find, version
from .net import DTYPES, Net

_RUNTIME = Path(__file__).with_name("runtime.c").read_text()


def generate(net: Net) -> str:
    """C11 with the arguments `<symbol>_arguments` and the function `const char* <symbol>_run(args)`, which
    returns an error or NULL. The caller copies the arguments, and sets their data and open extents."""
    s, xml, shapes, rows = net.symbol, net.xml(), [], []
    held = {tensor.layer: f"(char*){s}_weights + {offset}" for tensor, offset in net.held}
    for number, tensor in enumerate(net.tensors):
        shapes.append(f"static int64_t {s}_shape_{number}[] = {{{_list(tensor.type.dims or [0])}}};")
        data = held.get(tensor.layer, "NULL")
        rows.append(f"{{{DTYPES[tensor.type.dtype][2]}, {len(tensor.shape)}, {s}_shape_{number}, {data}}}")
    sources = [net.source_of(tensor) for tensor in net.outputs]
    # As words, since decimal digits would round.
    words = np.frombuffer(bytes(net.weights) + bytes(8 - len(net.weights) % 8), "<u8").tolist()
    # A string for each line: compilers limit the length of one.
    text = "\n  ".join(json.dumps(line + "\n") for line in xml.splitlines())
    release, newline = ".".join(map(str, version(find()))), "\n"
    return f"""\
{_RUNTIME}
static const unsigned long long {s}_weights[] __attribute__((aligned(64))) = {{
  {", ".join(f"{word:#x}" for word in words)}
}};
{newline.join(shapes)}
static const Argument {s}_arguments[] = {{
  {", ".join(rows)}
}};
static const char {s}_xml[] =
  {text};
static const int {s}_sources[] = {{{_list(sources)}}};
static Region {s}_region = {{
  "{s}", "{release}.", {s}_xml, sizeof {s}_xml - 1, {s}_weights, sizeof {s}_weights,
  {len(net.inputs)}, {len(net.outputs)}, {len(net.held)}, {s}_sources, NULL
}};
static void {s}_end(void) {{ release(&{s}_region); }}
static const char* {s}_run(const Argument* args) {{
  return example_openvino_run(&{s}_region, {s}_end, args);
}}
"""


def _list(values: Any) -> str:
    return ", ".join(map(str, values))
