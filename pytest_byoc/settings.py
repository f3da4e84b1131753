"""One resolved Settings: command line over ini over pyproject.toml over defaults."""

from __future__ import annotations

import math
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from .levels import LEVELS, STANDARD, Level
from .operators import OPERATORS
from .target import EXAMPLES

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

IRS = ("relay", "relax")
#: Address space an example may take beyond what its worker has after importing TVM.
MEMORY_BYTES = 4 << 30


class SettingsError(ValueError):
    """Raised for a setting that can't be used; the message names the remedy."""


@dataclass(frozen=True)
class TargetDeclaration:
    """A target as the host knows it: a name, a reference only the worker resolves, its options."""

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

    def for_worker(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "reference": self.reference,
            "options": self.options,
            "names": self.names,
            "table": self.table,
        }


@dataclass(frozen=True)
class Settings:
    """Everything the options decide."""

    targets: tuple[TargetDeclaration, ...]
    operators: tuple[str, ...]
    level: Level
    #: Random graphs per operator.
    max_examples: int
    max_nodes: int
    timeout: float
    memory_bytes: int
    report: Path | None
    replay: tuple[Path, ...]
    failures: Path
    waivers: Path | None = None
    update_waivers: bool = False
    #: Per cent of the claimed cells that must be offloaded and pass.
    fail_under: float | None = None
    baseline: Path | None = None
    summary: Path | None = None
    bundle: Path | None = None
    #: Operators that are only not tested because the command line names others.
    left_out: tuple[str, ...] = ()
    #: Options of the command line that change which random graphs and structures there are.
    narrowed: tuple[str, ...] = ()
    #: What new random graphs are made from; None: the same ones every time.
    explore: int | None = None
    #: Seconds after which no further test of the suite begins.
    time_budget: float | None = None


def _positive(name: str, value: str, kind: type) -> Any:
    try:
        number = kind(value)
    except (ValueError, OverflowError):
        number = 0
    if not 0 < number < math.inf:
        raise SettingsError(f"{name} must be a positive {kind.__name__}, found {value!r}")
    return number


def select_operators(given: Iterable[str]) -> tuple[str, ...]:
    """Operator names of a comma-separated list or of several. Raises SettingsError for unknown ones."""
    names = [n.strip() for item in given for n in item.split(",") if n.strip()]
    unknown = [n for n in names if n not in OPERATORS]
    if unknown:
        raise SettingsError(
            f"unknown operator {', '.join(unknown)}; known are: {', '.join(sorted(OPERATORS))}"
        )
    return tuple(dict.fromkeys(names)) or tuple(OPERATORS)


def read_tables(root: Path) -> dict[str, dict[str, Any]]:
    """The tables [tool.pytest-byoc.targets.NAME] of the project's pyproject.toml."""
    path = root / "pyproject.toml"
    if not path.is_file():
        return {}
    try:
        tables: Any = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
        raise SettingsError(f"{path} is not valid TOML: {e}") from None
    for key in ("tool", "pytest-byoc", "targets"):
        tables = tables.get(key, {})
        if not isinstance(tables, dict):
            raise SettingsError(f"{path}: {key} must be a table, as in [tool.pytest-byoc.targets.NAME]")
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise SettingsError(f"{path}: [tool.pytest-byoc.targets] must hold one table per target")
        _check_table(table, f"{path}: [tool.pytest-byoc.targets.{name}]")
    return tables


#: Keys of a target's table: what their values are, in words and as types.
_TEXT = ("a string", (str,))
_TEXTS = ("a string or a list of strings", (str, list))
_KEYS: dict[str, tuple[str, tuple[type, ...]]] = {
    "partition": _TEXT,
    "python": _TEXT,
    "patterns": _TEXT,
    "ir": _TEXTS,
    "libraries": _TEXTS,
    "runtime-libraries": _TEXTS,
    "export-options": ("a table", (dict,)),
    "opt-level": ("an integer", (int,)),
    "deterministic": ("true or false", (bool,)),
    "trivial-regions": _TEXTS,
    # What these hold is checked where the target is resolved: it may declare them itself.
    "accumulate-dtype": ("a string or a table", (str, dict)),
    "contraction-dtype": _TEXT,
    "flush-subnormals": ("true or false", (bool,)),
    "function-ulps": ("a table", (dict,)),
}


def _check_table(table: Mapping[str, Any], where: str) -> None:
    """Raises SettingsError for a key that is not known or a value of the wrong kind."""
    for given, value in table.items():
        key = given.replace("_", "-")
        if key not in _KEYS:
            raise SettingsError(f"{where}: unknown setting {given}; known are {', '.join(sorted(_KEYS))}")
        words, kinds = _KEYS[key]
        fits = isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))
        if not fits or (isinstance(value, list) and not all(isinstance(v, str) for v in value)):
            raise SettingsError(f"{where}: {given} must be {words}, found {value!r}")


