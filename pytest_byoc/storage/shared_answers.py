"""Results that one process of pytest-xdist shares with the other processes of the same session."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

#: The key of the folder's path in pytest-xdist's `workerinput`.
FOLDER = "byoc_peers"

_Item = TypeVar("_Item")


class Peers:
    """Answers in a folder of the session, each a JSON file named by a hash of its question. All
    processes have the same questions. Each process begins at a different one, so that together they
    examine each about once.

    folder: None if there is no other process; nothing is stored then. index: the number of this
    process among `processes`."""

    def __init__(self, folder: Path | None = None, index: int = 0, processes: int = 1) -> None:
        self._folder = folder
        self._share = index % processes / processes
        self.processes = processes

    @classmethod
    def of(cls, workerinput: Mapping[str, Any], target: int) -> Peers:
        """Returns the answers on the target with this number, by the `workerinput` of
        pytest-xdist's controller; outside of pytest-xdist nothing is shared."""
        if FOLDER not in workerinput:
            return cls()
        index = int(workerinput["workerid"].lstrip("gw"))
        return cls(Path(workerinput[FOLDER], str(target)), index, workerinput["workercount"])

    def beginning_elsewhere(self, items: Sequence[_Item]) -> list[_Item]:
        """Returns all items, rotated so that this process's part comes first."""
        first = int(len(items) * self._share)
        return [*items[first:], *items[:first]]

    def answer(self, question: Sequence[Any]) -> Any:
        """Returns the answer of another process; None if there is none, or it can't be read."""
        if self._folder is None:
            return None
        try:
            return json.loads(self._path(self._folder, question).read_text())
        except (OSError, ValueError):
            return None

    def tell(self, question: Sequence[Any], answer: Any) -> None:
        """Stores an answer (data that JSON can hold) for the other processes. If that fails, they
        find it out themselves; a process on another machine has no such folder."""
        if self._folder is None:
            return
        path = self._path(self._folder, question)
        part = path.with_suffix(f".{os.getpid()}")
        try:
            self._folder.mkdir(exist_ok=True)
            part.write_text(json.dumps(answer))
            part.replace(path)
        except OSError:
            with suppress(OSError):
                part.unlink()

    def first(self, question: Sequence[Any], answer: Any) -> Any:
        """Returns the answer of the process that answered first; all processes use that one. It is
        this process's own if it is the first, alone, or can't read the folder."""
        if self._folder is None:
            return answer
        path = self._path(self._folder, question)
        part = path.with_suffix(f".{os.getpid()}")
        try:
            self._folder.mkdir(exist_ok=True)
            part.write_text(json.dumps(answer))
            # A link is created whole or not at all, and only once.
            os.link(part, path)
        except FileExistsError:
            found = self.answer(question)
            return answer if found is None else found
        except OSError:
            return answer
        finally:
            part.unlink(missing_ok=True)
        return answer

    def append(self, topic: str, item: Any) -> None:
        """Adds an item (data that JSON can hold) to a list that all processes share."""
        place = 0
        while self._folder is not None and self.first((topic, place), item) is not item:
            place += 1

    def items(self, topic: str, start: int = 0) -> Iterator[Any]:
        """Yields the items of a shared list, from position `start` on."""
        for place in count(start):
            item = self.answer((topic, place))
            if item is None:
                return
            yield item

    @staticmethod
    def _path(folder: Path, question: Sequence[Any]) -> Path:
        return folder / key_of(question)


def key_of(question: Sequence[Any]) -> str:
    """Returns a hash of a question, by which its answer is found."""
    return hashlib.sha256(json.dumps(question).encode()).hexdigest()
