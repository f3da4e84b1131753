"""The call that a target declares for loaded artifacts, to be made before their first run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..ir.interface import Executable


class Preparation:
    """A call as a target declares it in `prepare`. declared: as `procedure.preparation` returns it.

    `find` imports the function of a reference; without it, the first call does so.
    """

    def __init__(self, declared: Mapping[str, Any] | str | None) -> None:
        self.declared = declared
        self._function: Callable[[Any], Any] | None = None

    def find(self) -> None:
        """Imports the function of a reference. Raises Failure, or the exception of its module."""
        from ..core.importing import import_reference

        if isinstance(self.declared, str) and self._function is None:
            self._function = import_reference(self.declared, "prepare")

    def apply(self, executable: Executable) -> None:
        """Calls a function of the module now, or has the declared one called with each executor."""
        if isinstance(self.declared, Mapping):
            executable.call(self.declared["function"], self.declared["arguments"])
        elif self.declared is not None:
            executable.prepare_by(self._call)

    def _call(self, executor: Any) -> None:
        self.find()
        assert self._function is not None
        self._function(executor)
