"""Tests of shards without TVM: their division, the joining of their reports, and sets of reports that
are refused."""

from __future__ import annotations

import copy
import json
import random
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from pytest_byoc import __main__, __version__
from pytest_byoc.config import shard
from pytest_byoc.config.errors import SettingsError
from pytest_byoc.evidence.earlier_pass import Pass
from pytest_byoc.examination.outcome import PASS, Verdict
from pytest_byoc.gate import baseline
from pytest_byoc.gate.excuses import Excuses
from pytest_byoc.gate.planned import PARAMETERS, Selection
from pytest_byoc.plugin.division import Key, costs_of, divide
from pytest_byoc.record.likely_causes import recognised
from pytest_byoc.record.listed import Failure
from pytest_byoc.record.sighting import Look, Sighting, blamed, cells_of
from pytest_byoc.record.target_record import TargetRecord
from pytest_byoc.report import json_report, schema
from pytest_byoc.results import failure_folders, shard_reports
from pytest_byoc.results.replay import Replay
from pytest_byoc.results.unfinished import taken_over
from pytest_byoc.storage import stored_passes
from pytest_byoc.storage.own_code import sources
from pytest_byoc.storage.stored_passes import Passes

from .test_likely_causes import conv, of, raising, wrong
from .test_report import undescribed

pytestmark = pytest.mark.once
IR = "relay"

# --- options and division ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["0/0", "6/5", "0/5", "1/0", "text", "", "1", "1/2/3", "-1/2", " 1/2", "1 / 2", "1/1e3",
     "\uff11/\uff12", "1/" + "9" * 99],
)
def test_shards_that_do_not_exist_are_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="--byoc-shard must be K/N, as in 2/5") as raised:
        shard.read("--byoc-shard", text)
    assert repr(text) in str(raised.value)


def test_a_shard_is_read() -> None:
    assert str(shard.read("--byoc-shard", "2/5")) == "shard 2 of 5"


def units(number: int) -> tuple[dict[Key, list[str]], dict[Key, float]]:
    chance = random.Random(7)
    tests = {(0, f"unit {i}"): [f"test {i} {j}" for j in range(chance.randint(1, 9))] for i in range(number)}
    return tests, {key: chance.uniform(0.1, 5) for key in tests}


@pytest.mark.parametrize("of", [1, 2, 5, 40, 10**6])
def test_each_unit_is_in_one_shard_and_shards_take_about_equally_long(of: int) -> None:
    tests, costs = units(40)
    division = divide(tests, costs, of)
    assert division.shards.keys() == tests.keys()
    shards = range(1, min(of, 40) + 1)
    loads = [sum(c for key, c in costs.items() if division.shards[key] == n) for n in shards]
    assert max(loads) <= sum(costs.values()) / of + max(costs.values())
    assert sum(loads) == pytest.approx(sum(costs.values()))
    assert min(loads) > 0


def test_a_division_depends_neither_on_the_order_of_tests_nor_on_the_machine() -> None:
    tests, costs = units(20)
    other = divide({key: tests[key][::-1] for key in reversed(tests)}, costs, 3)
    assert divide(tests, costs, 3) == other
    fewer = {key: names for key, names in tests.items() if key != (0, "unit 3")}
    assert divide(fewer, costs, 3).digest != other.digest
    assert divide(tests, costs, 4).digest != other.digest


def test_costs_are_known_durations_and_guesses_in_proportion() -> None:
    kinds: dict[Key, list[str]] = {(0, "a"): ["x"] * 4, (0, "b"): ["x"] * 2, (0, "c"): ["own"]}
    guesses = {"x": (0.5, 0.5)}
    assert costs_of(kinds, guesses, {}) == {(0, "a"): 1.0, (0, "b"): 0.5, (0, "c"): 1.0}
    assert costs_of(kinds, guesses, {(0, "a"): 10.0}) == {(0, "a"): 10.0, (0, "b"): 5.0, (0, "c"): 10.0}


# --- failures of all shards ----------------------------------------------------------------------


def saw(record: TargetRecord, position: int, verdict: Verdict) -> None:
    """Does what `Failures` does in a shard for a failing graph that cannot be shrunk."""
    case = f"case {position}"
    record.add(verdict, case)
    failure, _ = record.fail(verdict, case, known=recognised(list(record.failures.values()), verdict, IR))
    sighting = Sighting.of(position, f"test {position}", case, "", verdict, excused=False)
    sighting.failure, sighting.before = failure.id, Look.of(verdict, IR)
    sighting.counted = cells_of(verdict.graph, blamed(verdict))
    record.sightings.append(sighting)


