"""The pattern tables inside TVM as targets that partition and are never built: `tables.py:dnnl` …

Most of their runtimes are in no wheel. What the tables claim can be asked of TVM's partitioner all the
same: that is what `benchmarks/directed.py` needs.
"""

from __future__ import annotations

import contextlib
import importlib
from typing import Any

#: Names of the tables and the modules that register them.
RELAY = {
    "arm_compute_lib": "arm_compute_lib",
    "bnns": "bnns",
    "clml": "clml",
    "cmsis-nn": "cmsisnn",
    "cublas": "cublas",
    "cudnn": "cudnn",
    "cutlass": "cutlass",
    "dnnl": "dnnl",
    "ethos-n": "ethosn",
    "ethos-u": "ethosu",
    "tensorrt": "tensorrt",
}
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


class RelayTable:
    """Partitions by MergeComposite and the table; what is outside composites stays with TVM."""

    ir = "relay"

    def __init__(self, name: str) -> None:
        self.name = self.patterns = name

    def partition(self, mod: Any) -> Any:
        import tvm
        from tvm import relay
        from tvm.relay.op.contrib.register import get_pattern_table

        importlib.import_module("tvm.relay.op.contrib." + RELAY[self.name])
        table = get_pattern_table(self.name)
        if callable(table):
            table = table()
        steps = [
            relay.transform.InferType(),
            relay.transform.MergeComposite(table),
            relay.transform.AnnotateTarget(self.name),
            relay.transform.MergeCompilerRegions(),
            relay.transform.PartitionGraph(),
        ]
        with contextlib.ExitStack() as stack:
            stack.enter_context(tvm.transform.PassContext(opt_level=3))
            if self.name == "tensorrt":
                # Its predicates read their options there.
                stack.enter_context(tvm.target.Target("tensorrt"))
            return tvm.transform.Sequential(steps)(mod)


class RelaxTable:
    """Partitions by FuseOpsByPattern and the registered patterns."""

    ir = "relax"

    def __init__(self, name: str) -> None:
        self.name = self.patterns = name

    def partition(self, mod: Any) -> Any:
        from tvm import relax
        from tvm.relax.backend.pattern_registry import get_patterns_with_prefix

        importlib.import_module("tvm.relax.backend." + RELAX[self.name])
        patterns = get_patterns_with_prefix(self.name + ".")
        mod = relax.transform.FuseOpsByPattern(patterns, bind_constants=True, annotate_codegen=False)(mod)
        return relax.transform.MergeCompositeFunctions()(mod)


def __getattr__(attribute: str) -> Any:
    """`relay_NAME` and `relax_NAME`, with - written as _."""
    ir, _, name = attribute.partition("_")
    tables = {"relay": RELAY, "relax": RELAX}.get(ir, {})
    for known in tables:
        if known.replace("-", "_") == name:
            return RelayTable(known) if ir == "relay" else RelaxTable(known)
    raise AttributeError(attribute)
