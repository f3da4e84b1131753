"""Treats SIGTERM, with which CI systems and `timeout` end a job, as an interruption like Ctrl-C:
the session still writes its reports. Python's default would end it without any."""

from __future__ import annotations

import signal
import threading
from types import FrameType

import pytest


def _interrupt(number: int, frame: FrameType | None) -> None:
    # A second SIGTERM ends the process at once.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    raise KeyboardInterrupt("SIGTERM")


def _leave(number: int, frame: FrameType | None) -> None:
    """Does nothing: the controller of pytest-xdist ends its processes. (Programs that the process
    starts would inherit SIG_IGN, but do not inherit a handler.)"""


class Terminated:
    """The plugin that handles SIGTERM while a session runs."""

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        worker = hasattr(session.config, "workerinput")
        free = threading.current_thread() is threading.main_thread()
        if free and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, _leave if worker else _interrupt)

    def pytest_unconfigure(self) -> None:
        if signal.getsignal(signal.SIGTERM) in (_interrupt, _leave):
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
