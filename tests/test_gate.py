"""Tests of the gate in whole sessions: exit codes and their explanations."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from fixtures.faults import FAULTS, apply
from pytest_byoc.config.errors import SettingsError
from pytest_byoc.gate import baseline
from pytest_byoc.gate.baseline_comparison import compare
from pytest_byoc.gate.judge import fail_under
from pytest_byoc.gate.planned import PARAMETERS, Selection
from pytest_byoc.gate.problems import Gate
from pytest_byoc.record.target_record import TargetRecord
from pytest_byoc.report import json_report, schema, summary

from .conftest import FIXTURES, PYTHON, make_settings

#: One IR is enough: the tests examine the host.
pytestmark = pytest.mark.once

CHANGING = f"{FIXTURES / 'targets' / 'changing.py'}:target"
#: Four cases, two of which hold exp.
#: Two cases of exp and two of nn.relu.
FOUR = (
    "--byoc-level=smoke", "--byoc-operators=exp,nn.relu", "-k", "test_operator and (shape_1] or float32])"
)


def run(pytester: pytest.Pytester, ir: str, *args: str, target: str = CHANGING) -> pytest.RunResult:
    return pytester.runpytest_subprocess(
        f"--byoc-target={target}", f"--byoc-python={PYTHON}", f"--byoc-ir={ir}", "-p", "no:cacheprovider",
        *args, timeout=300,
    )


def report(pytester: pytest.Pytester, folder: str = "out") -> Any:
    return json.loads(pytester.path.joinpath(folder, "report.json").read_text())


WAIVERS = """\
[[waiver]]
check = "offload"
case = "exp[float32]"
reason = "exp is being reworked"
issue = "https://example.org/7"
expires = 2030-01-31

[[waiver]]   # stale
check = "numerics"
case = "nn.relu[float32]"
reason = "was wrong"

# as long as the SDK
# is old
[[waiver]]
check = "offload"
case = "exp[float32-shape_*]"
reason = "one element"
expires = 2029-12-31

[[waiver]]
check = "offload"
case = "exp[floot32]"
reason = "misspelt"

[[waiver]]
check = "offload"
case = "nn.relu[float32-nan]"
reason = "not run here"
"""


def test_outcomes_of_waivers(pytester: pytest.Pytester, ir: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One waiver applies, one is stale, one has expired, one matches no case, one is not judged."""
    monkeypatch.setenv("CHANGING", "raises")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1893456000")  # 2030-01-01
    file = pytester.path / "w.toml"
    file.write_text(WAIVERS)
    # A level with all cases: at others a pattern may be for a case that they leave out.
    four = (*FOUR, "--byoc-level=standard", "--byoc-waivers=w.toml")
    result = run(pytester, ir, *four, "--byoc-report=out", "-rx", "-n", "2")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=2, xfailed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "changing: 1 failure waived:",
            "  w.toml:1 check offload: exp[[]float32]",
            "    exp is being reworked, https://example.org/7, until 2030-01-31",
            "w.toml: the entries in line 26 were not judged, since tests that it may be for were not run",
            "w.toml:8: waived, but passes: nn.relu[[]float32]; remove the entry *",
            "w.toml:15: the waiver of exp[[]float32-shape_[*]] expired after 2029-12-31: *",
            "w.toml:21: the pattern exp[[]floot32] fits no case (did you mean exp[[]float32]?)*",
            "XFAIL *test_operator[[]exp[[]float32]] - waived: exp is being reworked",
        ]
    )
    # A waived failure is neither shrunk nor saved; it is listed with all fields of its entry.
    (failure,) = report(pytester)["failures"]
    assert failure["case"] == "exp[float32-shape_1]"
    (excused,) = report(pytester)["excused"]
    assert excused["line"] == 1 and excused["issue"] == "https://example.org/7"
    assert report(pytester)["gate"]["exit"] == 1 and len(report(pytester)["gate"]["problems"]) == 3
    assert len(list((pytester.path / "out" / "byoc-failures").iterdir())) == 1

    # The update keeps, byte by byte, entries that apply, that have expired, or that were not
    # judged.
    result = run(pytester, ir, *four, "--byoc-update-waivers")
    assert result.ret == pytest.ExitCode.TESTS_FAILED  # the entry that has expired
    a, _, c, _, e = re.split(r"(?<=\n\n)", WAIVERS)
    assert file.read_text() == a + c + e
    file.write_text((a + c + e).replace("2029", "2031"))
    assert run(pytester, ir, *four).ret == 0
    # Once the target is repaired, its stale waivers fail the session.
    monkeypatch.delenv("CHANGING")
    result = run(pytester, ir, *four)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(["w.toml:1: waived, but passes: exp[[]float32]*", "w.toml:10: waived, but *"])


