"""The base class of the roles of workers."""

from __future__ import annotations

from typing import Any, Callable, Iterator, Mapping, Sequence

from ..core.files import FileState
from ..runs.reporter import Reporter
from .loaded_files import LoadedFiles


def tell_files(reporter: Reporter, states: Sequence[FileState]) -> None:
    """Sends the states of files on which what a worker says may depend."""
    reporter.send({"fact": "files", "executor": None, "value": states})


class Role:
    """A role of a worker. description: facts that the worker sends to the host once."""

    description: dict[str, Any]
    #: Does in turn what most jobs do, in the first child (see `warming`); None if that is not worth it.
    first_steps: Callable[[Reporter], Iterator[None]] | None = None

    def run(self, job: Mapping[str, Any], reporter: Reporter) -> None:
        """Does one job, in a forked child."""
        raise NotImplementedError

    #: The files that this process and its children load; None if nobody asks.
    _loaded: LoadedFiles | None = None

    def watch_files(self, config: Mapping[str, Any]) -> None:
        """Notes from now on the files that are loaded, if the configuration asks for them."""
        if config.get("tells_files"):
            self._loaded = LoadedFiles(config.get("native_stack", ""))
            self._loaded.watch()

    def loaded_files(self) -> list[FileState]:
        """Returns the files that this process has loaded since the last call; none if nobody asks."""
        return self._loaded.untold() if self._loaded else []

    def tell_loaded_files(self, reporter: Reporter) -> None:
        """Sends the files that a child has loaded beside those of the description, if somebody asks."""
        if self._loaded:
            tell_files(reporter, self.loaded_files())