def entry_points() -> dict[str, str]:
    """Targets other packages offer: name to module:attribute."""
    return {e.name: e.value for e in metadata.entry_points(group="pytest_byoc.targets")}


def known_names(root: Path) -> dict[str, str]:
    """Every target name the host knows, with where it comes from."""
    names = dict.fromkeys(EXAMPLES, "installed with pytest-byoc")
    names.update({n: f"entry point {v}" for n, v in entry_points().items()})
    names.update(dict.fromkeys(read_tables(root), "pyproject.toml"))
    return names


def find_python(given: str | None, root: Path) -> str:
    """The workers' interpreter: a path (relative ones to the project's root) or a command's name."""
    if not given:
        return sys.executable
    path = Path(given).expanduser()
    if os.sep in given:
        path = path if path.is_absolute() else root / path
        if not (path.is_file() and os.access(path, os.X_OK)):
            raise SettingsError(f"--byoc-python: {path} is not an executable file")
        return str(path)
    found = shutil.which(given)
    if found is None:
        raise SettingsError(f"--byoc-python: there is no command {given!r}")
    return found


def declare(
    given: str, root: Path, ir: str | None, python: str | None, invocation: Path
) -> TargetDeclaration:
    """The declaration of a target given by name, module:attribute or path/to/file.py:attribute."""
    tables = read_tables(root)
    table: dict[str, Any] = dict(tables.get(given, {}))
    table = {k.replace("-", "_"): v for k, v in table.items()}
    names = [f"{n} ({where})" for n, where in known_names(root).items()]
    sys_path = [str(invocation)] + ([str(root)] if root != invocation else [])
    python_given = python
    python = find_python(python or table.get("python"), root)
    table.pop("python", None)
    reference = table.pop("partition", None)
    libraries = [_library(p, root) for p in _list(table.pop("libraries", []))]
    table["runtime_libraries"] = [_library(p, root) for p in _list(table.pop("runtime_libraries", []))]
    if not table["runtime_libraries"]:
        del table["runtime_libraries"]
    if libraries:
        table["libraries"] = libraries
    if ir is None and isinstance(table.get("ir"), str):
        ir = table["ir"]
    if ir is not None and ir not in IRS:
        raise SettingsError(f"unknown IR {ir!r}; known are: {', '.join(IRS)}")
    if given not in tables:
        points = entry_points()
        if given in points:
            reference = points[given]
        elif given in EXAMPLES:
            reference = EXAMPLES[given]
        elif ":" in given:
            reference = _absolute(given, invocation)
    elif reference is not None:
        reference = _absolute(reference, root)
    name = f"{Path(given.rpartition(':')[0]).stem}:{given.rpartition(':')[2]}" if ":" in given else given
    return TargetDeclaration(
        given, name, reference, ir, python, python_given, libraries, table, sys_path, names, given in tables
    )


def cache_folder(name: str) -> Path:
    """A folder of the user's cache, or a temporary one where that can't be written."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pytest-byoc" / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return folder
    except OSError:
        return Path(tempfile.mkdtemp(prefix=f"pytest-byoc-{name}-"))


def option(config: pytest.Config, name: str) -> str | None:
    """An option from the command line, or else from the ini file."""
    value = config.getoption(f"--byoc-{name}")
    if value is None:
        value = config.getini(f"byoc_{name.replace('-', '_')}")
    return str(value) if value not in (None, "") else None


def resolve(config: pytest.Config, targets: Sequence[str]) -> Settings:
    """The settings of a session. Raises SettingsError."""
    root, invocation = config.rootpath, config.invocation_params.dir
    ir = option(config, "ir")
    if ir is not None and ir not in IRS:
        raise SettingsError(f"unknown IR {ir!r}; known are: {', '.join(IRS)}")
    python = option(config, "python")
    report = option(config, "report")
    path = (invocation / report) if report else None
    if path is not None:
        path = path if path.suffix == ".json" else path / "report.json"
        _check_writable(path)
    operators = select_operators([option(config, "operators") or ""])
    ini = select_operators([config.getini("byoc_operators") or ""])
    waivers, update = _path(config, "waivers"), bool(config.option.byoc_update_waivers)
    if update and waivers is None:
        raise SettingsError("--byoc-update-waivers needs --byoc-waivers=FILE (ini: byoc_waivers)")
    if waivers is not None and update:
        _check_writable(waivers, "--byoc-update-waivers")
    baseline, summary = _path(config, "baseline"), _path(config, "summary")
    if baseline is not None and path is not None and baseline.resolve() == path.resolve():
        raise SettingsError(
            f"--byoc-report would overwrite the baseline {baseline}: write the report elsewhere, and copy it "
            "there when it is to be the new baseline"
        )
    if summary is not None:
        _check_writable(summary, "--byoc-summary")
    level = _level(option(config, "level") or STANDARD)
    bundle = _path(config, "bundle")
    if bundle is not None:
        _check_writable(bundle, "--byoc-bundle")
    return Settings(
        targets=tuple(declare(t, root, ir, python, invocation) for t in dict.fromkeys(targets)),
        operators=operators,
        level=level,
        max_examples=_positive(
            "--byoc-max-examples", option(config, "max-examples") or str(level.max_examples), int
        ),
        max_nodes=_positive("--byoc-max-nodes", option(config, "max-nodes") or "5", int),
        timeout=_positive("--byoc-timeout", option(config, "timeout") or "30", float),
        memory_bytes=MEMORY_BYTES,
        report=path,
        replay=tuple(invocation / p for p in config.getoption("--byoc-replay") or ()),
        failures=(path.parent if path else invocation) / "byoc-failures",
        waivers=waivers,
        update_waivers=update,
        fail_under=_percent(option(config, "fail-under")),
        baseline=baseline,
        summary=summary,
        bundle=bundle,
        left_out=tuple(n for n in ini if n not in operators),
        narrowed=tuple(_narrowed(config)),
        explore=_explore(config.option.byoc_explore),
        time_budget=_seconds(option(config, "time-budget")),
    )


def _path(config: pytest.Config, name: str) -> Path | None:
    """A path from the command line, or else from the ini file, whose paths start at the project's root."""
    given = config.getoption(f"--byoc-{name}")
    root = config.invocation_params.dir
    if given is None:
        given, root = config.getini(f"byoc_{name.replace('-', '_')}"), config.rootpath
    return root / Path(given).expanduser() if given else None


