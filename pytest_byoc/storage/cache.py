"""Folders of the user's cache."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def cache_folder(name: str) -> Path:
    """Returns a folder of the user's cache, or a temporary one if that can't be written."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pytest-byoc" / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        return Path(tempfile.mkdtemp(prefix=f"pytest-byoc-{name}-"))
