"""What a vendor declares about a target."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

#: Targets installed with this package, by name.
EXAMPLES = {"example_c": "pytest_byoc.examples.example_c:target"}
#: Of regions, see `Target.trivial_regions`.
ODDITIES = ("empty", "identity", "duplicate")
#: TVM's, of either IR.
EXECUTORS = ("graph", "vm", "aot")


class Target:
    """A target, to be subclassed where a function or a table in pyproject.toml can't say it.

    Any object with a `partition` will do; the other attributes default to the values here.
    """

    #: Shown in reports, unless a table in pyproject.toml gives the target a name; no two targets of a session
    #: have the same.
    name: str | None = None
    #: "relay", "relax" or a tuple of both; None: whichever the worker's TVM has.
    ir: str | Sequence[str] | None = None
    #: Shared libraries loaded (RTLD_GLOBAL) before anything is partitioned, and by the loader; also Python
    #: files (.py) that register functions with TVM, which are imported.
    libraries: Sequence[str] = ()
    #: As `libraries`, for the loader alone: what a deployment has beside TVM's runtime.
    runtime_libraries: Sequence[str] = ()
    #: Keyword arguments of `export_library`: cc, options, addons …
    export_options: Mapping[str, Any] = {}
    #: Name under which its patterns are registered with TVM, if it is not the target's own: Relay's
    #: pattern table, or what the names of Relax's patterns begin with. Graphs are made from them.
    patterns: str | None = None
    #: Of the PassContext in which the partitioned module is built.
    opt_level: int = 3
    #: `config` of the PassContext in which a module is partitioned and in which it is built, such as
    #: {"relay.FuseOps.max_depth": 4, "relay.ext.ethos-n.options": {"variant": "n78"}}.
    pass_config: Mapping[str, Any] = {}
    #: In place of `relay.build`, `relay.vm.compile` or `tvm.compile`: `module:attribute`, or a method
    #: build(mod, executor), that is given the partitioned module and "graph", "vm" or "aot" and returns what
    #: these return. It is called in a PassContext of `opt_level` and `pass_config`.
    build: Callable[[Any, str], Any] | str | None = None
    #: Called before the first run of what has been loaded. {"function": name, "arguments": [...]}: a function
    #: of the loaded module or of one that it imports, called once after each load. `module:attribute`: a
    #: function that is given each new executor (GraphModule, AotModule, VirtualMachine). Its module is
    #: imported where nothing is but TVM's runtime, so it can't import the compiler.
    prepare: Mapping[str, Any] | str | None = None
    #: Checks that are not made of the target: id of the check to the reason, which reports repeat.
    without_checks: Mapping[str, str] = {}
    #: Whether inputs that are views are held against it even where TVM's own kernels read them from their
    #: beginning, as under Relay's VM.
    strict_views: bool = False
    #: TVM's executors that its regions can be built for ("graph", "vm", "aot"), if not for all: some of what
    #: a hook makes into TIR can't be built for the VM.
    executors: Sequence[str] = ()
    #: Whether the same inputs give the same bits every time.
    deterministic: bool = True
    #: Dtype in which sums and the products summed are rounded ("float16", "bfloat16") where that is
    #: lower than the graph's dtype, or a mapping to it from the dtype of what is summed. This and what
    #: follows widens the error bound of the operators the target takes, by calculation:
    #: docs/explanation/bounds.md.
    accumulate_dtype: str | Mapping[str, str] | None = None
    #: Dtype to which float32 operands of contractions are rounded: "tfloat32", "bfloat16", "float16".
    contraction_dtype: str | None = None
    #: Whether subnormal operands and results may become zero.
    flush_subnormals: bool = False
    #: By operator (exp, tanh, nn.softmax …), units in the last place by which its result may be off
    #: beyond what is granted anyway.
    function_ulps: Mapping[str, float] = {}
    #: By operator, an absolute error of its result beyond that, as tables and polynomials have; of operators
    #: that round to integers (qnn.requantize …) in steps: 1 where it is done in two.
    function_errors: Mapping[str, float] = {}
    #: What the codegen is made for although it computes nothing: regions that are "empty" (no operator
    #: is called), return an input as it is ("identity"), or one value twice ("duplicate").
    trivial_regions: Sequence[str] = ()

    def partition(self, mod: Any) -> Any:
        """Takes an IRModule and returns it partitioned for the target (not yet built)."""
        raise NotImplementedError
