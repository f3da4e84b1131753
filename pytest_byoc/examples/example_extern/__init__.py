"""example_extern: a codegen that lowers regions to TIR, which calls an external library.

Here the library is a CBLAS, OpenBLAS by default (``apt-get install libopenblas-dev``)::

    pytest --byoc-target=example_extern

A region becomes one TIR function: a call of a kernel for each operator, in sequence, and buffers
between them that TVM allocates. Executors treat it as a function of their own, so static memory
planning under AOT (``tir.usmp.enable``) works too. The kernels are C: those of products call CBLAS,
the others are loops. File by file:

``relay.py``
    Patterns, partitioning, and a ``RelayToTIR`` hook. TVM reads the hook from a target kind, whose
    attributes are set in C++: ``shim.cc`` sets it, and calls the Python function.
``relax.py``
    The same, with a pass in place of the hook, which Relax lacks. It replaces calls of regions by
    ``call_tir``; ``build`` runs it before ``tvm.compile``.
``steps.py``
    For both IRs: from operators to calls of kernels, and from those to TVMScript.
``kernels.c``, ``library.py``
    The kernels, and how the library behind them is found and linked.

Offloaded, in float32 and float64: dense layers, each with or without bias and relu; nn.matmul and
nn.batch_matmul (Relay); matmul, its right side transposed or not (Relax); add and multiply of equal
shapes, or with an operand that is repeated as a whole (a bias, a scalar); bias_add along the last
axis; relu.

Left to TVM: everything else, tensors without elements or with an unknown extent, products with a
vector, and stacks of matrices in which one of several dimensions is repeated, because the kernel
walks through a stack by one stride.

There are three ways to supply the library's functions:

1. Link them into the artifact when it is exported, as ``target`` does.
2. Load the library with RTLD_GLOBAL before the artifact: by LD_PRELOAD, by ctypes, or declared as
   ``libraries``, as ``preloaded`` does.
3. Compile their source into the artifact: add the file to ``library.SOURCES``. The kernels
   themselves come that way.

Otherwise a run raises an error that names the function and these ways. The kernels' reference to it
is weak: the dynamic linker would end the process at the first call.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any, Callable, Mapping, Optional, Sequence

from .library import find, kernels, link_options


class ExampleExtern:
    """The target. Raises ImportError, with a remedy, where the kernels' library is missing."""

    name = "example_extern"
    ir = ("relay", "relax")
    libraries: Sequence[str] = ()

    def __init__(self) -> None:
        self.library = find()
        # With -z now, an artifact that lacks a kernel raises an error when it is loaded. Otherwise
        # its process would end at the first call.
        self.export_options: Mapping[str, Any] = {
            "addons": [kernels()],
            "options": ["-Wl,-z,now", *self.link_options()],
        }

    def link_options(self) -> Sequence[str]:
        """The options that link an artifact with the library."""
        return link_options(self.library)

    def load(self, ir: str) -> Any:
        """Register patterns, and in Relay the hook, with TVM, which has to have that IR."""
        return importlib.import_module(f"{__name__}.{ir}")

    def partition(self, mod: Any) -> Any:
        """Cut out of an IRModule what example_extern computes."""
        irs = {type(function).__module__.split(".")[1] for function in mod.functions.values()}
        for ir in self.ir:
            if ir in irs:
                return self.load(ir).partition_for_example_extern(mod)
        raise ValueError(f"example_extern: expected a module of {' or '.join(self.ir)}, not {irs}")

    @property
    def build(self) -> Optional[Callable[[Any, str], Any]]:
        """None in Relay, where ``relay.build`` calls the hook; in Relax a function that runs the pass."""
        if importlib.util.find_spec("tvm.relay") is not None:
            return None
        return lambda mod, executor: self.load("relax").build(mod)


class Preloaded(ExampleExtern):
    """The same, with a library that the process has loaded before the artifact."""

    name = "example_extern_preloaded"
    patterns = "example_extern"

    def __init__(self) -> None:
        super().__init__()
        self.libraries = (self.library,)

    def link_options(self) -> Sequence[str]:
        """None: the artifact finds the library in the process."""
        return ()


target = ExampleExtern()
preloaded = Preloaded()
