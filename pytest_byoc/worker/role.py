"""The base class of the roles of workers."""

from __future__ import annotations

from typing import Any, Callable, Iterator, Mapping, Sequence

from ..core.files import FileState
from ..runs.reporter import Reporter


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
