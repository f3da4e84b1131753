"""`python -m pytest_byoc merge`: joins the reports of all shards of a session, and judges them as one.

pytest itself reads the options and the ini file, so that the gate's options mean what they mean to a
session; no test is collected."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pytest
from _pytest.config import create_terminal_writer

from ..config.errors import SettingsError
from ..config.levels import LEVELS
from ..config.settings import Settings, check_files
from ..config.values import value_of
from ..core import files
from ..core.names import folder_name
from ..gate import baseline, waivers
from ..gate.excuses import Excuses
from ..gate.planned import Selection
from ..record.listed import Failure
from ..record.sighting import Sighting
from ..record.target_record import TargetRecord
from ..report import provenance, schema, scoreboard
from ..storage import stored_passes
from . import junit_files, shard_reports
from .failure_folders import copied
from .replay import Replay
from .results import Results
from .shard_reports import ShardReport
from .unfinished import Unfinished, taken_over

#: Exit code for a set of reports that cannot be merged, or an option that cannot be used.
REFUSED = 2


def run(paths: Sequence[Path], output: Path, options: Sequence[str], matrix: bool = False) -> int:
    """Merges reports into a folder and returns the exit code: that of the whole session, or REFUSED.

    options: of the gate, as pytest gets them. matrix: whether to write a scoreboard too."""
    code = int(pytest.main([*options, "-p", "byoc"], plugins=[_Command(paths, output, matrix)]))
    return REFUSED if code == pytest.ExitCode.USAGE_ERROR else code


class _Command:
    """The plugin that merges reports in place of a session."""

    def __init__(self, paths: Sequence[Path], output: Path, matrix: bool) -> None:
        self._paths = paths
        self._output = Path.cwd() / output
        self._matrix = matrix

    @pytest.hookimpl(tryfirst=True)
    def pytest_cmdline_main(self, config: pytest.Config) -> int:
        try:
            reports = [shard_reports.read(path) for path in self._paths]
            if self._matrix:
                return self._scoreboard(reports, config)
            return _merge(shard_reports.complete(reports), self._output, config)
        except SettingsError as e:
            print(f"merge: {e}", file=sys.stderr)
        except OSError as e:
            print(f"merge: {e.filename or self._output}: {e.strerror or e}", file=sys.stderr)
        return REFUSED

    def _scoreboard(self, reports: Sequence[ShardReport], config: pytest.Config) -> int:
        """Writes the scoreboard of whole sessions and of sessions in shards, which are merged
        first. Returns the worst exit code of the merged ones."""
        sessions = shard_reports.sessions(reports)
        codes, wholes = [0], []
        for name, group in sessions.items():
            folder = self._output if len(sessions) == 1 else self._output / name
            if group[0].shard:
                codes.append(_merge(shard_reports.complete(group), folder, config))
                wholes.append(shard_reports.read(folder))
            else:
                wholes += group
        found = scoreboard.entries(one.report for one in wholes)
        files.replace(self._output / "scoreboard.md", scoreboard.markdown(found).encode())
        badges = {"badge.svg": found}
        if len(found) > 1:
            badges |= {f"badge-{folder_name(e.record['target'], e.record['ir'])}.svg": [e] for e in found}
        for name, entries in badges.items():
            files.replace(self._output / name, scoreboard.badge(entries).encode())
        _Terminal(config).write_line(f"scoreboard: {self._output / 'scoreboard.md'}, {', '.join(badges)}")
        return max(codes)


@dataclass
class _Whole:
    """The whole session, as far as its exit code is concerned."""

    exitstatus: int | pytest.ExitCode


def _merge(reports: Sequence[ShardReport], output: Path, config: pytest.Config) -> int:
    shard_reports.check_own_version(reports[0])
    settings = _settings(reports[0], output, config)
    for one in reports:
        if one.folder.resolve() == output.resolve():
            raise SettingsError(f"-o {output} is the folder of a shard: name another one")
    held = waivers.read(settings.waivers, settings.update_waivers) if settings.waivers else None
    before = baseline.read(settings.baseline, schema.problems) if settings.baseline else None
    excuses = Excuses(held, before, settings.update_waivers)
    records: list[TargetRecord] = []
    selections: list[Selection] = []
    failing: set[str] = set()
    for number in range(len(reports[0].targets)):
        record = _joined([one.targets[number] for one in reports], [one.shard for one in reports])
        for one in reports:
            record.passes.add(vars(stored_passes.of_shard(one.path, record.target, record.ir)))
        if before is not None and record.ir:
            before.of(record.target, record.ir)
        replay = Replay(record, [_failures(one.targets[number]) for one in reports], excuses)
        parts = [one.shard["targets"][number] for one in reports]
        replay.run([[Sighting.from_dict(s) for s in part["sightings"]] for part in parts])
        failing |= replay.failing
        selection = Selection()
        for part in parts:
            selection.merge({name: part["selection"][name] for name in vars(selection)})
        records.append(record)
        selections.append(selection)
    notes = [n for i, record in enumerate(records) for n in _with_folders(record, reports, i, output)]
    notes += junit_files.joined([one.folder for one in reports], output)
    unfinished = _unfinished(reports)
    for record in records:
        record.not_checked += unfinished.not_checked()
    whole = _Whole(_exit_code(reports, failing))
    results = Results(
        settings, records, selections, held, before, (), unfinished, config.rootpath,
        provenance=lambda: _provenance(reports, settings),
    )
    results.finish(whole)
    terminal = _Terminal(config)
    terminal.write_line(f"merged {len(reports)} shards of {reports[0].shard['whole']} tests")
    for note in notes:
        terminal.write_line(note, yellow=True)
    results.print(terminal, sum(one.shard["deselected"] for one in reports))
    return int(whole.exitstatus)


def _settings(one: ShardReport, output: Path, config: pytest.Config) -> Settings:
    """Returns the settings of the session that a shard belongs to, with the options of the gate that
    were given now. Raises SettingsError."""
    then, shard = one.report["settings"], one.shard
    names = ("waivers", "baseline", "slower", "fail-under", "summary", "bundle")
    given = {name: value_of(config, name) for name in names}
    update = bool(config.option.byoc_update_waivers)
    report = output / "report.json"
    failures = output / "byoc-failures"
    check_files(given, report, failures, update)
    return Settings(
        targets=(), operators=tuple(then["operators"]), level=LEVELS[then["level"]],
        max_examples=then["max_examples"], max_nodes=then["max_nodes"], timeout=then["timeout"],
        memory_bytes=then["memory_bytes"], report=report, replay=(), failures=failures,
        waivers=given["waivers"], update_waivers=update, fail_under=given["fail-under"],
        baseline=given["baseline"], slower=given["slower"], summary=given["summary"], bundle=given["bundle"],
        narrowed=tuple(shard["narrowed"]), explore=then["explore"], time_budget=then["time_budget"],
        max_causes=then["max_causes"],
        strict_corpus=bool(config.option.byoc_strict_corpus or config.getini("byoc_strict_corpus")),
        stages=shard["stages"],
    )


def _joined(parts: Sequence[Mapping[str, Any]], shards: Sequence[Mapping[str, Any]]) -> TargetRecord:
    """Returns the record of one target, joined from those of all shards. Its failures are not joined
    yet."""
    record = TargetRecord(parts[0]["target"], parts[0]["ir"], dict(parts[0]["versions"]))
    for part, shard in zip(parts, shards):
        # The numbers of tests that did not begin are added up instead.
        left = {*Unfinished(shard["out_of_time"]).not_checked(), *taken_over(part["taken_over"])}
        texts = [text for text in part["not_checked"] if text not in left]
        record.merge({**part, "failures": [], "excused": [], "not_checked": texts})
    return record


def _failures(part: Mapping[str, Any]) -> dict[str, Failure]:
    names = {field.name for field in fields(Failure)}
    found = (Failure(**{k: v for k, v in f.items() if k in names}) for f in part["failures"])
    return {failure.id: failure for failure in found}


def _with_folders(
    record: TargetRecord, reports: Sequence[ShardReport], number: int, output: Path
) -> Iterator[str]:
    """Copies the folders of a record's failures. Yields notes on those that are missing."""
    for failure in list(record.failures.values()):
        source = next(r for r in reports if _lists(r.targets[number], failure))
        record.failures[failure.id], note = copied(failure, source.folder, output)
        if note:
            yield note


