"""example_tensorize: a codegen that gives the inner loops of a schedule to a micro-kernel in C.

    pytest --byoc-target=example_tensorize
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any, Callable, Mapping, Optional, Sequence

from . import microkernel


class ExampleTensorize:
    """The target, with the micro-kernel linked into artifacts.

    Raises ImportError, with a remedy, where the compiler of the micro-kernel is missing.
    """

    name = "example_tensorize"
    patterns = "example_tensorize"
    ir = ("relay", "relax")
    libraries: Sequence[str] = ()

    def __init__(self) -> None:
        # With -z now, an artifact that lacks the micro-kernel raises an error when it is loaded.
        # Otherwise its process would end at the first call.
        self.export_options: Mapping[str, Any] = {"options": ["-Wl,-z,now"], **self.supply()}

    def supply(self) -> Mapping[str, Any]:
        """Compile the micro-kernel, and return the options of the export by which artifacts get it."""
        return {"addons": [microkernel.linkable()]}

    def bitcode(self) -> Optional[str]:
        """The micro-kernel in LLVM IR, where it is to be compiled into the regions."""
        return None

    def load(self, ir: str) -> Any:
        """Register patterns, and in Relay the codegen, with TVM, which has to have that IR."""
        return importlib.import_module(f"{__name__}.{ir}")

    def partition(self, mod: Any) -> Any:
        """Cut out of an IRModule what example_tensorize computes."""
        irs = {type(function).__module__.split(".")[1] for function in mod.functions.values()}
        for ir in self.ir:
            if ir in irs:
                return self.load(ir).partition_for_example_tensorize(mod, self.bitcode())
        raise ValueError(f"example_tensorize: expected a module of {' or '.join(self.ir)}, not {irs}")

    @property
    def build(self) -> Optional[Callable[[Any, str], Any]]:
        """None in Relay, where ``relay.build`` calls the codegen; in Relax a function that runs the pass."""
        if importlib.util.find_spec("tvm.relay") is not None:
            return None
        return lambda mod, executor: self.load("relax").build(mod)


class Inlined(ExampleTensorize):
    """The same, with the micro-kernel compiled into each region as LLVM IR, which clang makes."""

    name = "example_tensorize_inlined"

    def supply(self) -> Mapping[str, Any]:
        microkernel.bitcode()
        return {}

    def bitcode(self) -> Optional[str]:
        return microkernel.bitcode()

    def load(self, ir: str) -> Any:
        """Raises ImportError where clang is newer than TVM's LLVM, which could not read its IR."""
        from tvm.target.codegen import llvm_version_major

        ours, theirs = microkernel.clang_version(), llvm_version_major()
        if ours > theirs:
            raise ImportError(
                f"example_tensorize: TVM's LLVM {theirs} reads the IR of clang up to {theirs}, not of {ours}: "
                "install an older one, or have the micro-kernel linked (--byoc-target=example_tensorize)"
            )
        return super().load(ir)


class Preloaded(ExampleTensorize):
    """The same, with a library that the process has loaded before the artifact."""

    name = "example_tensorize_preloaded"

    def supply(self) -> Mapping[str, Any]:
        self.libraries = (microkernel.loadable(),)
        return {}


def __getattr__(name: str) -> Any:
    """``inlined`` and ``preloaded`` are made when they are asked for: the first needs clang."""
    if name in ("inlined", "preloaded"):
        return {"inlined": Inlined, "preloaded": Preloaded}[name]()
    raise AttributeError(name)


target = ExampleTensorize()
