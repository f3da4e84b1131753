"""The worker's main loop: import TVM and the vendor's code once, then fork a child for each job.

A fork costs milliseconds where a start costs seconds, and whatever a job does to its process (crash,
hang, leak, patched globals) ends with the child. The child writes its messages to a pipe; the parent
passes the whole ones on, measures each stage against its time limit, and says how the child ended.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import resource
import select
import shutil
import signal
import socket
import sys
import tempfile
import time
import traceback
from functools import partial
from typing import Any, Callable, Dict, List, Optional, Tuple

from .protocol import Decoder, ProtocolError, encode

#: Seconds for which a child that has ended is listened to, if processes that it started go on printing.
LINGER = 1.0
#: How much of what a process printed is kept for the report.
TAIL = 8192


class Failure(Exception):
    """A failure to be reported to the user as it stands, without a traceback."""


class NotAModule(TypeError):
    """What a partition function returned is no IRModule."""


class MainLost(TypeError):
    """A partition function returned a module without main, or whose main has another type."""


def _die_with_parent() -> None:
    """Asks the kernel for SIGKILL when the parent dies, so that no worker outlives its session."""
    try:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    except (OSError, AttributeError):  # not Linux: an orphan ends when its socket closes
        pass


def describe_exception(error: BaseException) -> Dict[str, Any]:
    """Type, message and frames of an exception, as data. Frames of this package are marked."""
    ours = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    examples = os.path.join(ours, "examples")
    frames = []
    for f in traceback.extract_tb(error.__traceback__):
        path = os.path.abspath(f.filename)
        frames.append(
            {
                "file": f.filename,
                "line": f.lineno,
                "function": f.name,
                "text": f.line,
                "ours": path.startswith(ours + os.sep) and not path.startswith(examples + os.sep),
                "tvm": os.sep + "tvm" + os.sep in path or os.sep + "tvm_ffi" + os.sep in path,
            }
        )
    message = str(error)
    if isinstance(error, (SyntaxError,)):
        message = "%s (%s, line %s)" % (error.msg, error.filename, error.lineno)
    return {"type": type(error).__name__, "message": message[-4000:], "frames": frames}


class Reporter:
    """What a job uses to speak to the host."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.stage_name = "start"
        #: Whether the child is to end as any Python process does, and not at once.
        self.leaves_normally = False

    def send(self, message: Dict[str, Any]) -> None:
        data = memoryview(encode(message))
        while data:
            data = data[os.write(self._fd, data) :]

    def stage(self, name: str) -> None:
        """Says which stage begins; its time limit starts now."""
        self.stage_name = name
        # CPU seconds so far, those of compilers that were called and have ended included.
        self.send({"stage": name, "cpu": sum(os.times()[:4])})


def _run_child(job: Callable[[Reporter], None], result: int, output: int, memory: int) -> None:
    """The child's whole life. Returns only if the job asks for a normal end."""
    status, normal = 1, False
    try:
        os.setsid()
        _die_with_parent()
        os.dup2(output, 1)
        os.dup2(output, 2)
        if memory:
            limit = _address_space() + memory
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        reporter = Reporter(result)
        try:
            job(reporter)
            reporter.send({"done": True})
            status, normal = 0, reporter.leaves_normally
            if normal:
                reporter.stage("exit")
        except BaseException as e:  # vendor code may raise anything, SystemExit included
            reporter.send({"raised": describe_exception(e), "stage": reporter.stage_name})
            # Calling exit() is something else than raising an error: the host is told.
            if isinstance(e, SystemExit):
                reporter.send({"exited": e.code if isinstance(e.code, int) else 1})
            else:
                reporter.send({"done": True})
            status = 0
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            if not normal:
                os._exit(status)


def _address_space() -> int:
    """Bytes of address space in use."""
    with open("/proc/self/statm") as f:
        return int(f.read().split()[0]) * resource.getpagesize()


