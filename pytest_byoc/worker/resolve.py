"""Resolves the declaration of a target: finds its partition function and fills in all settings.

It runs in the target worker: the host only passes on a reference, and never imports its module.
"""

from __future__ import annotations

import difflib
from typing import Any, Callable, Mapping, Sequence

from ..core.errors import Failure
from ..core.importing import import_reference
from ..core.irs import IRS
from ..core.names import printable
from ..core.target import EXECUTORS, ODDITIES, Target
from ..runs.preparing import Preparation
from .declared_precision import PrecisionError, declared
from .procedure import ProcedureError, preparation, reasons


class ResolvedTarget:
    """A target with all settings filled in and checked; `partition` is the vendor's function."""

    def __init__(
        self, name: str, partition: Callable[[Any], Any], options: Mapping[str, Any], own: str = ""
    ) -> None:
        """Raises Failure for an invalid setting.

        name: the name in reports. own: the name that the target itself has, or "". By default its
        patterns are registered under that name.
        """
        patterns = own or name
        self.name = name = printable(name)
        self.partition = partition
        #: Whether TVM knows the target by its name, and whether TVM contains the partition
        #: function.
        self.named_in_tvm = self.tvms_partition = False
        known = {k for k in vars(Target) if not k.startswith("_")} - {"name", "partition"}
        self.irs = _as_tuple(options.get("ir"))
        self.libraries = _as_tuple(options.get("libraries"))
        self.runtime_libraries = _as_tuple(options.get("runtime_libraries"))
        self.export_options: dict[str, Any] = dict(options.get("export_options") or {})
        #: The name of the table of patterns, and the one that is declared, or "".
        self.declared_patterns: str = options.get("patterns") or ""
        self.patterns = self.declared_patterns or patterns
        self.opt_level = int(options.get("opt_level", Target.opt_level))
        self.executors = _as_tuple(options.get("executors"))
        self.deterministic = bool(options.get("deterministic", Target.deterministic))
        self.strict_views = bool(options.get("strict_views", Target.strict_views))
        self.trivial_regions = _as_tuple(options.get("trivial_regions"))
        self.pass_config: dict[str, Any] = dict(options.get("pass_config") or {})
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
                "target %s: trivial_regions contains %r; known are %s" % (name, odd[0], ", ".join(ODDITIES))
            )
        strange = [e for e in self.executors if e not in EXECUTORS]
        if strange:
            raise Failure(
                "target %s: executors contains %r; known are %s" % (name, strange[0], ", ".join(EXECUTORS))
            )
        bad = [ir for ir in self.irs if ir not in IRS]
        if bad:
            raise Failure("target %s: ir must be %s, found %r" % (name, " or ".join(IRS), bad[0]))
        self.build = _build_function(name, options.get("build"))

    def takes_executor(self, name: str) -> bool:
        """Returns whether the target's regions can be built for an executor, by its declaration."""
        return not self.executors or name in self.executors


def _build_function(name: str, given: Any) -> Callable[[Any, str], Any] | None:
    """Returns the vendor's build function, and imports it if it is a reference. Raises Failure."""
    if isinstance(given, str):
        given = import_reference(given, "build of target %s" % name)
    if given is not None and not callable(given):
        raise Failure(
            "target %s: build is a %s; expected a function of the partitioned module and the executor's name"
            % (name, type(given).__name__)
        )
    return given


def _as_tuple(value: str | Sequence[str] | None) -> tuple[str, ...]:
    if value is None:
        return ()
    return (value,) if isinstance(value, str) else tuple(value)


def _from_object(name: str, declared_by: Any, overrides: Mapping[str, Any], table: bool) -> ResolvedTarget:
    """Returns the target that an object or a function declares.

    overrides: settings that override the object's attributes. table: whether `name` is that of a
    table in pyproject.toml, which overrides the object's own name.
    """
    if isinstance(declared_by, type):
        declared_by = declared_by()
    options = {
        k: getattr(declared_by, k)
        for k in vars(Target)
        if not k.startswith("_") and k not in ("name", "partition") and hasattr(declared_by, k)
    }
    options.update(overrides)
    # str and bytes have a method called partition too.
    if hasattr(declared_by, "partition") and not isinstance(declared_by, (str, bytes)):
        own = getattr(declared_by, "name", None) or name
        if not isinstance(own, str):
            raise Failure("target %s: its attribute name must be a string, found %r" % (name, own))
        return ResolvedTarget(name if table else own, declared_by.partition, options, own)
    if callable(declared_by):
        return ResolvedTarget(name, declared_by, options)
    raise Failure(
        "target %s is a %s; expected a partition function, or an object with a method partition(mod)"
        % (name, type(declared_by).__name__)
    )


def resolve(declaration: Mapping[str, Any], irs: list[Any]) -> ResolvedTarget:
    """Returns the target of a declaration.

    declaration: {"name", "reference" (module:attribute, or None), "options" (of the table), "table"
    (whether there is one), "by_table" (whether to partition by the registered patterns), "names"
    (of targets that the host knows)}. irs: the IR modules in which to look for a name that TVM
    knows. Raises Failure with a list of known targets when there is no such target.
    """
    name = declaration["name"]
    options = declaration.get("options") or {}
    if declaration.get("reference"):
        declared_by = import_reference(declaration["reference"])
        return _from_object(name, declared_by, options, bool(declaration.get("table")))
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
    if name.endswith(".py"):
        raise Failure(
            "%r is a file: name the partition function in it, as in --byoc-target=%s:partition" % (name, name)
        )
    known = list(declaration.get("names", []))
    for ir in irs:
        known += ["%s (known to this TVM, %s: %s)" % (n, ir.NAME, w) for n, w in ir.known_targets().items()]
    near = difflib.get_close_matches(name, [n.partition(" ")[0] for n in known], 1)
    perhaps = " (did you mean %s?)" % near[0] if near else ""
    raise Failure(
        "there is no target called %r%s. Known are:\n  %s\nor give module:attribute, or "
        "path/to/file.py:attribute." % (name, perhaps, "\n  ".join(known))
    )