def failing() -> list[Verdict]:
    """Returns verdicts with several causes, most of which show in several graphs."""
    layout = conv(data_layout="NHWC", kernel_layout="HWIO")
    convolutions = (conv((2, 1, 1, 1)), conv(dilation=(1, 2)), layout)
    named = [raising(of(op), f"no kernel for {op}") for op in ("add", "nn.relu", "exp", "tanh", "abs")]
    numbers = [wrong(of(op, dtype)) for op in ("sqrt", "exp") for dtype in ("float32", "float64")]
    reruns = [wrong(of(op), "rerun") for op in ("add", "tanh")]
    return [*map(wrong, convolutions), *named, *numbers, *reruns]


@pytest.mark.parametrize("number", [1, 2, 5])
@pytest.mark.parametrize("seed", range(6))
def test_failures_of_shards_are_those_of_one_session(number: int, seed: int) -> None:
    chance = random.Random(seed)
    verdicts = [chance.choice(failing()) for _ in range(40)]
    one = TargetRecord("mine", IR, {})
    parts = [TargetRecord("mine", IR, {}) for _ in range(number)]
    for position, verdict in enumerate(verdicts):
        saw(one, position, verdict)
        saw(chance.choice(parts), position, verdict)
    joined = TargetRecord("mine", IR, {})
    taken = [json.loads(json.dumps(part.take())) for part in parts]
    for part in taken:
        joined.merge({**part, "failures": []})
    failures = [{f["id"]: Failure(**f) for f in part["failures"]} for part in taken]
    sightings = [list(map(Sighting.from_dict, part["sightings"])) for part in taken]
    replay = Replay(joined, failures, Excuses(None, None, update=False))
    replay.run(sightings)
    expected, found = one.as_dict(), joined.as_dict()
    assert found["failures"] == expected["failures"] and len(found["failures"]) > 4
    assert found == {**expected, "durations": found["durations"]}
    assert replay.failing == {f"test {i}" for i in range(len(verdicts))}


# --- sets of reports -----------------------------------------------------------------------------

SETTINGS = {
    "operators": ["nn.relu"], "level": "smoke", "explore": None, "time_budget": None, "max_examples": 1,
    "max_nodes": 5, "max_causes": 20, "timeout": 30.0, "memory_bytes": 1 << 30,
}
HOST = {"pytest-byoc": __version__, "hypothesis": "6.1", "numpy": "2.0", "onnx": "1.17", "platform": "Linux"}


def written(folder: Path, number: int, of_: int = 2, fails: bool = True) -> dict[str, Any]:
    """Writes the report of a shard with one passed graph and one failure, and returns it."""
    record = TargetRecord("mine", IR, {"tvm": "0.16"})
    record.add(Verdict(of("exp"), PASS, (), (True,), 1), f"exp[{number}]")
    if fails:
        saw(record, number, wrong(of("nn.relu")))
    selection = Selection(set(PARAMETERS), {"exp[1]", "exp[2]", "case 1", "case 2"}, {f"exp[{number}]"})
    (folder / "byoc-failures" / "mine-relay-x").mkdir(parents=True)
    for failure in record.failures.values():
        graph = folder / "byoc-failures" / "mine-relay-x" / "graph.json"
        graph.write_text("{}")
        graph.with_name("failure.txt").write_text(f"saved in: {graph.parent}\n--byoc-replay={graph}\n")
        failure.graph, failure.bundle = str(graph), "byoc-failures/mine-relay-x"
        failure.command = f"pytest --byoc-replay={graph}"
    session = {
        "started": f"2026-01-0{number}T00:00:00Z", "finished": f"2026-01-0{number}T01:00:00Z", "host": HOST,
        "sources": sources(), "commit": "c0ffee", "files": [],
    }
    report = json_report.build([record], "derandomized", SETTINGS, session)
    report["gate"] = {"exit": int(fails), "problems": [], "notes": []}
    report["shard"] = {
        "number": number, "of": of_, "digest": "d1", "whole": 4, "here": 2, "exit": int(fails),
        "failed": {f"test {number}": True} if fails else {}, "deselected": number, "out_of_time": 0,
        "left_out": {}, "narrowed": [], "stages": None,
        "targets": [
            {"selection": selection.as_dict(), "sightings": [s.as_dict() for s in record.sightings]}
        ],
    }
    report = dict(json.loads(json.dumps(report)))
    assert schema.problems(report) == [] and undescribed(report) == []
    save(folder, report)
    return report


