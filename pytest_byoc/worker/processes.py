"""Finds and ends the processes below this one, by means of Linux's /proc.

After `adopt_orphans`, this process is their reaper: it becomes the parent of every process below it
that loses its own parent, even if that process has detached itself (as a daemon does).
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from typing import Callable

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
#: Seconds to wait for killed processes. One that is blocked in the kernel may not end.
_KILLING = 5.0
#: Prefixes of the names of servers that compilers start, and that end by themselves.
_OF_COMPILERS = ("sccache", "ccache", "distcc", "icecc", "buildcache")


def _prctl(option: int, value: int) -> None:
    try:
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
    except (OSError, AttributeError):  # not Linux
        pass


def die_with_parent() -> None:
    """Has the kernel send SIGKILL to this process when its parent dies."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def adopt_orphans() -> None:
    """Has the kernel make this process the parent of all orphaned processes below it."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _read(path: str) -> str:
    """Returns the content of a file of /proc; "" where the process is gone."""
    try:
        with open(path, errors="replace") as f:
            return f.read()
    except OSError:
        return ""


def _stat(pid: int) -> list[str]:
    """Returns /proc/PID/stat from the field "state" on; [] where the process is gone."""
    return _read("/proc/%d/stat" % pid).rpartition(")")[2].split()


def children(pid: int) -> list[int]:
    """Returns the ids of a process's children, with those that have ended but are not reaped."""
    try:
        threads = os.listdir("/proc/%d/task" % pid)
    except OSError:
        return []
    if os.path.exists("/proc/self/task/%d/children" % os.getpid()):
        listed = (_read("/proc/%d/task/%s/children" % (pid, thread)) for thread in threads)
        return [int(child) for text in listed for child in text.split()]
    # This kernel has no lists of children.
    everyone = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [other for other in everyone if _stat(other)[1:2] == [str(pid)]]


def has_children() -> bool:
    """Returns whether this process has children, by a single system call."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def has_ended(pid: int) -> bool:
    """Returns whether a process is gone, or has ended and is not yet reaped."""
    return _stat(pid)[:1] in ([], ["Z"], ["X"])


def below(pid: int) -> list[int]:
    """Returns the ids of all descendants of a process."""
    direct = children(pid)
    return [*direct, *(lower for child in direct for lower in below(child))]


def waited_for_cpu(pid: int) -> float:
    """Returns the seconds that a process's main thread was runnable but had no CPU.

    Returns 0 where the kernel does not provide them.
    """
    fields = _read("/proc/%d/schedstat" % pid).split()
    return int(fields[1]) / 1e9 if len(fields) > 1 else 0.0


def computes(pid: int) -> bool:
    """Returns whether a process or a descendant is running, or waits for a device."""
    return _stat(pid)[:1] in (["R"], ["D"]) or any(map(computes, children(pid)))


def program(pid: int) -> str:
    """Returns a process's command line for messages (at most 120 characters).

    For a forked process that has not started a program, it returns a text with its name instead.
    """
    command = _read("/proc/%d/cmdline" % pid)
    if not command or command == _read("/proc/self/cmdline"):
        return "a forked process called %s" % (_read("/proc/%d/comm" % pid).strip() or "?")
    text = " ".join(part for part in command.split("\0") if part)
    return text if len(text) <= 120 else text[:117] + "..."


def name(pid: int) -> str:
    """Returns the name of a process's program, by which processes of one program are recognised."""
    own = _read("/proc/%d/cmdline" % pid) in ("", _read("/proc/self/cmdline"))
    return _read("/proc/%d/comm" % pid).strip() + (" (forked)" if own else "")


def _reap(pid: int) -> bool:
    """Reaps a child if it has ended; returns whether it has."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def end(current: Callable[[], list[int]]) -> None:
    """Kills and reaps children of this process until none are left, for at most `_KILLING` seconds.

    The children of a killed process become children of this one. current: lists the current ones.
    """
    deadline = time.monotonic() + _KILLING
    while True:
        left = [pid for pid in current() if not _reap(pid)]
        if not left or time.monotonic() > deadline:
            return
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
        time.sleep(0.002)


class Strangers:
    """The processes below this one that jobs have started and left running.

    Processes that exist when it is created do not count, nor do the servers of compilers.
    """

    def __init__(self) -> None:
        self._reaper = os.getpid()
        self._own: frozenset[int] = frozenset(children(self._reaper))

    def left(self) -> list[int]:
        """Returns the running ones among this process's children, and reaps those that have ended.

        For the reaper, while it runs no job.
        """
        if not has_children():
            return []
        return [pid for pid in self._adopted() if not _reap(pid) and not _is_of_compiler(pid)]

    def started(self) -> list[int]:
        """Returns those that the job has started and not waited for. For the process of the job."""
        running = [pid for pid in self._adopted() if pid != os.getpid()]
        if has_children():
            running += children(os.getpid())
        return [pid for pid in running if not has_ended(pid) and not _is_of_compiler(pid)]

    def _adopted(self) -> list[int]:
        return [pid for pid in children(self._reaper) if pid not in self._own]

    def end(self) -> None:
        """Ends those that are left, and their descendants."""
        end(self.left)


def _is_of_compiler(pid: int) -> bool:
    return _read("/proc/%d/comm" % pid).startswith(_OF_COMPILERS)
