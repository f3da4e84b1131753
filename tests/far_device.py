"""A device for tests: a command that starts Python with nothing of the caller's environment."""

from __future__ import annotations

import stat
from pathlib import Path

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
    """Returns a target's table, with values that are written alike in JSON and TOML."""
    import json

    lines = [f"{key.replace('_', '-')} = {json.dumps(value)}" for key, value in keys.items()]
    return "\n".join([f"[tool.pytest-byoc.targets.{name}]", f'partition = "{partition}"', *lines, ""])
