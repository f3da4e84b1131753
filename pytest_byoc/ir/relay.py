"""Implements `interface.IR` for Relay, of TVM 0.9 to 0.19."""

from __future__ import annotations

import importlib
import platform
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..core.errors import Failure
from ..core.graph import Graph, Node, Source, TensorType
from ..core.openings import OpenExtent
from . import float64, relay_modules
from .assembly import NotLowered, assemble
from .calls import Calls
from .given_patterns import GIVEN, GivenPatterns
from .interface import Modules
from .main_function import Type, main_of, tensor_type
from .relay_building import build as build
from .relay_building import built as built
from .relay_building import has_hooks
from .relay_building import load as load
from .relay_building import load_archive as load_archive
from .relay_executables import load_parts as load_parts
from .relay_executables import tensor
from .relay_names import known_partition as known_partition
from .relay_names import known_targets as known_targets
from .relay_tuning import build_tuned as build_tuned
from .shared import check_module, has, signature, symbol_of
from .shared import scopes as scopes

NAME = "relay"
modules: Modules = relay_modules
REMEDY = (
    "Relay needs TVM 0.19 or earlier: install the extra pytest-byoc[relay] (CPython 3.10), "
    "or point --byoc-python at an interpreter that has such a TVM"
)


def check_available() -> None:
    """Raises Failure with a remedy where this interpreter's TVM has no Relay."""
    try:
        import tvm
    except Exception as e:  # a broken installation raises anything
        raise Failure(
            "TVM cannot be imported (%s: %s). %s." % (type(e).__name__, e, REMEDY)
        ) from None
    try:
        from tvm import relay  # noqa: F401
    except Exception as e:
        raise Failure(
            "Relay cannot be imported from TVM %s (%s). %s." % (tvm.__version__, e, REMEDY)
        ) from None


def versions() -> dict[str, str]:
    import tvm

    return {"tvm": tvm.__version__, "python": platform.python_version(), "numpy": np.__version__}


def executors() -> tuple[list[str], list[str]]:
    """Returns the executors that this TVM has, and sentences on what is left unchecked."""
    missing = []
    names = ["graph"]
    try:
        from tvm.relay import vm  # noqa: F401
        from tvm.runtime.vm import VirtualMachine  # noqa: F401

        names.append("vm")
    except ImportError:
        missing.append("executor vm: this TVM has none")
    return names, missing


def import_runtime() -> None:
    """Imports the modules that run artifacts, once for all forked children."""
    from tvm.contrib import graph_executor  # noqa: F401

    try:
        from tvm.runtime.vm import VirtualMachine  # noqa: F401
    except ImportError:  # `executors` reports it
        pass


def import_compiler() -> None:
    """Does the work of TVM's first build and export in advance, once for all forked children."""
    import tvm

    try:
        importlib.import_module("tvm.contrib.tvmjs")
    except ImportError:
        pass
    # NumPy reads such attributes of TVM's variables, and TVM raises. Its first error loads the
    # library's debug information, which takes longer than a build.
    getattr(tvm.tir.Var("i", "int32"), "__array_struct__", None)


def lacks_aot() -> str | None:
    """Returns why this TVM has no AOT executor for the C++ runtime; "" where it has one."""
    import tvm

    try:
        from tvm.relay.backend import Executor, Runtime  # noqa: F401
        from tvm.runtime.executor import AotModule  # noqa: F401
    except ImportError as e:
        return "this TVM has no AOT executor (%s)" % e
    name = "tvm.aot_executor_factory.create"
    return "" if tvm.get_global_func(name, True) else "this TVM's library has no " + name


# --- names that TVM knows --------------------------------------------------------------------


def pattern_table(name: str) -> list[tuple[str, Any, Any]]:
    """Returns (name, pattern, entry) for the entries of a name's pattern table, in their order."""
    from tvm.relay.op.contrib.register import get_pattern_table

    if name == GIVEN:
        return given.table()
    table = get_pattern_table(name)
    if callable(table):
        table = table()
    return [(str(entry[0]), entry[1], tuple(entry)) for entry in table or ()]


given = GivenPatterns()


def note_given_patterns() -> None:
    """Notes the tables that MergeComposite is called with from now on."""
    from tvm.relay import transform

    def entries(names: Any, patterns: Any, *checks: Any) -> list[Any]:
        return [(str(n), p, (str(n), p, c)) for n, p, c in zip(names, patterns, checks)]

    given.note(transform._ffi_api, "MergeComposite", entries)


def pattern_tables() -> list[str]:
    """Returns the names of all pattern tables that are registered."""
    from tvm.relay.op.contrib import register

    return list(register._PATTERN_TABLES)


