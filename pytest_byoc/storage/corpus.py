"""Saved graphs: failures of earlier sessions, a vendor's own graphs, and graphs to be replayed.

A graph is a file in the format of `graph.Graph.to_json`. The graph of a failure is the file
graph.json in the failure's folder under byoc-failures. It has two more fields: `found_in`, the case
that it was found in, and `failed_check`. """

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from ..config.errors import SettingsError
from ..core import files
from ..core.graph import Graph, GraphError, GraphFormatError
from ..core.names import folder_name
from ..generation.validation import validate

#: Suffixes of folder names: the graph is still being shrunk; the graph stands for an ONNX node test, or
#: for a whole model, and cannot be built.
UNSHRUNK = "-unshrunk"
ONNX = "-onnx"
MODEL = "-model"

_ONNX_FOLDER = re.compile(f"-[0-9a-f]{{10}}{ONNX}$")
_MODEL_FOLDER = re.compile(f"-[0-9a-f]{{10}}{MODEL}$")


class CorpusWarning(pytest.PytestWarning):
    """Warns of a corpus file that can't be used. `-W error::pytest_byoc.CorpusWarning` fails its
    test."""


@dataclass(frozen=True)
class Entry:
    """One graph of the corpus. id: a stable name that -k accepts. automatic: true if a session
    saved it; a session in which it passes removes it."""

    id: str
    path: Path
    automatic: bool = False

    @property
    def case(self) -> str:
        """Returns the id that waivers use for the entry."""
        return f"corpus[{self.id}]"

    @property
    def unshrunk(self) -> bool:
        return self.automatic and self.path.parent.name.endswith(UNSHRUNK)

    def is_for(self, target: str, ir: str) -> bool:
        """Returns whether a session on this target checks the graph. A vendor's graphs are for
        every target."""
        if not self.automatic:
            return True
        pattern = f"{re.escape(folder_name(target, ir))}-[0-9a-f]{{10}}({UNSHRUNK})?"
        return re.fullmatch(pattern, self.path.parent.name) is not None


# --- finding -------------------------------------------------------------------------------------


def failed_before(failures: Path) -> list[Entry]:
    """Returns the graphs that failed in earlier sessions of any target and have not passed
    since."""
    found = sorted(failures.glob("*/graph.json"))
    return [Entry(f"{failures.name}/{p.parent.name}", p, True) for p in found]


def failed_onnx(failures: Path, target: str, ir: str) -> dict[str, Path]:
    """Returns the ONNX node tests that failed with this target, each with the file that records
    it."""
    found = {}
    ours = re.compile(f"{re.escape(folder_name(target, ir))}{_ONNX_FOLDER.pattern}")
    for path in sorted(failures.glob(f"*{ONNX}/graph.json")):
        if ours.fullmatch(path.parent.name) is None:
            continue
        try:
            (node,) = json.loads(files.read(path))["nodes"]
            found[str(node["attrs"]["test"])] = path
        except (OSError, ValueError, KeyError, TypeError):
            # The test still runs, only not before the others.
            continue
    return found


def find(paths: Iterable[Path], root: Path) -> list[Entry]:
    """Returns the graphs in the given files and folders, in a fixed order. A folder without graphs
    is an entry itself, which can't be read. Ids are paths relative to `root`, or else to the
    folder's parent.

    Raises SettingsError for a path that does not exist and for two files with the same id."""
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
    """Yields the given files and the graphs in the given folders."""
    for path in paths:
        yield from _graphs_in(path) if path.is_dir() else [path]


def _graphs_in(folder: Path) -> Iterator[Path]:
    """Yields the graphs in a folder and below, without the other files that a session writes. A
    subfolder that can't be read is yielded itself, and is reported as unusable later."""
    unreadable: list[OSError] = []
    found = [
        Path(path, name)
        for path, _, names in os.walk(folder, onerror=unreadable.append)
        for name in names
        if name.lower().endswith(".json")
    ]
    found += (Path(e.filename) for e in unreadable)
    other = (_ONNX_FOLDER, _MODEL_FOLDER)
    return (
        p for p in sorted(found)
        if not any(folder.search(p.parent.name) for folder in other) and not _is_report(p)
    )


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
    # Links are not followed: the id is the name that the user sees.
    path, folder = Path(os.path.abspath(file)), Path(os.path.abspath(given)).parent
    for base in (Path(os.path.abspath(root)), _real(root), folder):
        if path.is_relative_to(base):
            # Users may copy the folder of a failure.
            return path.relative_to(base).as_posix().removesuffix("/graph.json").removesuffix(".json")
    return path.as_posix()


def all_of(failures: Path | None, named: Sequence[Path], root: Path) -> list[Entry]:
    """Returns the failures of earlier sessions, then the named graphs. A graph that is both counts
    as the vendor's own and is never removed."""
    own = find(named, root)
    theirs = {_real(e.path) for e in own}
    before = failed_before(failures) if failures is not None else []
    return [*(e for e in before if _real(e.path) not in theirs), *own]


# --- reading and writing -------------------------------------------------------------------------


def read(path: Path) -> tuple[Graph, str]:
    """Reads a graph. Returns it with the case that it was found in (empty: not known).

    Raises GraphFormatError, which names the file and what was expected."""
    try:
        if path.is_dir():
            os.listdir(path)
            raise GraphFormatError("there is no graph (*.json) in this folder")
        content = json.loads(files.read(path).decode("utf-8"))
        graph = Graph.from_dict(content)
        if any(node.op.startswith("onnx.") for node in graph.nodes):
            raise GraphFormatError("this stands for one of ONNX's node tests: its failure.txt repeats it")
        if any(node.op.startswith("model.") for node in graph.nodes):
            raise GraphFormatError("this stands for a whole model: its failure.txt says how to repeat it")
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
    """Returns the check that the graph failed when it was saved; empty if that is not known."""
    try:
        return str(json.loads(files.read(path)).get("failed_check", ""))
    except (OSError, ValueError, AttributeError):
        return ""


def save(folder: Path, graph: Graph, found_in: str, check: str = "") -> Path:
    """Writes a failure's graph.json whole or not at all, and returns its path. Raises OSError.

    check: the check that failed."""
    path = folder / "graph.json"
    more = {"found_in": found_in, "failed_check": check}
    text = json.dumps({**graph.to_dict(), **more}, indent=1)
    files.replace(path, text.encode())
    return path


def remove(path: Path) -> None:
    """Removes a failure's folder, given the path of its graph.json."""
    shutil.rmtree(path.parent, ignore_errors=True)
