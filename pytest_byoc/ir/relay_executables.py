"""The classes of modules that Relay compiled, one for each executor, with run, time and export."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from ..core.protocol import Bfloat16, dtype_name
from . import dlpack
from .interface import MEASURED, Code, Executable
from .poison import POISON_BYTE
from .shared import Tensors, options_of_one_export, sources

#: Kinds of runtime modules that become code in a library, and kinds of modules that TVM itself
#: adds.
_CODE = ("llvm", "c", "cc", "cpp", "static_library")
_OF_TVM = ("const_loader", "metadata")
#: A line in the C source that TVM generates from TIR. A codegen may put other text in front of it.
_OF_TIR = "// tvm target: "
#: The position of an instruction in the text of a VM's code; and the numbers of alloc_storage, one of which
#: is whatever was in memory. The same follows in words.
_RAW = re.compile(r"^ *\d+: (16 [\d ]+(?=# alloc_storage))?", re.MULTILINE)
_KILL = "# kill_register"


class RelayExecutable(Executable):
    """The methods that the executables of all executors share."""

    def arrays(self, tensors: Sequence[Any]) -> list[np.ndarray]:
        return arrays_of(tensors)

    def needs_export(self) -> bool:
        return _links_first(self.root())

    def held_as_data(self) -> list[str]:
        return held_as_data(self.root())

    def sources(self, symbols: Sequence[str] = ()) -> list[Code]:
        return sources(self.root().imported_modules, "imported_modules", _source, symbols)

    def is_tvms(self, symbols: Sequence[str]) -> bool:
        # TVM compiles the regions that a target lowers to TIR.
        return _of_tir(self.root(), symbols)


def _source(module: Any) -> tuple[str, str]:
    text = "" if module.type_key in ("llvm", *_OF_TVM) else str(module.get_source())
    return module.type_key, "" if _OF_TIR in text else text


def _links_first(module: Any) -> bool:
    return module.type_key in ("c", "cc", "cpp", "static_library") or any(
        _links_first(m) for m in module.imported_modules
    )


def _of_tir(module: Any, symbols: Sequence[str]) -> bool:
    tvms = module.type_key == "llvm" or (module.type_key == "c" and _OF_TIR in module.get_source())
    if tvms and any(module.implements_function(s) for s in symbols):
        return True
    return any(_of_tir(imported, symbols) for imported in module.imported_modules)


def held_as_data(module: Any) -> list[str]:
    """Returns the kinds of a codegen's modules that a library holds as data, not as code.

    The library has no symbols of their functions. All modules that `module` imports are considered.
    """
    kinds = []
    for imported in module.imported_modules:
        kind = imported.type_key
        # Modules of TVM before 0.12 have no such attribute; there the kind decides.
        if not getattr(imported, "is_dso_exportable", kind in _CODE) and kind not in _OF_TVM:
            kinds.append(kind)
        kinds += held_as_data(imported)
    return sorted(set(kinds))


def tensor(array: np.ndarray) -> Any:
    """Returns a TVM tensor with an array's elements."""
    import tvm

    return tensor_on(array, tvm.cpu())


def tensor_on(array: np.ndarray, device: Any) -> Any:
    """Returns a TVM tensor with an array's elements on a device."""
    import tvm

    if dtype_name(array) != "bfloat16":
        return tvm.nd.array(array, device)
    return tvm.nd.empty(array.shape, "bfloat16", device).copyfrom(np.asarray(array).view(np.uint16))


def arrays_of(tensors: Sequence[Any]) -> list[np.ndarray]:
    """Returns the contents of TVM's tensors."""
    return [_array(t) for t in tensors]


def _array(tensor: Any) -> np.ndarray:
    array: np.ndarray = tensor.numpy()
    # TVM returns the bits of a bfloat16 tensor.
    return array.view(np.uint16).view(Bfloat16) if tensor.dtype == "bfloat16" else array


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.tobytes() == b.tobytes()


class GraphExecutable(RelayExecutable):
    takes_views = False
    has_parts = True

    def __init__(self, library: Any) -> None:
        self._library = library
        self._module: Any = None

    def fresh(self) -> Executable:
        return type(self)(self._library)._like(self)

    def _create(self) -> Any:
        import tvm
        from tvm.contrib import graph_executor

        return self._prepared(graph_executor.GraphModule(self._library["default"](tvm.cpu())))

    def hold(
        self, inputs: Mapping[str, np.ndarray],
        place: Callable[[np.ndarray], dlpack.Placed] | None = None,
        ready: Callable[[], Any] | None = None,
        placed: Collection[str] | None = None,
    ) -> tuple[list[Any], list[Any]]:
        self.run(inputs, ready)
        g = self._module
        tensors = [g.get_input(name) for name in inputs]
        return [t for t in tensors if t is not None], [g.get_output(i) for i in range(g.get_num_outputs())]

    def run(
        self, inputs: Mapping[str, np.ndarray], ready: Callable[[], Any] | None = None
    ) -> tuple[list[np.ndarray], list[str]]:
        if self._module is None:
            self._module = self._create()
        g = self._module
        # The outputs are poisoned before the inputs are set, since an output may be an input.
        for i in range(g.get_num_outputs()):
            out = g.get_output(i)
            dtype = np.dtype("uint16" if out.dtype == "bfloat16" else out.dtype)
            raw = np.full(int(np.prod(out.shape)) * dtype.itemsize, POISON_BYTE, np.uint8)
            out.copyfrom(raw.view(dtype).reshape(out.shape))
        for name, value in inputs.items():
            g.set_input(name, tensor(value))
        if ready:
            ready()
        g.run()
        outputs = self.arrays([g.get_output(i) for i in range(g.get_num_outputs())])
        modified = []
        for name, value in inputs.items():
            after = g.get_input(name)
            if after is not None and not _same(after.numpy(), value):
                modified.append(name)
        return outputs, modified

    def seconds(self, inputs: Mapping[str, np.ndarray]) -> float:
        import tvm

        if self._module is None:
            self.run(inputs)
        evaluator = self._module.module.time_evaluator("run", tvm.cpu(), **MEASURED)
        return float(evaluator().mean)

    def root(self) -> Any:
        return self._library.module if hasattr(self._library, "module") else self._library

    def export(self, path: str, options: Mapping[str, Any]) -> None:
        self._library.export_library(path, **options_of_one_export(options))

    def export_parts(self, path: str, options: Mapping[str, Any]) -> dict[str, str]:
        import tvm

        parts = {"library": path + ".so", "graph": path + ".json", "params": path + ".params"}
        with open(parts["graph"], "w") as f:
            f.write(self._library.get_graph_json())
        with open(parts["params"], "wb") as f:
            f.write(tvm.runtime.save_param_dict(self._library.get_params()))
        self._library.get_lib().export_library(parts["library"], **options_of_one_export(options))
        return parts


