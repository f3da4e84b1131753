"""What a vendor declares about a target, and how a reference to it is resolved.

Resolving happens in the target worker (Python 3.8, NumPy, TVM): the host only passes the reference
on and never imports what it names.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from .irs import IRS
from .names import printable
from .precision import PrecisionError, declared
from .procedure import ProcedureError, preparation, reasons
from .worker.preparing import Preparation
from .worker.server import Failure

#: Targets installed with this package, by name.
EXAMPLES = {"example_c": "pytest_byoc.examples.example_c:target"}
#: Of regions, see `Target.trivial_regions`.
ODDITIES = ("empty", "identity", "duplicate")
#: TVM's, of either IR.
EXECUTORS = ("graph", "vm", "aot")


class Target:
    """A target, to be subclassed where a function or a table in pyproject.toml can't say it.

    Any object with a `partition` will do; the other attributes default to the values here.
    """

    #: Shown in reports, unless a table in pyproject.toml gives the target a name; no two targets of a session
    #: have the same.
    name: Optional[str] = None
    #: "relay", "relax" or a tuple of both; None: whichever the worker's TVM has.
    ir: Union[str, Sequence[str], None] = None
    #: Shared libraries loaded (RTLD_GLOBAL) before anything is partitioned, and by the loader; also Python
    #: files (.py) that register functions with TVM, which are imported.
    libraries: Sequence[str] = ()
    #: As `libraries`, for the loader alone: what a deployment has beside TVM's runtime.
    runtime_libraries: Sequence[str] = ()
    #: Keyword arguments of `export_library`: cc, options, addons …
    export_options: Mapping[str, Any] = {}
    #: Name under which its patterns are registered with TVM, if it is not the target's own: Relay's
    #: pattern table, or what the names of Relax's patterns begin with. Graphs are made from them.
    patterns: Optional[str] = None
    #: Of the PassContext in which the partitioned module is built.
    opt_level: int = 3
    #: `config` of the PassContext in which a module is partitioned and in which it is built, such as
    #: {"relay.FuseOps.max_depth": 4, "relay.ext.ethos-n.options": {"variant": "n78"}}.
    pass_config: Mapping[str, Any] = {}
    #: In place of `relay.build`, `relay.vm.compile` or `tvm.compile`: `module:attribute`, or a method
    #: build(mod, executor), that is given the partitioned module and "graph", "vm" or "aot" and returns what
    #: these return. It is called in a PassContext of `opt_level` and `pass_config`.
    build: Union[Callable[[Any, str], Any], str, None] = None
    #: Called before the first run of what has been loaded. {"function": name, "arguments": [...]}: a function
    #: of the loaded module or of one that it imports, called once after each load. `module:attribute`: a
    #: function that is given each new executor (GraphModule, AotModule, VirtualMachine). Its module is
    #: imported where nothing is but TVM's runtime, so it can't import the compiler.
    prepare: Union[Mapping[str, Any], str, None] = None
    #: Checks that are not made of the target: id of the check to the reason, which reports repeat.
    without_checks: Mapping[str, str] = {}
    #: Whether inputs that are views are held against it even where TVM's own kernels read them from their
    #: beginning, as under Relay's VM.
    strict_views: bool = False
    #: TVM's executors that its regions can be built for ("graph", "vm", "aot"), if not for all: some of what
    #: a hook makes into TIR can't be built for the VM.
    executors: Sequence[str] = ()
    #: Whether the same inputs give the same bits every time.
    deterministic: bool = True
    #: Dtype in which sums and the products summed are rounded ("float16", "bfloat16") where that is
    #: lower than the graph's dtype, or a mapping to it from the dtype of what is summed. This and what
    #: follows widens the error bound of the operators the target takes, by calculation: docs/numerics.md.
    accumulate_dtype: Union[str, Mapping[str, str], None] = None
    #: Dtype to which float32 operands of contractions are rounded: "tfloat32", "bfloat16", "float16".
    contraction_dtype: Optional[str] = None
    #: Whether subnormal operands and results may become zero.
    flush_subnormals: bool = False
    #: By operator (exp, tanh, nn.softmax …), units in the last place by which its result may be off
    #: beyond what is granted anyway.
    function_ulps: Mapping[str, float] = {}
    #: By operator, an absolute error of its result beyond that, as tables and polynomials have; of operators
    #: that round to integers (qnn.requantize …) in steps: 1 where it is done in two.
    function_errors: Mapping[str, float] = {}
    #: What the codegen is made for although it computes nothing: regions that are "empty" (no operator
    #: is called), return an input as it is ("identity"), or one value twice ("duplicate").
    trivial_regions: Sequence[str] = ()

    def partition(self, mod: Any) -> Any:
        """Takes an IRModule and returns it partitioned for the target (not yet built)."""
        raise NotImplementedError


class ResolvedTarget:
    """A target with everything filled in; `partition` is the vendor's code."""

    def __init__(
        self, name: str, partition: Callable[[Any], Any], options: Mapping[str, Any], own: str = ""
    ) -> None:
        """name: the one shown in reports. own: the one that the target has for itself, if it has one: it is
        what its patterns are registered under by default."""
        patterns = own or name
        self.name = name = printable(name)
        self.partition = partition
        #: Whether TVM knows it by its name, and whether the partition function is one that TVM comes with.
        self.named_in_tvm = self.tvms_partition = False
        known = {k for k in vars(Target) if not k.startswith("_")} - {"name", "partition"}
        self.irs = _as_tuple(options.get("ir"))
        self.libraries = _as_tuple(options.get("libraries"))
        self.runtime_libraries = _as_tuple(options.get("runtime_libraries"))
        self.export_options: Dict[str, Any] = dict(options.get("export_options") or {})
        self.patterns: str = options.get("patterns") or patterns
        self.opt_level = int(options.get("opt_level", Target.opt_level))
        self.executors = _as_tuple(options.get("executors"))
        self.deterministic = bool(options.get("deterministic", Target.deterministic))
        self.strict_views = bool(options.get("strict_views", Target.strict_views))
        self.trivial_regions = _as_tuple(options.get("trivial_regions"))
        self.pass_config: Dict[str, Any] = dict(options.get("pass_config") or {})
        unknown = sorted(set(options) - known)
        if unknown:
            raise Failure(
                "target %s: unknown setting %s; known are %s"
                % (name, ", ".join(unknown), ", ".join(sorted(known)))
            )
        try:
            self.precision = declared(options)
        except PrecisionError as e:
            raise Failure("target %s: %s" % (name, e)) from None
        try:
            self.preparation = Preparation(preparation(options.get("prepare")))
            self.without_checks = reasons(options.get("without_checks"))
        except ProcedureError as e:
            raise Failure("target %s: %s" % (name, e)) from None
        odd = [o for o in self.trivial_regions if o not in ODDITIES]
        if odd:
            raise Failure(
                "target %s: trivial_regions holds %r; known are %s" % (name, odd[0], ", ".join(ODDITIES))
            )
        strange = [e for e in self.executors if e not in EXECUTORS]
        if strange:
            raise Failure(
                "target %s: executors holds %r; known are %s" % (name, strange[0], ", ".join(EXECUTORS))
            )
        bad = [ir for ir in self.irs if ir not in IRS]
        if bad:
            raise Failure("target %s: ir must be %s, found %r" % (name, " or ".join(IRS), bad[0]))
        self.build = _build_function(name, options.get("build"))

    def takes_executor(self, name: str) -> bool:
        """Whether its regions can be built for an executor, as far as it says."""
        return not self.executors or name in self.executors


