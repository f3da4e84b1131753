"""Reads the reports of shards, and refuses sets of them that are not one whole session."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..config.errors import SettingsError
from ..core import files
from ..core.names import folder_name, printable
from ..report import schema
from ..storage.own_code import sources

#: Problems of a damaged report that a message names.
_NAMED = 3
#: Packages of the host whose versions decide what is generated and how it is judged.
_DECIDING = ("pytest-byoc", "hypothesis", "numpy", "onnx")
#: Exit codes of a shard that ran to its end.
_ENDED = (0, 1, 5)


@dataclass(frozen=True)
class ShardReport:
    """A report as it was read. folder: of report.json. shard: its section `shard`; of a whole
    session's report an empty one."""

    path: Path
    report: Mapping[str, Any]

    @property
    def folder(self) -> Path:
        return self.path.parent

    @property
    def shard(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.report.get("shard", {})
        return found

    @property
    def targets(self) -> Sequence[Mapping[str, Any]]:
        """Returns the record of each target."""
        found: Sequence[Mapping[str, Any]] = self.report.get("targets", [self.report])
        return found


def read(path: Path) -> ShardReport:
    """Reads a report.json, or the one in a folder. Raises SettingsError."""
    file = path / "report.json" if path.is_dir() else path
    remedy = "name the folder that --byoc-report named"
    try:
        report = json.loads(files.read(file))
    except OSError as e:
        raise SettingsError(f"{file} cannot be read: {e.strerror}; {remedy}") from None
    except (ValueError, RecursionError) as e:
        raise SettingsError(f"{file} is not JSON: {printable(str(e))}; {remedy}") from None
    problems = schema.problems(report)
    if problems:
        said = printable("; ".join(problems[:_NAMED]))
        raise SettingsError(f"{file} is damaged: {said}; run that session again")
    if "shard" in report and len(report["shard"]["targets"]) != len(report.get("targets", [report])):
        raise SettingsError(f"{file} is damaged: shard.targets does not fit targets; run that shard again")
    return ShardReport(file, report)


def sessions(reports: Sequence[ShardReport]) -> dict[str, list[ShardReport]]:
    """Returns the reports of each session, by the names and IRs of its targets. Raises SettingsError
    for two sessions of the same target."""
    found: dict[str, list[ShardReport]] = {}
    owners: dict[str, str] = {}
    for one in reports:
        targets = [folder_name(t["target"], t["ir"]) for t in one.targets]
        name = "_".join(targets)
        group = found.setdefault(name, [])
        for target in targets:
            if owners.setdefault(target, name) != name or (group and not (one.shard and group[0].shard)):
                other = found[owners[target]][0]
                raise SettingsError(f"{other.path} and {one.path} are both of {target}: name one of them")
        group.append(one)
    return found


def complete(reports: Sequence[ShardReport]) -> list[ShardReport]:
    """Returns the reports of all shards of one session by their numbers. Raises SettingsError if
    they are not exactly that."""
    for one in reports:
        if not one.shard:
            raise SettingsError(
                f"{one.path} is the report of a whole session: merge joins the reports of shards "
                "(pytest --byoc-shard=K/N --byoc-report=DIR)"
            )
    first = min(reports, key=lambda r: (r.shard["number"], str(r.path)))
    found: dict[int, ShardReport] = {}
    for one in sorted(reports, key=lambda r: str(r.path)):
        _refuse_unfinished(one)
        different = list(_differences(first, one))
        if different:
            raise SettingsError(
                f"{first.path} and {one.path} are shards of different sessions: {'; '.join(different)}; run "
                "all shards with the same code and options"
            )
        same = found.setdefault(one.shard["number"], one)
        if same is not one:
            raise SettingsError(
                f"shard {one.shard['number']} of {one.shard['of']} is given twice: {same.path} and {one.path}"
            )
    of = first.shard["of"]
    missing = [n for n in range(1, of + 1) if n not in found] if of <= 10 * len(found) + 100 else []
    if len(found) < of:
        listed = ", ".join(map(str, missing)) or f"{of - len(found)} of them"
        raise SettingsError(
            f"shards are missing of {of}: {listed}; name the reports of all shards, and run those that have "
            "none again"
        )
    return [found[number] for number in sorted(found)]


def _refuse_unfinished(one: ShardReport) -> None:
    shard = one.shard
    if not 1 <= shard["number"] <= shard["of"]:
        raise SettingsError(f"{one.path} is damaged: it is shard {shard['number']} of {shard['of']}")
    if shard["exit"] not in _ENDED:
        what = "was interrupted" if shard["exit"] == 2 else f"ended with exit code {shard['exit']}"
        raise SettingsError(
            f"{one.path}: shard {shard['number']} of {shard['of']} {what}, so its report is not complete: "
            "run it again"
        )


def _differences(one: ShardReport, other: ShardReport) -> Iterator[str]:
    """Yields how two reports differ in what all shards of a session have in common."""
    ours, theirs = (dict(_common(r)) for r in (one, other))
    for name in ours.keys() | theirs.keys():
        a, b = ours.get(name), theirs.get(name)
        # A commit is unknown outside of a repository.
        if a != b and not (name == "commit" and not (a and b)):
            short = len(f"{a}{b}") < 100
            yield f"{name} {a} and {b}" if short else f"{name} differs"


def _common(one: ShardReport) -> Iterator[tuple[str, Any]]:
    """Yields the properties that all shards of a session have in common, each with its name."""
    report, session, shard = one.report, one.report["session"], one.shard
    host = session.get("host", {})
    yield "targets", ", ".join(f"{t['target']} in {t['ir'] or 'no IR'}" for t in one.targets)
    yield "commit", session.get("commit", "")
    yield "files", sorted((f["what"], f["sha256"]) for f in session.get("files", ()))
    yield from ((name, host.get(name)) for name in _DECIDING)
    yield "pytest-byoc's sources", session.get("sources", "")[:12]
    for target in one.targets:
        yield from ((f"{name} of {target['target']}", v) for name, v in target["versions"].items())
        yield f"declared precision of {target['target']}", target["precision"]
    yield from report["settings"].items()
    yield "seed", report["seed"]
    yield "stages", shard["stages"]
    yield "options that narrow the session:", ", ".join(shard["narrowed"])
    yield "number of shards", shard["of"]
    yield "number of tests", shard["whole"]
    yield "division of the tests", shard["digest"][:12]


def check_own_version(one: ShardReport) -> None:
    """Raises SettingsError if other code of pytest-byoc wrote the report, since its rules may be
    other ones too."""
    session = one.report["session"]
    if session.get("sources") != sources():
        theirs = session.get("host", {}).get("pytest-byoc", "another version")
        raise SettingsError(
            f"{one.path} was written by another state of pytest-byoc ({theirs}): merge with the one that ran "
            "the shards"
        )
