"""example_module: a runtime module, a codegen and a pass in C++, built outside of TVM by CMake.

TVM is the one of the installed wheel, for Relay or Relax, and stays as it is. Install CMake and run::

    pip install 'pytest-byoc[module]'
    pytest --byoc-target=example_module

File by file:

``CMakeLists.txt``, ``library.py``
    How the libraries are built, once, and kept in the user's cache; how they are checked and loaded.
``region.h``, ``region.cc``
    What a region is, its bytes in an artifact, and the kernels. They know nothing of TVM.
``relay_module.cc``, ``relax_module.cc``
    The runtime module: a region that TVM can call, save and load.
``relay_codegen.cc``, ``relax_codegen.cc``, ``transpose.h``
    The codegen, the predicate that partitioning asks, and a pass that transposes constants. For Relay
    they use the headers of TVM's compiler, which a wheel for Relax lacks: there they use reflection.
``relay.py``, ``relax.py``
    Patterns and partitioning.

Offloaded, in float32, float64 and int32: conv2d (NCHW, any groups), dense, matmul, batch_matmul; add,
subtract, multiply, maximum, minimum, bias_add; relu, abs, negative. Extents may be unknown in Relax.

AOT calls a region as a C function of the artifact, and not by TVM's lookup of modules: regions that are
runtime modules of their own need the graph executor or the virtual machine.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any, Dict, Sequence

from . import library


class ExampleModule:
    """The target. Raises ImportError, with a remedy, where its libraries cannot be built or loaded."""

    name = "example_module"
    ir = ("relay", "relax")
    executors = ("graph", "vm")

    def __init__(self) -> None:
        compiler, runtime = library.find()
        # Artifacts need the runtime's library alone; the compiler's contains it, and more.
        self.runtime_libraries: Sequence[str] = [runtime]
        # It is loaded before TVM is imported.
        self._functions: Dict[str, Any] = library.load(compiler)
        ir = self.ir[0] if importlib.util.find_spec("tvm.relay") else self.ir[1]
        self._module = importlib.import_module(f"{__name__}.{ir}")
        self._module.register(self._functions)

    def partition(self, mod: Any) -> Any:
        """Cut out of an IRModule what example_module computes."""
        return self._module.partition(mod, self._functions)


target = ExampleModule()
