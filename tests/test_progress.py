"""Tests of the output of a running session: deselected tests, lines of progress, pytest's
header."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Sequence

import pytest

from pytest_byoc.examination.activity import Activity
from pytest_byoc.examination.outcome import NOT_OFFLOADED
from pytest_byoc.report.time_estimate import Finished, Work
from pytest_byoc.report.words import duration

from .conftest import FIXTURES, PYTHON
from .test_plugin import run

#: One IR is enough: the tests examine the host.
pytestmark = pytest.mark.once

_XDIST = pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "xdist"])


# --- tests for which the target offloads nothing ---------------------------------------------------


@_XDIST
def test_only_the_record_has_tests_without_offloaded_nodes(
    pytester: pytest.Pytester, ir: str, workers: Sequence[str]
) -> None:
    """There is no letter, no skip and no test case in JUnit XML, but outcomes, cells and the count
    of tests."""
    result = run(
        pytester, "--byoc-target=example_c", f"--byoc-ir={ir}", "--byoc-level=smoke",
        "--byoc-operators=nn.relu,floor", "--byoc-report=out", "--junitxml=out.xml", "-ra", "-k",
        "test_operator and (float32-shape or int8 or floor) or test_random or host_between",
        *workers,
    )
    assert result.ret == 0, result.stdout.str()
    counts = result.parseoutcomes()
    assert set(counts) == {"passed", "deselected"}
    result.stdout.no_fnmatch_line("SKIPPED*")
    target = json.loads(pytester.path.joinpath("out", "report.json").read_text())
    refused = [case for case, outcome in target["cases"].items() if outcome == NOT_OFFLOADED]
    assert {"floor[float32]", "nn.relu[int8]"} <= set(refused)
    assert target["outcomes"][NOT_OFFLOADED] >= len(refused)
    assert any(c["operator"] == "floor" and c["generated"] for c in target["cells"])
    # test_random[floor] has no graph.
    (line_,) = (line for line in result.outlines if "tests deselected: the target offloads nothing" in line)
    assert int(line_.split()[0]) == len(refused) + 1
    (suite,) = ET.parse(pytester.path / "out.xml").getroot()
    assert (suite.attrib["skipped"], suite.attrib["tests"]) == ("0", str(counts["passed"]))
    cases = suite.findall("testcase")
    assert len(cases) == counts["passed"]
    assert not any("floor" in case.attrib["name"] for case in cases)
    assert any("[100%]" in line for line in result.outlines)


def test_a_graph_that_cannot_be_judged_stays_a_skipped_test(pytester: pytest.Pytester, ir: str) -> None:
    """A saved graph and a vendor's own graph are judged, or the reason is reported."""
    pytester.path.joinpath("floor.json").write_text(
        json.dumps({"format": "pytest-byoc/graph", "version": 1, **_floor()})
    )
    result = run(
        pytester, "--byoc-target=example_c", f"--byoc-ir={ir}", "--byoc-replay=floor.json", "-rs",
    )
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED*not-offloaded: the target offloads nothing of the graph"])


def _floor() -> dict[str, object]:
    """Returns a graph, as JSON, of which example_c offloads nothing."""
    from pytest_byoc.generation.systematic import default_case

    return json.loads(default_case("floor", "float32").graph.to_json())


def test_a_target_without_patterns_has_no_test_of_an_empty_list(pytester: pytest.Pytester, ir: str) -> None:
    target = f"{FIXTURES / 'targets' / 'hostile.py'}:segfault"
    result = run(
        pytester, f"--byoc-target={target}", f"--byoc-ir={ir}", "--byoc-operators=nn.relu", "-k",
        "test_pattern or test_operator and float32-shape", "--collect-only", "-q",
    )
    assert not any("NOTSET" in line for line in result.outlines)
    result.stdout.fnmatch_lines(["*test_operator[[]nn.relu*"])


# --- the header ----------------------------------------------------------------------------------


def test_the_header_does_not_name_testpaths(pytester: pytest.Pytester, ir: str) -> None:
    pytester.makeini("[pytest]\ntestpaths = tests\n")
    pytester.mkpydir("tests").joinpath("test_own.py").write_text("def test_own(): pass\n")
    common = (
        "--byoc-target=example_c", f"--byoc-ir={ir}", "--byoc-operators=nn.relu", "--byoc-level=smoke",
    )
    result = run(pytester, *common, "-k", "test_operator and shape_1]")
    result.stdout.no_fnmatch_line("testpaths*")
    result.assert_outcomes(passed=1, deselected=result.parseoutcomes().get("deselected", 0))
    without = pytester.runpytest_subprocess()
    without.stdout.fnmatch_lines(["testpaths: tests"])


