"""Tests of sessions that write a page and a bundle."""

from __future__ import annotations

import json
import zipfile

import pytest

from pytest_byoc.__main__ import main
from pytest_byoc.report import schema

from .conftest import FIXTURES
from .test_plugin import run
from .test_report import undescribed

#: One IR is enough: the tests examine the host.
pytestmark = pytest.mark.once


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_a_session_writes_page_and_bundle(
    pytester: pytest.Pytester, ir: str, workers: tuple[str, ...]
) -> None:
    """The target dies on one operator: its failure is in the page, its folder in the bundle."""
    result = run(
        pytester, f"--byoc-target={FIXTURES / 'targets' / 'hostile.py'}:segfault", f"--byoc-ir={ir}",
        "--byoc-operators=exp,nn.relu", "--byoc-report=out", "--byoc-bundle=sent/out.zip",
        "-k", "test_operator and (scalar or rank or positive)", "-p", "no:cacheprovider", *workers,
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["page: *report.html", "bundle: *out.zip"])
    report = json.loads(pytester.path.joinpath("out", "report.json").read_text())
    assert schema.problems(report) == [] and undescribed(report) == []
    assert report["failures"] and all(f["shown"]["nodes"] for f in report["failures"])
    assert report["session"]["files"][0]["what"].endswith(": partition")
    with zipfile.ZipFile(pytester.path / "sent" / "out.zip") as bundle:
        assert json.loads(bundle.read("report.json")) == report
        assert bundle.read("report.html") == pytester.path.joinpath("out", "report.html").read_bytes()
        for failure in report["failures"]:
            assert f"{failure['bundle']}/reproduce.py" in bundle.namelist()
            assert f'href="{failure["bundle"]}/"' in bundle.read("report.html").decode()
    assert main(["verify", str(pytester.path / "sent" / "out.zip")]) == 0


def test_a_bundle_that_cannot_be_written_is_refused(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess("--byoc-target=example_c", "--byoc-bundle=/proc/byoc/out.zip")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--byoc-bundle: *cannot be written*"])


def test_a_page_that_cannot_be_written_does_not_affect_the_report(pytester: pytest.Pytester, ir: str) -> None:
    pytester.makeconftest(
        "import pytest_byoc.report.html as html\n\ndef write(path, report):\n    raise KeyError('shown')\n\n"
        "html.write = write\n"
    )
    result = run(
        pytester, "--byoc-target=example_c", f"--byoc-ir={ir}", "--byoc-operators=nn.relu",
        "--byoc-report=out", "-k", "test_operator and float32]", "-p", "no:cacheprovider",
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["1 graph: 1 pass", "*page could not be written: KeyError: 'shown'*"])
    assert json.loads(pytester.path.joinpath("out", "report.json").read_text())["outcomes"]["pass"] == 1
