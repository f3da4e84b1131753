"""The baseline (--byoc-baseline): a report.json of an earlier session of the same target."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..config.errors import SettingsError
from ..core import files
from ..examination.outcome import OUTCOMES
from ..record.measured import Ratio, ratios
from ..record.target_record import SCHEMA, is_offloaded

#: Problems of the schema that the message for a damaged report names.
_NAMED = 3


@dataclass(frozen=True)
class TargetBaseline:
    """The baseline of one target in one IR. cases: id to outcome. checks: case to the checks that
    it failed. offloaded: the cells with an offloaded node, or with a failure before offloading could
    be seen. durations: seconds of the tests that a shard keeps together."""

    cases: Mapping[str, str]
    checks: Mapping[str, list[str]]
    offloaded: frozenset[tuple[str, str]]
    versions: Mapping[str, str]
    durations: Mapping[str, float] = field(default_factory=dict)
    #: Case to its time, divided by LLVM's.
    speed: Mapping[str, Ratio] = field(default_factory=dict)

    def knows(self, case: str, check: str) -> bool:
        """Returns whether the case failed this check before."""
        return check in self.checks.get(case, ())


@dataclass(frozen=True)
class Baseline:
    """A baseline as it was read. settings: of its session. targets: by name and IR."""

    path: Path
    settings: Mapping[str, Any]
    targets: Mapping[tuple[str, str], TargetBaseline]

    def of(self, target: str, ir: str) -> TargetBaseline:
        """Returns the baseline of a target. Raises SettingsError if the report has other
        targets."""
        if (target, ir) not in self.targets:
            found = " and ".join(f"{t} in {i}" for t, i in self.targets)
            raise SettingsError(
                f"--byoc-baseline: {self.path} is a report of {found}, this session tests {target} in {ir}; "
                "name a report of the same target (--byoc-report writes one)"
            )
        return self.targets[target, ir]


def read(
    path: Path, problems: Callable[[Any], Sequence[str]] = lambda report: (), option: str = "--byoc-baseline"
) -> Baseline:
    """Reads a baseline. Raises SettingsError for a file that is no report of a session.

    problems: returns what is wrong with a damaged report (`report.schema.problems`). option: the
    one that names the file."""
    remedy = "name a report.json that --byoc-report wrote"
    try:
        report = json.loads(files.read(path).decode("utf-8-sig"))
    except OSError as e:
        raise SettingsError(f"{option}: {path} cannot be read: {e.strerror}; {remedy}") from None
    except (ValueError, RecursionError) as e:
        raise SettingsError(f"{option}: {path} is not JSON: {e}; {remedy}") from None
    schema = report.get("schema") if isinstance(report, dict) else None
    if schema != SCHEMA:
        found = f"its schema is {schema!r}" if schema is not None else "it has no schema"
        raise SettingsError(
            f"{option}: {path} is not a report that this version can read: {found}, expected "
            f"{SCHEMA!r}; {remedy}"
        )
    if "shard" in report:
        raise SettingsError(
            f"{option}: {path} is the report of one shard; name the one that `python -m pytest_byoc merge` "
            "wrote"
        )
    dicts = report.get("targets", [report])
    if isinstance(dicts, list) and any(isinstance(d, dict) and "cases" not in d for d in dicts):
        raise SettingsError(
            f"{option}: {path} was written by a version that did not list cases; write it again with "
            "--byoc-report"
        )
    try:
        if not dicts:
            raise ValueError
        return Baseline(
            path, dict(report["settings"]), {(str(d["target"]), str(d["ir"])): _target(d) for d in dicts}
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        wrong = "; ".join(problems(report)[:_NAMED]) or "a field is missing or has a value of another type"
        raise SettingsError(f"{option}: {path} is damaged: {wrong}; {remedy}") from None


def _target(report: Mapping[str, Any]) -> TargetBaseline:
    cases = {str(k): str(v) for k, v in report["cases"].items()}
    unknown = set(cases.values()) - set(OUTCOMES)
    if unknown:
        raise ValueError
    checks = {str(k): [str(c) for c in v] for k, v in report["failed_checks"].items()}
    offloaded = (c for c in report["cells"] if is_offloaded(c))
    cells = frozenset((str(c["operator"]), str(c["dtype"])) for c in offloaded)
    durations = {str(k): float(v) for k, v in report.get("durations", {}).items()}
    speed = ratios(report.get("speed", ()))
    return TargetBaseline(cases, checks, cells, dict(report["versions"]), durations, speed)
