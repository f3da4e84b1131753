"""Builds modules of Relay for an executor, and loads the artifacts that they were exported to."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from ..core.errors import NotAModule
from .interface import Executable
from .machine import MACHINE
from .relay_executables import AotExecutable, GraphExecutable, VMExecutable
from .shared import attribute, has, headers_in


def _targets(module: Any) -> Any:
    """Returns the targets to build a module for: that of `MACHINE`, and target kinds named like regions.

    A region's compiler may also be registered as a target kind with a hook that lowers the region
    to TIR (as UMA's backends do). That TIR may name the kind, and TVM compiles it only if the kind
    is among the targets of the build.
    """
    import tvm

    names = {attribute(function, "Compiler") for function in module.functions.values()}
    kinds = names.intersection(tvm.target.Target.list_kinds())
    host = MACHINE.llvm_text()
    targets = [tvm.target.Target(name, host=host) for name in sorted(kinds)]
    hooked = [k for k in targets if has_hooks(k)]
    return [tvm.target.Target(host), *hooked] if hooked else host


def has_hooks(target: Any) -> bool:
    """Returns whether a target kind has a hook that compiles regions."""
    return bool(target.get_kind_attr("RelayToTIR") or target.get_kind_attr("TIRToRuntime"))


#: Optimisation passes of TVM that infer the types of the whole module dozens of times.
_SLOW = ["SimplifyExpr", "SimplifyExprPostAlterOp", "FoldScaleAxis", "CanonicalizeCast", "CanonicalizeOps"]


def _quantized(module: Any) -> bool:
    """Returns whether a function outside the regions calls an operator of the QNN dialect."""
    import tvm
    from tvm import relay

    operators: list[str] = []

    def visit(e: Any) -> None:
        if isinstance(e, tvm.ir.Op) and e.name.startswith("qnn."):
            operators.append(e.name)

    for function in module.functions.values():
        if isinstance(function, relay.Function) and not has(function.attrs, "Compiler"):
            relay.analysis.post_order_visit(function.body, visit)
    return bool(operators)


def build(
    module: Any, executor: str, opt_level: int, fast_build: bool = False,
    config: Mapping[str, Any] | None = None,
) -> Executable:
    """Compiles a module for `_targets` and an executor of `relay.executors()`.

    fast_build: skips the passes `_SLOW`. config: the PassContext's.
    """
    import tvm
    from tvm import relay

    # Quantised operators are lowered to reshapes of zero points. TVM cannot plan the memory of such
    # a reshape if it is neither folded nor fused.
    required = ["FoldConstant"] if _quantized(module) else []
    disabled = _SLOW if fast_build else []
    target = _targets(module)
    with contextlib.ExitStack() as scopes:
        context = tvm.transform.PassContext(opt_level, required, disabled_pass=disabled, config=config)
        scopes.enter_context(context)
        if isinstance(target, list):
            # With several targets TVM makes none of them current, but its lowering of some
            # operators needs a current one.
            scopes.enter_context(target[0])
        if executor == "aot":
            return _build_aot(module, target)
        if executor == "graph":
            return GraphExecutable(relay.build(module, target=target))
        return VMExecutable(relay.vm.compile(module, target=target))


#: The class of executables of each executor.
_EXECUTABLES: dict[str, Callable[[Any], Executable]] = {
    "graph": GraphExecutable, "vm": VMExecutable, "aot": AotExecutable,
}


def _build_aot(module: Any, target: Any) -> Executable:
    from tvm import relay
    from tvm.relay.backend import Executor, Runtime

    options = {"interface-api": "packed", "unpacked-api": False, "link-params": True}
    executor, runtime = Executor("aot", options), Runtime("cpp")
    return AotExecutable(relay.build(module, target=target, executor=executor, runtime=runtime))


def built(result: Any, executor: str) -> Executable:
    """Wraps the result of a target's own build function.

    Raises NotAModule for an object of another kind than `relay.build` or `relay.vm.compile`
    returns.
    """
    if not hasattr(getattr(result, "mod", result), "export_library"):
        usual = "relay.vm.compile" if executor == "vm" else "relay.build"
        raise NotAModule(
            "the build function returned %s for the %s executor, expected what %s returns"
            % (type(result).__name__, executor, usual)
        )
    executable = _EXECUTABLES[executor](result)
    executable.has_parts = executable.has_parts and hasattr(result, "get_graph_json")
    return executable


def load(path: str, executor: str) -> Executable:
    """Loads a file that `Executable.export` wrote."""
    import tvm

    return _EXECUTABLES[executor](tvm.runtime.load_module(path))


def load_archive(path: str, executor: str) -> Executable:
    """Loads an archive (.tar) that `Executable.export` wrote; TVM compiles the sources in it."""
    from tvm._ffi.libinfo import find_include_path

    with headers_in(find_include_path()):
        return load(path, executor)
