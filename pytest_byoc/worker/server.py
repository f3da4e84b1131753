"""The worker's main loop: imports TVM and the vendor's code once, then forks a child for each job.

A fork takes milliseconds, and a new start seconds. Whatever a job does to its process (crash, hang,
leak, patched globals) ends with the child. The child writes its messages to a pipe; the parent
passes on complete ones, enforces the time limit of each stage, and reports how the child ended.
"""

from __future__ import annotations

import gc
import importlib
import os
import resource
import shutil
import socket
import sys
import tempfile
from functools import partial
from typing import Any, Callable, Iterator, Mapping

from ..core.errors import Failure, describe_exception
from ..core.protocol import Decoder, encode
from ..core.runner import RunnerLost
from ..runs.reporter import Reporter
from . import disk_space, native_stack, processes, sent_files, stacks, warming
from .supervision import Ends, Supervision, address_space


def _run_child(
    job: Callable[[Reporter], None], ends: Ends, memory: int, started: Callable[[], list[int]]
) -> None:
    """Runs a job in the forked child. Returns only if the child has to end by a normal exit."""
    status, normal = 1, False
    try:
        os.setsid()
        processes.die_with_parent()
        os.dup2(ends.output, 1)
        os.dup2(ends.output, 2)
        stacks.write_to(ends.stacks)
        if memory:
            limit = address_space("self") + memory
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        reporter = Reporter(ends.result, started)
        try:
            job(reporter)
            reporter.send({"done": True})
            # Python's exit handlers may end the processes that the job has started.
            status, normal = 0, reporter.note_started() or reporter.leaves_normally
            if normal:
                reporter.stage("exit")
        except BaseException as e:  # vendor code may raise anything, SystemExit included
            reporter.send({"raised": describe_exception(e), "stage": reporter.stage_name})
            # A call of exit() is reported in addition, since it is not an ordinary exception.
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


class ForkServer:
    """A server that runs jobs in forked children, one at a time."""

    def __init__(self, control: socket.socket | warming.Listener, memory: int) -> None:
        self._control = control
        self._memory = memory
        self._strangers = processes.Strangers()
        self._known: set[str] = set()

    def run(self, job: Callable[[Reporter], None], timeout: float, folder: str = "") -> None:
        """Runs a job in a forked child, and sends the `end` message.

        timeout: seconds for each stage. folder: the folder in which the job leaves files for
        others.
        """
        # The job's temporary files are removed before a loader loads its artifact, since the
        # artifact must not depend on them.
        try:
            # An earlier job may have removed the folder.
            os.makedirs(tempfile.gettempdir(), exist_ok=True)
            scratch = tempfile.mkdtemp(prefix="job-")
        except OSError as e:
            self.no_room(e)
            return
        end = self._run(job, timeout, scratch)
        failed = not end.pop("ended_well")
        for path in (scratch, folder or scratch):
            if (failed or disk_space.is_scarce(path)) and not end.get("lacking"):
                end["lacking"] = disk_space.lacking(path)
        if failed and end.get("lacking"):
            end["no_room"] = end["lacking"]
        shutil.rmtree(scratch, ignore_errors=True)
        self._control.sendall(encode({"end": end}))

    def no_room(self, error: OSError) -> None:
        """Sends the `end` message of a job whose files could not be written."""
        lacking = disk_space.lacking(tempfile.gettempdir()) or {}
        no_room = {"folder": tempfile.gettempdir(), "error": str(error), "free": 0, **lacking}
        self._control.sendall(encode({"end": {"no_room": no_room}}))

    def _run(self, job: Callable[[Reporter], None], timeout: float, scratch: str) -> dict[str, Any]:
        """Forks a child, and returns its end. scratch: the child's folder for temporary files."""
        result_r, result_w = os.pipe()
        output_r, output_w = os.pipe()
        dump = stacks.new_file()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            os.close(result_r)
            os.close(output_r)
            self._control.close()
            os.environ["TMPDIR"] = tempfile.tempdir = scratch
            _run_child(job, Ends(result_w, output_w, dump), self._memory, self._strangers.started)
            # The exception passes through all frames of the worker, so none of them may catch it.
            sys.exit(0)
        os.close(result_w)
        os.close(output_w)
        ends = Ends(result_r, output_r, dump)
        end = Supervision(
            self._control, pid, ends, timeout, self._memory, self._strangers, self._known
        ).follow()
        ends.close()
        return end


