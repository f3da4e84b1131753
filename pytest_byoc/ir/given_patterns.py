"""Notes the patterns that a target gives to TVM's pass itself, without registering them with TVM."""

from __future__ import annotations

from typing import Any, Callable, Iterable, Tuple

#: The name under which an IR's `pattern_table` returns them.
GIVEN = "given to the pass"

#: An entry of a table: as `IR.pattern_table` returns it.
Entry = Tuple[str, Any, Any]


class GivenPatterns:
    """The patterns of all calls of a pass since the last `restart`, and of those before the first."""

    def __init__(self) -> None:
        self._before: list[Entry] = []
        self._since: list[Entry] = []
        self._noting = False

    def note(self, module: Any, function: str, entries: Callable[..., Iterable[Entry]]) -> None:
        """Notes from now on what a function of a module is called with.

        entries: returns the entries of a table, given the arguments of a call.
        """
        if self._noting:
            return
        self._noting = True
        original = getattr(module, function)

        def noting(*arguments: Any) -> Any:
            self._since += entries(*arguments)
            return original(*arguments)

        setattr(module, function, noting)

    def begin(self) -> None:
        """Keeps what was noted so far: a module may make its pass when it is imported."""
        self._before, self._since = self._since, []

    def restart(self) -> None:
        """Forgets what was noted since `begin`."""
        self._since = []

    def table(self) -> list[Entry]:
        return [*self._before, *self._since]

    def keep(self, table: list[Entry]) -> None:
        """Makes `table` what was noted."""
        self._before, self._since = table, []