def test_update_waivers_creates_the_file(pytester: pytest.Pytester, ir: str) -> None:
    """With the new file the next session passes; random graphs are examined after the first
    failure, too."""
    fault = FAULTS["input_overwritten"]
    target = f"{apply(fault, pytester.path) / '__init__.py'}:target"
    options = (
        "--byoc-level=smoke", "--byoc-operators=nn.relu", "--byoc-waivers=new/w.toml",
        "-k", "(test_operator and float32) or random",
    )
    result = run(pytester, ir, *options, "--byoc-update-waivers", target=target)
    assert result.ret == 0
    assert result.parseoutcomes()["xfailed"] > 5 and "failed" not in result.parseoutcomes()
    text = (pytester.path / "new" / "w.toml").read_text()
    assert 'check = "inputs-unmodified"\ncase = "nn.relu[float32]"\nreason = "not explained yet: ' in text
    assert 'case = "random[nn.relu]"' in text
    assert text.count("[[waiver]]") == result.parseoutcomes()["xfailed"]
    assert result.parseoutcomes()["passed"] > 0
    again = run(pytester, ir, *options, target=target)
    assert again.ret == 0
    assert again.parseoutcomes()["xfailed"] == result.parseoutcomes()["xfailed"]


def test_a_waiver_excuses_no_other_check_or_test(
    pytester: pytest.Pytester, ir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A vendor's own test is one case; its failures by other checks, and other tests, still
    fail."""
    pytester.makepyfile(
        test_own="""
        import pytest_byoc as byoc
        from pytest_byoc.generation.systematic import default_case

        def test_exp(byoc_check):
            byoc_check(default_case("exp", "float32").graph)
            byoc_check(default_case("nn.relu", "float32").graph)

        def test_more(byoc_check):
            byoc_check(default_case("exp", "float32").graph)
        """
    )
    pytester.path.joinpath("w.toml").write_text(
        '[[waiver]]\ncheck = "offload"\ncase = "test_own.py::test_exp"\nreason = "known"\n'
        '[[waiver]]\ncheck = "offload"\ncase = "test_own.py::test_none"\nreason = "known"\n'
    )
    pytester.makeini("[pytest]\nbyoc_waivers = w.toml\n")
    monkeypatch.setenv("CHANGING", "raises")
    result = run(pytester, ir, "test_own.py")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(xfailed=1, failed=1)
    result.stdout.fnmatch_lines(["w.toml:5: the pattern test_own.py::test_none fits no case*"])


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--byoc-waivers=none.toml"], "*--byoc-waivers: there is no file *none.toml*"),
        (["--byoc-waivers=."], "*--byoc-waivers: * cannot be read: Is a directory*"),
        (["--byoc-waivers=bad.toml"], "*bad.toml:2: this is not valid TOML: *"),
        (["--byoc-waivers=.", "--byoc-update-waivers"], "*--byoc-update-waivers: * is a directory*"),
        (["--byoc-update-waivers"], "*--byoc-update-waivers needs --byoc-waivers=FILE*"),
        (["--byoc-fail-under=0"], "*--byoc-fail-under must be a percentage above 0*found '0'*"),
        (["--byoc-fail-under=100.1"], "*--byoc-fail-under must be a percentage*"),
        (["--byoc-fail-under=nan"], "*--byoc-fail-under must be a percentage*"),
        (["--byoc-fail-under=most"], "*--byoc-fail-under must be a percentage*"),
        (["--byoc-baseline=."], "*--byoc-baseline: * cannot be read: Is a directory*"),
        (["--byoc-baseline=none.json"], "*--byoc-baseline: *none.json cannot be read: No such file*"),
        (["--byoc-baseline=bad.toml"], "*--byoc-baseline: *bad.toml is not JSON*"),
        (["--byoc-baseline=other.json"], "*other.json is not a report *: it has no schema*name a report*"),
        (
            ["--byoc-baseline=out/report.json", "--byoc-report=out"],
            "*--byoc-report would overwrite the baseline*",
        ),
        (["--byoc-summary=."], "*--byoc-summary: * is a directory*"),
    ],
)
def test_bad_options_exit_with_4(pytester: pytest.Pytester, args: list[str], message: str) -> None:
    pytester.path.joinpath("bad.toml").write_text("[[waiver]]\ncheck =\n")
    pytester.path.joinpath("other.json").write_text('{"a": 1}')
    result = pytester.runpytest_subprocess("--byoc-target=example_c", *args)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])
    assert "Traceback" not in result.stderr.str() + result.stdout.str()


# --- baseline ------------------------------------------------------------------------------------


def test_baseline_comparison(pytester: pytest.Pytester, ir: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results are equal, worse, known and better; then the baseline is of another target."""
    assert run(pytester, ir, *FOUR, "--byoc-report=good").ret == 0
    good, bad = "--byoc-baseline=good/report.json", "--byoc-baseline=bad/report.json"
    result = run(pytester, ir, *FOUR, good)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["changing, compared with report.json: 4 cases in common, 0 worse, 0 fixed"])

    monkeypatch.setenv("CHANGING", "raises")
    result = run(pytester, ir, *FOUR, good, "--byoc-report=bad")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines(
        ["*report.json: worse", "  exp[[]float32]: passed, now error (check offload)"]
    )

    result = run(pytester, ir, *FOUR, bad, "-n", "2")
    assert result.ret == 0
    result.assert_outcomes(passed=2, xfailed=2)
    result.stdout.fnmatch_lines(
        ["changing: 2 failures known from the baseline:", "  exp[[]float32]: error (check offload)"]
    )

    # No test fails, but nodes offloaded before are no longer offloaded.
    monkeypatch.setenv("CHANGING", "drops")
    result = run(pytester, ir, *FOUR, bad)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        ["*: 4 cases in common, 0 worse, 0 fixed", "*offloaded before*", "  exp float32"]
    )
    result = run(pytester, ir, *FOUR, good)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        ["  exp[[]float32]: passed, now not-offloaded", "*offloaded before*", "  exp float32"]
    )
    monkeypatch.delenv("CHANGING")
    result = run(pytester, ir, *FOUR, bad)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*: 4 cases in common, 0 worse, 2 fixed"])

    result = run(pytester, ir, *FOUR, good, target="example_c")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    text = f"*report.json is a report of changing in {ir}, this session tests example_c in {ir}*"
    result.stderr.fnmatch_lines([text])