def save(folder: Path, report: Any) -> None:
    (folder / "report.json").write_text(json.dumps(report))


@pytest.fixture
def shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Returns the folders of both shards of a session, the second first. The ini file is empty."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    for number in (1, 2):
        written(tmp_path / f"s{number}", number)
    return [Path("s2"), Path("s1")]


def merge(*arguments: object) -> int:
    return __main__.main(["merge", *map(str, arguments)])


def test_merged_shards_are_one_report(shards: Sequence[Path], capsys: pytest.CaptureFixture[str]) -> None:
    for folder, tests in zip(shards, ("3", "2")):
        (folder / "junit.xml").write_text(
            f'<testsuites><testsuite tests="{tests}" failures="1" time="1.5"><testcase name="t{tests}"/>'
            "</testsuite></testsuites>"
        )
    assert merge(*shards, "-o", "out") == 1
    said = capsys.readouterr().out
    assert "merged 2 shards of 4 tests" in said and "1 likely cause of 2 failing tests" in said
    assert "3 tests deselected" in said and f"report: {Path.cwd()}/out/report.json" in said
    report = json.loads(Path("out/report.json").read_text())
    assert schema.problems(report) == [] and undescribed(report) == [] and "shard" not in report
    assert report["graphs"] == 4 and report["session"]["shards"] == 2
    assert report["session"]["started"] == "2026-01-01T00:00:00Z"
    assert report["session"]["finished"] == "2026-01-02T01:00:00Z"
    (failure,) = report["failures"]
    assert failure["count"] == 2 and failure["cases"] == ["case 1", "case 2"]
    assert failure["case"] == "case 1"
    # The folder is a copy, and names itself.
    graph = Path.cwd() / "out" / failure["bundle"] / "graph.json"
    assert graph.is_file() and Path(failure["graph"]) == graph
    assert failure["command"] == f"pytest --byoc-replay={graph}"
    assert "/s1/" not in graph.with_name("failure.txt").read_text()
    assert Path("out/report.html").is_file()
    (suite,) = ElementTree.parse("out/junit.xml").getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("time")) == ("5", "2", "3.000")
    assert {case.get("name") for case in suite} == {"t2", "t3"}


def test_passes_of_shards_are_merged(shards: Sequence[Path], tmp_path: Path) -> None:
    library = tmp_path / "lib.so"
    for number, folder in enumerate(shards):
        library.write_text("x")
        state = library.stat()
        passes = Passes({"pytest-byoc": "1"}, passes={f"{number}": asdict(Pass({"vm": "c"}, ("numerics",)))})
        passes.depend_on([(str(library), state.st_size, state.st_mtime_ns)])
        stored_passes.write(folder / "report.json", {("mine", IR): passes})
        report = json.loads((folder / "report.json").read_text())
        report |= {"taken_over": number + 1, "not_checked": taken_over(number + 1)}
        save(folder, report)
    stored_passes.read.cache_clear()
    assert merge(*shards, "-o", "out") == 1
    merged = stored_passes.read(tmp_path / "out" / "report.json")[f"mine in {IR}"]
    assert set(merged.passes) == {"0", "1"} and list(merged.files) == [str(library)]
    assert merged.conditions == {"pytest-byoc": "1"}
    report = json.loads(Path("out/report.json").read_text())
    assert report["taken_over"] == 3 and report["not_checked"] == taken_over(3)


def test_the_order_of_folders_does_not_matter(shards: Sequence[Path], tmp_path: Path) -> None:
    assert merge(*shards, "-o", "out") == merge(*reversed(shards), "-o", "out2") == 1
    one, other = (json.loads((tmp_path / o / "report.json").read_text()) for o in ("out", "out2"))
    assert json.dumps(other).replace("out2", "out") == json.dumps(one)


