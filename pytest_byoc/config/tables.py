"""Reads tables of the project's pyproject.toml."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from ..core import files
from .errors import SettingsError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def read_table(root: Path, kind: str) -> dict[str, dict[str, Any]]:
    """Returns the tables [tool.pytest-byoc.KIND.NAME] of the project's pyproject.toml, by name.

    kind: "targets" or "models". Raises SettingsError for a file that cannot be read.
    """
    path = root / "pyproject.toml"
    if not path.is_file():
        return {}
    try:
        tables: Any = tomllib.loads(files.read(path).decode("utf-8"))
    except OSError as e:
        raise SettingsError(f"{path} cannot be read: {e.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
        raise SettingsError(f"{path} is not valid TOML: {e}") from None
    for key in ("tool", "pytest-byoc", kind):
        tables = tables.get(key, {})
        if not isinstance(tables, dict):
            raise SettingsError(f"{path}: {key} must be a table, as in [tool.pytest-byoc.{kind}.NAME]")
    for table in tables.values():
        if not isinstance(table, dict):
            raise SettingsError(f"{path}: [tool.pytest-byoc.{kind}] must hold one table per {kind[:-1]}")
    return dict(tables)
