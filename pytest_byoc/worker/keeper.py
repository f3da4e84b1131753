"""The keeper: a process between host and worker that ends all processes a worker leaves running.

The worker is its child, and it is the reaper of all processes below. When the worker ends, or the
host closes its end of a pipe or is killed, the keeper kills the processes that still run, and then
ends in the same way as the worker.
"""

from __future__ import annotations

import faulthandler
import os
import resource
import select
import shutil
import signal

from . import processes

#: Seconds between two checks whether the host still runs, in addition to its pipe.
_LOOK = 2.0


def keep(lifeline: int, control: int, scratch: str) -> None:
    """Forks, and returns in the child, which becomes the worker; the parent becomes the keeper.

    lifeline: the reading end of a pipe whose other end the host holds open. control: the worker's
    socket, which the keeper closes. scratch: the worker's folder for temporary files; the keeper
    removes it if the host has ended and can't.
    """
    host = os.getppid()
    processes.adopt_orphans()
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    worker = os.fork()
    if not worker:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for fd in (lifeline, woken, wake):
            os.close(fd)
        # A new session protects the keeper from signals that vendor code sends to its process
        # group.
        os.setsid()
        processes.die_with_parent()
        return
    os.close(control)
    status = _wait(worker, host, lifeline, woken)
    processes.end(lambda: processes.children(os.getpid()))
    if os.getppid() != host:
        # The host has ended, so nobody else removes the folder.
        shutil.rmtree(scratch, ignore_errors=True)
    _end_as(status)


def _wait(worker: int, host: int, lifeline: int, woken: int) -> int:
    """Waits for the worker or the host to end; returns the worker's status, or 0 for the host."""
    while True:
        ready, _, _ = select.select([lifeline, woken], [], [], _LOOK)
        if woken in ready:
            os.read(woken, 1 << 12)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return 0
            if pid == worker:
                return status
            if not pid:
                break
        if lifeline in ready or os.getppid() != host:
            return 0


def _end_as(status: int) -> None:
    """Ends this process with an exit status, or by the signal that the status holds."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        faulthandler.disable()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status))
