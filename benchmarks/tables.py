"""The pattern tables inside TVM as targets that partition and are never built:
`tables.py:relay_dnnl` …

Most of their runtimes are in no wheel, but TVM can partition with the tables all the same, which is
all that `benchmarks/directed.py` needs.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import stand_ins

#: The modules that register the tables, by the table's name.
RELAY = {
    "arm_compute_lib": "arm_compute_lib",
    "bnns": "bnns",
    "clml": "clml",
    "cmsis-nn": "cmsisnn",
    "coreml": "coreml",
    "cublas": "cublas",
    "cudnn": "cudnn",
    "cutlass": "cutlass",
    "dnnl": "dnnl",
    "ethos-n": "ethosn",
    "ethos-u": "ethosu",
    "shl": "shl",
    "tensorrt": "tensorrt",
}
#: Tables without patterns, which offload operators by an attribute `target.NAME`: that NAME by
#: table. Left out are the other modules beside them: csinn offloads operators of its own dialect,
#: vitis_ai needs its SDK, libtorch offloads only functions written for it, and UMA's tables come
#: from its users.
ATTRIBUTES = {"coreml": "coremlcompiler"}
RELAX = {
    "coreml": "metal.coreml",
    "cublas": "cuda.cublas",
    "cudnn": "cuda.cudnn",
    "cutlass": "cuda.cutlass",
    "example_npu": "contrib.example_npu",
    "hipblas": "rocm.hipblas",
    "nnapi": "contrib.nnapi",
    "openclml": "adreno.clml",
    "tensorrt": "contrib.tensorrt",
}
#: Tables whose patterns do not match in the registry's order: the module and function that list
#: them.
ORDERS = {"openclml": ("adreno.clml", "clml_pattern_table")}


class RelayTable:
    """A target that partitions by MergeComposite with the table; nodes outside composites stay with
    TVM."""

    ir = "relay"

    def __init__(self, name: str) -> None:
        self.name = name
        if name not in ATTRIBUTES:
            self.patterns = name
        stand_ins.provide(name)
        importlib.import_module("tvm.relay.op.contrib." + RELAY[name])

    def partition(self, mod: Any) -> Any:
        import tvm
        from tvm import relay
        from tvm.relay.op.contrib.register import get_pattern_table

        table = get_pattern_table(self.name)
        if callable(table):
            table = table()
        compiler = ATTRIBUTES.get(self.name, self.name)
        steps = [
            relay.transform.InferType(),
            relay.transform.MergeComposite(table or []),
            relay.transform.AnnotateTarget(compiler),
            relay.transform.MergeCompilerRegions(),
            relay.transform.PartitionGraph(),
        ]
        with tvm.transform.PassContext(opt_level=3):
            return tvm.transform.Sequential(steps)(mod)


class RelaxTable:
    """A target that partitions by FuseOpsByPattern with the registered patterns."""

    ir = "relax"

    def __init__(self, name: str) -> None:
        self.name = self.patterns = name

    def partition(self, mod: Any) -> Any:
        from tvm import relax
        from tvm.relax.backend.pattern_registry import get_patterns_with_prefix

        importlib.import_module("tvm.relax.backend." + RELAX[self.name])
        patterns = get_patterns_with_prefix(self.name + ".")
        if self.name in ORDERS:
            # The table's own pass uses the order of this list, not that of the registry.
            module, function = ORDERS[self.name]
            listed = getattr(importlib.import_module("tvm.relax.backend." + module), function)()
            names = {entry[0] for entry in listed}
            patterns = [*listed, *(p for p in patterns if p.name not in names)]
        mod = relax.transform.FuseOpsByPattern(patterns, bind_constants=True, annotate_codegen=False)(mod)
        return relax.transform.MergeCompositeFunctions()(mod)


def __getattr__(attribute: str) -> Any:
    """Returns the target `relay_NAME` or `relax_NAME`, where _ in NAME stands for -."""
    ir, _, name = attribute.partition("_")
    tables = {"relay": RELAY, "relax": RELAX}.get(ir, {})
    for known in tables:
        if known.replace("-", "_") == name:
            return RelayTable(known) if ir == "relay" else RelaxTable(known)
    raise AttributeError(attribute)