def written(tmp_path: Path, *records: TargetRecord) -> Path:
    path = tmp_path / "report.json"
    json_report.write(path, json_report.build(records, "", {"max_examples": 8, "max_nodes": 5}, {}))
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": "pytest-byoc/report/0"}, "its schema is 'pytest-byoc/report/0'"),
        ({"cells": 3}, "report.json is damaged: cells: expected array, found integer; name a report.json"),
        ({"cases": {"a": "fine"}}, "is damaged: .*no outcome 'fine'; known are pass"),
        ({"targets": [1]}, r"is damaged: targets\[0\]: expected object, found integer"),
        ({"targets": {}}, "is damaged: targets: expected array, found object"),
        ({"targets": []}, "is damaged: targets: expected 1 or more items, found 0"),
        ({"settings": None}, "is damaged: settings: expected object, found null"),
    ],
)
def test_damaged_baselines_are_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = written(tmp_path, TargetRecord("mine", "relay", {}))
    whole = {**json.loads(path.read_text()), "gate": {"exit": 0, "problems": [], "notes": []}}
    path.write_text(json.dumps({**whole, **change}))
    with pytest.raises(SettingsError, match=message):
        baseline.read(path, schema.problems)


def test_old_reports_are_refused_as_baseline(tmp_path: Path) -> None:
    path = written(tmp_path, TargetRecord("mine", "relay", {}))
    old = json.loads(path.read_text())
    del old["cases"]
    path.write_text(json.dumps(old))
    with pytest.raises(SettingsError, match="did not list cases; write it again with --byoc-report"):
        baseline.read(path)


