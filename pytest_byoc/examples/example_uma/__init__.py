"""example_uma: an accelerator in the manner of UMA, for Relay and Relax::

    pytest --byoc-target=example_uma

UMA is TVM's interface for accelerators: a class that registers patterns, passes and code. TVM's wheels lack
its half in C++, so that this example has it in Python. File by file:

``accelerator.py``
    The vendor's class: what is offloaded, passes, and the code that regions need.
``backend.py``
    The class from which it derives, with UMA's methods.
``relay.py``, ``relax.py``
    Patterns, partitioning, and how a region becomes a function in TIR, and that C, in each IR.
``multiply_add.py``
    The pass that gives sums of products to the accelerator, with the strides of their loops.
``accelerator.c``
    The accelerator, which is simulated.

Offloaded: convolutions of one group with channels first, and products of matrices, in float32, or of int8
with a result in int32; addition, multiplication and relu, which TVM writes in C.

Left to TVM: other dtypes and layouts, groups, tensors without elements, in Relax operands with calculated
extents like n + 1; subtraction, of which TVM makes 0 if both operands are one tensor, also where it is
infinite.
"""

from __future__ import annotations

import importlib
from typing import Any, Dict


class ExampleUma:
    """A target as pytest-byoc wants it: a name, IRs, and how to partition."""

    name = "example_uma"
    ir = ("relay", "relax")
    #: Overflows of integers wrap around, as in TVM; C leaves them undefined.
    export_options = {"options": ["-O2", "-fwrapv"]}

    def __init__(self) -> None:
        self._backends: Dict[str, Any] = {}

    def backend(self, ir: str) -> Any:
        """Returns the backend for an IR, registered with TVM."""
        if ir not in self._backends:
            accelerator = importlib.import_module(f"{__name__}.accelerator")
            self._backends[ir] = accelerator.Accelerator(ir)
            self._backends[ir].register()
        return self._backends[ir]

    def partition(self, mod: Any) -> Any:
        """Cuts out of an IRModule what the accelerator computes."""
        irs = {type(function).__module__.split(".")[1] for function in mod.functions.values()}
        for ir in self.ir:
            if ir in irs:
                return self.backend(ir).partition(mod)
        raise ValueError(f"example_uma: expected a module of {' or '.join(self.ir)}, not {irs}")


target = ExampleUma()
