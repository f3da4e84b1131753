"""Tests of the scoreboard of TVM's own targets: of its sessions, and of the page made of their results."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from .conftest import PYTHON
from .pages import ROOT

sys.path.insert(0, str(ROOT / "scripts"))
try:
    import scoreboard  # type: ignore[import-not-found]
    import scoreboard_page  # type: ignore[import-not-found]
    import scoreboard_sessions as sessions  # type: ignore[import-not-found]
finally:
    sys.path.pop(0)


def session(report: dict[str, Any] | None = None, **facts: Any) -> dict[str, Any]:
    """Returns the result of a session, that of a target which passed unless told otherwise."""
    known = {"date": "2026-01-02", "exit": 0, "stopped_after": None, "seconds": 70.0, "cpu_seconds": 65.0,
             "said": "", "failed": {}, "skipped": {}}
    return {**known, **facts, "report": report}


def report(**fields: Any) -> dict[str, Any]:
    return {
        "tvm": "0.27.0", "python": "3.11.7", "level": "smoke", "time_budget": None, "partition_only": "",
        "outcomes": {"pass": 3}, "graphs": 3, "operators": 20, "operators_offloaded": 7, "cells_passed": 11,
        "cells_failed": 2, "cells": 14, "patterns": 0, "patterns_matched": 0, "failures": [],
        "unfinished": [], "problems": [], "models": {}, **fields,
    }


def page(**targets: dict[str, Any]) -> str:
    """Returns the page of targets of Relax, whose names begin with tvm if TVM knows them."""
    for name, target in targets.items():
        target["known_as"] = "known to this TVM" if name.startswith("tvm") else "installed with pytest-byoc"
    return str(scoreboard_page.page([{"ir": "relay", "targets": {}}, {"ir": "relax", "targets": targets}]))


def row(text: str, name: str, heading: str) -> list[str]:
    """Returns the cells of a row of the first table under a heading."""
    for line in text.partition(f"### {heading}")[2].splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if cells and cells[0] == name:
            return cells
    raise AssertionError(f"{heading} has no row {name}:\n{text}")


@pytest.mark.once
def test_every_end_of_a_session_is_a_row() -> None:
    cut = report(time_budget=60.0, unfinished=["5 tests: the time budget was used up"], patterns=4,
                 patterns_matched=3, partition_only="TVM has no codegen")
    text = page(
        good={"suite": session(report())}, cut={"suite": session(cut, exit=6)},
        strange={"suite": session(None, exit=4, said="target a|b: it can't be imported")},
        hung={"suite": session(None, exit=-15, stopped_after=900.0)},
        dead={"suite": session(None, exit=-9)}, left={}, tvms={},
    )
    assert text.index("| tvms |") < text.index("| good |")
    heading = "Targets of Relax"
    assert row(text, "good", heading) == [
        "good", "whole", "7 of 20", "", "11 of 14", "2", "0", "passed", "65", ""
    ]
    assert row(text, "cut", heading)[1:] == [
        "partition", "7 of 20", "3 of 4", "11 of 14", "2", "0", "passed, cut short", "65",
        "5 tests did not begin within 60 s",
    ]
    assert row(text, "strange", heading)[7:] == [
        "can't be tested", "65", r"target a\|b: it can't be imported"
    ]
    assert row(text, "hung", heading)[7] == "ended after 900 s"
    assert row(text, "dead", heading)[7] == "died of signal 9"
    assert row(text, "left", heading)[7] == "not run"
    assert "No session was run." in text.partition("## Relay")[2].partition("## Relax")[0]
    assert "TVM 0.27.0, Python 3.11.7; level smoke; 2026-01-02." in text


@pytest.mark.once
def test_models_by_targets() -> None:
    mlp = {"outcome": "pass", "operators": 9, "offloaded": 6, "multiply_adds": 20_000,
           "multiply_adds_offloaded": 5_000, "subgraphs": 2, "no_bound": ""}
    unknown = {**mlp, "no_bound": "nothing is known of it"}
    asked = ["mlp", "vgg", "lstm"]
    text = page(
        a={"models": session(report(models={"mlp": mlp, "vgg": mlp}), models=asked,
                             failed={"lstm": "model lstm: TVM does not import the model: no LSTM",
                                     "vgg": "a part of it is wrong"})},
        b={"models": session(report(models={"mlp": {**unknown, "outcome": "inconclusive"}}), models=asked[:2],
                             skipped={"vgg": "not checked: the time budget of 5 s is used up"})},
        c={"models": session(None, exit=4, models=asked)},
        d={"suite": session(report())},
    )
    heading = "Whole models in Relax"
    assert row(text, "mlp", heading) == ["mlp", "9", "20k", "✓ 6; 25%; 2", "? no bound"]
    assert row(text, "vgg", heading)[3:] == ["✗ 6; 25%; 2", "no time"]
    assert row(text, "lstm", heading)[3:] == ["not imported", "not run"]
    assert "| lstm | no LSTM |" in text
    assert "No report: c (can't be tested)." in text and "Not run with models: d." in text
    assert "Models that were not run: resnet50, " in " ".join(text.split())


@pytest.mark.once
def test_failures_are_listed_by_target() -> None:
    failure = {"check": "numerics", "stage": "run", "outcome": "wrong-result", "tests": 3,
               "operators": ["add", "nn.relu"], "case": "add[int8]", "message": "x" * 400}
    text = page(
        a={"suite": session(report(failures=[failure]), exit=1),
           # The same failure, in whole models.
           "models": session(report(failures=[failure]), exit=1, models=["mlp"])},
        b={"suite": session(report())},
    )
    cells = row(text, "a", "Failures in Relax")
    assert cells[1:6] == ["numerics", "wrong-result", "run", r"add + nn.relu, in add\[int8\]", "3"]
    assert cells[6].startswith("xxx") and cells[6].endswith("…") and len(cells[6]) < 400
    assert text.count("xxxx…") == 1
    assert row(text, "a", "Targets of Relax")[6:8] == ["1", "failed"]


@pytest.mark.once
def test_messages_name_no_folder_of_the_machine() -> None:
    said = "\n  raised in /home/me/.tox/lib/python3.11/tvm/x.py:3: a / b, 1/2\nmore"
    assert sessions.first_line(said) == "raised in x.py:3: a / b, 1/2"


@pytest.mark.once
@pytest.mark.parametrize(
    ("body", "limit", "code", "stopped"),
    [("time.sleep(60)", 8.0, None, 8.0), ("os.kill(os.getpid(), 9)", 60.0, -9, None)],
)
def test_sessions_that_hang_or_die(
    tmp_path: Path, body: str, limit: float, code: int | None, stopped: float | None
) -> None:
    test = tmp_path / "test_it.py"
    test.write_text(f"import os, time\n\ndef test_it():\n    {body}\n")
    folder = tmp_path / "session"
    found = sessions.run([str(test)], folder, limit)
    assert found["stopped_after"] == stopped and found["report"] is None
    assert found["seconds"] < 50
    assert code is None or found["exit"] == code
    # What an earlier session left there is not taken for the next one's.
    (folder / "report").mkdir()
    (folder / "report" / "report.json").write_text("{}")
    test.write_text("def test_it():\n    pass\n")
    assert sessions.run([str(test)], folder, 60.0)["report"] is None


def test_a_target_of_tvm_is_tested_by_its_name(
    tmp_path: Path, ir: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if sys.executable != PYTHON:
        pytest.skip("the scoreboard's sessions are run by this interpreter, which has no TVM")
    arguments = ["run", "tensorrt", f"--ir={ir}", "--models=mlp", f"--results={tmp_path}", "--limit=200",
                 "--option=--byoc-operators=nn.relu", f"--folder={tmp_path / 'sessions'}"]
    scoreboard.main(arguments)
    results = json.loads((tmp_path / f"{ir}.json").read_text())
    assert "example_c" in results["targets"] and "suite" not in results["targets"]["example_c"]
    target = results["targets"]["tensorrt"]
    scoreboard.main(["page", f"--results={tmp_path}", f"--output={tmp_path / 'page.md'}"])
    text = (tmp_path / "page.md").read_text()
    title = {"relay": "Relay", "relax": "Relax"}[ir]
    cells = row(text, "tensorrt", f"Targets of {title}")
    if ir == "relay":
        # Its partition function needs what this build lacks.
        assert target["suite"]["exit"] == 4 and cells[7] == "can't be tested"
        assert "can partition nothing for it here" in cells[9]
        return
    assert target["suite"]["exit"] == 6 and cells[1] == "partition" and cells[7] == "passed"
    assert target["suite"]["report"]["operators_offloaded"] > 0
    assert target["models"]["report"]["models"]["mlp"]["operators"] == 9
    assert row(text, "mlp", f"Whole models in {title}")[3].startswith("✓ 9; 100%; ")
    assert row(text, r"example\_c", f"Targets of {title}")[7] == "not run"
    capsys.readouterr()
    # The results of another target stay.
    scoreboard.main([*arguments[:1], "cudnn", *arguments[2:], "--kinds=suite"])
    results = json.loads((tmp_path / f"{ir}.json").read_text())
    assert results["targets"]["tensorrt"] == target and "suite" in results["targets"]["cudnn"]
    assert "tensorrt" not in capsys.readouterr().out


def test_unknown_targets_are_refused(tmp_path: Path, ir: str) -> None:
    if sys.executable != PYTHON:
        pytest.skip("the scoreboard's sessions are run by this interpreter, which has no TVM")
    with pytest.raises(SystemExit, match="unknown: nosuch; known are example_c, "):
        scoreboard.main(["run", "nosuch", f"--ir={ir}", f"--results={tmp_path}"])
    assert not list(tmp_path.iterdir())


@pytest.mark.once
def test_commands_of_the_nightly_job_are_the_scripts() -> None:
    text = (ROOT / ".github" / "workflows" / "nightly.yml").read_text()
    found = re.findall(r"python scripts/scoreboard\.py (.*(?:\n {10,}--.*)*)", text)
    parsed = [
        scoreboard.options().parse_args(shlex.split(command.replace("${{ matrix.ir }}", "relax")))
        for command in found
    ]
    assert [args.command for args in parsed] == ["run", "page"]
    assert parsed[0].results == Path("results") and not parsed[0].targets
    assert parsed[1].results == scoreboard_page.RESULTS and parsed[1].output == scoreboard_page.PAGE
