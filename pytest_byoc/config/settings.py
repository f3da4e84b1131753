"""One resolved Settings: command line over ini over pyproject.toml over defaults."""

from __future__ import annotations

import math
import os
import random
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ..core.irs import IRS
from ..generation.validation import perhaps
from ..operators import OPERATORS
from .declarations import SettingsError, TargetDeclaration, declare
from .levels import LEVELS, STANDARD, Level

#: Stages that can be asked for.
STAGES = ("all", "partition")
#: Defaults: operators of a random graph; seconds that a stage of an example may take; address space in MiB
#: that one may take beyond what its worker has after importing TVM.
NODES, TIMEOUT, MEMORY = 5, 30, 4096
#: Causes of failures after which no more are looked for.
MAX_CAUSES = 20


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
    #: Address space an example may take beyond its worker's; 0: no limit.
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
    #: Causes of failures after which no further test of the suite begins.
    max_causes: int = MAX_CAUSES
    #: Files and folders of graphs that are checked in every session.
    corpus: tuple[Path, ...] = ()
    #: Whether a file of the corpus that can't be used fails the session.
    strict_corpus: bool = False
    #: Whether what failed in earlier sessions is checked first.
    remembers: bool = False
    #: Of `stages.STAGES`; None: what can be run here.
    stages: str | None = None


def _positive(name: str, value: str, kind: type) -> Any:
    try:
        number = kind(value)
    except (ValueError, OverflowError):
        number = 0
    if not 0 < number < math.inf:
        raise SettingsError(f"{name} must be a positive {kind.__name__}, found {value!r}")
    return number


def _mebibytes(value: str) -> int:
    if not value.strip().isdecimal():
        raise SettingsError(f"--byoc-memory must be a number of MiB, or 0 for no limit, found {value!r}")
    return int(value)


def select_operators(given: Iterable[str]) -> tuple[str, ...]:
    """Operator names of a comma-separated list or of several. Raises SettingsError for unknown ones."""
    names = [n.strip() for item in given for n in item.split(",") if n.strip()]
    unknown = [n for n in names if n not in OPERATORS]
    if unknown:
        said = ", ".join(n + perhaps(n) for n in unknown)
        raise SettingsError(f"unknown operator {said}; known are: {', '.join(sorted(OPERATORS))}")
    return tuple(dict.fromkeys(names)) or tuple(OPERATORS)


def cache_folder(name: str) -> Path:
    """A folder of the user's cache, or a temporary one where that can't be written."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pytest-byoc" / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        return Path(tempfile.mkdtemp(prefix=f"pytest-byoc-{name}-"))


def option(config: pytest.Config, name: str) -> str | None:
    """An option from the command line, or else from the ini file."""
    value = config.getoption(f"--byoc-{name}")
    if value is None:
        value = config.getini(f"byoc_{name.replace('-', '_')}")
    return str(value) if value not in (None, "") else None


def interpreter(config: pytest.Config) -> str | None:
    """--byoc-python, or what the ini file says: a command's name, or an absolute path."""
    given = option(config, "python")
    path = _path(config, "python")
    return str(path) if given and path and os.sep in given else given


def resolve(config: pytest.Config, targets: Sequence[str]) -> Settings:
    """The settings of a session. Raises SettingsError."""
    root, invocation = config.rootpath, config.invocation_params.dir
    ir = option(config, "ir")
    if ir is not None and ir not in IRS:
        raise SettingsError(f"unknown IR {ir!r}; known are: {', '.join(IRS)}")
    python = interpreter(config)
    start = invocation if config.option.byoc_target else root
    path = _path(config, "report")
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
    failures = (path.parent if path else invocation) / "byoc-failures"
    _check_folder(failures)
    level = _level(option(config, "level") or STANDARD)
    bundle = _path(config, "bundle")
    if bundle is not None:
        _check_writable(bundle, "--byoc-bundle")
    _check_apart(
        {
            "--byoc-report": path, "the page of --byoc-report": path.with_suffix(".html") if path else None,
            "--byoc-summary": summary, "--byoc-bundle": bundle,
        },
        {"--byoc-waivers": waivers, "--byoc-baseline": baseline},
    )
    return Settings(
        targets=_distinct(declare(t, root, ir, python, invocation, start) for t in targets),
        operators=operators,
        level=level,
        max_examples=_positive(
            "--byoc-max-examples", option(config, "max-examples") or str(level.max_examples), int
        ),
        max_nodes=_positive("--byoc-max-nodes", option(config, "max-nodes") or str(NODES), int),
        timeout=_positive("--byoc-timeout", option(config, "timeout") or str(TIMEOUT), float),
        memory_bytes=_mebibytes(option(config, "memory") or str(MEMORY)) << 20,
        report=path,
        replay=tuple(invocation / p for p in config.getoption("--byoc-replay") or ()),
        failures=failures,
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
        max_causes=_positive("--byoc-max-causes", option(config, "max-causes") or str(MAX_CAUSES), int),
        corpus=_corpus(config),
        strict_corpus=bool(config.option.byoc_strict_corpus or config.getini("byoc_strict_corpus")),
        # A list of waivers is for what every machine finds.
        stages=_stages(option(config, "stages")),
        remembers=config.pluginmanager.has_plugin("cacheprovider") and not update,
    )


