"""example_onnxruntime: regions of TVM's operators as models of ONNX, for Relay and Relax.

It shows a codegen that translates whole regions into a format that another compiler reads. The artifact
holds the bytes of a model. The generated C looks up a packed function by its name in each call, and hands it
the model and the tensors. The function is written in Python here, since ONNX Runtime comes as a Python
package without headers. Install and run::

    pip install 'pytest-byoc[onnxruntime]'
    pytest --byoc-target=example_onnxruntime

File by file:

``operators.py``
    What is offloaded: a table of operators, each with a function that adds its nodes. Partitioner and
    generator ask the same function.
``relay.py``, ``relax.py``
    Partitioning, the way through a region, and the entry point by which TVM's runtime calls it, for each IR.
``model.py``
    The model that a region grows into, its bytes, and the C that holds them.
``runtime.py``
    The packed function. Whoever deploys an artifact imports this file, which needs TVM's runtime, NumPy and
    ONNX Runtime. A deployment without Python registers a function of the same name.

A region is as large as TVM's partitioner makes it. No patterns of several operators are needed, since ONNX
Runtime finds what can be fused. In Relax extents may be open.

Left to TVM: bfloat16, tensors without elements, and what ONNX Runtime computes wrongly (``operators.py``
says why); open extents in Relay.

What the generated code and its runtime take care of: sessions are made once for each content, under a lock,
and threads may share them; a limited number is kept; tensors are read and written in place; a call has one
thread; constants are in the artifact, exact; errors of ONNX Runtime become TVM's.
"""

from __future__ import annotations

import importlib
from typing import Any, Sequence

from . import runtime


class ExampleOnnxRuntime:
    """A target as pytest-byoc wants it: a name, IRs, the runtime, and how to partition."""

    name = "example_onnxruntime"
    ir = ("relay", "relax")
    libraries: Sequence[str] = (runtime.__file__,)

    def partition(self, mod: Any) -> Any:
        """Marks and cuts out of an IRModule what example_onnxruntime computes."""
        irs = {type(function).__module__.split(".")[1] for function in mod.functions.values()}
        for ir in self.ir:
            if ir in irs:
                return importlib.import_module(f"{__name__}.{ir}").partition_for_example_onnxruntime(mod)
        raise ValueError(f"example_onnxruntime: expected a module of {' or '.join(self.ir)}, not {irs}")


target = ExampleOnnxRuntime()
