"""The settings of a session. They come from the command line, the ini file, pyproject.toml or the
defaults, in this order of precedence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from .declarations import TargetDeclaration, declare
from .errors import SettingsError
from .levels import Level
from .models import Model, models
from .options import BY_NAME, OPTIONS, VALUE
from .shard import Shard
from .values import paths, seed, select_operators, value_of
from .writable import check_apart, check_folder, check_writable

#: Defaults: the largest number of operators in a random graph; seconds for each stage of the
#: examination of a graph; address space in MiB for it beyond what its worker uses after importing
#: TVM; the number of causes of failures after which no further test of the suite begins.
NODES, TIMEOUT, MEMORY, MAX_CAUSES = (
    int(BY_NAME[name].default) for name in ("max-nodes", "timeout", "memory", "max-causes")
)


@dataclass(frozen=True)
class Settings:
    """The settings of a session: the values of all options, checked and resolved."""

    targets: tuple[TargetDeclaration, ...]
    operators: tuple[str, ...]
    level: Level
    #: Random graphs per operator.
    max_examples: int
    max_nodes: int
    timeout: float
    #: Address space in bytes that the examination of a graph may use beyond its worker's; 0: no
    #: limit.
    memory_bytes: int
    report: Path | None
    replay: tuple[Path, ...]
    failures: Path
    waivers: Path | None = None
    update_waivers: bool = False
    #: Least percentage of the cells (operator and dtype) offloaded at least once that have to pass.
    fail_under: float | None = None
    baseline: Path | None = None
    #: Whether runs are measured beside LLVM's.
    measures: bool = False
    #: The percentage by which a run may become slower than in the baseline, relative to LLVM's.
    slower: float | None = None
    summary: Path | None = None
    bundle: Path | None = None
    #: Operators of the ini file that the command line leaves out.
    left_out: tuple[str, ...] = ()
    #: Options of the command line that change the set of generated graphs.
    narrowed: tuple[str, ...] = ()
    #: The seed of new random graphs; None: the same graphs every time.
    explore: int | None = None
    #: Seconds after which no further test of the suite begins; None: no limit.
    time_budget: float | None = None
    #: Threads that examine graphs; None: as many as there are cores for.
    threads: int | None = None
    #: Whether the partitions of surveyed graphs are kept on disk, and taken over by later sessions.
    keeps_surveys: bool = False
    #: The report of an earlier session, whose passes are taken over where nothing has changed.
    changed_since: Path | None = None
    #: Causes of failures after which no further test of the suite begins.
    max_causes: int = MAX_CAUSES
    #: Files and folders of graphs that are checked in every session.
    corpus: tuple[Path, ...] = ()
    #: Whether a file of the corpus that can't be used fails the session.
    strict_corpus: bool = False
    #: Whether graphs that failed in earlier sessions are checked first.
    remembers: bool = False
    #: One of `values.STAGES`; None: all stages that can run here.
    stages: str | None = None
    #: The part of the session that is run; None: all of it.
    shard: Shard | None = None
    #: The whole models that are examined in place of the suite.
    models: tuple[Model, ...] = ()
    #: The report whose durations divide a session into shards.
    costs: Path | None = None

    @property
    def keeps_passes(self) -> bool:
        """Returns whether the graphs that pass are kept for a later session."""
        return self.report is not None or self.changed_since is not None


def resolve(config: pytest.Config, targets: Sequence[str]) -> Settings:
    """Returns the settings of a session. Raises SettingsError for values that cannot be used."""
    invocation = config.invocation_params.dir
    options = {o.name: value_of(config, o.name) for o in OPTIONS if o.form == VALUE}
    update = bool(config.option.byoc_update_waivers)
    report = options["report"]
    if report is not None and report.suffix != ".json":
        report = report / "report.json"
    failures = (report.parent if report else invocation) / "byoc-failures"
    check_files(options, report, failures, update)
    shard: Shard | None = options["shard"]
    if shard is not None:
        _check_shard(config, update)
    level: Level = options["level"]
    operators = options["operators"] or select_operators([])
    ini = select_operators([config.getini("byoc_operators") or ""])
    start = invocation if config.option.byoc_target else config.rootpath
    return Settings(
        targets=_distinct(
            declare(t, config.rootpath, options["ir"], options["python"], invocation, start) for t in targets
        ),
        operators=operators,
        level=level,
        max_examples=options["max-examples"] or level.max_examples,
        max_nodes=options["max-nodes"],
        timeout=options["timeout"],
        memory_bytes=options["memory"] << 20,
        report=report,
        replay=tuple(invocation / p for p in config.option.byoc_replay or ()),
        models=models(config.option.byoc_model or (), invocation, config.rootpath),
        failures=failures,
        waivers=options["waivers"],
        update_waivers=update,
        fail_under=options["fail-under"],
        baseline=options["baseline"],
        measures=_measures(config, level, options),
        slower=options["slower"],
        summary=options["summary"],
        bundle=options["bundle"],
        left_out=tuple(n for n in ini if n not in operators),
        narrowed=tuple(_narrowed(config)),
        explore=seed(config.option.byoc_explore, getattr(config.option, "hypothesis_seed", None)),
        time_budget=options["time-budget"],
        threads=options["threads"],
        keeps_surveys=not (config.option.byoc_anew or config.getini("byoc_anew")),
        changed_since=options["changed-since"],
        max_causes=options["max-causes"],
        corpus=paths(config, BY_NAME["corpus"]),
        strict_corpus=bool(config.option.byoc_strict_corpus or config.getini("byoc_strict_corpus")),
        stages=options["stages"],
        shard=shard,
        costs=options["costs"] or (options["baseline"] if shard else None),
        # Waivers must not depend on the failures that this machine has saved, and neither must the
        # tests of a shard.
        remembers=config.pluginmanager.has_plugin("cacheprovider") and not update and shard is None,
    )


def check_files(options: Mapping[str, Any], report: Path | None, failures: Path, update: bool) -> None:
    """Raises SettingsError if a file to be written cannot be written, or is also another file of
    the session."""
    waivers, baseline = options["waivers"], options["baseline"]
    if report is not None:
        check_writable(report, "--byoc-report")
    if update and waivers is None:
        raise SettingsError("--byoc-update-waivers needs --byoc-waivers=FILE (ini: byoc_waivers)")
    if update:
        check_writable(waivers, "--byoc-update-waivers")
    if baseline is not None and report is not None and baseline.resolve() == report.resolve():
        raise SettingsError(
            f"--byoc-report would overwrite the baseline {baseline}: write the report elsewhere, and copy it "
            "there when it is to be the new baseline"
        )
    if options["slower"] is not None and baseline is None:
        raise SettingsError("--byoc-slower compares with a baseline: name one by --byoc-baseline=FILE")
    if options["summary"] is not None:
        check_writable(options["summary"], "--byoc-summary")
    check_folder(failures)
    if options["bundle"] is not None:
        check_writable(options["bundle"], "--byoc-bundle")
    check_apart(
        {
            "--byoc-report": report,
            "the page of --byoc-report": report.with_suffix(".html") if report else None,
            "--byoc-summary": options["summary"], "--byoc-bundle": options["bundle"],
        },
        {"--byoc-waivers": waivers, "--byoc-baseline": baseline},
    )


def _measures(config: pytest.Config, level: Level, options: Mapping[str, Any]) -> bool:
    """Returns whether runs are measured."""
    asked = bool(config.option.byoc_time or config.getini("byoc_time"))
    return asked or level.measures or options["slower"] is not None


def _check_shard(config: pytest.Config, update: bool) -> None:
    """Raises SettingsError for options that only a whole session can have."""
    if update:
        raise SettingsError(
            "--byoc-update-waivers needs a whole session: give it to `python -m pytest_byoc merge`, and the "
            "shards --byoc-waivers alone"
        )
    if config.option.byoc_explore == "" and getattr(config.option, "hypothesis_seed", None) is None:
        raise SettingsError(
            "--byoc-explore draws another seed in each shard: give all shards one, as in --byoc-explore=1"
        )


def _distinct(targets: Iterable[TargetDeclaration]) -> tuple[TargetDeclaration, ...]:
    """Returns each target once, even if its file is given in two notations. Raises SettingsError
    for two targets with one name."""
    found: dict[str, TargetDeclaration] = {}
    for target in targets:
        same = found.setdefault(target.name, target)
        if same.reference != target.reference:
            raise SettingsError(
                f"the targets {same.given} and {target.given} are both called {target.name}: rename one, or "
                "give it a table [tool.pytest-byoc.targets.NAME] in pyproject.toml"
            )
    return tuple(found.values())


def _narrowed(config: pytest.Config) -> Iterator[str]:
    """Yields the options of the command line that change the set of generated graphs from that of
    the ini file."""
    for name in ("operators", "level", "max-examples", "max-nodes"):
        option = BY_NAME[name]
        given = config.getoption(option.flag)
        if given is not None and given != (config.getini(option.ini_name) or option.default or None):
            yield option.flag
    if config.option.byoc_explore is not None:
        yield "--byoc-explore"


def as_mapping(settings: Settings) -> Mapping[str, Any]:
    """Returns the settings that influence the results, for the report."""
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
