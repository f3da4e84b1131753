"""Saved graphs: those that failed in earlier sessions, a vendor's own, and those to be replayed.

A graph is a file in the format of `graph.Graph.to_json`. Of a failure it is the file graph.json in its folder
under byoc-failures, with two more fields, `found_in`, the case it was found in, and `failed_check`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from ..config.declarations import SettingsError
from ..core import files
from ..core.graph import Graph, GraphError, GraphFormatError
from ..core.names import folder_name
from ..generation.validation import validate

#: How the names of folders end: with a graph that is still being shrunk; with one of ONNX's node tests, which
#: is no graph to be built.
UNSHRUNK = "-unshrunk"
ONNX = "-onnx"

_ONNX_FOLDER = re.compile(f"-[0-9a-f]{{10}}{ONNX}$")


class CorpusWarning(pytest.PytestWarning):
    """A file of the corpus can't be used. `-W error::pytest_byoc.CorpusWarning` makes that a failure."""


@dataclass(frozen=True)
class Entry:
    """One graph of the corpus. id: stable, fit for -k. automatic: whether it was saved by a session, and is
    removed by one in which it passes."""

    id: str
    path: Path
    automatic: bool = False

    @property
    def case(self) -> str:
        """What waivers call it."""
        return f"corpus[{self.id}]"

    @property
    def unshrunk(self) -> bool:
        return self.automatic and self.path.parent.name.endswith(UNSHRUNK)

    def is_for(self, target: str, ir: str) -> bool:
        """Whether a session's target is the one it was found with; a vendor's graphs are for every one."""
        if not self.automatic:
            return True
        pattern = f"{re.escape(folder_name(target, ir))}-[0-9a-f]{{10}}({UNSHRUNK})?"
        return re.fullmatch(pattern, self.path.parent.name) is not None


# --- finding -------------------------------------------------------------------------------------


def failed_before(failures: Path) -> list[Entry]:
    """The graphs that failed in earlier sessions of any target and have not passed since."""
    found = sorted(failures.glob("*/graph.json"))
    return [Entry(f"{failures.name}/{p.parent.name}", p, True) for p in found]


def failed_onnx(failures: Path, target: str, ir: str) -> dict[str, Path]:
    """Of ONNX's node tests those that failed with that target, and the files that say so."""
    found = {}
    ours = re.compile(f"{re.escape(folder_name(target, ir))}{_ONNX_FOLDER.pattern}")
    for path in sorted(failures.glob(f"*{ONNX}/graph.json")):
        if ours.fullmatch(path.parent.name) is None:
            continue
        try:
            (node,) = json.loads(files.read(path))["nodes"]
            found[str(node["attrs"]["test"])] = path
        except (OSError, ValueError, KeyError, TypeError):
            # Nothing is lost but the test's place among the others.
            continue
    return found


def find(paths: Iterable[Path], root: Path) -> list[Entry]:
    """The graphs in files and folders that were named, in a fixed order; a folder without any is an entry
    itself, which can't be read. Ids are paths from `root`, or else from the folder's parent.

    Raises SettingsError for a path that does not exist."""
    found: dict[Path, Entry] = {}
    for path in paths:
        try:
            there = path.exists()
        except OSError as e:
            raise SettingsError(f"{path}: {e.strerror}") from None
        if not there:
            raise SettingsError(f"{path}: there is no such file or folder of graphs")
        for file in (list(_graphs_in(path)) or [path]) if path.is_dir() else [path]:
            entry = Entry(_id(file, path, root), file)
            same = next((e for e in found.values() if e.id == entry.id), None)
            if found.setdefault(_real(file), entry) is entry and same is not None:
                raise SettingsError(f"{same.path} and {file} have the same id {entry.id}: rename one of them")
    return list(found.values())


def files_of(paths: Iterable[Path]) -> Iterator[Path]:
    """The files that are named, and those in folders that are named."""
    for path in paths:
        yield from _graphs_in(path) if path.is_dir() else [path]


def _graphs_in(folder: Path) -> Iterator[Path]:
    """Graphs in a folder and below; of folders that can't be read themselves, which then are unusable. What a
    session writes beside graphs is none."""
    unreadable: list[OSError] = []
    found = [
        Path(path, name)
        for path, _, names in os.walk(folder, onerror=unreadable.append)
        for name in names
        if name.lower().endswith(".json")
    ]
    found += (Path(e.filename) for e in unreadable)
    return (p for p in sorted(found) if not _ONNX_FOLDER.search(p.parent.name) and not _is_report(p))


def _is_report(path: Path) -> bool:
    if path.name != "report.json":
        return False
    try:
        return b'"pytest-byoc/report/' in files.read(path)[:200]
    except OSError:
        return False


def _real(path: Path) -> Path:
    # Path.resolve raises for a loop of links.
    return Path(os.path.realpath(path))


def _id(file: Path, given: Path, root: Path) -> str:
    # Links are not followed: what a file is called is what it is known by.
    path, folder = Path(os.path.abspath(file)), Path(os.path.abspath(given)).parent
    for base in (Path(os.path.abspath(root)), _real(root), folder):
        if path.is_relative_to(base):
            # The folder of a failure may be copied as it is.
            return path.relative_to(base).as_posix().removesuffix("/graph.json").removesuffix(".json")
    return path.as_posix()


def all_of(failures: Path | None, named: Sequence[Path], root: Path) -> list[Entry]:
    """First what failed before, then what is named; what is both is a vendor's, and never removed."""
    own = find(named, root)
    theirs = {_real(e.path) for e in own}
    before = failed_before(failures) if failures is not None else []
    return [*(e for e in before if _real(e.path) not in theirs), *own]


# --- reading and writing -------------------------------------------------------------------------


def read(path: Path) -> tuple[Graph, str]:
    """A graph from a file, and the case it was found in (empty: not known).

    Raises GraphFormatError, naming the file and what was expected."""
    try:
        if path.is_dir():
            os.listdir(path)
            raise GraphFormatError("there is no graph (*.json) in this folder")
        content = json.loads(files.read(path).decode("utf-8"))
        graph = Graph.from_dict(content)
        if any(node.op.startswith("onnx.") for node in graph.nodes):
            raise GraphFormatError("this stands for one of ONNX's node tests: its failure.txt repeats it")
        validate(graph)
    except OSError as e:
        raise GraphFormatError(f"{path}: {e.strerror}") from None
    except UnicodeDecodeError:
        raise GraphFormatError(f"{path}: expected JSON, found bytes that are not text") from None
    except GraphError as e:
        raise GraphFormatError(f"{path}: {e}") from None
    except (ValueError, RecursionError) as e:
        raise GraphFormatError(f"{path}: expected JSON ({e})") from None
    return graph, str(content.get("found_in", ""))


def failed_check(path: Path) -> str:
    """The check that a graph was saved for; empty where that is not known."""
    try:
        return str(json.loads(files.read(path)).get("failed_check", ""))
    except (OSError, ValueError, AttributeError):
        return ""


def save(folder: Path, graph: Graph, found_in: str, check: str = "") -> Path:
    """Writes a failure's graph.json whole or not at all; its path. Raises OSError.

    check: the one that found it."""
    path = folder / "graph.json"
    more = {"found_in": found_in, "failed_check": check}
    text = json.dumps({**graph.to_dict(), **more}, indent=1)
    files.replace(path, text.encode())
    return path


def remove(path: Path) -> None:
    """Removes a failure's graph.json with the folder it is in."""
    shutil.rmtree(path.parent, ignore_errors=True)