def match_alone(module: Any, entry: Any, wrap: Callable[[Any], Any] | None) -> bool:
    """Returns whether one entry of a pattern table, used as the only one, matches in the module.

    wrap: wraps the entry's check; the result is called in its place. None: the check is skipped,
    and only the structure counts.
    """
    from tvm import relay

    composites: list[str] = []

    def visit(e: Any) -> None:
        if isinstance(e, relay.Function) and has(e.attrs, "Composite"):
            composites.append(str(e.attrs["Composite"]))

    alone = entry[:2]
    if wrap is not None and len(entry) > 2:
        alone = (*alone, wrap(entry[2]))
    for function in relay.transform.MergeComposite([alone])(module).functions.values():
        relay.analysis.post_order_visit(function.body, visit)
    return bool(composites)


def arguments(module: Any) -> dict[str, list[int]]:
    """Returns the numbers of arguments of main's calls by operator name."""
    import tvm
    from tvm import relay

    counts: dict[str, list[int]] = {}

    def visit(e: Any) -> None:
        if isinstance(e, relay.Call) and isinstance(e.op, tvm.ir.Op):
            counts.setdefault(e.op.name, []).append(len(e.args))

    relay.analysis.post_order_visit(module["main"].body, visit)
    return counts


# --- lowering and partitioning ---------------------------------------------------------------


def lower(
    graph: Graph, constants: Mapping[str, np.ndarray], opened: Sequence[OpenExtent] = ()
) -> tuple[Any, list[str]]:
    """Lowers the graph to an IRModule; also returns, for each node, the signature of its call.

    opened: the extents of inputs that become `Any`, whatever their variables are.
    """
    import tvm
    from tvm import relay

    maker = _Maker(constants, opened)
    try:
        outputs = assemble(graph, NAME, maker)
    except NotLowered as e:
        raise Failure(str(e)) from None
    body = outputs[0] if len(outputs) == 1 else relay.Tuple(outputs)
    module = tvm.IRModule.from_expr(relay.Function(maker.params, body))
    return relay.transform.InferType()(module), maker.signatures


class _Maker:
    """A builder of Relay expressions (see `assembly.Maker`)."""

    def __init__(self, constants: Mapping[str, np.ndarray], opened: Sequence[OpenExtent]) -> None:
        from tvm import relay

        self.ops = relay
        self.params: list[Any] = []
        self.signatures: list[str] = []
        self._constants = constants
        self._opened = {(e.input, e.axis) for e in opened}

    def input(self, source: Source) -> Any:
        extents = enumerate(source.type.shape)
        shape = [self.ops.Any() if (source.name, axis) in self._opened else d for axis, d in extents]
        self.params.append(self.ops.var(source.name, shape=shape, dtype=source.type.dtype))
        return self.params[-1]

    def constant(self, source: Source) -> Any:
        return self.ops.const(tensor(self._constants[source.name]))

    def type_of(self, value: Any, declared: TensorType) -> TensorType:
        return declared

    def result(self, node: Node, lowered: Any) -> Any:
        if isinstance(lowered, self.ops.expr.TupleWrapper):
            lowered = lowered.astuple()
        self.signatures.append(signature(lowered.op.name, node.types))
        return lowered

    def field(self, name: str, whole: Any, index: int) -> Any:
        return self.ops.TupleGetItem(whole, index)


def calls(module: Any) -> Calls:
    """Returns main as calls of operators, with names for its values. Raises NotReadable."""
    from .relay_calls import read

    return read(module)


def folded(module: Any) -> Any:
    """Returns a module in which what depends on constants alone is a constant."""
    from tvm import relay

    return relay.transform.InferType()(relay.transform.FoldConstant()(relay.transform.InferType()(module)))