def _build_function(name: str, given: Any) -> Optional[Callable[[Any, str], Any]]:
    """The vendor's build function, imported where it is given by a reference. Raises Failure."""
    if isinstance(given, str):
        given = import_reference(given, "build of target %s" % name)
    if given is not None and not callable(given):
        raise Failure(
            "target %s: build is a %s; expected a function of the partitioned module and the executor's name"
            % (name, type(given).__name__)
        )
    return given


def _as_tuple(value: Union[str, Sequence[str], None]) -> Tuple[str, ...]:
    if value is None:
        return ()
    return (value,) if isinstance(value, str) else tuple(value)


def package_name(path: str) -> Tuple[str, str]:
    """Import name of a file, and the folder it is imported from: above all its packages."""
    folder, base = os.path.split(os.path.abspath(path))
    parts = [] if base == "__init__.py" else [os.path.splitext(base)[0]]
    while os.path.exists(os.path.join(folder, "__init__.py")):
        folder, package = os.path.split(folder)
        parts.insert(0, package)
    return ".".join(parts), folder


def _load_file(path: str) -> str:
    """Loads a file as a module of a name of its own, which is returned."""
    name = "byoc_target_" + "".join(c if c.isalnum() else "_" for c in os.path.basename(path))
    if _is_loaded(name, path):
        return name
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return name


