"""What a session can't go on without: pytest ends it with one message, and what was found is reported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest


class SessionEnded(pytest.exit.Exception):  # type: ignore[misc, name-defined]
    """Ends the session, wherever in it this is raised, with exit code 4. (It is pytest's own exception for
    that.)"""

    def __init__(self, message: str) -> None:
        super().__init__(message, returncode=int(pytest.ExitCode.USAGE_ERROR))


def no_room(lacking: Mapping[str, Any]) -> SessionEnded:
    """The end of a session that has no room for temporary files. lacking: as of `worker.room.lacking`."""
    used = lacking.get("used", 0)
    own = f", and this example has used {_mib(used)}" if used else ""
    return SessionEnded(
        f"there is no room for temporary files: {lacking['folder']} cannot hold 4 MiB more "
        f"({lacking['error']}; {_mib(lacking['free'])} are free{own}). What fails for that is not held "
        "against the target. Make room there, or let TMPDIR name a folder with more of it."
    )


def _mib(number: int) -> str:
    return f"{number / (1 << 20):.1f} MiB"
