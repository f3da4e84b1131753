"""SIGTERM, with which CI systems and `timeout` end a job, is an interruption like Ctrl-C: what was found till
then is reported. Python by itself would end without a word."""

from __future__ import annotations

import signal
import threading
from types import FrameType

import pytest


def _interrupt(number: int, frame: FrameType | None) -> None:
    # Sent again, it ends the process at once.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    raise KeyboardInterrupt("SIGTERM")


def _leave(number: int, frame: FrameType | None) -> None:
    """A process of pytest-xdist is ended by the one it works for. (A signal that is ignored would be so in
    the programs that it starts, too.)"""


class Terminated:
    """A plugin: what SIGTERM does while a session runs."""

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        worker = hasattr(session.config, "workerinput")
        free = threading.current_thread() is threading.main_thread()
        if free and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, _leave if worker else _interrupt)

    def pytest_unconfigure(self) -> None:
        if signal.getsignal(signal.SIGTERM) in (_interrupt, _leave):
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