def _is_loaded(name: str, path: str) -> bool:
    """Whether the module of that name was made of that file."""
    file = getattr(sys.modules.get(name), "__file__", None)
    return file is not None and os.path.realpath(file) == os.path.realpath(path)


def import_file(path: str) -> str:
    """Imports a file, in its package if it is in one, unless that has been done; the module's name."""
    name, folder = package_name(path)
    if _is_loaded(name, path):
        return name
    sys.path.insert(0, folder)
    if "." not in name and (name in sys.modules or not name.isidentifier()):
        # A file called like a module that is there already, or like none at all.
        return _load_file(path)
    importlib.import_module(name)
    return name


def import_reference(reference: str, role: str = "target") -> Any:
    """The object `module:attribute` or `path/to/file.py:attribute` names. role: what it is, for messages.

    Raises Failure for a reference of another form, a missing file, module or attribute; what the
    vendor's code raises while being imported passes through.
    """
    where, _, attribute = reference.rpartition(":")
    if not where or not attribute:
        raise Failure("%r is not of the form module:attribute or path/to/file.py:attribute" % reference)
    if where.endswith(".py") or os.sep in where:
        path = os.path.join(where, "__init__.py") if os.path.isdir(where) else where
        if not os.path.isfile(path):
            what = "folder %s has no __init__.py" if os.path.isdir(where) else "there is no file %s"
            raise Failure((what + " (given as %s %s)") % (where, role, reference))
        name = import_file(path)
    else:
        name = where
        try:
            found = importlib.util.find_spec(name)
        except ModuleNotFoundError:
            found = None
        if found is None:
            raise Failure(
                "there is no module %s (given as %s %s) on the worker's path" % (name, role, reference)
            )
    module = importlib.import_module(name)
    target = module
    for part in attribute.split("."):
        if not hasattr(target, part):
            public = [n for n in vars(module) if not n.startswith("_")]
            raise Failure(
                "module %s has no attribute %s; it has %s" % (name, attribute, ", ".join(sorted(public)))
            )
        target = getattr(target, part)
    return target


def _from_object(name: str, found: Any, overrides: Mapping[str, Any], table: bool) -> ResolvedTarget:
    """table: whether the name is that of a table in pyproject.toml, which comes before the target's own."""
    if isinstance(found, type):
        found = found()
    options = {
        k: getattr(found, k)
        for k in vars(Target)
        if not k.startswith("_") and k not in ("name", "partition") and hasattr(found, k)
    }
    options.update(overrides)
    # A string has a method of that name too.
    if hasattr(found, "partition") and not isinstance(found, (str, bytes)):
        own = getattr(found, "name", None) or name
        if not isinstance(own, str):
            raise Failure("target %s: its attribute name must be a string, found %r" % (name, own))
        return ResolvedTarget(name if table else own, found.partition, options, own)
    if callable(found):
        return ResolvedTarget(name, found, options)
    raise Failure(
        "target %s is a %s; expected a partition function, or an object with a method partition(mod)"
        % (name, type(found).__name__)
    )


def resolve(declaration: Mapping[str, Any], irs: List[Any]) -> ResolvedTarget:
    """The target a declaration means. Runs in the worker.

    declaration: {"name", "reference" (module:attribute, or None), "options" (of a table), "names"
    (targets the host knows)}. irs: the IR modules to look in for a name TVM knows itself.
    Raises Failure when there is no such target; it lists those there are.
    """
    name = declaration["name"]
    options = declaration.get("options") or {}
    if declaration.get("reference"):
        found = import_reference(declaration["reference"])
        return _from_object(name, found, options, bool(declaration.get("table")))
    for ir in irs:
        known_partition = ir.known_partition(name, bool(declaration.get("by_table")))
        if known_partition is not None:
            partition, own = known_partition
            target = ResolvedTarget(name, partition, dict({"ir": ir.NAME}, **options))
            target.named_in_tvm, target.tvms_partition = True, own
            return target
    if declaration.get("table"):
        raise Failure(
            "target %s: its table in pyproject.toml has no partition = \"module:function\", and TVM knows "
            "no target of that name" % name
        )
    known = list(declaration.get("names", []))
    for ir in irs:
        known += ["%s (known to this TVM, %s: %s)" % (n, ir.NAME, w) for n, w in ir.known_targets().items()]
    raise Failure(
        "there is no target called %r. Known are:\n  %s\nor give module:attribute, or "
        "path/to/file.py:attribute." % (name, "\n  ".join(known))
    )
