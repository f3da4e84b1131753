"""Builds and writes report.json: everything recorded, in the format of `report.schema.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..core import files
from ..record.likely_causes import likely_causes
from ..record.target_record import SCHEMA, TargetRecord


def build(
    records: Sequence[TargetRecord], seed: str, settings: Mapping[str, Any], session: Mapping[str, Any]
) -> dict[str, Any]:
    """Builds the report. The first target's record stands at the top level. With several targets,
    all records are under `targets`, and the top level has the outcomes and failures of all.

    session: from `provenance.session`."""
    head = {"schema": SCHEMA, "seed": seed, "settings": dict(settings), "session": dict(session)}
    dicts = [
        {**r.as_dict(), "causes": [c.as_dict() for c in likely_causes(r.failures.values())]} for r in records
    ]
    report = {**head, **(dicts[0] if dicts else {})}
    if len(dicts) > 1:
        report["targets"] = dicts
        report["outcomes"] = {k: sum(d["outcomes"][k] for d in dicts) for k in dicts[0]["outcomes"]}
        report["failures"] = [{**f, "target": d["target"]} for d in dicts for f in d["failures"]]
    return report


def write(path: Path, report: Mapping[str, Any]) -> None:
    """Writes the file whole or not at all."""
    files.replace(path, json.dumps(report, indent=1).encode())
