"""Tests of `diff` and of the scoreboard, without TVM."""

from __future__ import annotations

import copy
import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from pytest_byoc import __main__
from pytest_byoc.examination.outcome import NOT_OFFLOADED, PASS, Verdict
from pytest_byoc.record.target_record import TargetRecord

from .test_likely_causes import of, wrong
from .test_report import report

pytestmark = pytest.mark.once


def recorded(name: str = "mine", ir: str = "relay") -> TargetRecord:
    """Returns the record of a target that passes in exp, fails in nn.relu and leaves tanh to TVM."""
    record = TargetRecord(name, ir, {"tvm": "0.16"})
    record.add(Verdict(of("exp"), PASS, (), (True,), 1), "exp[float32]")
    record.add(wrong(of("nn.relu")), "nn.relu[float32]")
    record.fail(wrong(of("nn.relu")), "nn.relu[float32]")
    record.add(Verdict(of("tanh"), NOT_OFFLOADED, (), (False,)), "tanh[float32]")
    record.patterns = {"p": "", "q": "no graph"}
    return record


def saved(path: Path, content: Any) -> str:
    path.write_text(json.dumps(content))
    return str(path)


def diff(tmp_path: Path, old: Any, new: Any) -> int:
    paths = saved(tmp_path / "old.json", old), saved(tmp_path / "new.json", new)
    return __main__.main(["diff", *paths, "-o", str(tmp_path / "diff.md")])


def test_equal_reports_do_not_differ(tmp_path: Path) -> None:
    assert diff(tmp_path, report(recorded()), report(recorded())) == 0
    text = (tmp_path / "diff.md").read_text()
    assert "## mine, Relay" in text and "**0 changes for the worse, 0 for the better.**" in text


def test_changes_for_the_worse_and_for_the_better(tmp_path: Path) -> None:
    old = recorded()
    new = TargetRecord("mine", "relay", {"tvm": "0.17"})
    new.add(wrong(of("exp"), "rerun"), "exp[float32]")
    new.fail(wrong(of("exp"), "rerun"), "exp[float32]")
    new.add(Verdict(of("nn.relu"), PASS, (), (True,), 1), "nn.relu[float32]")
    new.add(Verdict(of("tanh"), PASS, (), (True,), 1), "tanh[float32]")
    new.patterns = {"p": "shadowed", "q": ""}
    assert diff(tmp_path, report(old), report(new)) == 1
    text = (tmp_path / "diff.md").read_text()
    for part in (
        "### Cases that got worse (1)\n\n- exp\\[float32\\]: passed, now wrong-result (check rerun)",
        "### Cases that pass now (2)", "- tanh\\[float32\\]: was not-offloaded", "### New failures (1)",
        "### Failures that are gone (1)", "### Cells that are offloaded now (1)\n\n- tanh float32",
        "### Patterns that are never matched now (1)\n\n- p: shadowed",
        "### Patterns that are matched now (1)",
        "- tvm 0.16, now 0.17", "| wrong-result | 1 | 1 |",
    ):
        assert part in text
    # The other way round.
    assert diff(tmp_path, report(new), report(old)) == 1
    assert "### Cells that are no longer offloaded (1)" in (tmp_path / "diff.md").read_text()


def test_what_is_excused_or_only_better_is_not_worse(tmp_path: Path) -> None:
    old, new = report(recorded()), report(recorded())
    better = copy.deepcopy(new)
    better["cases"]["nn.relu[float32]"], better["failed_checks"], better["failures"] = "pass", {}, []
    assert diff(tmp_path, old, better) == 0 and diff(tmp_path, better, old) == 1
    (failure,) = new["failures"]
    entry = {"reason": "", "issue": "", "expires": "", "line": 1, "count": 1, "normalised": ""}
    excused = {k: failure[k] for k in ("check", "outcome", "message", "case")} | {"kind": "waived"} | entry
    assert diff(tmp_path, better, {**new, "failures": [], "excused": [excused]}) == 0


@pytest.mark.parametrize("content", ["{", "[]", "{}"])
def test_reports_that_cannot_be_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    (tmp_path / "bad.json").write_text(content)
    good = saved(tmp_path / "good.json", report(recorded()))
    other = saved(tmp_path / "other.json", report(recorded("other")))
    for paths in (["bad.json", "good.json"], ["good.json", "bad.json"], ["good.json", "none.json"]):
        assert __main__.main(["diff", *(str(tmp_path / p) for p in paths)]) == 2
    assert __main__.main(["diff", good, other]) == 2
    assert "name two reports of one target" in capsys.readouterr().err


def test_a_scoreboard_of_several_targets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    hostile = "x|<b>&\x1b[31m"
    second = recorded(hostile, "relax")
    second.failures, second.failed_by = {}, {}
    second.cells["nn.relu", "float32"]["failed"] = 0
    one = saved(tmp_path / "one.json", report(second, exit_code=0))
    other = saved(tmp_path / "other.json", report(recorded(), exit_code=1))
    assert __main__.main(["merge", one, other, "-o", "site", "--matrix"]) == 0
    text = Path("site/scoreboard.md").read_text()
    assert "| operator | dtype | mine (Relay) | x\\|&lt;b&gt;&amp; (Relax) |" in text
    assert "| exp | float32 | ✓ | ✓ |\n| nn.relu | float32 | ✗ | ? |" in text and "| tanh" not in text
    assert "| mine (Relay) | 0.16 |  | 1 of 2 | 1 of 2 | 1 | failed |" in text
    badges = sorted(path.name for path in Path("site").glob("*.svg"))
    assert len(badges) == 3 and badges[0] == "badge-mine-relay.svg"
    titles = [next(iter(ElementTree.parse(Path("site", name)).getroot())).text for name in badges]
    assert titles[0] == "BYOC mine (Relay): 1 of 2 cells pass"
    assert "BYOC, 2 targets: 2 of 4 cells pass" in titles
    assert "BYOC x|<b>& (Relax): 1 of 2 cells pass" in titles


def test_a_scoreboard_names_each_target_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = [saved(tmp_path / f"{i}.json", report(recorded())) for i in range(2)]
    assert __main__.main(["merge", *both, "-o", str(tmp_path / "site"), "--matrix"]) == 2
    assert "are both of mine-relay: name one of them" in capsys.readouterr().err