class AotExecutable(GraphExecutable):
    """A module compiled for the AOT executor, whose interface is that of the graph executor."""

    has_parts = False

    def _create(self) -> Any:
        import tvm
        from tvm.runtime.executor import AotModule

        return self._prepared(AotModule(self._library["default"](tvm.cpu())))


class VMExecutable(RelayExecutable):
    # TVM writes a field of alloc_storage that it has not set.
    holds_addresses = True

    def __init__(self, executable: Any) -> None:
        self._executable = executable
        self._vm: Any = None
        self._tensors = Tensors(tensor)

    def fresh(self) -> Executable:
        return VMExecutable(self._executable)._like(self)

    def hold(
        self, inputs: Mapping[str, np.ndarray],
        place: Callable[[np.ndarray], dlpack.Placed] | None = None,
        ready: Callable[[], Any] | None = None,
        placed: Collection[str] | None = None,
    ) -> tuple[list[Any], list[Any]]:
        import tvm
        from tvm.runtime.vm import VirtualMachine

        if self._vm is None:
            memory = "naive" if self.exact else None
            self._vm = self._prepared(VirtualMachine(self._executable, tvm.cpu(), memory))
        if place:
            tensors = [
                tvm.nd.from_dlpack(place(a).__dlpack__()) if placed is None or name in placed else tensor(a)
                for name, a in inputs.items()
            ]
        else:
            tensors = self._tensors.of(inputs)
        self._vm.set_input("main", *tensors)
        if ready:
            ready()
        result = self._vm.invoke("main")
        return tensors, [result] if isinstance(result, tvm.nd.NDArray) else list(result)

    def run(
        self, inputs: Mapping[str, np.ndarray], ready: Callable[[], Any] | None = None
    ) -> tuple[list[np.ndarray], list[str]]:
        tensors, fields = self.hold(inputs, ready=ready)
        outputs = self.arrays(fields)
        alone = [(n, t) for n, t in zip(inputs, tensors) if not isinstance(t, list)]
        return outputs, [n for n, t in alone if not _same(t.numpy(), inputs[n])]

    def seconds(self, inputs: Mapping[str, np.ndarray]) -> float:
        import tvm

        if self._vm is None:
            self.run(inputs)
        self._vm.set_input("main", *[tensor(a) for a in inputs.values()])
        evaluator = self._vm.module.time_evaluator("invoke", tvm.cpu(), **MEASURED)
        return float(evaluator("main").mean)

    def root(self) -> Any:
        # A loaded executable is a module itself.
        return getattr(self._executable, "mod", self._executable)

    def export(self, path: str, options: Mapping[str, Any]) -> None:
        self.root().export_library(path, **options_of_one_export(options))

    def export_code(self, path: str, options: Mapping[str, Any]) -> str:
        code = self._executable
        code.lib.export_library(path, **options_of_one_export(options))
        told: list[str] = []
        # Registers that are freed together are so in any order.
        for freed, group in groupby(_RAW.sub("", code.bytecode).splitlines(), lambda line: _KILL in line):
            lines = list(group)
            told += sorted(lines) if freed else lines
        return repr((told, code.constants, code.globals, code.primitives, code.virtual_devices))


def load_parts(parts: Mapping[str, str]) -> Executable:
    """Loads the three files that `GraphExecutable.export_parts` wrote."""
    import tvm
    from tvm.contrib import graph_executor

    library = tvm.runtime.load_module(parts["library"])
    with open(parts["graph"]) as f:
        module = graph_executor.create(f.read(), library, tvm.cpu())
    with open(parts["params"], "rb") as f:
        module.load_params(f.read())
    return _PartsExecutable(library, module)


class _PartsExecutable(GraphExecutable):
    """A module loaded from three files, whose executor was created with it."""

    def __init__(self, library: Any, module: Any) -> None:
        super().__init__(library)
        self._module = module

    def prepare_by(self, function: Callable[[Any], None]) -> None:
        function(self._module)