def _distinct(targets: Iterable[TargetDeclaration]) -> tuple[TargetDeclaration, ...]:
    """Each target once, be its file written in two ways. Raises SettingsError for two of one name."""
    found: dict[str, TargetDeclaration] = {}
    for target in targets:
        same = found.setdefault(target.name, target)
        if same.reference != target.reference:
            raise SettingsError(
                f"the targets {same.given} and {target.given} are both called {target.name}: rename one, or "
                "give it a table [tool.pytest-byoc.targets.NAME] in pyproject.toml"
            )
    return tuple(found.values())


def _corpus(config: pytest.Config) -> tuple[Path, ...]:
    """Paths from the command line, or else from the ini file, whose paths start at the project's root."""
    given, root = config.option.byoc_corpus, config.invocation_params.dir
    if given is None:
        given, root = config.getini("byoc_corpus"), config.rootpath
    if not all(given):
        raise SettingsError("--byoc-corpus is empty: name a folder or a file of graphs")
    return tuple(root / Path(p).expanduser() for p in given)


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


def _stages(given: str | None) -> str | None:
    if given is not None and given not in STAGES:
        raise SettingsError(f"unknown stages {given!r}; known are: {', '.join(STAGES)}")
    return given


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
    defaults = {"level": STANDARD, "max-nodes": str(NODES)}
    for name in ("operators", "level", "max-examples", "max-nodes"):
        given = config.getoption(f"--byoc-{name}")
        ini = config.getini(f"byoc_{name.replace('-', '_')}") or defaults.get(name)
        if given is not None and given != ini:
            yield f"--byoc-{name}"
    if config.option.byoc_explore is not None:
        yield "--byoc-explore"


#: Folders of devices and of what processes have open: a file made anew there would take its place.
_DEVICES = (Path("/dev"), Path("/dev/fd"), Path("/proc"))


def _check_apart(written: Mapping[str, Path | None], read: Mapping[str, Path | None]) -> None:
    """Raises SettingsError where one file is to be written twice, or over one that is read."""
    known = {os.path.realpath(path): name for name, path in read.items() if path is not None}
    for name, path in written.items():
        if path is not None:
            other = known.setdefault(os.path.realpath(path), name)
            if other != name:
                raise SettingsError(f"{name} and {other} name the same file {path}: name another one")


def _check_folder(path: Path) -> None:
    """Raises SettingsError where the folder of failures can't be written. It is made when it is needed."""
    there = next(p for p in (path, *path.parents) if os.path.lexists(p))
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as e:
        raise SettingsError(
            f"{path}, where failures are saved, cannot be written: {e.strerror}; run pytest in a folder that "
            "can be written, or name one with --byoc-report"
        ) from None


def _check_writable(path: Path, name: str = "--byoc-report") -> None:
    """Raises SettingsError where a file can't be written: better now than when it is finished."""
    device = Path(os.path.abspath(path)).parent in _DEVICES
    if device or (path.exists() and not (path.is_file() or path.is_dir())):
        raise SettingsError(f"{name}: {path} is no regular file; name one, and print it afterwards")
    try:
        if path.parent.is_file():
            raise NotADirectoryError(f"{path.parent} is a file; name a folder, or a file that ends in .json")
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            raise IsADirectoryError(f"{path} is a directory")
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as e:
        raise SettingsError(f"{name}: {path} cannot be written: {e}") from None


def as_mapping(settings: Settings) -> Mapping[str, Any]:
    """For the report: what decided the run."""
    return {
        "operators": list(settings.operators),
        "level": settings.level.name,
        "explore": settings.explore,
        "time_budget": settings.time_budget,
        "max_examples": settings.max_examples,
        "max_nodes": settings.max_nodes,
        "max_causes": settings.max_causes,
        "timeout": settings.timeout,
        "memory_bytes": settings.memory_bytes,
    }
