"""The worker's supervision of one job's process, from its fork to its end."""

from __future__ import annotations

import os
import resource
import select
import signal
import socket
import time
from typing import Any, NamedTuple

from ..core.names import signal_name
from ..core.protocol import Decoder, ProtocolError, encode
from . import native_stack, processes, stacks, warming

#: Seconds for which the pipes of an ended process are read while processes that it started print.
LINGER = 1.0
#: Seconds that processes which a job started have to end after it: sleeping ones, computing ones,
#: and ones whose program an earlier job has left running.
GRACE, GRACE_COMPUTING, GRACE_KNOWN = 2.0, 20.0, 0.3
#: Seconds in which a process has to die after a fatal signal.
DYING = 5.0
#: The number of bytes at the end of a process's output that are kept for the report.
TAIL = 8192
#: The share of its address space from which on a process counts as out of memory.
_USED_UP = 0.75
#: Seconds between two measurements of the address space in use.
_LOOK = 0.1
#: The seconds of additional time granted to a job after which the host is informed.
_HEARD = 5.0


class Ends(NamedTuple):
    """The worker's descriptors of a job's process: its messages, its output, its stacks."""

    result: int
    output: int
    stacks: int

    def close(self) -> None:
        for fd in self:
            os.close(fd)


class Supervision:
    """The supervision of one job's process.

    It passes on the process's messages, enforces a time limit for each stage, keeps the end of its
    output, and finds and ends the processes that it leaves running.

    timeout: seconds for each stage. memory: bytes of address space that the process may use (0: no
    limit). known: names of programs that earlier jobs left running; new ones are added.
    """

    def __init__(
        self, control: socket.socket | warming.Listener, pid: int, ends: Ends, timeout: float, memory: int,
        strangers: processes.Strangers, known: set[str],
    ) -> None:
        self._control, self._pid, self._ends = control, pid, ends
        self._timeout, self._memory = timeout, memory
        self._strangers, self._known = strangers, known
        self._decoder = Decoder()
        self._open = {ends.result, ends.output}
        self._printed = b""
        self._garbage = False
        #: Whether the job has completed, and whether it reported an exception.
        self._done = self._raised = False
        #: The stage in which each process was started, by its id.
        self._started: dict[int, str] = {}
        self._stage = "start"
        self._began = time.monotonic()
        self._deadline = self._began + timeout
        self._seconds: dict[str, float] = {}
        self._cpu: dict[str, float] = {}
        self._cpu_used = 0.0
        self._status = 0
        #: The fatal signal that the process has received but not yet died of; 0 if there is none.
        self._fatal = 0
        self._usage: resource.struct_rusage | None = None
        self._gone = 0.0
        self._before = self._most = address_space("self")
        self._next_look = 0.0
        #: The seconds that each process has waited for a CPU; and the seconds that the job was
        #: granted for it since the host was last informed.
        self._waited: dict[int, float] = {}
        self._granted = 0.0

    def follow(self) -> dict[str, Any]:
        """Waits for the end of the process, and returns the content of the `end` message."""
        late = False
        while not late:
            ready = self._listen()
            if self._usage is None:
                late = not self._has_ended() and self._is_late()
            elif not self._is_worth_waiting(ready):
                break
        if late:
            if not self._fatal:
                stacks.ask(self._pid, self._ends.stacks)
            os.kill(self._pid, signal.SIGKILL)
            self._note_end(os.wait4(self._pid, 0))
        left = self._left() if self._ended_well() else []
        self._strangers.end()
        return self._end(late and not self._fatal, left)

    # --- listening -----------------------------------------------------------------------------

    def _listen(self) -> list[int]:
        """Reads from the pipes that have data, and returns them."""
        running = self._usage is None
        if not self._open:
            if running:  # the process has closed its pipes but has not ended
                time.sleep(0.005)
            return []
        ready, _, _ = select.select(list(self._open), [], [], _LOOK if running else 0.05)
        self._look()
        for fd in ready:
            data = os.read(fd, 1 << 16)
            if not data:
                self._open.discard(fd)
            elif fd == self._ends.output:
                self._printed = (self._printed + data)[-TAIL:]
            else:
                self._pass_on(data)
        return ready

    def _pass_on(self, data: bytes) -> None:
        try:
            for raw, message in self._decoder.feed_raw(data):
                if set(message) == {"started"}:
                    for pid, stage in message["started"]:
                        self._started[pid] = stage
                    continue
                if set(message) == {"stage", "cpu"}:
                    self._begin(message["stage"], message["cpu"])
                self._done = self._done or "done" in message
                self._raised = self._raised or "raised" in message
                sent = time.monotonic()
                self._control.sendall(raw)
                # The time until the host accepts the message does not count.
                self._deadline += time.monotonic() - sent
        except ProtocolError:
            self._garbage = True
            self._open.discard(self._ends.result)

    def _begin(self, stage: str, cpu: float) -> None:
        now = time.monotonic()
        self._account(now, cpu)
        self._stage, self._began = stage, now
        self._deadline = now + self._timeout

    def _account(self, now: float, cpu: float) -> None:
        """Adds the time of the current stage. cpu: CPU seconds of the process so far."""
        self._seconds[self._stage] = self._seconds.get(self._stage, 0.0) + now - self._began
        self._cpu[self._stage] = self._cpu.get(self._stage, 0.0) + max(cpu - self._cpu_used, 0.0)
        self._cpu_used = cpu

    def _look(self) -> None:
        now = time.monotonic()
        if self._usage is not None or now < self._next_look:
            return
        self._next_look = now + _LOOK
        self._grant_waiting()
        if self._memory:
            self._most = max(self._most, address_space(str(self._pid)))

    def _grant_waiting(self) -> None:
        """Extends the deadline by the time that the job's processes waited for a CPU.

        A busy machine must not make a job count as hung. The longest wait of one process counts.
        """
        longest = 0.0
        for pid in (self._pid, *processes.below(self._pid)):
            now = processes.waited_for_cpu(pid)
            longest = max(longest, now - self._waited.get(pid, 0.0))
            self._waited[pid] = now
        self._deadline += longest
        self._granted += longest
        if self._granted > _HEARD:
            # The host has a time limit of its own, which restarts with each message.
            self._control.sendall(encode({"waited": self._granted}))
            self._granted = 0.0

    # --- the end -------------------------------------------------------------------------------

    def _has_ended(self) -> bool:
        done, status, usage = os.wait4(self._pid, os.WNOHANG)
        if done:
            self._note_end((done, status, usage))
        return bool(done)

    def _is_late(self) -> bool:
        """Returns whether the process exceeds its stage's limit, or DYING after a fatal signal."""
        if not self._fatal:
            self._fatal = stacks.fatal_signal(self._ends.stacks)
            if self._fatal:
                self._deadline = min(self._deadline, time.monotonic() + DYING)
        return time.monotonic() > self._deadline

    def _note_end(self, waited: tuple[int, int, resource.struct_rusage]) -> None:
        _, self._status, self._usage = waited
        self._gone = time.monotonic()

    def _ended_well(self) -> bool:
        """Returns whether the job completed without an exception and the process exited with 0.

        Otherwise processes may be left running because of the failure, and are not reported.
        """
        return self._usage is not None and not self._status and self._done and not self._raised

    def _is_worth_waiting(self, ready: list[int]) -> bool:
        """Returns whether to go on after the process has ended.

        The rest of its output is read, and processes that it started have time to end.
        """
        since = time.monotonic() - self._gone
        left = self._strangers.left() if self._ended_well() else []
        if not left:
            # Another process may hold the pipes open: their end is waited for only up to LINGER.
            return bool(ready) and since <= LINGER
        if not self._open:
            time.sleep(0.01)
        known = all(processes.name(pid) in self._known for pid in left)
        grace = GRACE_KNOWN if known else GRACE
        if since > grace and any(map(processes.computes, left)):
            grace = GRACE_COMPUTING
        return since <= grace

    def _left(self) -> list[dict[str, str]]:
        """Returns the programs left running, each once, with name and the stage of its start."""
        programs: dict[str, dict[str, str]] = {}
        for pid in self._strangers.left():
            stage, name = self._started.get(pid, ""), processes.name(pid)
            program = processes.program(pid)
            programs.setdefault(program, {"program": program, "name": name, "stage": stage})
            self._known.add(name)
        return [programs[program] for program in sorted(programs)]

    def _end(self, hung: bool, left: list[dict[str, str]]) -> dict[str, Any]:
        assert self._usage is not None
        self._account(self._gone, self._usage.ru_utime + self._usage.ru_stime)
        status = self._status
        killed = self._fatal or os.WTERMSIG(status) if os.WIFSIGNALED(status) and not hung else None
        stack = stacks.read(self._ends.stacks) if hung or killed else ""
        return {
            "stage": self._stage,
            "seconds": {k: round(v, 6) for k, v in self._seconds.items()},
            "hung": hung,
            "limit": self._timeout,
            "signal": signal_name(killed) if killed else None,
            "status": os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
            "garbage": self._garbage,
            "printed": self._printed.decode(errors="replace"),
            "stack": stack,
            "frames": stacks.frames(stack),
            "native": native_stack.described(stack),
            "cpu": {k: round(v, 6) for k, v in self._cpu.items()},
            "peak_kib": self._usage.ru_maxrss,
            "memory": self._memory,
            "used_up": bool(self._memory) and self._used() > _USED_UP * self._memory,
            "left": left,
            "ended_well": self._ended_well(),
        }

    def _used(self) -> int:
        """Returns the bytes that the process used at most, in addition to those it began with.

        It is the larger of the growth of its address space, and of its memory.
        """
        assert self._usage is not None
        return max(self._most - self._before, (self._usage.ru_maxrss << 10) - _resident())


def address_space(pid: str) -> int:
    """Returns the bytes of address space that a process uses; 0 where it is gone."""
    return _pages(pid, 0)


def _resident() -> int:
    """Returns the bytes that this process holds in memory; a forked child begins with as many."""
    return _pages("self", 1)


def _pages(pid: str, position: int) -> int:
    try:
        with open("/proc/%s/statm" % pid) as f:
            return int(f.read().split()[position]) * resource.getpagesize()
    except (OSError, IndexError):
        return 0
