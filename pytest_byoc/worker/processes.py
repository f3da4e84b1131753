"""The processes below this one, as Linux's /proc shows them: which there are, what they run, how they end.

A process that makes itself their reaper (`adopt_orphans`) becomes the parent of all that are started below
it and lose their own parent, however they have detached themselves."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from typing import Callable

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
#: Seconds for which processes that are killed are waited for: one in the kernel's hands may not end.
_KILLING = 5.0
#: Servers that compilers start for themselves and that end by themselves, as their names begin.
_OF_COMPILERS = ("sccache", "ccache", "distcc", "icecc", "buildcache")


def _prctl(option: int, value: int) -> None:
    try:
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
    except (OSError, AttributeError):  # not Linux
        pass


def die_with_parent() -> None:
    """Asks the kernel for SIGKILL when the parent dies."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def adopt_orphans() -> None:
    """Asks the kernel to make this process the parent of what is orphaned below it."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _read(path: str) -> str:
    """What is in a file of /proc; empty where the process is gone."""
    try:
        with open(path, errors="replace") as f:
            return f.read()
    except OSError:
        return ""


def _stat(pid: int) -> list[str]:
    """State, parent and further fields of /proc/PID/stat; none where the process is gone."""
    return _read("/proc/%d/stat" % pid).rpartition(")")[2].split()


def children(pid: int) -> list[int]:
    """Ids of the processes whose parent this is; those that have ended and are not reaped among them."""
    try:
        threads = os.listdir("/proc/%d/task" % pid)
    except OSError:
        return []
    if os.path.exists("/proc/self/task/%d/children" % os.getpid()):
        listed = (_read("/proc/%d/task/%s/children" % (pid, thread)) for thread in threads)
        return [int(child) for text in listed for child in text.split()]
    # A kernel that keeps no such lists.
    everyone = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [other for other in everyone if _stat(other)[1:2] == [str(pid)]]


def has_children() -> bool:
    """Whether this process has any, by one call of the kernel."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def has_ended(pid: int) -> bool:
    """Whether it is gone, or waits for being reaped."""
    return _stat(pid)[:1] in ([], ["Z"], ["X"])


def below(pid: int) -> list[int]:
    """Ids of all the processes below one."""
    found = children(pid)
    return [*found, *(lower for child in found for lower in below(child))]


def waited_for_cpu(pid: int) -> float:
    """Seconds for which a process, or its first thread, could have run and had no CPU to run on; 0 where
    the kernel does not say."""
    fields = _read("/proc/%d/schedstat" % pid).split()
    return int(fields[1]) / 1e9 if len(fields) > 1 else 0.0


def computes(pid: int) -> bool:
    """Whether it, or a process below it, has something to do at this moment."""
    return _stat(pid)[:1] in (["R"], ["D"]) or any(map(computes, children(pid)))


def program(pid: int) -> str:
    """The command line that a process was started by, for people; its name alone where it is this process's
    own: it was forked and has started no program."""
    command = _read("/proc/%d/cmdline" % pid)
    if not command or command == _read("/proc/self/cmdline"):
        return "a forked process called %s" % (_read("/proc/%d/comm" % pid).strip() or "?")
    text = " ".join(part for part in command.split("\0") if part)
    return text if len(text) <= 120 else text[:117] + "..."


def name(pid: int) -> str:
    """The name of what it runs, by which two processes of one program are known."""
    own = _read("/proc/%d/cmdline" % pid) in ("", _read("/proc/self/cmdline"))
    return _read("/proc/%d/comm" % pid).strip() + (" (forked)" if own else "")


def _reap(pid: int) -> bool:
    """Whether a child has ended; it is reaped then."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def end(found: Callable[[], list[int]]) -> None:
    """Kills and reaps children of this process until there are no more of them; where a process is killed,
    those below it become children in its place. found: lists those that there are."""
    deadline = time.monotonic() + _KILLING
    while True:
        left = [pid for pid in found() if not _reap(pid)]
        if not left or time.monotonic() > deadline:
            return
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
        time.sleep(0.002)


class Strangers:
    """Processes below this one that jobs have started. Those that there are when it is made are none, nor
    are the servers of compilers."""

    def __init__(self) -> None:
        self._reaper = os.getpid()
        self._own: frozenset[int] = frozenset(children(self._reaper))

    def left(self) -> list[int]:
        """Those that are children of this process and have not ended; the others of them are reaped. For
        the reaper, while none of its jobs runs."""
        if not has_children():
            return []
        return [pid for pid in self._adopted() if not _reap(pid) and not _is_of_compiler(pid)]

    def started(self) -> list[int]:
        """Those that a job has started so far and not waited for. For the process of the job."""
        found = [pid for pid in self._adopted() if pid != os.getpid()]
        if has_children():
            found += children(os.getpid())
        return [pid for pid in found if not has_ended(pid) and not _is_of_compiler(pid)]

    def _adopted(self) -> list[int]:
        return [pid for pid in children(self._reaper) if pid not in self._own]

    def end(self) -> None:
        """Ends those that are left, and whatever is below them."""
        end(self.left)


def _is_of_compiler(pid: int) -> bool:
    return _read("/proc/%d/comm" % pid).startswith(_OF_COMPILERS)
