"""The class `Target`: everything that a vendor can declare about a target."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

#: References of the targets that this package contains, by name.
EXAMPLES = {
    "example_c": "pytest_byoc.examples.example_c:target",
    "example_dnnl": "pytest_byoc.examples.example_dnnl:target",
    "example_extern": "pytest_byoc.examples.example_extern:target",
    "example_module": "pytest_byoc.examples.example_module:target",
    "example_ncnn": "pytest_byoc.examples.example_ncnn:target",
    "example_onnxruntime": "pytest_byoc.examples.example_onnxruntime:target",
    "example_openvino": "pytest_byoc.examples.example_openvino:target",
    "example_tensorize": "pytest_byoc.examples.example_tensorize:target",
    "example_uma": "pytest_byoc.examples.example_uma:target",
}
#: The kinds of regions that compute nothing, see `Target.trivial_regions`.
ODDITIES = ("empty", "identity", "duplicate")
#: The executors of TVM: Relay has all three, Relax only "vm".
EXECUTORS = ("graph", "vm", "aot")


class Target:
    """The declaration of a target, to be subclassed by vendors.

    A subclass is needed only where a partition function and a table in pyproject.toml do not
    suffice. Any object with a method `partition` can be used instead; a missing attribute has the
    default value given here.
    """

    #: The target's name in reports. A table in pyproject.toml that declares the target overrides
    #: it. Each target of a session must have its own name.
    name: str | None = None
    #: The IRs that the partition function accepts: "relay", "relax", or a tuple of both. None means
    #: the one that the worker's TVM has.
    ir: str | Sequence[str] | None = None
    #: Paths of shared libraries, which the target worker loads (with RTLD_GLOBAL) before it
    #: partitions anything, and the loader before it loads artifacts. Python files (.py) that
    #: register functions with TVM may be listed too; both workers import them.
    libraries: Sequence[str] = ()
    #: Libraries and Python files, as in `libraries`, that only the loader loads: the ones that a
    #: deployment has besides TVM's runtime.
    runtime_libraries: Sequence[str] = ()
    #: Keyword arguments of `export_library`, such as cc, options and addons.
    export_options: Mapping[str, Any] = {}
    #: The name under which the target's patterns are registered with TVM, where it is neither the
    #: target's name nor that of its regions or composites: the name of Relay's pattern table, or the
    #: prefix of the names of Relax's patterns. Test graphs are generated from these patterns.
    patterns: str | None = None
    #: The opt_level of the PassContext in which the partitioned module is built.
    opt_level: int = 3
    #: The `config` of the PassContexts in which a module is partitioned and built, for example
    #: {"relay.FuseOps.max_depth": 4, "relay.ext.ethos-n.options": {"variant": "n78"}}.
    pass_config: Mapping[str, Any] = {}
    #: A function that replaces `relay.build`, `relay.vm.compile` or `tvm.compile`: a method
    #: build(mod, executor), or a reference `module:attribute`. Its arguments are the partitioned
    #: module and the name of the executor ("graph", "vm" or "aot"); it returns an object of the
    #: kind that the replaced function returns. It is called in a PassContext of `opt_level` and
    #: `pass_config`.
    build: Callable[[Any, str], Any] | str | None = None
    #: A call that is made before the first run of a loaded artifact. {"function": name,
    #: "arguments": [...]} calls a function of the loaded module, or of a module that it imports,
    #: once after each load. A reference `module:attribute` names a Python function that is called
    #: with each new executor (GraphModule, AotModule or VirtualMachine). Its module must not import
    #: TVM's compiler, because it is imported where only TVM's runtime is available.
    prepare: Mapping[str, Any] | str | None = None
    #: The checks that are switched off for the target: a mapping from the id of a check to the
    #: reason, which reports repeat.
    without_checks: Mapping[str, str] = {}
    #: Whether reading an input that is a view (a DLTensor with a `byte_offset`) wrongly is a
    #: failure even where TVM's own kernels read it from the beginning of its buffer, as under
    #: Relay's VM.
    strict_views: bool = False
    #: The executors for which the target's regions can be built ("graph", "vm", "aot"); empty means
    #: all. Some TIR that hooks generate, for example, can't be built for the VM.
    executors: Sequence[str] = ()
    #: Whether equal inputs give bitwise equal outputs in every run.
    deterministic: bool = True
    #: The dtype ("float16" or "bfloat16") to which sums and their products are rounded, where it is
    #: less precise than the graph's dtype; or a mapping from the dtype of the terms to the dtype of
    #: the sum. This and the next four attributes widen the error bounds of offloaded operators by
    #: calculation, see docs/explanation/bounds.md.
    accumulate_dtype: str | Mapping[str, str] | None = None
    #: The format to which float32 operands of contractions and convolutions are rounded:
    #: "tfloat32", "bfloat16" or "float16".
    contraction_dtype: str | None = None
    #: Whether subnormal operands and results may be replaced by zero.
    flush_subnormals: bool = False
    #: The additional error of an operator's result in units in the last place, by operator (exp,
    #: tanh, nn.softmax …).
    function_ulps: Mapping[str, float] = {}
    #: The additional absolute error of an operator's result, by operator, as tables and polynomials
    #: have. For operators that round to integers (qnn.requantize …) the unit is one integer step;
    #: an implementation that rounds twice needs 1.
    function_errors: Mapping[str, float] = {}
    #: The kinds of regions that the target accepts although they compute nothing: "empty" (the
    #: region calls no operator), "identity" (it returns an input unchanged), "duplicate" (it
    #: returns a value twice).
    trivial_regions: Sequence[str] = ()

    def partition(self, mod: Any) -> Any:
        """Returns an IRModule partitioned for the target, but not yet built."""
        raise NotImplementedError
