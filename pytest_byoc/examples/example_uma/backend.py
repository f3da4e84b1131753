"""A backend in the manner of UMA, TVM's Universal Modular Accelerator Interface, for both IRs.

UMA (``tvm.relay.backend.contrib.uma``) is a class from which a vendor derives: it registers patterns, passes
and code, and TVM does the rest. TVM does it in C++, which its wheels are built without: they lack
``relay.backend.contrib.uma.RegisterTarget``. `Backend` does the same in Python, with UMA's names.
"""

from __future__ import annotations

import enum
import importlib
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import tvm


class PassPhase(enum.Enum):
    """When a pass runs. UMA has more phases, within ``tvm.lower``."""

    PRE_PARTITIONING = enum.auto()
    POST_PARTITIONING = enum.auto()
    #: On the loops of a region, before they are lowered.
    TIR = enum.auto()


class Tensor(NamedTuple):
    """An operand or a result. An extent that is open is None."""

    shape: Tuple[Optional[int], ...]
    dtype: str


#: Whether a call is for the accelerator: its attributes, operands and result.
Predicate = Callable[[Any, Sequence[Tensor], Tensor], bool]


def accepts(predicate: Predicate, attrs: Any, tensors: Sequence[Optional[Tensor]]) -> bool:
    """Asks about a call. tensors: its operands and its result, None for what is no tensor."""
    known = [tensor for tensor in tensors if tensor is not None]
    return len(known) == len(tensors) and bool(predicate(attrs, known[:-1], known[-1]))


class Backend:
    """What a vendor derives from. `target_name` names the target, its patterns and its attributes."""

    target_name = ""

    def __init__(self, ir: str, merge_compiler_regions: bool = True) -> None:
        self.ir = ir
        self.merges = merge_compiler_regions
        self.patterns: Dict[str, Predicate] = {}
        self._passes: List[Tuple[PassPhase, Any]] = []
        self._includes: Callable[[], str] = str

    # What the derived class calls in its constructor.

    def _register_pattern(self, operator: str, predicate: Predicate) -> None:
        """Registers an operator, by its name in the IR. UMA takes any pattern: the accelerator of this
        example gets larger regions by merging."""
        self.patterns[operator] = predicate

    def _register_pass(self, phase: PassPhase, pass_: Any) -> None:
        """Registers a pass. Those of one phase run in the order in which they were registered."""
        self._passes.append((phase, pass_))

    def _register_codegen(self, fmt: str = "c", includes: Callable[[], str] = str) -> None:
        """Registers the code that stands before that of a region, which TVM writes in C."""
        if fmt != "c":
            raise ValueError(f"{self.target_name}: {fmt!r} is no format of code, only 'c' is")
        self._includes = includes

    # What users call, and the modules of the IRs.

    def pattern_name(self, operator: str) -> str:
        return f"{self.target_name}.{operator.replace('nn.', '')}"

    def register(self) -> None:
        """Registers patterns and code generator with TVM."""
        self._side.register(self)

    def partition(self, mod: tvm.IRModule) -> tvm.IRModule:
        """Cuts out of a module what the accelerator computes."""
        mod = self.run(PassPhase.PRE_PARTITIONING, mod)
        return self.run(PassPhase.POST_PARTITIONING, self._side.partition(self, mod))

    @property
    def _side(self) -> Any:
        return importlib.import_module(f"{__package__}.{self.ir}")

    def run(self, phase: PassPhase, mod: tvm.IRModule) -> tvm.IRModule:
        return tvm.transform.Sequential([p for when, p in self._passes if when is phase])(mod)

    def compiled(self, regions: Mapping[str, Any]) -> Any:
        """Returns a module with the code in C of regions, given as functions in TIR by their symbols."""
        functions = {symbol: f.with_attr("global_symbol", symbol) for symbol, f in regions.items()}
        mod = self.run(PassPhase.TIR, tvm.IRModule(functions))
        # TVM adds an entry for main where there is one function; an artifact may hold several such modules.
        source = self._side.c_source(mod).split("// CodegenC: NOTE: Auto-generated entry function")[0]
        create = tvm.get_global_func("runtime.CSourceModuleCreate")
        return create(self._includes() + source, "c", list(regions), [])