def different(report: dict[str, Any], *path: str, value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(report)
    part = changed
    for step in path[:-1]:
        part = part[step]
    part[path[-1]] = value
    return changed


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("session", "commit"), "f00", "commit c0ffee and f00"),
        (("session", "sources"), "0" * 64, "pytest-byoc's sources"),
        (("session", "files"), [{"what": "waivers", "path": "w", "sha256": "1"}], "files "),
        (("session", "host"), {**HOST, "numpy": "1.26"}, "numpy 2.0 and 1.26"),
        (("versions",), {"tvm": "0.9"}, "tvm of mine 0.16 and 0.9"),
        (("target",), "other", "targets mine in relay and other in relay"),
        (("settings",), {**SETTINGS, "level": "full"}, "level smoke and full"),
        (("settings",), {**SETTINGS, "timeout": 5.0}, "timeout 30.0 and 5.0"),
        (("shard", "of"), 3, "number of shards 2 and 3"),
        (("shard", "digest"), "d2", "division of the tests d1 and d2"),
        (("shard", "narrowed"), ["--byoc-level"], "narrow the session"),
    ],
)
def test_shards_of_different_sessions_are_refused(
    shards: Sequence[Path], capsys: pytest.CaptureFixture[str], path: tuple[str, ...], value: Any,
    message: str,
) -> None:
    save(shards[0], different(json.loads((shards[0] / "report.json").read_text()), *path, value=value))
    assert merge(*shards, "-o", "out") == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert message in said and "run all shards with the same code and options" in said
    assert not Path("out").exists()


def hostile(shards: Sequence[Path]) -> Iterator[tuple[list[Any], str]]:
    """Yields arguments of merge, and what is said of them."""
    report = json.loads((shards[0] / "report.json").read_text())
    whole = {name: value for name, value in report.items() if name != "shard"}
    yield [shards[0]], "shards are missing of 2: 1; name the reports of all shards"
    yield [*shards, shards[0]], "shard 2 of 2 is given twice"
    yield [*shards, "nowhere"], "nowhere cannot be read: No such file or directory"
    yield [*shards, "-o", "s1"], "/s1 is the folder of a shard"
    for name, content, message in (
        ("cut", (shards[0] / "report.json").read_text()[:500], "is not JSON"),
        ("list", "[]", "is damaged: expected an object, found array"),
        ("typed", json.dumps(different(report, "shard", "number", value="2")), "shard.number: expected"),
        ("few", json.dumps(different(report, "shard", "targets", value=[])), "shard.targets"),
        ("none", json.dumps(different(report, "shard", "number", value=0)), "it is shard 0 of 2"),
        ("short", json.dumps(different(report, "settings", value={})), "settings.operators: is missing"),
        ("stopped", json.dumps(different(report, "shard", "exit", value=2)), "was interrupted"),
        ("whole", json.dumps(whole), "is the report of a whole session"),
    ):
        Path(name).mkdir()
        Path(name, "report.json").write_text(content)
        yield [shards[1], name], message
    lost = copy.deepcopy(report)
    lost["failures"] = []
    Path("lost").mkdir()
    save(Path("lost"), lost)
    yield [shards[1], "lost"], "is damaged: it lists no failure"
    lost["failures"], lost["cells"] = report["failures"], []
    Path("cells").mkdir()
    save(Path("cells"), lost)
    yield [shards[1], "cells"], "its cells do not fit"