@_XDIST
def test_the_header_is_printed_before_workers_start(
    pytester: pytest.Pytester, ir: str, workers: Sequence[str]
) -> None:
    """Workers need seconds to start; if they cannot start, nothing is examined and no report is
    written."""
    target = f"{FIXTURES / 'targets' / 'broken_import.py'}:target"
    result = run(pytester, f"--byoc-target={target}", f"--byoc-ir={ir}", "--byoc-report=out", *workers)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stdout.fnmatch_lines(["byoc: *broken_import.py:target; level standard"])
    result.stdout.no_fnmatch_line("report: *")
    result.stderr.fnmatch_lines(["ERROR: target *broken_import.py:target cannot be imported: *"])
    assert not pytester.path.joinpath("out", "report.json").exists()


# --- lines of progress ---------------------------------------------------------------------------

_LINE = re.compile(
    r"byoc: (\d+) of (\d+) tests? in [\da-z ]+(, about [\da-z ]+ left)?: \d+ pass(, \d+ [a-z-]+)*(; .*)?"
)


def _output(pytester: pytest.Pytester, ir: str, *args: str, terminal: bool = True) -> str:
    """Returns pytest's output to a terminal, or to a pipe, with progress printed as often as
    possible."""
    pytester.makepyfile(
        often="import pytest_byoc.report.progress as p; p.FIRST = p.INTERVAL = p.ELSEWHERE = p._LONG = 0.0"
    )
    ours, theirs = pty.openpty() if terminal else os.pipe()
    process = subprocess.Popen(
        [
            sys.executable, "-m", "pytest", "--byoc-target=example_c", f"--byoc-ir={ir}",
            f"--byoc-python={PYTHON}", "--byoc-operators=nn.relu", "--byoc-level=smoke",
            "-p", "no:cacheprovider",
            # It fails without pytest's terminal plugin.
            "-p", "no:inline_snapshot",
            *([] if "no:terminal" in args else ["--color=no"]), "-p", "often",
            "-k", "test_operator and float32 and (shape or nan or subnormals)", *args,
        ],
        cwd=pytester.path, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs,
        env={**os.environ, "COLUMNS": "100", "TERM": "xterm"},
    )
    os.close(theirs)
    output = b""
    while True:
        try:
            block = os.read(ours, 65536)
        except OSError:  # Linux raises this when the other end of a terminal is closed.
            break
        if not block:
            break
        output += block
    os.close(ours)
    assert process.wait(120) == 0, output.decode()
    return output.decode().replace("\r\n", "\n")


@pytest.mark.parametrize(
    ("args", "terminal"),
    [((), True), ((), False), (("-v",), True), (("-q",), False), (("-n", "2"), True), (("-s",), True)],
    ids=["dots", "pipe", "verbose", "quiet-pipe", "xdist", "s"],
)
def test_progress_is_printed_on_separate_lines(
    pytester: pytest.Pytester, ir: str, args: Sequence[str], terminal: bool
) -> None:
    output = _output(pytester, ir, *args, terminal=terminal)
    lines = [line for line in output.splitlines() if re.match(r"byoc: \d+ of ", line)]
    assert len(lines) > 2, output
    matches = [_LINE.fullmatch(line) for line in lines]
    assert all(matches), lines
    tests = [int(match[1]) for match in matches if match]
    assert tests == sorted(tests) and {match[2] for match in matches if match} == {str(_collected(output))}
    # The last test of each process of pytest-xdist is not reported.
    assert _collected(output) - (2 if "-n" in args else 0) <= tests[-1] <= _collected(output)


def _collected(output: str) -> int:
    """Returns the number of tests that passed or were deselected during the session."""
    deselected = re.search(r"(\d+) tests? deselected: the target", output)
    passed = re.search(r"(\d+) passed", output)
    assert passed is not None, output
    return int(passed[1]) + (int(deselected[1]) if deselected else 0)


def test_progress_is_printed_before_the_first_test(pytester: pytest.Pytester, ir: str) -> None:
    output = _output(pytester, ir, "-q", terminal=False)
    assert re.search(r"^byoc: [\da-z ]+; starting the workers of example_c.*, \d+ s$", output, re.MULTILINE)
    partitioning = r"partitioning graphs to find out what the target offloads: \d+ of \d+, \d+ s"
    assert re.search(rf"^byoc: .*{partitioning}$", output, re.MULTILINE)


