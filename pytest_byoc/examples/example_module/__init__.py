"""example_module: a runtime module, a codegen and a pass in C++, built outside of TVM by CMake.

TVM is the one of the installed wheel, for Relay or Relax, and stays as it is. Install CMake and run::

    pip install 'pytest-byoc[module]'
    pytest --byoc-target=example_module
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