class ForkServer:
    """Runs jobs in forked children, one at a time."""

    def __init__(self, control: socket.socket, memory: int) -> None:
        self._control = control
        self._memory = memory

    def run(self, job: Callable[[Reporter], None], timeout: float) -> None:
        """Forks, runs `job` with `timeout` seconds for each stage, and sends the `end` message."""
        result_r, result_w = os.pipe()
        output_r, output_w = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        # Gone before an artifact is loaded: it is not to live on what its compiler had lying about.
        scratch = tempfile.mkdtemp(prefix="job-")
        pid = os.fork()
        if pid == 0:
            os.close(result_r)
            os.close(output_r)
            self._control.close()
            os.environ["TMPDIR"] = tempfile.tempdir = scratch
            _run_child(job, result_w, output_w, self._memory)
            sys.exit(0)
        os.close(result_w)
        os.close(output_w)
        try:
            end = self._watch(pid, result_r, output_r, timeout)
        finally:
            os.close(result_r)
            os.close(output_r)
            shutil.rmtree(scratch, ignore_errors=True)
        self._control.sendall(encode({"end": end}))

    def _watch(self, pid: int, result: int, output: int, timeout: float) -> Dict[str, Any]:
        decoder = Decoder()
        printed = b""
        stage = "start"
        began = time.monotonic()
        deadline = began + timeout
        seconds: Dict[str, float] = {}
        cpu: Dict[str, float] = {}
        used = 0.0
        hung = False
        waited: Optional[Tuple[int, Any]] = None
        gone = began
        garbage = False
        open_fds = {result, output}
        while not hung:
            ready: List[int] = []
            if open_fds:
                ready, _, _ = select.select(list(open_fds), [], [], 0.05 if waited else 0.5)
            elif waited:
                break
            else:  # the child closed its pipes and lives on
                time.sleep(0.005)
            for fd in ready:
                data = os.read(fd, 1 << 16)
                if not data:
                    open_fds.discard(fd)
                elif fd == output:
                    printed = (printed + data)[-TAIL:]
                else:
                    try:
                        for raw, message in decoder.feed_raw(data):
                            if set(message) == {"stage", "cpu"}:
                                now = time.monotonic()
                                seconds[stage] = seconds.get(stage, 0.0) + now - began
                                cpu[stage] = cpu.get(stage, 0.0) + message["cpu"] - used
                                used = message["cpu"]
                                stage, began = message["stage"], now
                                deadline = now + timeout
                            sent = time.monotonic()
                            self._control.sendall(raw)
                            # A host that is busy with other things costs the child nothing.
                            deadline += time.monotonic() - sent
                    except ProtocolError:
                        garbage = True
                        open_fds.discard(result)
            if waited:
                # Another process still holds the pipes; what matters has been read.
                if not ready or time.monotonic() > gone + LINGER:
                    break
                continue
            done, status, usage = os.wait4(pid, os.WNOHANG)
            if done:
                waited, gone = (status, usage), time.monotonic()
            elif time.monotonic() > deadline:
                hung = True
        try:
            os.killpg(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        if waited is None:
            _, status, usage = os.wait4(pid, 0)
            waited = (status, usage)
        seconds[stage] = seconds.get(stage, 0.0) + time.monotonic() - began
        status, usage = waited
        cpu[stage] = cpu.get(stage, 0.0) + max(usage.ru_utime + usage.ru_stime - used, 0.0)
        killed = os.WTERMSIG(status) if os.WIFSIGNALED(status) and not hung else None
        return {
            "stage": stage,
            "seconds": {k: round(v, 6) for k, v in seconds.items()},
            "hung": hung,
            "signal": _signal_name(killed) if killed else None,
            "status": os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
            "garbage": garbage,
            "printed": printed.decode(errors="replace"),
            "cpu": {k: round(v, 6) for k, v in cpu.items()},
            "peak_kib": usage.ru_maxrss,
        }


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return "signal %d" % number


def serve(fd: int) -> None:
    """Reads the configuration, prepares the role, then serves jobs until the socket closes."""
    _die_with_parent()
    control = socket.socket(fileno=fd)
    decoder = Decoder()

    def messages() -> Any:
        while True:
            data = control.recv(1 << 20)
            if not data:
                return
            yield from decoder.feed(data)

    stream = messages()
    config = next(stream)
    try:
        sys.path[:0] = config.get("sys_path", [])
        from .libraries import load_shared

        waiting = load_shared(() if config.get("late") else config.get("libraries", []))
        if waiting:
            importlib.import_module("tvm")
            load_shared(waiting, with_tvm=True)
        from .roles import prepare

        role = prepare(config)
        control.sendall(encode({"ready": role.description}))
    except Failure as e:
        control.sendall(encode({"failed": {"type": None, "message": str(e), "frames": []}}))
        return
    except BaseException as e:
        control.sendall(encode({"failed": describe_exception(e)}))
        return
    server = ForkServer(control, int(config.get("memory", 0)))
    _leave_alone_what_exists()
    for message in stream:
        server.run(partial(role.run, message["job"]), message["timeout"])


def _leave_alone_what_exists() -> None:
    """Tells the garbage collector to pass over all objects there are: going through TVM's modules in each
    child takes tens of milliseconds, and copies the pages it shares with its parent."""
    gc.collect()
    gc.freeze()
