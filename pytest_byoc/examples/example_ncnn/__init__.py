"""example_ncnn: TVM's operators as nets of ncnn, run by a packed function, for Relay and Relax."""

from __future__ import annotations

import importlib
from typing import Any, Sequence

from . import runtime


class ExampleNcnn:
    """A target as pytest-byoc wants it: a name, IRs, the runtime, and how to partition."""

    name = "example_ncnn"
    ir = ("relay", "relax")
    # Regions made of tuples alone are copied by the runtime.
    trivial_regions = ("identity", "empty", "duplicate")
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