def test_a_narrower_session_is_compared_only_in_the_cases_it_ran(tmp_path: Path) -> None:
    before, now = (TargetRecord("mine", "relay", {}) for _ in range(2))
    before._case("a", "pass", [])
    before._case("b", "pass", [])
    before._case("c", "wrong-result", ["numerics"])
    before._cell("add", "float32").update(generated=3, offloaded=2)
    now._case("c", "crash", ["process"])
    now._cell("add", "float32").update(generated=1)
    expected = baseline.read(written(tmp_path, before))
    gate = Gate()
    ran = Selection(set(PARAMETERS), {"a", "c"}, {"c"})
    compare(gate, now, expected, ran.not_run(), make_settings(tmp_path))
    # A known failure that now fails another check is a new one.
    assert [p.items for p in gate.problems] == [
        ("c: wrong-result (check numerics), now crash (check process)",)
    ]
    assert any("1 of its cases were not run, so cells were not compared" in n for n in gate.notes)
    assert any("1 of its cases are not generated any more" in n for n in gate.notes)
    assert any("the baseline has max_examples 8, this session has 1" in n for n in gate.notes)
    gate = Gate()
    ran.finished.add("a")
    compare(gate, now, expected, ran.not_run(), make_settings(tmp_path))
    assert gate.problems[1].items == ("add float32",)


# --- least share ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("percent", "hit"), [(60, True), (60.01, False), (100, False), (0.1, True)]
)
def test_fail_under(percent: float, hit: bool) -> None:
    record = TargetRecord("mine", "relay", {})
    for op in ("abs", "add", "exp"):
        record._cell(op, "float32").update(generated=2, offloaded=2, passed=1, inconclusive=1)
    record._cell("exp", "float16").update(generated=1, failed=1)
    record._cell("log", "float32").update(generated=3, offloaded=3, inconclusive=3)
    record._cell("cos", "float32").update(generated=3)  # not offloaded
    gate = Gate()
    fail_under(gate, record, percent)
    texts = gate.notes if hit else [p.text for p in gate.problems]
    assert len(texts) == 1 and len(gate.notes) + len(gate.problems) == 1
    assert texts[0] == (
        "mine: 3 of 5 offloaded cells (operator and dtype) pass, 60 %; "
        f"--byoc-fail-under asks for {percent:g} %"
    )
    if not hit:
        assert gate.problems[0].items == ("exp float16: 1 failed", "log float32: none of its graphs passed")


def test_patterns_count_in_fail_under() -> None:
    record = TargetRecord("mine", "relay", {}, patterns={"mine.conv": "", "mine.swish": "no operator fits"})
    record._cell("add", "float32").update(generated=2, offloaded=2, passed=2)
    for percent, hit in ((66, True), (67, False)):
        gate = Gate()
        fail_under(gate, record, percent)
        text = gate.notes[0] if hit else gate.problems[0].text
        begin = "mine: 2 of 3 offloaded cells (operator and dtype) and patterns pass, 66.66 %;"
        assert text.startswith(begin)
    assert gate.problems[0].items == ("pattern mine.swish: never matched",)


