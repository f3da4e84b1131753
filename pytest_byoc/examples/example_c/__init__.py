"""example_c: a small, complete and correct codegen, made to be copied.

It generates plain C for the operators that it offloads, and TVM compiles that C into the exported
library. To start your own codegen, copy the directory, replace the C by calls of your library, and
reduce the tables to the operators that your library has. This command tests the original::

    pytest --byoc-target=example_c

A model passes through these files:

``relay.py`` and ``relax.py``
    There is one file for each IR, with the same four parts in both: the choice of what is
    offloaded, partitioning, code generation, and the entry point by which TVM's runtime calls the
    generated function. You need only the one for the IR of your TVM. Importing the file registers
    the names that TVM looks up.
``relay_operators.py``, ``relax_operators.py``, ``adapters.py``
    These map TVM's operators to this codegen's kernels. Each operator has one entry, with a
    function that converts its attributes to plain Python values.
``subgraph.py``
    A subgraph consists of buffers and steps, and does not depend on TVM. ``fuse`` makes one step
    out of the steps of a composite, for example of a convolution, a bias and a relu.
``support.py``
    This file decides what is offloaded: a table lists the dtypes of each kernel, and a check per
    kernel tests further conditions. The predicates of partitioning and the code generator call the
    same function, so the generator never refuses a step that the predicate has accepted. Keep this
    rule in your own codegen.
``extent.py``, ``relax_extents.py``
    Extents that are open when a model is compiled: kernels calculate with C expressions in their
    place, and the entry point reads their values from the arguments.
``kernels.py``, ``c_text.py``, ``c_source.py``
    These write the steps as C: one Python function per kernel, and the C function around them.

Offloaded, for float32 and float64, and for int32 where ``support.py`` says so:

* composites: conv2d with bias and relu; dense with bias and relu, sigmoid or tanh; the bias and
  the activation are optional;
* add, subtract, multiply, divide, maximum, bias_add, relu, leaky_relu, clip, sigmoid, tanh, exp,
  sqrt, abs, negative;
* conv2d, dense, batch_matmul, max_pool2d, avg_pool2d, global_avg_pool2d, softmax;
* sum, mean, max, reshape, squeeze, transpose, concatenate, split, strided_slice.

Everything else is left to TVM, so that most models are divided between this codegen and TVM's own.
Examples are minimum, expand_dims, log, power, floor, cast, where, tensors without elements, slices
that step backwards, and pooling windows that contain only padding. Extents may be open in Relax, where
their variables are known; where a kernel has to know an extent, or in Relay, TVM computes the tensor.

The generated C observes some rules that codegens often break:

* It keeps no state, so several threads may call it, and each may call it several times.
* It allocates its workspace in each call, and returns an error if there is no memory.
* It never reads the shape or dtype of a tensor, because not every executor sets them. Open extents,
  which only the VM runs, are the exception, and each call reads them.
* It adds ``byte_offset`` to every data pointer.
* Its constants are exact, and their names contain the name of the subgraph.
* An output may be an input, a constant, or the same value as another output.
"""

from __future__ import annotations

import importlib
from typing import Any


class ExampleC:
    """A target for pytest-byoc: it has a name, a tuple of IRs, and a method that partitions."""

    name = "example_c"
    ir = ("relay", "relax")

    def load(self, ir: str) -> Any:
        """Imports the codegen for one IR, which registers it with TVM. TVM must have that IR."""
        return importlib.import_module(f"{__name__}.{ir}")

    def partition(self, mod: Any) -> Any:
        """Returns the IRModule with the regions that example_c computes as functions of their own."""
        # The types of the functions tell the IR. The version of TVM would not: some versions have
        # both IRs, and importing a missing one fails.
        irs = {type(function).__module__.split(".")[1] for function in mod.functions.values()}
        for ir in self.ir:
            if ir in irs:
                return self.load(ir).partition_for_example_c(mod)
        raise ValueError(f"example_c: expected a module of {' or '.join(self.ir)}, not {irs}")


target = ExampleC()
