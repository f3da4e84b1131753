"""Sessions that write a page and a bundle, and the line of progress on a terminal."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import zipfile

import pytest

from pytest_byoc.__main__ import main
from pytest_byoc.report import schema

from .conftest import FIXTURES, PYTHON
from .test_plugin import run

#: The IR is one of many here: what is shown is the host's.
pytestmark = pytest.mark.once


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_a_session_writes_page_and_bundle(
    pytester: pytest.Pytester, ir: str, workers: tuple[str, ...]
) -> None:
    """A target that dies on one operator: its failure is in the page, its folder in the bundle."""
    result = run(
        pytester, f"--byoc-target={FIXTURES / 'targets' / 'hostile.py'}:segfault", f"--byoc-ir={ir}",
        "--byoc-operators=exp,nn.relu", "--byoc-report=out", "--byoc-bundle=sent/out.zip",
        "-k", "test_operator and (scalar or rank or positive)", "-p", "no:cacheprovider", *workers,
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["page: *report.html", "bundle: *out.zip"])
    found = json.loads(pytester.path.joinpath("out", "report.json").read_text())
    assert schema.problems(found) == []
    assert found["failures"] and all(f["shown"]["nodes"] for f in found["failures"])
    assert found["session"]["files"][0]["what"].endswith(": partition")
    with zipfile.ZipFile(pytester.path / "sent" / "out.zip") as bundle:
        assert json.loads(bundle.read("report.json")) == found
        assert bundle.read("report.html") == pytester.path.joinpath("out", "report.html").read_bytes()
        for failure in found["failures"]:
            assert f"{failure['bundle']}/reproduce.py" in bundle.namelist()
            assert f'href="{failure["bundle"]}/"' in bundle.read("report.html").decode()
    assert main(["verify", str(pytester.path / "sent" / "out.zip")]) == 0


def test_a_bundle_that_cannot_be_written_is_refused(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess("--byoc-target=example_c", "--byoc-bundle=/proc/byoc/out.zip")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--byoc-bundle: *cannot be written*"])


def on_terminal(pytester: pytest.Pytester, ir: str, *args: str, **environment: str) -> str:
    """What pytest writes to a terminal, with a line of progress after every test."""
    pytester.makepyfile(often="import pytest_byoc.report.progress as p; p.INTERVAL = 0.0")
    master, slave = pty.openpty()
    kept = {k: v for k, v in os.environ.items() if k not in ("CI", "BUILD_NUMBER")}
    process = subprocess.Popen(
        [
            sys.executable, "-m", "pytest", "--byoc-target=example_c", f"--byoc-ir={ir}",
            f"--byoc-python={PYTHON}", "--byoc-operators=nn.relu", "-p", "no:cacheprovider", "--color=no",
            "-p", "often", "-k", "test_operator and float32 and shape", *args,
        ],
        cwd=pytester.path, stdin=subprocess.DEVNULL, stdout=slave, stderr=slave,
        env={**kept, "COLUMNS": "100", "TERM": "xterm", **environment},
    )
    os.close(slave)
    said = b""
    while True:
        try:
            block = os.read(master, 65536)
        except OSError:  # Linux says so when the other end is closed.
            break
        if not block:
            break
        said += block
    os.close(master)
    assert process.wait(120) == 0, said.decode()
    return said.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("args", [(), ("-v",), ("-n", "2")], ids=["dots", "verbose", "xdist"])
def test_progress_has_lines_of_its_own(pytester: pytest.Pytester, ir: str, args: tuple[str, ...]) -> None:
    said = on_terminal(pytester, ir, *args)
    lines = [line for line in said.splitlines() if re.match(r"byoc: \d+ graphs? in", line)]
    assert len(lines) > 2, said
    for line in lines:
        assert re.fullmatch(r"byoc: \d+ graphs? in \d+ s \([\d.]+/s\): \d+ pass; 1 cell .*", line), line
    totals = [int(line.split()[1]) for line in lines]
    assert totals == sorted(totals)
    assert f"{totals[-1]} graphs: {totals[-1]} pass" in said


@pytest.mark.parametrize(("args", "environment"), [(("-q",), {}), ((), {"CI": "1"})], ids=["quiet", "CI"])
def test_no_progress_where_nobody_watches(
    pytester: pytest.Pytester, ir: str, args: tuple[str, ...], environment: dict[str, str]
) -> None:
    said = on_terminal(pytester, ir, *args, **environment)
    assert "passed" in said and not re.search(r"byoc: \d+ graph", said)