def test_fail_under_without_offloaded_cells() -> None:
    gate = Gate()
    fail_under(gate, TargetRecord("mine", "relay", {}), 1)
    assert gate.problems[0].text.startswith("mine: 0 of 0 offloaded cells")


# --- JUnit and Markdown --------------------------------------------------------------------------


@pytest.mark.parametrize("more", [[], ["-n", "2"]])
def test_junit_properties_markdown_summary_and_share(
    pytester: pytest.Pytester, ir: str, monkeypatch: pytest.MonkeyPatch, more: list[str]
) -> None:
    monkeypatch.setenv("CHANGING", "raises")
    pytester.path.joinpath("w.toml").write_text(
        '[[waiver]]\ncheck = "offload"\ncase = "exp[float32]"\nreason = "a|b <c>"\n'
    )
    page = pytester.path / "page.md"
    page.write_text("# of another step\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
    result = run(
        pytester, ir, *FOUR, "--byoc-operators=exp,nn.relu,floor", "--byoc-waivers=w.toml",
        "--junitxml=j.xml", "--byoc-summary=page.md", "--byoc-fail-under=50%", *more,
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["changing: 1 of 2 offloaded cells * 50 %; --byoc-fail-under asks for 50 %"])
    by_name = {}
    for case in ElementTree.parse(pytester.path / "j.xml").iter("testcase"):
        properties = {p.attrib["name"]: p.attrib["value"] for p in case.iter("property")}
        by_name[case.attrib["name"]] = (properties, case.find("failure"), case.find("skipped"))
    properties, failure, skipped = by_name["test_operator[exp[float32]]"]
    assert failure is None and skipped is not None and skipped.attrib["type"] == "pytest.xfail"
    assert properties == {
        "byoc_outcome": "error", "byoc_operator": "exp", "byoc_dtype": "float32", "byoc_check": "offload",
        "byoc_excused": "waived: a|b <c>",
    }
    properties, failure, _ = by_name["test_operator[exp[float32-shape_1]]"]
    assert failure is not None and properties["byoc_check"] == "offload"
    assert by_name["test_operator[nn.relu[float32]]"][0] == {
        "byoc_outcome": "pass", "byoc_operator": "nn.relu", "byoc_dtype": "float32",
    }
    assert "test_operator[floor[float32]]" not in by_name, "nothing of it is offloaded"
    text = page.read_text()
    assert text.startswith("# of another step\n## pytest-byoc: changing")
    assert "| error | 2 |" in text and "w.toml:1 check offload: exp[float32]" in text


def test_markdown_escapes_special_characters() -> None:
    record = TargetRecord("a|b<c>\n`d`", "relay", {"tvm": "1"})
    record.graphs = 1
    gate = Gate()
    gate.fail("one\ntwo *three*", ("x|y",))
    lines = summary.markdown([record], gate, None, 4).splitlines()
    assert lines[0] == "## pytest-byoc: a\\|b&lt;c&gt; \\`d\\`, Relay"
    assert "- one two \\*three\\*" in lines and "  - x\\|y" in lines
    assert lines[-1] == "The session **ended with 4**."
    assert "No graph was examined." in summary.markdown([], Gate(), None, 5)


# --- documents -----------------------------------------------------------------------------------


def test_documents_name_existing_options(pytester: pytest.Pytester) -> None:
    docs = Path(__file__).parent.parent / "docs"
    pages = [docs / "how-to" / "ci.md", *sorted((docs / "ci").iterdir())]
    assert len(pages) == 5
    known = set(re.findall(r"--byoc-[a-z-]+", pytester.runpytest_subprocess("--help").stdout.str()))
    for page in pages:
        assert set(re.findall(r"--byoc-[a-z-]*[a-z]", page.read_text())) <= known, page
