"""example_tensorize: a codegen that schedules layers in TIR, and gives their inner loops to a
micro-kernel in C, by ``tensorize``::

    pytest --byoc-target=example_tensorize

A region is one layer: a convolution or a product, with a bias and relu. It becomes a function in TIR,
whose loops are split into tiles. What computes one tile is replaced by a call of the micro-kernel, with
pointers into the buffers and the strides between their rows. File by file:

``layers.py``
    Operators as tensor expressions, of neither IR; a convolution as a product of its weights and the
    columns of the image (im2col). Extents that are no multiple of the tile are filled up with zeros.
``schedule.py``
    The schedule, and the intrinsic: the loops that it looks for, and the call that it puts there.
``relay.py``
    Patterns, partitioning, and the codegen, which returns the function as machine code, with the
    weights among its constants.
``relax.py``
    The same, with a pass in place of the codegen. It replaces calls of regions by ``call_tir``;
    ``build`` runs it before ``tvm.compile``.
``microkernel.c``, ``microkernel.py``
    The micro-kernel, and how it is compiled. Its tile is described once, in ``microkernel.py``.

Offloaded, in float32: nn.dense, nn.matmul (Relay), matmul with one matrix on its right side (Relax);
nn.conv2d in NCHW; each with or without an addend and relu.

Left to TVM: other dtypes, layouts and groups, stacks of matrices on the right, vectors, tensors without
elements or with an unknown extent, and layers that are added to themselves (Relay).

There are three ways to supply the micro-kernel, each a target of its own:

1. ``target`` links it into the artifact when it is exported.
2. ``inlined`` compiles it into each function as LLVM IR, so that it can be inlined, and nothing has to
   be linked. It needs a clang that is not newer than TVM's LLVM.
3. ``preloaded`` leaves it to the process, which loads a library with RTLD_GLOBAL before the artifact.

The last way needs care: a worker that tunes schedules, or an RPC server, may not have loaded the library.
An artifact linked with ``-Wl,-z,now`` then raises an error that names the micro-kernel when it is loaded.
Otherwise the process would end at the first call.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any, Callable, Mapping, Optional, Sequence

from . import microkernel


class ExampleTensorize:
    """The target, with the micro-kernel linked. Raises ImportError, with a remedy, without a compiler."""

    name = patterns = "example_tensorize"
    ir = ("relay", "relax")
    libraries: Sequence[str] = ()
    bitcode: Optional[str] = None

    def __init__(self) -> None:
        self.export_options: Mapping[str, Any] = {"options": ["-Wl,-z,now"]}
        self.supply()

    def supply(self) -> None:
        """Compile the micro-kernel, and say how artifacts get it."""
        self.export_options = {"addons": [microkernel.linkable()], **self.export_options}

    def load(self, ir: str) -> Any:
        """Register patterns, and in Relay the codegen, with TVM, which has to have that IR."""
        return importlib.import_module(f"{__name__}.{ir}")

    def partition(self, mod: Any) -> Any:
        """Cut out of an IRModule what example_tensorize computes."""
        irs = {type(function).__module__.split(".")[1] for function in mod.functions.values()}
        for ir in self.ir:
            if ir in irs:
                return self.load(ir).partition_for_example_tensorize(mod, self.bitcode)
        raise ValueError(f"example_tensorize: expected a module of {' or '.join(self.ir)}, not {irs}")

    @property
    def build(self) -> Optional[Callable[[Any, str], Any]]:
        """None in Relay, where ``relay.build`` calls the codegen; in Relax a function that runs the pass."""
        if importlib.util.find_spec("tvm.relay") is not None:
            return None
        return lambda mod, executor: self.load("relax").build(mod)


class Inlined(ExampleTensorize):
    """The same, with the micro-kernel as LLVM IR in each region."""

    name = "example_tensorize_inlined"

    def supply(self) -> None:
        from tvm.target.codegen import llvm_version_major

        ours, theirs = microkernel.clang_version(), llvm_version_major()
        if ours > theirs:
            raise ImportError(
                f"example_tensorize: TVM's LLVM {theirs} can't read the IR of clang {ours}: install a clang "
                "that is not newer, or have the micro-kernel linked (--byoc-target=example_tensorize)"
            )
        self.bitcode = microkernel.bitcode()


class Preloaded(ExampleTensorize):
    """The same, with the micro-kernel in a library that the process has loaded before the artifact."""

    name = "example_tensorize_preloaded"

    def supply(self) -> None:
        self.libraries = (microkernel.loadable(),)


def __getattr__(name: str) -> Any:
    """The two other targets are made when they are named: one needs clang."""
    if name in ("inlined", "preloaded"):
        return (Inlined if name == "inlined" else Preloaded)()
    raise AttributeError(f"example_tensorize has no {name}")


target = ExampleTensorize()