def _percent(given: str | None) -> float | None:
    if given is None:
        return None
    try:
        percent = float(given.removesuffix("%"))
    except ValueError:
        percent = math.nan
    if not 0 < percent <= 100:
        raise SettingsError(f"--byoc-fail-under must be a percentage above 0 and up to 100, found {given!r}")
    return percent


def _level(given: str) -> Level:
    if given not in LEVELS:
        raise SettingsError(f"unknown level {given!r}; known are: {', '.join(LEVELS)}")
    return LEVELS[given]


def _explore(given: str | None) -> int | None:
    """The seed of new random graphs: a number given, or one drawn where none is."""
    if given is None:
        return None
    if given == "":
        return random.SystemRandom().randrange(2**32)
    try:
        return int(given)
    except ValueError:
        message = f"--byoc-explore takes a whole number as seed, or nothing: not {given!r}"
        raise SettingsError(message) from None


def _seconds(given: str | None) -> float | None:
    """A time in seconds, or with a unit: 90, 90s, 10m, 1.5h."""
    if given is None:
        return None
    unit = {"s": 1, "m": 60, "h": 3600}.get(given[-1:], 0)
    try:
        seconds = float(given[:-1]) * unit if unit else float(given)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise SettingsError(f"--byoc-time-budget must be a time like 90, 10m or 2h, found {given!r}")
    return seconds


def _narrowed(config: pytest.Config) -> Iterator[str]:
    """Options of the command line that decide what is generated, where the ini file says otherwise."""
    for name in ("operators", "level", "max-examples", "max-nodes"):
        given = config.getoption(f"--byoc-{name}")
        ini = config.getini(f"byoc_{name.replace('-', '_')}") or {"level": STANDARD}.get(name)
        if given is not None and given != ini:
            yield f"--byoc-{name}"
    if config.option.byoc_explore is not None:
        yield "--byoc-explore"


def _check_writable(path: Path, name: str = "--byoc-report") -> None:
    """Raises SettingsError where a file can't be written: better now than when it is finished."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            raise IsADirectoryError(f"{path} is a directory")
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as e:
        raise SettingsError(f"{name}: {path} cannot be written: {e}") from None


def _list(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def _library(path: str, root: Path) -> str:
    """Library paths are relative to the project's root; a bare name is left to the dynamic loader."""
    return str(root / path) if os.sep in path else path


def _absolute(reference: str, folder: Path) -> str:
    where, _, attribute = reference.rpartition(":")
    if where.endswith(".py") or os.sep in where:
        return f"{(folder / Path(where).expanduser()).resolve()}:{attribute}"
    return reference


def as_mapping(settings: Settings) -> Mapping[str, Any]:
    """For the report: what decided the run."""
    return {
        "operators": list(settings.operators),
        "level": settings.level.name,
        "explore": settings.explore,
        "time_budget": settings.time_budget,
        "max_examples": settings.max_examples,
        "max_nodes": settings.max_nodes,
        "timeout": settings.timeout,
    }
