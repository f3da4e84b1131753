"""Tests of the commands `report` and `verify`: damaged reports, their schema, and bundles of sessions."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import random
import tracemalloc
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pytest_byoc.__main__ import main
from pytest_byoc.core import files
from pytest_byoc.core.irs import IRS
from pytest_byoc.examination.outcome import OUTCOMES
from pytest_byoc.record.target_record import SCHEMA
from pytest_byoc.report import html, schema, session_zip

from .test_report import diamond, filled, report, undescribed
from .test_snapshots import recorded


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": "other"}, "expected the schema"),
        ({"cells": [{"operator": 1}]}, "cells[0].operator: expected string, found integer"),
        ({"outcomes": {"fine": 1}}, "there is no outcome 'fine'"),
        ({"failures": {}}, "failures: expected array, found object"),
        (
            {"failures": [{"texts": [{"what": 1}], "details": {"picture": {"rows": 1}}}]},
            "failures[0].texts[0].what: expected string, found integer",
        ),
        ({"held": [1]}, "held: expected object, found array"),
        ({"gate": None}, "gate: expected object, found null"),
        ({"targets": []}, "targets: expected 1 or more items, found 0"),
        ({"targets": [[]]}, "targets[0]: expected object, found array"),
        ({"graphs": True}, "graphs: expected integer, found boolean"),
        ({"graphs": 1.0}, "graphs: expected integer, found number"),
        ({"graphs": -1}, "graphs: expected 0 or more, found -1"),
        ({"graphs": 2**53}, "graphs: expected 9007199254740991 or less, found 9007199254740992"),
        ({"graphs": 10**400}, "graphs: expected integer, found 1000"),
        ({"offloaded_share": float("nan")}, "offloaded_share: expected number, found nan"),
        ({"offloaded_share": 10**400}, "offloaded_share: expected number, found 1000"),
        ({"cases": {"add[float32]": "x" * 10**6}}, "cases['add[float32]']: there is no outcome 'xxx"),
        ({"cases": {"\x1b[31m": None}}, "cases['\\x1b[31m']: there is no outcome None"),
        ({"ir": "tflite"}, "ir: there is no IR 'tflite'; known are relay, relax"),
        ({"causes": 7}, "causes: expected array, found integer"),
        ({"session": {"started": "soon"}}, "session.started: expected a date-time with its time zone"),
        ({"session": {"started": "2026-01-02T03:04:05"}}, "session.started: expected a date-time with its"),
        (
            {"fragmentation": {"graphs_by_subgraphs": {"x": 1}, "split": 0, "boundary_bytes": 0}},
            "fragmentation.graphs_by_subgraphs: expected a text that matches ^[0-9]{1,9}$, found 'x'",
        ),
        ({"failures": [{"shown": {"nodes": []}}]}, "failures[0].shown.text: is missing"),
    ],
)
def test_damaged_reports_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, Any], message: str
) -> None:
    path = tmp_path / "report.json"
    path.write_text(json.dumps({**report(filled()), **change}))
    assert main(["report", str(path)]) == 1
    said = capsys.readouterr().err
    assert message in said and max(map(len, said.splitlines())) < 400
    assert not path.with_suffix(".html").exists()


def test_the_schema_is_valid_and_agrees_with_the_code() -> None:
    found = json.loads(schema.PATH.read_text())
    jsonschema.Draft202012Validator.check_schema(found)
    assert found["properties"]["schema"]["const"] == SCHEMA
    assert found["$defs"]["outcome"]["enum"] == list(OUTCOMES)
    assert found["$defs"]["target"]["properties"]["outcomes"]["propertyNames"]["enum"] == list(OUTCOMES)
    assert found["$defs"]["target"]["properties"]["ir"]["enum"] == [*IRS, ""]


def test_every_property_of_the_schema_has_a_description() -> None:
    def missing(part: Any, place: str) -> Iterator[str]:
        if isinstance(part, dict):
            for name, value in part.get("properties", {}).items():
                if "description" not in value:
                    yield f"{place}.{name}"
            for name, value in part.items():
                if name not in ("if", "then"):
                    yield from missing(value, f"{place}.{name}")

    assert list(missing(json.loads(schema.PATH.read_text()), "")) == []


def test_every_property_that_is_written_is_described() -> None:
    several = report(filled("one"), filled("two"))
    assert undescribed({**several, "more": 1}) and undescribed(several) == []
    for part in (several["targets"][0], several["failures"][0]["details"], several["settings"]):
        part["more"] = 1
        assert undescribed(several) and schema.problems(several) == []
        del part["more"]


@pytest.mark.parametrize("shape", ["[", '{"a":'])
def test_deep_nesting_is_no_crash(shape: str) -> None:
    deep: Any = None
    for _ in range(100_000):
        deep = [deep] if shape == "[" else {"a": deep}
    for change in ({"cells": deep}, {"cells": [deep]}, {"settings": {"operators": deep}}, {"failures": deep}):
        (problem, *_) = schema.problems({**report(filled()), **change})
        assert len(problem) < 400
    # Nobody reads what is not described.
    assert schema.problems({**report(filled()), "more": deep}) == []


VALUES = (
    *(None, True, -1, 0, 2**53, 10**400, 1.5, 1e308, float("nan"), "", "x", "\x00\ud800"),
    *("2026-01-02T03:04:05", [], {}, [None], [[]], {"a": 1}, ["x"], {"x": {}}),
)


def damaged(report: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    """Returns a report with one value at a random place removed or replaced."""
    result = copy.deepcopy(report)
    part: Any = result
    while True:
        key = chance.choice(list(part) if isinstance(part, dict) else range(len(part)))
        if not isinstance(part[key], (dict, list)) or not part[key] or chance.random() < 0.1:
            break
        part = part[key]
    if chance.random() < 0.3:
        del part[key]
    else:
        part[key] = chance.choice(VALUES)
    return result


def test_a_damaged_report_is_refused_or_shown() -> None:
    whole, chance = report(recorded()), random.Random(1)
    shown = 0
    for _ in range(200):
        found = damaged(whole, chance)
        if not schema.problems(found):
            html.render(found)
            shown += 1
    assert 10 < shown < 200


def test_a_report_that_is_wrong_everywhere_is_told_in_a_few_lines() -> None:
    found = {**report(filled()), "cases": {f"add[{i}]": "good" for i in range(100_000)}}
    problems = schema.problems(found)
    assert len(problems) == 21 and problems[-1] == "more problems follow; the first 20 are listed"


def test_the_report_command_writes_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "report.json"
    path.write_text(json.dumps(report(filled())))
    assert schema.problems(json.loads(path.read_text())) == []
    assert main(["report", str(path)]) == 0
    assert path.with_suffix(".html").read_text() == html.render(report(filled()))
    assert main(["report", str(tmp_path / "none.json")]) == 2
    path.write_text("{")
    assert main(["report", str(path)]) == 2
    assert "No such file" in (errors := capsys.readouterr().err) and "is not JSON" in errors


def bundle(tmp_path: Path) -> Path:
    data = report(filled())
    folder = tmp_path / "byoc-failures" / "mine-relay-1"
    folder.mkdir(parents=True)
    (folder / "graph.json").write_text(diamond().to_json())
    data["failures"][0]["bundle"] = "byoc-failures/mine-relay-1"
    waivers = tmp_path / "waivers.toml"
    waivers.write_text("")
    path = tmp_path / "out.zip"
    session_zip.write(path, data, tmp_path, {"inputs/waivers/waivers.toml": waivers})
    return path


def rewritten(path: Path, change: dict[str, bytes | None], add: dict[str, bytes] | None = None) -> None:
    """Writes the .zip again with some files changed, left out (None), or added."""
    with zipfile.ZipFile(path) as old:
        contents: dict[str, bytes | None] = {n: old.read(n) for n in old.namelist()}
    contents.update({**change, **(add or {})})
    with zipfile.ZipFile(path, "w") as new:
        for name, data in contents.items():
            if data is not None:
                new.writestr(name, data)


def test_a_bundle_is_complete_and_reproducible(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = bundle(tmp_path)
    assert main(["verify", str(path)]) == 0
    with zipfile.ZipFile(path) as archive:
        assert set(archive.namelist()) == {
            "MANIFEST.json", "report.json", "report.html", "versions.json", "inputs/waivers/waivers.toml",
            "byoc-failures/mine-relay-1/graph.json",
        }
        assert 'href="byoc-failures/mine-relay-1/"' in archive.read("report.html").decode()
    first = path.read_bytes()
    (tmp_path / "again").mkdir()
    assert bundle(tmp_path / "again").read_bytes() == first


GRAPH = "byoc-failures/mine-relay-1/graph.json"
DIFFERS = "does not have the SHA-256"


@pytest.mark.parametrize(
    ("change", "messages"),
    [
        ({"report.html": b"x"}, [f"report.html: {DIFFERS} that MANIFEST.json lists"]),
        ({"extra": b""}, ["extra: is not listed in MANIFEST.json"]),
        ({GRAPH: None}, [f"{GRAPH}: is listed in MANIFEST.json", f"{GRAPH}: is missing; it is the graph of"]),
        ({GRAPH: b"{}"}, [f"{GRAPH}: {DIFFERS}", f"{GRAPH}: is no graph: expected an object"]),
        ({"report.json": b"{}"}, [f"report.json: {DIFFERS}", "report.json: expected the schema"]),
        ({"MANIFEST.json": b"[]"}, ["MANIFEST.json: expected"]),
    ],
)
def test_a_damaged_bundle_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, bytes | None], messages: list[str]
) -> None:
    path = bundle(tmp_path)
    rewritten(path, change)
    assert main(["verify", str(path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(messages)
    assert all(line.startswith(m) for line, m in zip(lines, messages))


@pytest.mark.parametrize("name", ["../../evil.json", "/etc/abs", "C:\\\\win", "a/../../b"])
def test_a_bundle_with_paths_outside_its_folder_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    path = bundle(tmp_path)
    with zipfile.ZipFile(path) as old:
        manifest = json.loads(old.read("MANIFEST.json"))
    manifest["files"][name] = hashlib.sha256(b"x").hexdigest()
    rewritten(path, {name: b"x", "MANIFEST.json": json.dumps(manifest).encode()})
    assert main(["verify", str(path)]) == 1
    assert "would be unpacked outside its folder" in capsys.readouterr().out


def test_a_bundle_above_the_size_limit_is_not_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_zip, "_BYTES", 1 << 16)
    path = bundle(tmp_path)
    rewritten(path, {"bomb\x1b[31m": bytes(1 << 20)})
    assert main(["verify", str(path)]) == 1
    out = capsys.readouterr().out
    assert "the rest was not read" in out and "\x1b" not in out


def test_a_large_member_of_a_bundle_is_not_read_at_once(tmp_path: Path) -> None:
    path = bundle(tmp_path)
    size = 64 << 20
    rewritten(path, {"data.npz": bytes(size)})
    tracemalloc.start()
    problems = session_zip.verify(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert problems == ["data.npz: is not listed in MANIFEST.json"]
    assert peak < size / 4


def test_a_large_graph_in_a_bundle_is_not_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "LIMIT", 1 << 20)
    path = bundle(tmp_path)
    rewritten(path, {"a/graph.json": bytes((1 << 20) + 1)})
    assert session_zip.verify(path) == [
        "a/graph.json: has more than 1 MiB: its content was not checked",
        "a/graph.json: is not listed in MANIFEST.json",
    ]


def test_files_that_are_no_bundle_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.zip"
    assert main(["verify", str(path)]) == 2
    path.write_text("no archive")
    assert main(["verify", str(path)]) == 2
    path.unlink()
    os.mkfifo(path)
    assert main(["verify", str(path)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3 and lines[-1].endswith("this is no regular file")