def test_sets_that_are_no_session_are_refused(
    shards: Sequence[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments, message in hostile(shards):
        output = [] if "-o" in arguments else ["-o", "out"]
        assert merge(*arguments, *output) == 2, message
        (said,) = capsys.readouterr().err.splitlines()
        assert message in said
        assert not Path("out", "report.json").exists()


def test_another_version_does_not_merge(
    shards: Sequence[Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard_reports, "sources", lambda: "other")
    assert merge(*shards, "-o", "out") == 2
    assert "merge with the one that ran the shards" in capsys.readouterr().err


def test_the_gate_judges_merged_shards(shards: Sequence[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert merge(*shards, "-o", "out", "--byoc-fail-under=90") == 1
    assert "1 of 2 offloaded cells (operator and dtype) pass, 50 %" in capsys.readouterr().out
    waiver = '[[waiver]]\ncheck = "numerics"\ncase = "case *"\nreason = "known"\n'
    Path("w.toml").write_text(waiver)
    assert merge(*shards, "-o", "out", "--byoc-waivers=w.toml") == 0
    report = json.loads(Path("out/report.json").read_text())
    assert report["failures"] == [] and [e["case"] for e in report["excused"]] == ["case 1", "case 2"]
    # The ini file may name the waivers too, and entries that waive nothing fail the session.
    Path("w.toml").write_text(waiver + waiver.replace("case *", "exp[[]1]"))
    Path("pytest.ini").write_text("[pytest]\nbyoc_waivers = w.toml\n")
    assert merge(*shards, "-o", "out") == 1
    assert "w.toml:5: " in capsys.readouterr().out
    Path("pytest.ini").write_text("[pytest]\n")
    assert merge(*shards, "-o", "out2", "--byoc-update-waivers", "--byoc-waivers=new.toml") == 0
    assert Path("new.toml").read_text().count("[[waiver]]") == 2
    assert merge(*shards, "-o", "out3", "--byoc-baseline=out2/report.json") == 0
    assert "--byoc-fail-under must be" in refused(capsys, *shards, "-o", "out", "--byoc-fail-under=x")
    assert "w2.toml" in refused(capsys, *shards, "-o", "out", "--byoc-waivers=w2.toml")


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    capsys.readouterr()
    assert merge(*arguments) == 2
    return capsys.readouterr().err


def test_what_a_shard_excused_needs_an_excuse(
    shards: Sequence[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    report = json.loads((shards[0] / "report.json").read_text())
    (sighting,) = report["shard"]["targets"][0]["sightings"]
    sighting |= {"excused": True, "failure": ""}
    report["failures"], report["shard"]["failed"], report["shard"]["exit"] = [], {}, 0
    save(shards[0], report)
    said = refused(capsys, *shards, "-o", "out")
    assert "case 2 (check numerics) was excused when its shard was run" in said


def test_a_shard_is_no_baseline(shards: Sequence[Path], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SettingsError, match="is the report of one shard"):
        baseline.read(shards[0] / "report.json")
    assert __main__.main(["diff", *map(str, shards)]) == 2
    assert "this is one shard" in capsys.readouterr().err


def test_nothing_passed_is_judged_of_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for number in (1, 2):
        report = written(tmp_path / f"s{number}", number, fails=False)
        if number == 1:
            report["outcomes"]["pass"], report["outcomes"]["not-offloaded"] = 0, 1
            report["cases"] = {"exp[1]": "not-offloaded"}
            save(tmp_path / "s1", report)
    assert merge("s1", "s2", "-o", "out") == 0
    report["outcomes"]["pass"], report["outcomes"]["not-offloaded"] = 0, 1
    report["cases"] = {"exp[2]": "not-offloaded"}
    save(tmp_path / "s2", report)
    assert merge("s1", "s2", "-o", "out") == 1


@pytest.mark.parametrize("bundle", ["../s1", "/etc", "a/../../b", "a\\b"])
def test_folders_of_failures_stay_inside(tmp_path: Path, bundle: str) -> None:
    failure = Failure("1", "c", "s", "crash", [], "", "", "", "", bundle=bundle)
    with pytest.raises(SettingsError, match="is outside"):
        failure_folders.copied(failure, tmp_path, tmp_path / "out")


def test_a_missing_folder_of_a_failure_is_noted(
    shards: Sequence[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("s1/byoc-failures/mine-relay-x/graph.json").unlink()
    assert merge(*shards, "-o", "out") == 1
    assert "has no folder here, since s1/byoc-failures/mine-relay-x is missing" in capsys.readouterr().out
    (failure,) = json.loads(Path("out/report.json").read_text())["failures"]
    assert failure["bundle"] == failure["graph"] == ""


def test_shards_of_several_targets_and_their_scoreboard(
    shards: Sequence[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in shards:
        report = json.loads((folder / "report.json").read_text())
        head = ("schema", "seed", "settings", "session", "gate")
        target = {k: v for k, v in report.items() if k not in head}
        shard = target.pop("shard")
        report["targets"] = [target, {**copy.deepcopy(target), "target": "other"}]
        shard["targets"] *= 2
        save(folder, report)
    assert merge(*shards, "-o", "out", "--matrix") == 1
    report = json.loads(Path("out/report.json").read_text())
    assert schema.problems(report) == [] and report["outcomes"]["pass"] == 4
    assert [(f["target"], f["count"]) for f in report["failures"]] == [("mine", 2), ("other", 2)]
    assert "other (Relay)" in Path("out/scoreboard.md").read_text()
    assert {path.name for path in Path("out").glob("*.svg")} == {
        "badge.svg", "badge-mine-relay.svg", "badge-other-relay.svg",
    }
