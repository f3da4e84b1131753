"""The class of modules that Relax compiled, with run, time and export."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from . import dlpack
from .interface import MEASURED, Code, Executable
from .shared import Tensors, options_of_one_export, sources


def _source(module: Any) -> tuple[str, str]:
    own = module.kind in ("llvm", "const_loader")
    return module.kind, "" if own else str(module.inspect_source())


def _links_first(module: Any) -> bool:
    return module.kind in ("c", "cc", "cpp", "static_library") or any(_links_first(m) for m in module.imports)


def _tensor(array: np.ndarray) -> Any:
    import tvm

    return tvm.runtime.tensor(array)


class VMExecutable(Executable):
    """A module compiled for Relax's VM. It has no parts, since the library holds the constants."""

    def __init__(self, executable: Any) -> None:
        self._executable = executable
        self._vm: Any = None
        self._tensors = Tensors(_tensor)

    def fresh(self) -> Executable:
        return VMExecutable(self._executable)._like(self)

    def root(self) -> Any:
        # A loaded executable is a module itself.
        return getattr(self._executable, "mod", self._executable)

    def hold(
        self, inputs: Mapping[str, np.ndarray],
        place: Callable[[np.ndarray], dlpack.Placed] | None = None,
        ready: Callable[[], Any] | None = None,
        placed: Collection[str] | None = None,
    ) -> tuple[list[Any], list[Any]]:
        import tvm
        from tvm.runtime import vm as runtime_vm

        if self._vm is None:
            memory = "naive" if self.exact else None
            vm = runtime_vm.VirtualMachine(self._executable, tvm.cpu(), memory)
            self._vm = self._prepared(vm)
        if place:
            tensors = [
                tvm.runtime.from_dlpack(place(a)) if placed is None or name in placed else _tensor(a)
                for name, a in inputs.items()
            ]
        else:
            tensors = self._tensors.of(inputs)
        main = self._vm["main"]
        if ready:
            ready()
        result = main(*tensors)
        return tensors, [result] if hasattr(result, "numpy") else list(result)

    def run(
        self, inputs: Mapping[str, np.ndarray], ready: Callable[[], Any] | None = None
    ) -> tuple[list[np.ndarray], list[str]]:
        tensors, fields = self.hold(inputs, ready=ready)
        outputs = self.arrays(fields)
        modified = [n for n, t in zip(inputs, tensors) if t.numpy().tobytes() != inputs[n].tobytes()]
        return outputs, modified

    def seconds(self, inputs: Mapping[str, np.ndarray]) -> float:
        import tvm

        if self._vm is None:
            self.run(inputs)
        evaluator = self._vm.time_evaluator("main", tvm.cpu(), **MEASURED)
        return float(evaluator(*map(_tensor, inputs.values())).mean)

    def arrays(self, tensors: Sequence[Any]) -> list[np.ndarray]:
        return [t.numpy() for t in tensors]

    def needs_export(self) -> bool:
        return _links_first(self.root())

    def sources(self, symbols: Sequence[str] = ()) -> list[Code]:
        return sources(self.root().imports, "imports", _source, symbols)

    def is_tvms(self, symbols: Sequence[str]) -> bool:
        # In Relax only the codegen compiles regions.
        return False

    def export(self, path: str, options: Mapping[str, Any]) -> None:
        self._executable.export_library(path, **options_of_one_export(options))
