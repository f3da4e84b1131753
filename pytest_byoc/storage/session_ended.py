"""The exception that ends a session which can't continue. Results found until then are reported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest


class SessionEnded(pytest.exit.Exception):  # type: ignore[misc, name-defined]
    """Ends the session with exit code 4, wherever it is raised; a kind of pytest's own exit
    exception."""

    def __init__(self, message: str) -> None:
        super().__init__(message, returncode=int(pytest.ExitCode.USAGE_ERROR))


def no_room(lacking: Mapping[str, Any]) -> SessionEnded:
    """Returns the exception for a lack of room for temporary files. lacking: from
    `worker.disk_space.lacking`."""
    used = lacking.get("used", 0)
    own = f", and this graph has used {_mib(used)}" if used else ""
    return SessionEnded(
        f"there is no room for temporary files: {lacking['folder']} cannot hold 4 MiB more "
        f"({lacking['error']}; {_mib(lacking['free'])} are free{own}). What fails for that is not held "
        "against the target. Free space there, or set TMPDIR to a folder with more."
    )


def _mib(number: int) -> str:
    return f"{number / (1 << 20):.1f} MiB"
