"""example_dnnl: TVM's operators as primitives of oneDNN (its C API, version 3), for Relay and Relax.

It shows what a codegen for a library of operators needs that one which writes loops does not: the
library is found, linked and loaded, primitives are made once and executed by several threads, and
the library chooses the layouts of weights and of what lies between two layers. Install and run::

    pip install 'pytest-byoc[dnnl]'
    pytest --byoc-target=example_dnnl

File by file:

``steps.py``
    What is offloaded: each operator of TVM as a primitive with its operands, or None. Epilogues are
    merged into convolutions and matrix products. Partitioner and generator ask the same functions.
``relay.py``, ``relax.py``
    Patterns, partitioning and the entry point by which TVM's runtime calls a region, for each IR.
``c_source.py``, ``runtime.c``
    Tables in C, and the C code that makes primitives of them at the first call, and executes them.
``library.py``
    Where oneDNN is, and how a region is linked with it.

Offloaded, in float32: conv2d (any groups, dilation, paddings), dense, matmul, batch_matmul, each with
bias, addend and relu, sigmoid or tanh as one primitive; add, subtract, multiply, divide, maximum,
minimum, bias_add, concatenate; relu, leaky_relu, sigmoid, tanh, sqrt, abs, negative; avg_pool2d,
max_pool2d, softmax, batch_norm, layer_norm. In bfloat16: contractions, binary operators, relu, avg_pool2d,
concatenate. Products of int8 (or uint8) and int8 give int32.

Left to TVM: what oneDNN computes less precisely than float32 allows, or wrongly (``steps.py`` says why:
exp, log, gelu), other dtypes, dynamic shapes, tensors without elements or with more than five axes,
pooling windows that see padding alone. Softmax of NaN and max_pool2d of -inf, which oneDNN gets wrong
as well, are offloaded, and set right by ``runtime.c``.

What the generated code takes care of: primitives and reordered weights are made once, under a lock, and
are only read from then on; memory objects, workspace and scratchpads belong to one call; all handles are
freed when the library is unloaded; errors of oneDNN become TVM's, with the name of the function; an
artifact that finds another version of oneDNN says so.
"""

from __future__ import annotations

import importlib
from typing import Any, Dict, List

from . import library


class ExampleDnnl:
    """A target as pytest-byoc wants it: a name, IRs, the library, and how to partition."""

    name = "example_dnnl"
    ir = ("relay", "relax")
    # Regions made of tuples alone are copied by the runtime.
    trivial_regions = ("identity", "empty", "duplicate")

    def __init__(self) -> None:
        self.libraries: List[str] = [library.find()]
        self.export_options: Dict[str, Any] = library.export_options(self.libraries[0])

    def partition(self, mod: Any) -> Any:
        """Mark and cut out of an IRModule what example_dnnl computes."""
        irs = {type(function).__module__.split(".")[1] for function in mod.functions.values()}
        for ir in self.ir:
            if ir in irs:
                return importlib.import_module(f"{__name__}.{ir}").partition_for_example_dnnl(mod)
        raise ValueError(f"example_dnnl: expected a module of {' or '.join(self.ir)}, not {irs}")


target = ExampleDnnl()
