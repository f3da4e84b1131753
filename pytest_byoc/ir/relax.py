"""Implements `interface.IR` for Relax, of apache-tvm 0.25 and later."""

from __future__ import annotations

import importlib
import platform
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..core.errors import Failure, NotAModule
from ..core.graph import Graph, Node, Source, TensorType
from ..core.openings import OpenExtent
from . import float64, relax_modules
from .assembly import NotLowered, assemble
from .calls import Calls
from .given_patterns import GIVEN, GivenPatterns
from .interface import Executable, Modules
from .machine import MACHINE
from .main_function import Type, main_of, tensor_type
from .relax_executables import VMExecutable
from .relax_names import known_partition as known_partition
from .relax_names import known_targets as known_targets
from .shared import check_module, has, headers_in, signature, symbol_of
from .shared import scopes as scopes

NAME = "relax"
modules: Modules = relax_modules
REMEDY = (
    "Relax needs TVM 0.25 or later: install the extra pytest-byoc[relax] (apache-tvm>=0.25), "
    "or point --byoc-python at an interpreter that has such a TVM"
)


def check_available() -> None:
    """Raises Failure with a remedy where this interpreter has no TVM with Relax from 0.25 on."""
    try:
        import tvm
    except Exception as e:  # a broken installation raises anything
        raise Failure(
            "TVM cannot be imported (%s: %s). %s." % (type(e).__name__, e, REMEDY)
        ) from None
    version = tuple(int(p) for p in tvm.__version__.split(".")[:2])
    if version < (0, 25):
        raise Failure("TVM %s is too old for Relax. %s." % (tvm.__version__, REMEDY))
    try:
        from tvm import relax  # noqa: F401
    except Exception as e:
        raise Failure(
            "Relax cannot be imported from TVM %s (%s). %s." % (tvm.__version__, e, REMEDY)
        ) from None


def versions() -> dict[str, str]:
    import tvm

    return {"tvm": tvm.__version__, "python": platform.python_version(), "numpy": np.__version__}


def executors() -> tuple[list[str], list[str]]:
    """Returns the executors that this TVM has, and sentences on what is left unchecked."""
    return ["vm"], []


def import_runtime() -> None:
    """Imports the modules that run artifacts, once for all forked children."""
    from tvm.runtime import vm  # noqa: F401


def import_compiler() -> None:
    """Does the work of TVM's first build and export in advance, once for all forked children."""
    for name in ("tvm.contrib.tvmjs", "tvm.contrib.cutlass"):
        try:
            importlib.import_module(name)
        except Exception:  # the module only saves time
            pass


def lacks_aot() -> str | None:
    """Returns None, since Relax has no AOT executor."""
    return None


# --- names that TVM knows --------------------------------------------------------------------


def pattern_table(name: str) -> list[tuple[str, Any, Any]]:
    """Returns (name, pattern, FusionPattern) for the patterns named `name.…`, by priority."""
    from tvm.relax.backend.pattern_registry import get_patterns_with_prefix

    if name == GIVEN:
        return given.table()
    return [(str(p.name), p.pattern, p) for p in get_patterns_with_prefix(name + ".")]


given = GivenPatterns()


def note_given_patterns() -> None:
    """Notes the patterns that FuseOpsByPattern is called with from now on."""
    from tvm.relax import transform

    def entries(patterns: Any, *others: Any) -> list[Any]:
        return [(str(p.name), p.pattern, p) for p in patterns]

    given.note(transform._ffi_api, "FuseOpsByPattern", entries)


def pattern_tables() -> list[str]:
    """Returns the first parts of the names of all patterns that are registered."""
    from tvm.relax.backend.pattern_registry import get_patterns_with_prefix

    return list(dict.fromkeys(str(p.name).partition(".")[0] for p in get_patterns_with_prefix("")))