def serve(fd: int) -> None:
    """Reads the configuration, prepares the role, and runs jobs until the socket is closed."""
    processes.adopt_orphans()
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
    # Collecting garbage would take a sixth of the time in which TVM is imported.
    gc.disable()
    if config["role"] == "runner":
        _serve_runner(control, config, stream)
        return
    try:
        sys.path[:0] = config.get("sys_path", [])
        from .libraries import load_shared

        waiting = load_shared(() if config.get("late") else config.get("libraries", []))
        if waiting:
            importlib.import_module("tvm")
            load_shared(waiting, with_tvm=True)
        from .roles import prepare

        role = prepare(config)
        control.sendall(encode({"ready": role.description, "pid": os.getpid()}))
    except Failure as e:
        failure: dict[str, Any] = {"type": None, "message": str(e), "frames": []}
        control.sendall(encode({"failed": failure, **_tvm_of(config)}))
        return
    except BaseException as e:
        control.sendall(encode({"failed": describe_exception(e), **_tvm_of(config)}))
        return
    stacks.come_before_tvm()
    native_stack.load(config.get("native_stack", ""))
    memory = int(config.get("memory", 0))
    server = ForkServer(control, memory)
    _warm_up(role, memory)
    _leave_alone_what_exists()
    for message in stream:
        try:
            job, sent = sent_files.written(message)
        except OSError as e:
            server.no_room(e)
            continue
        left_for_others = [job.get("export", ""), *job.get("artifacts", {}).values()]
        folder = job.get("folder") or next(map(os.path.dirname, filter(None, left_for_others)), "")
        server.run(partial(role.run, job), message["timeout"], folder)
        if sent:
            shutil.rmtree(sent, ignore_errors=True)


def _warm_up(role: Any, memory: int) -> None:
    """Imports what a first child has imported that takes the role's first steps (see `warming`)."""
    steps = role.first_steps
    if steps is None:
        return
    listener = warming.Listener()
    server = ForkServer(listener, memory)
    server.run(partial(warming.report_imports, frozenset(sys.modules), steps), warming.LIMIT)
    names = warming.reported(listener.messages)
    if not names:
        return
    server.run(partial(warming.report_traces, names), warming.LIMIT)
    if warming.leaves_no_traces(listener.messages):
        warming.import_all(names)


def _serve_runner(control: socket.socket, config: Mapping[str, Any], stream: Iterator[Any]) -> None:
    """Opens a runner, and plays tapes until the socket is closed."""
    from .runner_role import RunnerRole, RunnerServer

    gc.enable()
    sys.path[:0] = config.get("sys_path", [])
    try:
        role = RunnerRole(config)
    except (Failure, RunnerLost) as e:
        failure: dict[str, Any] = {"type": None, "message": "the runner cannot be used: %s" % e, "frames": []}
        control.sendall(encode({"failed": failure, "runtime_only": False}))
        return
    except BaseException as e:
        control.sendall(encode({"failed": describe_exception(e), "runtime_only": False}))
        return
    control.sendall(encode({"ready": role.description, "pid": os.getpid()}))
    server = RunnerServer(control, role)
    try:
        for message in stream:
            server.run(message["job"], message["timeout"])
    finally:
        role.close()


def _tvm_of(config: dict[str, Any]) -> dict[str, bool]:
    """Returns, for a loader, whether it has only TVM's runtime ("runtime_only")."""
    if config["role"] != "loader":
        return {}
    from .loader_role import runtime_only

    return {"runtime_only": runtime_only()}


def _leave_alone_what_exists() -> None:
    """Excludes all existing objects from garbage collection, which is switched on again.

    In each child, a collection of TVM's modules would take tens of milliseconds, and would copy
    pages that the child shares with its parent.
    """
    gc.collect()
    gc.freeze()
    gc.enable()
