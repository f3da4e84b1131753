"""The call that a target declares to be made on what was loaded, before its first run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..ir.interface import Executable


class Preparation:
    """declared: as `procedure.preparation` returns it. `find` imports the function that it names; without,
    that is done at the first call."""

    def __init__(self, declared: Mapping[str, Any] | str | None) -> None:
        self.declared = declared
        self._function: Callable[[Any], Any] | None = None

    def find(self) -> None:
        """Imports the function that is given by a reference. Raises Failure, or what its module raises."""
        from ..core.importing import import_reference

        if isinstance(self.declared, str) and self._function is None:
            self._function = import_reference(self.declared, "prepare")

    def apply(self, executable: Executable) -> None:
        """Calls a function of the loaded module now, or the declared function with each executor."""
        if isinstance(self.declared, Mapping):
            executable.call(self.declared["function"], self.declared["arguments"])
        elif self.declared is not None:
            executable.prepare_by(self._call)

    def _call(self, executor: Any) -> None:
        self.find()
        assert self._function is not None
        self._function(executor)