def match_alone(module: Any, entry: Any, wrap: Callable[[Any], Any] | None) -> bool:
    """Returns whether one registered pattern, used as the only one, matches in the module.

    wrap: wraps the pattern's check; the result is called in its place. None: the check is skipped,
    and only the structure counts.
    """
    from tvm import relax

    check = entry.check
    if check is not None:
        check = wrap(check) if wrap is not None else None
    alone = relax.transform.FusionPattern(
        entry.name, entry.pattern, entry.annotation_patterns, check, entry.attrs_getter
    )
    module = relax.transform.FuseOpsByPattern([alone], bind_constants=True)(module)
    return any(has(f.attrs, "Composite") for f in module.functions.values())


def arguments(module: Any) -> dict[str, list[int]]:
    """Returns the numbers of arguments of main's calls by operator name (without `relax.`)."""
    import tvm
    from tvm import relax

    counts: dict[str, list[int]] = {}

    def visit(e: Any) -> None:
        if isinstance(e, relax.Call) and isinstance(e.op, tvm.ir.Op):
            name = str(e.op.name)
            counts.setdefault(name[6:] if name.startswith("relax.") else name, []).append(len(e.args))

    relax.analysis.post_order_visit(module["main"], visit)
    return counts


# --- lowering and partitioning ---------------------------------------------------------------


def _tensor_type() -> Any:
    from tvm import relax

    # TVM renamed the class between 0.25 and 0.27.
    return getattr(relax, "TensorStructInfo", None) or relax.TensorType


def _type_of(expr: Any) -> Any:
    return expr.struct_info if hasattr(expr, "struct_info") else expr.ty


def _fields(type_: Any) -> list[Any]:
    return list(type_.fields) if hasattr(type_, "fields") else [type_]


def _type(t: Any) -> str:
    shape = getattr(t, "shape", None)
    if shape is None:
        return str(t)
    # str() of a dimension would be T.int64(2); a symbolic dimension has no value.
    dims = [str(getattr(d, "value", d)) for d in shape]
    return "%s[%s]" % (t.dtype, ",".join(dims))


def lower(
    graph: Graph, constants: Mapping[str, np.ndarray], opened: Sequence[OpenExtent] = ()
) -> tuple[Any, list[str]]:
    """Lowers the graph to an IRModule; also returns, for each node, the signature of its call.

    opened: the extents of inputs that become variables.
    """
    from tvm import relax

    maker = _Maker(constants, opened)
    builder = maker.builder
    params = [maker.input(s) for s in graph.inputs]
    with builder.function("main", params):
        with builder.dataflow():
            try:
                outputs = assemble(graph, NAME, maker)
            except NotLowered as e:
                raise Failure(str(e)) from None
            body = builder.emit_output(outputs[0] if len(outputs) == 1 else relax.Tuple(outputs))
        builder.emit_func_output(body)
    return builder.get(), maker.signatures


class _Maker:
    """A builder of Relax expressions, each bound to a variable (see `assembly.Maker`)."""

    def __init__(self, constants: Mapping[str, np.ndarray], opened: Sequence[OpenExtent]) -> None:
        from tvm import relax, te

        self.ops = relax.op
        self.builder = relax.BlockBuilder()
        self.signatures: list[str] = []
        self._constants = constants
        variables = {e.variable: te.var(e.variable, "int64") for e in opened}
        self._opened = {(e.input, e.axis): variables[e.variable] + e.plus for e in opened}
        self._params: dict[str, Any] = {}

    def input(self, source: Source) -> Any:
        """Returns the same parameter in each call, as parameters are created before the body."""
        from tvm import relax

        if source.name not in self._params:
            extents = enumerate(source.type.shape)
            shape = [self._opened.get((source.name, axis), extent) for axis, extent in extents]
            self._params[source.name] = relax.Var(source.name, _tensor_type()(shape, source.type.dtype))
        return self._params[source.name]

    def constant(self, source: Source) -> Any:
        from tvm import relax

        return relax.const(self._constants[source.name], source.type.dtype)

    def type_of(self, value: Any, declared: TensorType) -> TensorType:
        shape = getattr(getattr(_type_of(value), "shape", None), "values", None) if self._opened else None
        if shape is None:
            return declared
        return TensorType(tuple(getattr(d, "value", d) for d in shape), declared.dtype)

    def result(self, node: Node, lowered: Any) -> Any:
        self.signatures.append(signature(lowered.op.name, node.types))
        return self.builder.emit(lowered)

    def field(self, name: str, whole: Any, index: int) -> Any:
        from tvm import relax

        return self.builder.emit(relax.TupleGetItem(whole, index))


