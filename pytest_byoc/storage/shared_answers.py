"""What one process of pytest-xdist has found out about a target, for the others of the same session."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

#: Where a process of pytest-xdist finds the folder's path in its `workerinput`.
FOLDER = "byoc_peers"

_Item = TypeVar("_Item")


class Peers:
    """Answers in a folder of the session, each a JSON file named by a hash of its question. All processes
    have the same questions: each begins elsewhere in them, so that together they ask each about once.

    folder: None where there are no others: nothing is kept then. turn: which of the `processes` this is."""

    def __init__(self, folder: Path | None = None, turn: int = 0, processes: int = 1) -> None:
        self._folder = folder
        self._share = turn % processes / processes
        self.processes = processes

    @classmethod
    def of(cls, workerinput: Mapping[str, Any], target: int) -> Peers:
        """By what pytest-xdist's controller has told this process, of the target of that number; none in a
        process that it has told nothing."""
        if FOLDER not in workerinput:
            return cls()
        turn = int(workerinput["workerid"].lstrip("gw"))
        return cls(Path(workerinput[FOLDER], str(target)), turn, workerinput["workercount"])

    def beginning_elsewhere(self, items: Sequence[_Item]) -> list[_Item]:
        """All the items, from this process's part on, those before it at the end."""
        first = int(len(items) * self._share)
        return [*items[first:], *items[:first]]

    def answer(self, question: Sequence[Any]) -> Any:
        """What another process found out; None where none has, or what it left can't be read."""
        if self._folder is None:
            return None
        try:
            return json.loads(self._path(self._folder, question).read_text())
        except (OSError, ValueError):
            return None

    def tell(self, question: Sequence[Any], answer: Any) -> None:
        """Leaves the answer, which is data, for the others; they ask themselves where that can't be done (a
        process on another machine has no such folder)."""
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
        """The answer of the process that answers first, which the others then have to take: this one's, where
        it is the first, or alone, or can't know."""
        if self._folder is None:
            return answer
        path = self._path(self._folder, question)
        part = path.with_suffix(f".{os.getpid()}")
        try:
            self._folder.mkdir(exist_ok=True)
            part.write_text(json.dumps(answer))
            # Whole or not at all, and only once.
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
        """Adds an item, which is data, to a list that all processes share."""
        place = 0
        while self._folder is not None and self.first((topic, place), item) is not item:
            place += 1

    def items(self, topic: str, start: int = 0) -> Iterator[Any]:
        """The items of a shared list, from that place on."""
        for place in count(start):
            item = self.answer((topic, place))
            if item is None:
                return
            yield item

    @staticmethod
    def _path(folder: Path, question: Sequence[Any]) -> Path:
        return folder / hashlib.sha256(json.dumps(question).encode()).hexdigest()
