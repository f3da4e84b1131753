"""example_ncnn: TVM's operators as nets of ncnn, run by a packed function, for Relay and Relax.

It shows a codegen whose artifact holds a description, and leaves the work to a runtime outside of it. The
generated C looks up a packed function by its name in each call, and hands it the description and the
tensors. The function is written in Python here, since ncnn comes as a Python package. Install and run::

    pip install 'pytest-byoc[ncnn]'
    pytest --byoc-target=example_ncnn

File by file:

``layers.py``
    What is offloaded: each composite as a layer of ncnn, or None. Partitioner and generator ask the same
    function.
``relay.py``, ``relax.py``
    Patterns, partitioning, and the entry point by which TVM's runtime calls a region, for each IR. The
    entry point calls the packed function, or says that it is not registered.
``c_source.py``
    The layers of a region as ncnn's text format, in JSON, and their weights as ncnn reads them.
``runtime.py``
    The packed function. Whoever deploys an artifact imports this file, which needs TVM's runtime, NumPy and
    ncnn. A deployment without Python registers a function of the same name.

Offloaded, in float32, for a batch of one: conv2d (NCHW, any groups, strides, paddings, dilation) and dense
layers (matmul in Relax, its weights transposed or not) with constant weights, each with constant bias and
relu in the same layer; max_pool2d, avg_pool2d, softmax, reshape. A region is one net, of as many layers as
can be merged.

Left to TVM: larger batches, since ncnn's layers compute one sample, and the layers of a region need not
have the same batch; weights that are inputs, which ncnn cannot prepare when it loads a net; what ncnn
computes wrongly or cannot (``layers.py`` says why: dilated pooling, some windows that reach beyond the
padding, softmax along the axis of the batch); other dtypes, dynamic shapes, tensors without elements.

What the generated code and its runtime take care of: nets are made once for each content, under a lock, and
are only read from then on; a limited number is kept; inputs are read in place where ncnn's alignment allows
it; a softmax of NaN or +inf is set right before the next layer reads it; constants are in the artifact,
exact; errors of ncnn become TVM's.
"""

from __future__ import annotations

import importlib
from typing import Any, Sequence

from . import runtime


class ExampleNcnn:
    """A target as pytest-byoc wants it: a name, IRs, the runtime, and how to partition."""

    name = "example_ncnn"
    ir = ("relay", "relax")
    # ncnn sets both flags of the CPU while it runs (`flush_denormals` of its options, 3 by default).
    flush_subnormals = True
    libraries: Sequence[str] = (runtime.__file__,)

    def partition(self, mod: Any) -> Any:
        """Marks and cuts out of an IRModule what example_ncnn computes."""
        irs = {type(function).__module__.split(".")[1] for function in mod.functions.values()}
        for ir in self.ir:
            if ir in irs:
                return importlib.import_module(f"{__name__}.{ir}").partition_for_example_ncnn(mod)
        raise ValueError(f"example_ncnn: expected a module of {' or '.join(self.ir)}, not {irs}")


target = ExampleNcnn()
