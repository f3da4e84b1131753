"""Tests that files named by users are read only if they are regular files of limited size."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_byoc.config.declarations import read_tables
from pytest_byoc.config.errors import SettingsError
from pytest_byoc.core import files
from pytest_byoc.core.graph import GraphFormatError
from pytest_byoc.gate import baseline, waivers
from pytest_byoc.storage import corpus

pytestmark = pytest.mark.once

READERS: dict[str, Callable[[Path], Any]] = {
    "baseline": baseline.read,
    "waivers": lambda path: waivers.read(path, False),
    "corpus": corpus.read,
    "pyproject.toml": lambda path: read_tables(path.parent),
}


def test_a_file_is_read_whole_up_to_the_size_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 1000)
    monkeypatch.setattr(files, "LIMIT", 1000)
    assert files.read(path) == b"x" * 1000
    monkeypatch.setattr(files, "LIMIT", 999)
    with pytest.raises(OSError, match="it has more than"):
        files.read(path)
    with pytest.raises(FileNotFoundError):
        files.read(tmp_path / "nothing")
    with pytest.raises(IsADirectoryError):
        files.read(tmp_path)


@pytest.mark.parametrize("reader", READERS)
def test_a_file_above_the_size_limit_is_refused(tmp_path: Path, reader: str) -> None:
    path = tmp_path / "pyproject.toml"
    with path.open("wb") as file:
        file.truncate(3 << 30)
    with pytest.raises((SettingsError, GraphFormatError), match="it has more than 256 MiB"):
        READERS[reader](path)


@pytest.mark.parametrize("reader", [name for name in READERS if name != "pyproject.toml"])
def test_a_pipe_is_refused_without_blocking(tmp_path: Path, reader: str) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises((SettingsError, GraphFormatError), match="this is no regular file"):
        READERS[reader](path)


def test_a_device_is_refused() -> None:
    with pytest.raises(OSError, match="this is no regular file"):
        files.read(Path("/dev/zero"))