@pytest.mark.parametrize("args", [("-qq",), ("--collect-only", "-q"), ("-p", "no:terminal")], ids=str)
def test_quiet_sessions_have_no_progress(pytester: pytest.Pytester, ir: str, args: Sequence[str]) -> None:
    assert "byoc: " not in _output(pytester, ir, *args, terminal=False)


def test_no_progress_for_ordinary_tests(pytester: pytest.Pytester, ir: str) -> None:
    """The ini file names a target, but only other tests are run."""
    pytester.makeini("[pytest]\nbyoc_target = example_c\n")
    pytester.makepyfile(
        often="import pytest_byoc.report.progress as p; p.FIRST = p.INTERVAL = p.ELSEWHERE = 0.0",
        test_own="def test_own(): pass",
    )
    result = run(pytester, "-p", "often", f"--byoc-ir={ir}")
    result.assert_outcomes(passed=1)
    assert not any(re.match(r"byoc: \d+ of ", line) for line in result.outlines)


# --- activities ----------------------------------------------------------------------------------


def test_an_activity_reports_its_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    ticks: list[str] = []
    activity = Activity(lambda: ticks.append(activity.in_words()))
    activity.tick()
    with activity.during("partitioning", 10):
        now[0] += 2
        activity.step("partitioning", 4)
        # A nested activity is part of the outer one: its steps count if they are of the same kind.
        with activity.during("partitioning", 5), activity.during("importing", 7, charged=False):
            activity.step("importing", 7)
            activity.step("partitioning", 1)
        now[0] += 1
        activity.tick()
    activity.tick()
    assert ticks == [
        "", "partitioning: 4 of 10, 2 s", "partitioning: 4 of 15, 2 s", "partitioning: 5 of 15, 2 s",
        "partitioning: 5 of 15, 3 s", "",
    ]
    assert (activity.seconds, activity.uncharged) == (3.0, 0.0)
    with activity.during("importing", charged=False):
        now[0] += 5
        activity.step("importing", 3, of=8)
        assert activity.in_words(5) == "importing: 3 of 8, 5 s"
        assert activity.in_words(5.1) == ""
    assert (activity.seconds, activity.uncharged) == (8.0, 5.0)


def test_an_activity_ends_when_it_raises() -> None:
    activity = Activity()
    with pytest.raises(OSError), activity.during("importing"):
        raise OSError
    assert activity.in_words() == ""


# --- the estimate --------------------------------------------------------------------------------


def test_the_estimate_weighs_tests_by_their_cost() -> None:
    """With ten cheap tests and ten that cost a hundred times as much, half of the tests are not
    half the time."""
    work = Work({"cheap": (0.1, 1.0), "dear": (10.0, 1.0)})
    work.plan(["cheap"] * 10 + ["dear"] * 10)
    before = work.seconds_left()
    assert before == pytest.approx(101, rel=0.01)
    for _ in range(10):
        work.finish(Finished("cheap", 0.1, True))
    assert work.done == 10 and work.seconds_left() == pytest.approx(100, rel=0.01)


def test_the_estimate_learns_from_finished_tests() -> None:
    work = Work({"a": (1.0, 0.5), "b": (2.0, 0.5)})
    work.plan(["a"] * 200 + ["b"] * 100)
    guess = work.seconds_left()
    # Each test takes three times as long as estimated, and the target offloads all of it.
    for _ in range(100):
        work.finish(Finished("a", 3.0, True))
    left = work.seconds_left()
    assert left == pytest.approx(100 * 3 + 100 * 0.5 * 6, rel=0.1) and left > guess
    # Tests without offloaded nodes cost next to nothing.
    other = Work({"a": (1.0, 0.5)})
    other.plan(["a"] * 200)
    for _ in range(100):
        other.finish(Finished("a", 0.0, False))
    assert other.seconds_left() < 10


def test_no_time_is_left_at_the_end() -> None:
    work = Work({})
    work.plan(["own"])
    work.finish(Finished("own", 4.0, True))
    assert work.seconds_left() == 0


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (34, "34 s"), (125, "2 min 5 s"), (3780, "1 h 3 min")]
)
def test_durations_in_words(seconds: float, text: str) -> None:
    assert duration(seconds) == text
