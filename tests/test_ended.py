"""Tests of sessions that cannot go on: they end with one message, and the target is not blamed."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_byoc.core import files
from pytest_byoc.storage.session_ended import SessionEnded
from pytest_byoc.worker import disk_space

from .conftest import FIXTURES, PYTHON
from .test_worker import chain, examiner

RESTARTING = FIXTURES / "targets" / "restarting.py"
FILLING = FIXTURES / "targets" / "filling.py"
FEW = (
    "--byoc-level=smoke", "--byoc-operators=exp,nn.relu", "-k", "test_operator and float32",
    "--byoc-report=out", "-p", "no:cacheprovider",
)

#: One IR is enough: the tests examine the host.
pytestmark = pytest.mark.once


def run(pytester: pytest.Pytester, ir: str, target: Path, *args: str) -> pytest.RunResult:
    common = (f"--byoc-target={target}:target", f"--byoc-ir={ir}", f"--byoc-python={PYTHON}")
    return pytester.runpytest_subprocess(*common, *FEW, *args, timeout=400)


@pytest.fixture
def deaths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "deaths"
    monkeypatch.setenv("RESTARTING", str(path))
    root = str(FIXTURES.parent)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")])))
    return path


def test_a_worker_that_dies_while_restarting_is_started_once_more(
    deaths: Path, tmp_path: Path, ir: str
) -> None:
    deaths.write_text("start die")
    e = examiner(tmp_path, f"{RESTARTING}:target", ir)
    e.open()
    try:
        (finding,) = e.examine(chain("exp")).findings
        assert "lost with its worker" in finding.message
        assert e.examine(chain("nn.relu")).outcome == "pass"
        assert deaths.read_text() == ""
    finally:
        e.close()


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_a_worker_that_cannot_be_restarted_ends_the_session(
    pytester: pytest.Pytester, ir: str, deaths: Path, workers: tuple[str, ...]
) -> None:
    deaths.write_text("start " * (2 if workers else 1) + "die " * 9)
    result = run(pytester, ir, RESTARTING, *workers)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    text = result.stdout.str() + result.stderr.str()
    assert "died of SIGKILL while importing TVM and the target. It printed:" in text
    assert "the device is gone" in text and "cannot be started again" in text
    assert "Traceback" not in text and "INTERNALERROR" not in text
    report = json.loads(pytester.path.joinpath("out", "report.json").read_text())
    assert report["gate"]["exit"] == pytest.ExitCode.USAGE_ERROR
    assert any("cannot be started again" in reason for reason in report["not_checked"])


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """Yields a folder on a file system of 48 MiB in memory."""
    folder = tmp_path / "small"
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", str(folder)], capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip(f"a file system cannot be mounted here: {done.stderr.strip()}")
    yield folder
    # Unmount lazily: a file that is still open there is another test's failure.
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_ends_the_session_without_a_failure_of_the_target(
    pytester: pytest.Pytester, ir: str, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(small))
    monkeypatch.setenv("FILLING", str(small / "ballast"))
    result = run(pytester, ir, FILLING)
    text = result.stdout.str() + result.stderr.str()
    assert result.ret == pytest.ExitCode.USAGE_ERROR, text
    assert f"there is no room for temporary files: {small}" in text and "TMPDIR" in text
    assert "Traceback" not in text and "INTERNALERROR" not in text
    assert "failed" not in result.parseoutcomes()
    saved = json.loads(pytester.path.joinpath("out", "report.json").read_text())
    assert not saved["failures"] and not saved["outcomes"].get("crash") and not saved["outcomes"].get("error")
    assert [p.name for p in small.iterdir()] == ["ballast"]


def test_a_disk_that_is_full_from_the_start_is_reported(
    ir: str, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(small))
    assert disk_space.lacking(str(small)) is None and not disk_space.is_scarce(str(small))
    fill(small / "ballast")
    assert disk_space.is_scarce(str(small))
    lack = disk_space.lacking(str(small))
    assert lack is not None and lack["error"] == "No space left on device" and lack["used"] > 40 << 20
    e = examiner(tmp_path, "example_c", ir)
    try:
        with pytest.raises(SessionEnded, match="no room for temporary files"):
            e.open()
            e.examine(chain("nn.relu"))
    finally:
        e.close()


def fill(path: Path) -> None:
    try:
        with path.open("wb", buffering=0) as f:
            while True:
                f.write(b"\1" * (1 << 16))
    except OSError:
        pass


def test_a_failed_write_leaves_no_partial_file(tmp_path: Path, small: Path) -> None:
    (small / "kept").write_text("as it was")
    with pytest.raises(OSError, match="No space left"):
        files.replace(small / "kept", bytes(64 << 20))
    assert [(p.name, p.read_text()) for p in small.iterdir()] == [("kept", "as it was")]


def test_a_failure_that_cannot_be_saved_is_not_reported_as_saved(
    pytester: pytest.Pytester, ir: str, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FILLING", str(small / "ballast"))
    common = (f"--byoc-target={FILLING}:raising", f"--byoc-ir={ir}", f"--byoc-python={PYTHON}")
    # The last of two options of the same name applies.
    result = pytester.runpytest_subprocess(*common, *FEW, "-x", f"--byoc-report={small}", timeout=300)
    text = result.stdout.str()
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "The failure could NOT be saved" in text and "saved in:" not in text and "reproduce.py" not in text
    assert not [path for path in small.rglob("*") if path.name.endswith(".part")]