def bound(module: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """Returns a module in which parameters of main, by name, are constants."""
    from tvm import relay
    from tvm.relay.build_module import bind_params_by_name

    params = {name: tensor(array) for name, array in arrays.items()}
    module = relay.transform.InferType()(module)
    module["main"] = bind_params_by_name(module["main"], params)
    return relay.transform.InferType()(module)


def unbound(
    module: Any, wanted: Callable[[np.ndarray], bool], prefix: str
) -> tuple[Any, dict[str, np.ndarray]]:
    """Returns a module in which constants of main are further parameters, and these constants by name."""
    from . import relay_weights

    return relay_weights.unbound(module, wanted, prefix)


def in_float64(module: Any) -> Any:
    """Returns a module that computes in float64 where this one does in smaller floats."""
    import tvm
    from tvm import relay

    return relay.transform.InferType()(tvm.ir.load_json(float64.in_float64(str(tvm.ir.save_json(module)))))


def calls_function(module: Any, function: Any) -> bool:
    """Returns False: Relay's frontends call no TIR functions."""
    return False


def output_types(module: Any) -> list[str]:
    """Returns the types that TVM infers for main's outputs, as texts in the form of TensorType."""
    import tvm

    return [_type(t) for t in _fields(module["main"].checked_type.ret_type, tvm.ir.TupleType)]


def _fields(type_: Any, tuple_type: Any) -> list[Any]:
    return list(type_.fields) if isinstance(type_, tuple_type) else [type_]


def _type(t: Any) -> str:
    if not hasattr(t, "shape"):
        return str(t)
    return "%s[%s]" % (t.dtype, ",".join(str(d) for d in t.shape))


def check_partitioned(module: Any) -> Any:
    """Returns the IRModule in the result of a partition function. Raises NotAModule."""
    import tvm

    # Some partition functions return (module, configuration).
    if isinstance(module, tuple) and module and isinstance(module[0], tvm.IRModule):
        module = module[0]
    return check_module(module)


def main_type(module: Any) -> list[Type]:
    """Returns the types of main's parameters and, last, of its result. Raises MainLost."""
    from tvm import relay

    main = main_of(module, relay.Function)
    try:
        type_ = main.checked_type
    except ValueError:  # the partition function did not infer its type
        type_ = relay.transform.InferType()(module)["main"].checked_type
    return [_main_type(t) for t in [*type_.arg_types, type_.ret_type]]


def _main_type(t: Any) -> Type:
    if hasattr(t, "fields"):
        return tuple(map(_main_type, t.fields))
    return tensor_type(t.dtype, t.shape) if hasattr(t, "shape") else (str(t), None)


def same_function(before: Any, after: Any) -> bool:
    """Returns whether two functions are structurally equal."""
    import tvm

    try:
        return bool(tvm.ir.structural_equal(before, after, map_free_vars=True))
    except Exception:  # TVM cannot compare a part of it, for example an attribute
        return False


def constants_kept(module: Any) -> int:
    """Returns 1 if main passes constants to regions: beside a codegen that makes C source, TVM saves the
    parameters of main a second time, in its loader of constants."""
    import tvm
    from tvm import relay

    passed: list[Any] = []

    def visit(e: Any) -> None:
        if isinstance(e, relay.Call) and isinstance(e.op, tvm.ir.GlobalVar):
            passed.extend(arg for arg in e.args if isinstance(arg, relay.Constant))

    relay.analysis.post_order_visit(module["main"].body, visit)
    return int(bool(passed))


def partition_facts(module: Any) -> dict[str, Any]:
    """Returns facts about the regions reachable from main, see `interface.IR.partition_facts`."""
    import tvm
    from tvm import relay

    module = relay.transform.InferType()(module)
    regions = []
    host_calls = 0
    reached = relay_modules.reached(module)
    for gv, function in module.functions.items():
        if not isinstance(function, relay.Function):
            continue
        attrs = function.attrs
        compiler = attrs["Compiler"] if has(attrs, "Compiler") else None
        if compiler is not None and gv.name_hint not in reached:
            continue
        calls: list[str] = []
        composites: list[str] = []

        def visit(e: Any, calls: list[str] = calls, composites: list[str] = composites) -> None:
            if isinstance(e, relay.Call) and isinstance(e.op, tvm.ir.Op):
                types = _fields(e.checked_type, tvm.ir.TupleType)
                calls.append(signature(e.op.name, [_type(t) for t in types]))
            elif isinstance(e, relay.Function) and has(e.attrs, "Composite"):
                composites.append(str(e.attrs["Composite"]))

        relay.analysis.post_order_visit(function.body, visit)
        if compiler is None:
            host_calls += len(calls)
            continue
        returned = _fields(function.ret_type, tvm.ir.TupleType)
        given = [t for p in function.params for t in _fields(p.checked_type, tvm.ir.TupleType)]
        regions.append(
            {
                "symbol": symbol_of(gv.name_hint, function),
                "compiler": str(compiler),
                "composites": composites,
                "calls": calls,
                "odd": relay_modules.oddities(function),
                "codegen": _has_codegen(str(compiler)),
                "inputs": len(function.params),
                "outputs": len(returned),
                "passed": [str(_type(t)) for t in given + returned],
            }
        )
    return {"regions": regions, "host_calls": host_calls}


def _has_codegen(compiler: str) -> bool:
    """Returns whether TVM has a codegen for a compiler's regions.

    It is a registered function, or a hook of the target kind of that name.
    """
    import tvm

    if tvm.get_global_func("relay.ext." + compiler, allow_missing=True) is not None:
        return True
    return compiler in tvm.target.Target.list_kinds() and has_hooks(tvm.target.Target(compiler))