def calls(module: Any) -> Calls:
    """Returns main as calls of operators, with names for its values. Raises NotReadable."""
    from .relax_calls import read

    return read(module)


def folded(module: Any) -> Any:
    """Returns a module in which what depends on constants alone is a constant."""
    from tvm import relax

    return relax.transform.FoldConstant()(module)


def bound(module: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """Returns a module in which parameters of main, by name, are constants."""
    import tvm
    from tvm import relax

    params = {name: tvm.runtime.tensor(array) for name, array in arrays.items()}
    return relax.transform.BindParams("main", params)(module)


def unbound(
    module: Any, wanted: Callable[[np.ndarray], bool], prefix: str
) -> tuple[Any, dict[str, np.ndarray]]:
    """Returns a module in which constants of main are further parameters, and these constants by name."""
    from . import relax_weights

    return relax_weights.unbound(module, wanted, prefix)


def in_float64(module: Any) -> Any:
    """Returns a module that computes in float64 where this one does in smaller floats."""
    import tvm

    from .relax_types import inferred

    return inferred(tvm.ir.load_json(float64.in_float64(str(tvm.ir.save_json(module)))))


def calls_function(module: Any, function: Any) -> bool:
    """Returns whether TVM compiles the one operator of a module's main to this TIR function."""
    from . import relax_calls

    return relax_calls.calls_function(module, function)


def output_types(module: Any) -> list[str]:
    """Returns the types that TVM infers for main's outputs, as texts in the form of TensorType."""
    return [_type(t) for t in _fields(relax_modules.return_type(module["main"]))]


def check_partitioned(module: Any) -> Any:
    """Returns the result of a partition function. Raises NotAModule if it is not an IRModule."""
    return check_module(module)


def main_type(module: Any) -> list[Type]:
    """Returns the types of main's parameters and, last, of its result. Raises MainLost."""
    from tvm import relax

    main = main_of(module, relax.Function)
    return [_main_type(t) for t in [*map(_type_of, main.params), relax_modules.return_type(main)]]


def _main_type(t: Any) -> Type:
    if hasattr(t, "fields"):
        return tuple(map(_main_type, t.fields))
    if not hasattr(t, "dtype"):
        return (str(t), None)
    # The shape may be an expression with unknown extents.
    return tensor_type(t.dtype, getattr(getattr(t, "shape", None), "values", None), int(t.ndim))


def same_function(before: Any, after: Any) -> bool:
    """Returns whether two functions are structurally equal."""
    import tvm_ffi

    try:
        return bool(tvm_ffi.structural_equal(before, after, True))
    except Exception:  # TVM cannot compare a part of it, for example an attribute
        return False


def partition_facts(module: Any) -> dict[str, Any]:
    """Returns facts about the regions reachable from main, see `interface.IR.partition_facts`.

    "times" of a region is the number of its call sites, since TVM merges equal regions into one.
    """
    from tvm import relax

    regions = []
    host_calls = 0
    reached = relax_modules.reached(module)
    places = relax_modules.places(module, reached)
    # A region with several composites holds them as local functions; a region that FuseOpsByPattern
    # annotated itself may call other functions of the module, which have no Codegen attribute.
    for gv, function in module.functions.items():
        if not isinstance(function, relax.Function):
            continue
        attrs = function.attrs
        compiler = attrs["Codegen"] if has(attrs, "Codegen") else None
        if compiler is None and has(attrs, "Composite"):
            continue  # its calls are counted with its caller
        if compiler is not None and gv.name_hint not in reached:
            continue
        composites: list[str] = []

        def visit(e: Any, composites: list[str] = composites) -> None:
            if isinstance(e, relax.Function) and has(e.attrs, "Composite"):
                composites.append(str(e.attrs["Composite"]))

        relax.analysis.post_order_visit(function, visit)
        operator_calls = relax_modules.operators_called(function)
        calls = [signature(c.op.name, [_type(t) for t in _fields(_type_of(c))]) for c in operator_calls]
        if compiler is None:
            host_calls += len(calls)
            continue
        if has(attrs, "Composite"):
            composites.append(str(attrs["Composite"]))
        returned = _fields(relax_modules.return_type(function))
        given = [t for p in function.params for t in _fields(_type_of(p))]
        regions.append(
            {
                "symbol": symbol_of(gv.name_hint, function),
                "compiler": str(compiler),
                "composites": sorted(set(composites)),
                "calls": calls,
                "odd": relax_modules.oddities(function),
                "codegen": _has_codegen(str(compiler)),
                "inputs": len(function.params),
                "outputs": len(returned),
                "passed": [_type(t) for t in given + returned],
                "times": max(places[gv.name_hint], 1),
            }
        )
    return {"regions": regions, "host_calls": host_calls}


def _has_codegen(compiler: str) -> bool:
    """Returns whether a codegen for a compiler's regions is registered with TVM."""
    import tvm

    return tvm.get_global_func("relax.ext." + compiler, allow_missing=True) is not None


def constants_kept(module: Any) -> int:
    """Returns 1: RunCodegen adds the constants to the module as an attribute, for TVM's own loader of
    constants, which saves them too."""
    return 1


# --- building and loading --------------------------------------------------------------------


def build(
    module: Any, executor: str, opt_level: int, fast_build: bool = False,
    config: Mapping[str, Any] | None = None,
) -> VMExecutable:
    """Runs the codegens of the regions and compiles the module with LLVM for `MACHINE`.

    fast_build: switches LLVM's optimisations off. config: the PassContext's.
    """
    import tvm
    from tvm import relax

    with tvm.transform.PassContext(opt_level=opt_level, config=config):
        module = relax.transform.RunCodegen()(module)
        target = {**MACHINE.llvm(), **({"opt-level": 0} if fast_build else {})}
        return VMExecutable(tvm.compile(module, target=tvm.target.Target(target)))


def build_tuned(
    module: Any, executor: str, opt_level: int, config: Mapping[str, Any], log: Mapping[str, str]
) -> tuple[Executable, int]:
    """Compiles a module with the schedules of a database of meta-schedule (see `interface.IR`)."""
    from .relax_tuning import scheduled

    module, fitting = scheduled(module, opt_level, config, log["path"])
    return build(module, executor, opt_level, config=config), fitting


def built(result: Any, executor: str) -> Executable:
    """Wraps the result of a target's own build function.

    Raises NotAModule for an object of another kind than `tvm.compile` returns.
    """
    if not hasattr(result, "export_library"):
        raise NotAModule(
            "the build function returned %s, expected what tvm.compile returns" % type(result).__name__
        )
    return VMExecutable(result)


def load(path: str, executor: str) -> Executable:
    """Loads a file that `Executable.export` wrote."""
    import tvm

    return VMExecutable(tvm.runtime.load_module(path))


def load_archive(path: str, executor: str) -> Executable:
    """Loads an archive (.tar) that `Executable.export` wrote; TVM compiles the sources in it."""
    import tvm
    import tvm_ffi

    ffi = tvm_ffi.libinfo
    folders = [tvm.libinfo.find_include_path(), ffi.find_include_path(), ffi.find_dlpack_include_path()]
    with headers_in([f for each in folders for f in ([each] if isinstance(each, str) else each)]):
        return load(path, executor)


def load_parts(parts: Mapping[str, str]) -> Executable:
    """Is never called, since no executable of Relax has parts."""
    raise NotImplementedError