def _lists(part: Mapping[str, Any], failure: Failure) -> bool:
    return any(f["id"] == failure.id and f["graph"] == failure.graph for f in part["failures"])


def _unfinished(reports: Sequence[ShardReport]) -> Unfinished:
    left_out = sum((Counter(one.shard["left_out"]) for one in reports), Counter[str]())
    return Unfinished(sum(one.shard["out_of_time"] for one in reports), left_out)


def _exit_code(reports: Sequence[ShardReport], failing: set[str]) -> int:
    """Returns the exit code that one session would have before the gate judges. failing: tests with
    failures of the target that nothing excuses now."""
    codes = {one.shard["exit"] for one in reports}
    if codes == {int(pytest.ExitCode.NO_TESTS_COLLECTED)}:
        return int(pytest.ExitCode.NO_TESTS_COLLECTED)
    for one in reports:
        failed = one.shard["failed"]
        otherwise = one.shard["exit"] == pytest.ExitCode.TESTS_FAILED and not failed
        if otherwise or any(not by_target or test in failing for test, by_target in failed.items()):
            return int(pytest.ExitCode.TESTS_FAILED)
    return int(pytest.ExitCode.TESTS_FAILED if failing else pytest.ExitCode.OK)


def _provenance(reports: Sequence[ShardReport], settings: Settings) -> dict[str, Any]:
    sessions = [one.report["session"] for one in reports]
    platforms = dict.fromkeys(s["host"].get("platform", "") for s in sessions)
    # The shards name their own waivers and baseline.
    theirs = [f for f in sessions[0]["files"] if f["what"] not in ("waivers", "baseline")]
    return {
        **sessions[0],
        "started": min(s["started"] for s in sessions),
        "finished": max(s["finished"] for s in sessions),
        "host": {**sessions[0]["host"], "platform": "; ".join(platforms)},
        "files": [*theirs, *provenance.files(settings)],
        "shards": len(reports),
    }


class _Terminal:
    """The part of pytest's reporter that the summary is printed with."""

    def __init__(self, config: pytest.Config) -> None:
        self._writer = create_terminal_writer(config, sys.stdout)

    def section(self, title: str, sep: str = "=") -> None:
        self._writer.sep(sep, title)

    def write_line(self, text: str, **markup: bool) -> None:
        self._writer.line(text, **markup)
