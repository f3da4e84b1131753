"""Declarations of targets: from pyproject.toml, from entry points of other packages or the command
line."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from ..core.irs import IRS
from ..core.names import printable
from ..core.target import EXAMPLES
from ..worker.libraries import is_path
from . import device, tuning_logs
from .device import Device
from .errors import SettingsError
from .tables import read_table
from .tuning_logs import TuningLog


@dataclass(frozen=True)
class TargetDeclaration:
    """A target as the host knows it: its name, its options, and a reference that only the worker
    resolves.

    given: the target as written on the command line or in the ini file. sys_path: folders that the
    worker adds to `sys.path`. names: the known targets, for messages."""

    given: str
    name: str
    reference: str | None
    ir: str | None
    python: str
    python_given: str | None = None
    libraries: list[str] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    sys_path: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    #: Whether it is a table of pyproject.toml.
    table: bool = False
    device: Device = field(default_factory=Device)
    #: The tuning log of LLVM's build, beside which the target is measured too.
    tuning: TuningLog | None = None

    def for_worker(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "reference": self.reference,
            "options": self.options,
            "names": self.names,
            "table": self.table,
        }


def read_tables(root: Path) -> dict[str, dict[str, Any]]:
    """Returns the tables [tool.pytest-byoc.targets.NAME] of the project's pyproject.toml. Raises
    SettingsError for a file that cannot be read and for unknown keys."""
    tables = read_table(root, "targets")
    for name, table in tables.items():
        _check_table(table, f"{root / 'pyproject.toml'}: [tool.pytest-byoc.targets.{name}]")
    return tables


#: Keys of a target's table with the kind of their values, in words and as types.
_TEXT = ("a string", (str,))
_TEXTS = ("a string or a list of strings", (str, list))
_KEYS: dict[str, tuple[str, tuple[type, ...]]] = {
    "partition": _TEXT,
    "python": _TEXT,
    "patterns": _TEXT,
    "ir": _TEXTS,
    "libraries": _TEXTS,
    "runtime-libraries": _TEXTS,
    "loader": _TEXTS,
    "runner": ("a string or a table", (str, dict)),
    "boards": ("a list of strings", (list,)),
    "mtriple": _TEXT,
    "mcpu": _TEXT,
    "mattr": _TEXTS,
    "cc": _TEXTS,
    "run-here": ("true or false", (bool,)),
    "export-options": ("a table", (dict,)),
    "opt-level": ("an integer", (int,)),
    "pass-config": ("a table", (dict,)),
    "build": _TEXT,
    "prepare": ("a string or a table", (str, dict)),
    "strict-views": ("true or false", (bool,)),
    "without-checks": ("a table of reasons", (dict,)),
    "reference-tuning": _TEXT,
    "executors": _TEXTS,
    "deterministic": ("true or false", (bool,)),
    "trivial-regions": _TEXTS,
    # The worker checks the contents of these, since the target may also declare them itself.
    "accumulate-dtype": ("a string or a table", (str, dict)),
    "contraction-dtype": _TEXT,
    "flush-subnormals": ("true or false", (bool,)),
    "function-ulps": ("a table", (dict,)),
    "function-errors": ("a table", (dict,)),
}


def _check_table(table: Mapping[str, Any], where: str) -> None:
    """Raises SettingsError for an unknown key or a value of the wrong kind."""
    for given, value in table.items():
        key = given.replace("_", "-")
        if key not in _KEYS:
            raise SettingsError(f"{where}: unknown setting {given}; known are {', '.join(sorted(_KEYS))}")
        words, kinds = _KEYS[key]
        fits = isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))
        if not fits or (isinstance(value, list) and not all(isinstance(v, str) for v in value)):
            raise SettingsError(f"{where}: {given} must be {words}, found {value!r}")


def entry_points() -> dict[str, str]:
    """Returns the targets that other packages offer, as module:attribute by name."""
    return {e.name: e.value for e in metadata.entry_points(group="pytest_byoc.targets")}


def known_names(root: Path) -> dict[str, str]:
    """Returns all known names of targets with their sources."""
    names = dict.fromkeys(EXAMPLES, "installed with pytest-byoc")
    names.update({n: f"entry point {v}" for n, v in entry_points().items()})
    names.update(dict.fromkeys(read_tables(root), "pyproject.toml"))
    return names


def find_python(given: str | None, root: Path, name: str = "--byoc-python") -> str:
    """Returns the path of the workers' interpreter. Raises SettingsError if there is no such
    program.

    given: a path, relative to `root`, or the name of a command; None or "" for the host's own
    interpreter. name: the name of the setting, for messages."""
    if not given:
        return sys.executable
    path = Path(given).expanduser()
    if os.sep in given:
        path = path if path.is_absolute() else root / path
        if not (path.is_file() and os.access(path, os.X_OK)):
            raise SettingsError(f"{name}: {path} is not an executable file")
        return str(path)
    found = shutil.which(given)
    if found is None:
        raise SettingsError(f"{name}: there is no command {given!r}")
    return found


def declare(
    given: str, root: Path, ir: str | None, python: str | None, invocation: Path, start: Path | None = None
) -> TargetDeclaration:
    """Returns the declaration of a target given by name, module:attribute or
    path/to/file.py:attribute.

    start: the folder that such a path is relative to (None: `invocation`, where pytest was
    started). Paths in tables are relative to the root."""
    tables = read_tables(root)
    table: dict[str, Any] = dict(tables.get(given, {}))
    table = {k.replace("-", "_"): v for k, v in table.items()}
    names = [f"{n} ({where})" for n, where in known_names(root).items()]
    sys_path = [str(invocation)] + ([str(root)] if root != invocation else [])
    python_given = python
    in_table = table.pop("python", None)
    if python or not in_table:
        python = find_python(python, root)
    else:
        python = find_python(in_table, root, f"[tool.pytest-byoc.targets.{given}] python")
    reference = table.pop("partition", None)
    for key in ("build", "prepare"):
        if isinstance(table.get(key), str):
            table[key] = _absolute(table[key], root)
    where = f"[tool.pytest-byoc.targets.{given}]"
    used_on = device.read(table, root, where)
    tuning = tuning_logs.read(table.pop("reference_tuning", None), root, where)
    libraries = [_library(p, root) for p in _list(table.pop("libraries", []))]
    # Where a command starts the loader, these are paths of the device.
    runtime, on_device = _list(table.pop("runtime_libraries", [])), used_on.is_elsewhere
    table["runtime_libraries"] = [p if on_device else _library(p, root) for p in runtime]
    if not table["runtime_libraries"]:
        del table["runtime_libraries"]
    if libraries:
        table["libraries"] = libraries
    if ir is None and isinstance(table.get("ir"), str):
        ir = table["ir"]
    if ir is not None and ir not in IRS:
        raise SettingsError(f"unknown IR {ir!r}; known are: {', '.join(IRS)}")
    if ir is not None and tuning is not None:
        tuning.check_ir(ir)
    name = given
    if given not in tables:
        points = entry_points()
        if given in points:
            reference = points[given]
        elif given in EXAMPLES:
            reference = EXAMPLES[given]
        elif ":" in given:
            reference = _absolute(given, start or invocation)
            name = _without_root(reference, root)
    elif reference is not None:
        reference = _absolute(reference, root)
    return TargetDeclaration(
        given, printable(name), reference, ir, python, python_given, libraries, table, sys_path, names,
        given in tables, used_on, tuning,
    )


def _without_root(reference: str, root: Path) -> str:
    """Returns the name of a target given by module:attribute or by a file. The path of a file below
    the project's root becomes relative to it, so that the name is the same on every machine."""
    where, _, attribute = reference.rpartition(":")
    path, root = Path(where), root.resolve()
    if not path.is_absolute():
        return reference
    if path.is_dir():
        path /= "__init__.py"
    if path.is_relative_to(root):
        path = path.relative_to(root)
    return f"{path.as_posix()}:{attribute}"


def _list(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def _library(path: str, root: Path) -> str:
    """Returns the path of a library, which is relative to the project's root. The dynamic loader
    resolves a name without a folder."""
    return str(root / path) if is_path(path) else path


def _absolute(reference: str, folder: Path) -> str:
    where, _, attribute = reference.rpartition(":")
    if where.endswith(".py") or os.sep in where:
        return f"{(folder / Path(where).expanduser()).resolve()}:{attribute}"
    return reference
