"""Copies the folders of failures from the reports of shards to that of the merged report."""

from __future__ import annotations

import shlex
import shutil
from dataclasses import replace
from pathlib import Path, PurePosixPath

from ..config.errors import SettingsError
from ..core import files
from ..record.listed import Failure

#: Files of a failure's folder that name the folder.
_NAMING = ("failure.txt", "reproduce.py")


def copied(failure: Failure, source: Path, report: Path) -> tuple[Failure, str]:
    """Copies the folder of a failure and returns the failure with the paths of the copy, and a note
    if there is no such folder.

    source: the folder of the shard's report.json. report: that of the merged one. Raises
    SettingsError for a path that leads out of the report's folder, and OSError."""
    if not failure.bundle:
        return failure, ""
    inside = PurePosixPath(failure.bundle)
    if inside.is_absolute() or ".." in inside.parts or "\\" in failure.bundle or "\0" in failure.bundle:
        raise SettingsError(f"{source}: the folder {failure.bundle!r} of failure {failure.id} is outside")
    there, here = source / inside, report / inside
    if not (there / "graph.json").is_file():
        note = f"failure {failure.id} has no folder here, since {there} is missing: copy it beside the report"
        return replace(failure, bundle="", graph=""), note
    if here.exists():
        shutil.rmtree(here)
    shutil.copytree(there, here, symlinks=True)
    old, new = str(Path(failure.graph).parent), str(here)
    for name in _NAMING:
        file = here / name
        if file.is_file() and not file.is_symlink():
            text = files.read(file).decode("utf-8", "surrogateescape")
            files.replace(file, _renamed(text, old, new).encode("utf-8", "surrogateescape"))
    command, tried = (_renamed(text, old, new) for text in (failure.command, failure.tried))
    return replace(failure, graph=str(here / "graph.json"), command=command, tried=tried), ""


def _renamed(text: str, old: str, new: str) -> str:
    """Returns a text in which a folder has another path, also as a shell quotes it."""
    for before, after in (_quoted(old, new), (old, new)):
        text = text.replace(before, after)
    return text


def _quoted(old: str, new: str) -> tuple[str, str]:
    """Returns both paths as they are in the command that replays the folder's graph."""
    before, after = (shlex.quote(f"{path}/graph.json") for path in (old, new))
    return before, after
