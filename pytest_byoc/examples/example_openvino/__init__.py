"""example_openvino: regions as models of OpenVINO (its C API), for Relay and Relax.

It shows a codegen for a graph compiler: regions are as large as TVM can merge them, and the other compiler
fuses what is in them, with its own numerics. Install and run::

    pip install 'pytest-byoc[openvino]'
    pytest --byoc-target=example_openvino

File by file:

``operators.py``
    What is offloaded: each operator of TVM as layers of OpenVINO, or None. Partitioner and generator ask
    the same function.
``net.py``
    A model in OpenVINO's own format: layers in XML, weights in one block of bytes.
``relay.py``, ``relax.py``
    Patterns, partitioning and the entry point by which TVM's runtime calls a region, for each IR.
``c_source.py``, ``runtime.c``
    The model as C, and the C code that lets OpenVINO compile it at the first call, and runs it.
``library.py``
    Where OpenVINO is, and how a region is linked with it.

Offloaded, in float32: what ``operators.OPERATORS`` lists (convolutions, products, pooling, normalisations,
reductions, elementwise operators, shapes), comparisons and ``where`` with bool; in Relax with open extents
too.

Left to TVM: what OpenVINO computes less precisely than float32 allows (exp, erf, gelu, softplus), other
dtypes, open extents in Relay, tensors without elements, slices and broadcasts along open extents, pooling
windows that see padding alone. Wrong results for NaN and infinity are set right by further layers
(softmax, max_pool, max, min).

What the generated code takes care of: a model is compiled once for each shape, under a lock; requests belong
to one call at a time; all is freed before OpenVINO's plugins are; errors of OpenVINO become TVM's; an
artifact that finds another version of OpenVINO says so.
"""

from __future__ import annotations

import importlib
from typing import Any, Dict, List

from . import library


class ExampleOpenvino:
    """A target as pytest-byoc wants it: a name, IRs, the library, and how to partition."""

    name = "example_openvino"
    ir = ("relay", "relax")

    def __init__(self) -> None:
        self.libraries: List[str] = [library.find()]
        self.export_options: Dict[str, Any] = library.export_options(self.libraries[0])

    def partition(self, mod: Any) -> Any:
        """Marks and cuts out of an IRModule what example_openvino computes."""
        irs = {type(function).__module__.split(".")[1] for function in mod.functions.values()}
        for ir in self.ir:
            if ir in irs:
                return importlib.import_module(f"{__name__}.{ir}").partition_for_example_openvino(mod)
        raise ValueError(f"example_openvino: expected a module of {' or '.join(self.ir)}, not {irs}")


target = ExampleOpenvino()
