"""example_c: a small, complete and correct codegen, made to be copied.

It compiles what it offloads to plain C, which TVM compiles into the exported library. Copy the
directory, replace the C by calls of your library, and cut the tables down to what it can do::

    pytest --byoc-target=example_c

How a model passes through it, file by file:

``relay.py`` and ``relax.py``
    One for each IR, the same four parts in both: what is offloaded, partitioning, code generation,
    and the entry point by which TVM's runtime calls the generated function. You need the one your
    TVM has. Each registers with TVM what TVM looks up by name, so importing it is enough.
``relay_operators.py``, ``relax_operators.py``, ``adapters.py``
    From TVM's operators to this codegen's kernels: one entry per operator, and a function that
    turns its attributes into plain Python values.
``subgraph.py``
    What is handed on: buffers and steps, without any TVM in it. ``fuse`` makes one step out of a
    composite (convolution, bias and relu, say).
``support.py``
    What is offloaded: dtypes in a table, conditions in a check per kernel. The partitioner's
    predicates and the code generator ask the same function, so the generator never has to refuse
    what the predicate promised. This is the rule most worth copying.
``kernels.py``, ``c_text.py``, ``c_source.py``
    The steps as C: one function of Python per kernel, and the frame around them.

Claimed, for float32 and float64, and int32 where it makes sense:

* composites: conv2d with bias and relu, dense with bias and relu, sigmoid or tanh, each of the
  additions optional;
* add, subtract, multiply, divide, maximum, bias_add, relu, leaky_relu, clip, sigmoid, tanh, exp,
  sqrt, abs, negative;
* conv2d, dense, batch_matmul, max_pool2d, avg_pool2d, global_avg_pool2d, softmax;
* sum, mean, max, reshape, squeeze, transpose, concatenate, split, strided_slice.

Not offloaded, on purpose, so that models are shared between this codegen and TVM's own: minimum,
expand_dims, log, power, floor, cast, where, everything not listed above, tensors with a dynamic
shape or without elements, slices that step backwards, pooling windows that see padding alone.

What the generated C takes care of, because codegens tend not to: it keeps no state, so that it can
be called from several threads and several times; it allocates its workspace per call and reports
when it can't; it never asks a tensor for its shape or dtype, which not every executor fills in; it
honours ``byte_offset``; its constants are exact, and named after the subgraph; an output may be an
input, a constant, or the same value as another output.
"""

from __future__ import annotations

import importlib
from typing import Any


class ExampleC:
    """A target as pytest-byoc wants it: a name, the IRs it is for, and how to partition."""

    name = "example_c"
    ir = ("relay", "relax")

    def load(self, ir: str) -> Any:
        """Register the codegen for one IR with TVM, which has to have that IR."""
        return importlib.import_module(f"{__name__}.{ir}")

    def partition(self, mod: Any) -> Any:
        """Mark and cut out of an IRModule what example_c computes."""
        # The module says which IR it is of. Asking TVM which of them it has would not do: there
        # are versions with both, and importing the one that is missing fails.
        irs = {type(function).__module__.split(".")[1] for function in mod.functions.values()}
        for ir in self.ir:
            if ir in irs:
                return self.load(ir).partition_for_example_c(mod)
        raise ValueError(f"example_c: expected a module of {' or '.join(self.ir)}, not {irs}")


target = ExampleC()
