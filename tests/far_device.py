"""Devices for tests, and sessions with them: a command that starts Python with nothing of the caller's
environment, and runners."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
import tomlkit

from pytest_byoc.config.declarations import declare

from .conftest import PYTHON

EXAMPLE = "pytest_byoc.examples.example_c:target"

_FAR = """\
#!/bin/sh
{before}
mkdir -p {folder}
cd {folder}
exec env -i PATH=/usr/bin:/bin TMPDIR={folder} {python} "$@"
"""


def far_python(folder: Path, before: str = "", python: str = PYTHON) -> Path:
    """Writes a loader's command into a folder, and returns its path. before: commands of the shell that
    come before Python."""
    script = folder / "far_python"
    script.write_text(_FAR.format(folder=folder / "device", python=python, before=before))
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return script


def table(name: str, partition: str, **keys: object) -> str:
    """Returns the table of a target in pyproject.toml."""
    given = {key.replace("_", "-"): value for key, value in keys.items()}
    targets = {name: {"partition": partition, **given}}
    return tomlkit.dumps({"tool": {"pytest-byoc": {"targets": targets}}})


def device_of(tmp_path: Path, **keys: object) -> Any:
    (tmp_path / "pyproject.toml").write_text(table("mine", EXAMPLE, **keys))
    return declare("mine", tmp_path, None, None, tmp_path).device


def session(
    pytester: pytest.Pytester, ir: str, partition: str, *arguments: str, operators: str = "nn.relu",
    level: str = "smoke", before: str = "", **keys: object,
) -> pytest.RunResult:
    """Runs a session of a target whose artifacts run on a device, and writes its report to out/."""
    if "loader" not in keys and "runner" not in keys:
        keys["loader"] = str(far_python(pytester.path, before))
    if "loader" in keys:
        keys.setdefault("run_here", False)
    pytester.makepyprojecttoml(table("mine", partition, **keys))
    return pytester.runpytest_subprocess(
        "--byoc-target=mine", f"--byoc-python={PYTHON}", f"--byoc-ir={ir}", f"--byoc-level={level}",
        f"--byoc-operators={operators}", "--byoc-report=out", "-p", "no:cacheprovider", *arguments,
        timeout=300,
    )


def report(pytester: pytest.Pytester) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((pytester.path / "out" / "report.json").read_text())
    return found


#: The arguments by which a session has one test.
ONE_CASE = ("-k", "test_operator and nn.relu and shape_2x3x4x5")
#: Likewise, on a graph that can't be shrunk.
SMALL_CASE = ("-k", "test_operator and nn.relu and shape_1]")


def with_runner(
    pytester: pytest.Pytester, ir: str, runner: Any, *arguments: str, partition: str = EXAMPLE, **more: Any
) -> pytest.RunResult:
    """Runs a session of a target whose artifacts a runner runs."""
    return session(pytester, ir, partition, *arguments, runner=runner, **more)
