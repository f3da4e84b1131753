"""The process between the host and a worker: it ends all that a worker leaves running.

The worker is its child, and it is the reaper of everything below. When the worker ends, however that
happens, when the host closes its end of a pipe, or is killed, it kills what still runs, and then ends as
the worker has ended."""

from __future__ import annotations

import faulthandler
import os
import resource
import select
import shutil
import signal

from . import processes

#: Seconds between two looks at whether the host is still there, beside the pipe that closes with it.
_LOOK = 2.0


def keep(lifeline: int, control: int, scratch: str) -> None:
    """Forks, and returns in the child, which is to become the worker. lifeline: the reading end of a pipe
    whose other end the host holds open. control: the worker's socket, which is not for this process.
    scratch: the worker's folder for temporary files, which the host removes if it still can."""
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
        # What a vendor's code does to its process group is not to meet this process.
        os.setsid()
        processes.die_with_parent()
        return
    os.close(control)
    status = _wait(worker, host, lifeline, woken)
    processes.end(lambda: processes.children(os.getpid()))
    if os.getppid() != host:
        # Nobody else removes it.
        shutil.rmtree(scratch, ignore_errors=True)
    _end_as(status)


def _wait(worker: int, host: int, lifeline: int, woken: int) -> int:
    """The status with which the worker ended; 0 where it is the host that has ended."""
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
    """Ends this process in the way that a status tells of."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        faulthandler.disable()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status))
