"""Tests of sessions in shards: merged they are what one session is."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from fixtures.faults import FAULTS, apply
from pytest_byoc import __main__
from pytest_byoc.report import schema

from .conftest import PYTHON

#: One IR is enough: the tests examine the host.
pytestmark = pytest.mark.once

#: Two faults: one of add, one of nn.relu.
TWO = replace(
    FAULTS["lower_rank_is_row"], name="two",
    patches=(*FAULTS["lower_rank_is_row"].patches, *FAULTS["input_overwritten"].patches),
)
#: What differs between any two sessions.
VARYING = ("durations", "session", "gate", "failures")
#: What names the folder of a failure.
NAMING = ("graph", "command", "tried", "texts")


def run(pytester: pytest.Pytester, ir: str, folder: str, *more: str) -> pytest.RunResult:
    target = pytester.path / "two" / "example_c_two" / "__init__.py"
    return pytester.runpytest_subprocess(
        f"--byoc-target={target}:target", f"--byoc-python={PYTHON}", f"--byoc-ir={ir}", "--byoc-level=smoke",
        "--byoc-operators=nn.relu,add", "-k", "test_operator", "-p", "no:cacheprovider", "--byoc-anew",
        f"--byoc-report={folder}", *more, timeout=300,
    )


def report(folder: str) -> dict[str, Any]:
    with open(f"{folder}/report.json", encoding="utf-8") as file:
        return dict(json.load(file))


def without_paths(failures: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: v for k, v in f.items() if k not in NAMING} for f in failures]


def test_shards_of_a_faulty_target_are_one_session(
    pytester: pytest.Pytester, ir: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    apply(TWO, pytester.path)
    monkeypatch.chdir(pytester.path)
    pytester.makeini("[pytest]\nbyoc_fail_under = 90\n")
    assert run(pytester, ir, "one").ret == 1
    one = report("one")
    assert len(one["failures"]) >= 2
    folders, codes = [], []
    for number in (1, 2, 3, 4):
        folders.append(f"shard{number}")
        # Under pytest-xdist the controller collects nothing.
        more = ("-n", "2") if number == 2 else ()
        result = run(pytester, ir, folders[-1], f"--byoc-shard={number}/4", *more)
        codes.append(result.ret)
        said = f"this is shard {number} of 4 (* of * tests): * left to `python -m pytest_byoc merge`"
        result.stdout.fnmatch_lines([said])
        part = report(folders[-1])
        assert schema.problems(part) == [] and not part["gate"]["problems"]
        # A shard is judged by its own tests alone.
        assert codes[-1] == bool(part["failures"])
    assert 0 in codes and 1 in codes
    assert __main__.main(["merge", *reversed(folders), "-o", "merged"]) == 1
    merged = report("merged")
    assert schema.problems(merged) == []
    assert without_paths(merged["failures"]) == without_paths(one["failures"])
    for name in one.keys() - set(VARYING):
        assert merged[name] == one[name], name
    assert merged["gate"] == one["gate"]
    for failure in merged["failures"]:
        assert (pytester.path / "merged" / failure["bundle"] / "reproduce.py").is_file()
    said = capsys.readouterr().out
    assert f"{len(one['causes'])} likely cause" in said and "--byoc-fail-under asks for 90 %" in said
    # The durations of a whole session divide the next one.
    divided = run(
        pytester, ir, "costly", "--byoc-shard=1/2", "--byoc-costs=merged/report.json", "--collect-only", "-q"
    )
    assert divided.ret == 0 and "byoc: shard 1 of 2: " in divided.stdout.str()
