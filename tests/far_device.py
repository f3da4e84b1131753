"""A device for tests: a command that starts Python with nothing of the caller's environment."""

from __future__ import annotations

import stat
from pathlib import Path

import tomlkit

from .conftest import PYTHON

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
