"""The host's end of a worker: starts its process, submits jobs and collects the reports."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..core.job_report import JobReport
from ..core.names import signal_name
from ..core.protocol import Decoder, ProtocolError, encode
from ..storage.scratch import Scratch
from ..storage.session_ended import SessionEnded, no_room

#: The seconds that a worker may take to import TVM and the vendor's code.
START_TIMEOUT = 120.0
#: The seconds in which a worker has to end a stage that hangs; then it counts as hanging itself.
SLACK = 60.0
#: The seconds in which a worker's keeper ends all processes that it keeps.
STOPPING = 10.0
#: The bytes by which a worker may grow before it is restarted. Jobs run in child processes, so a
#: worker should not grow.
GROWTH = 256 << 20
MAIN = Path(__file__).parents[1] / "worker" / "__main__.py"


class WorkerError(Exception):
    """Raised when a worker can't be started.

    kind, frames: the type and stack of the exception in the worker, if one was raised there. died:
    whether the worker's process ended by itself. loads: whether it is a loader, which imports no
    target.
    """

    def __init__(
        self, message: str, kind: str | None = None, frames: list[dict[str, Any]] | None = None,
        died: bool = False, loads: bool = False,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.frames = frames or []
        self.died = died
        self.loads = loads


class Worker:
    """A worker process. `start` starts it; `submit` restarts it if it has died.

    config: the worker's role and settings. timeout: the seconds that a stage may take. waiting: a
    function that is called at least once a second while the host waits for a message.
    """

    _start_timeout = START_TIMEOUT
    _slack = SLACK

    def __init__(
        self, python: str, config: Mapping[str, Any], timeout: float,
        waiting: Callable[[], None] = lambda: None,
    ) -> None:
        self._python = python
        self._config = dict(config)
        self._timeout = timeout
        self._waiting = waiting
        #: The worker's keeper, which ends as the worker does, and the worker's id once it is ready.
        self._process: subprocess.Popen[bytes] | None = None
        self._pid = 0
        #: The end of a pipe to the keeper, which ends all its processes when this is closed.
        self._lifeline: int | None = None
        self._socket: socket.socket | None = None
        self._decoder = Decoder()
        self._pending: list[Any] = []
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 (kept as long as the worker)
        self._scratch: Scratch | None = None
        self._resident = 0
        #: The most seconds between two messages of a job, and the time when the next one is due.
        self._allowed = timeout + self._slack
        self._deadline = 0.0
        self._report = JobReport()
        #: Whether the other side has closed the connection.
        self._closed = False
        #: Whether a job has been submitted whose end has not been received.
        self._working = False
        self._hung_up = False
        self.description: dict[str, Any] = {}

    # --- life --------------------------------------------------------------------------------

    def start(self) -> None:
        """Launches the process without waiting for it; `ready` waits."""
        host, theirs = socket.socketpair()
        read_end, self._lifeline = os.pipe()
        self._scratch = self._scratch or Scratch("worker")
        env = dict(os.environ)
        # Temporary files that TVM, compilers and vendors leave are removed with the worker, even
        # those of children that were killed.
        env["TMPDIR"] = str(self._scratch.path)
        # The worker gets no thread pools: children forked from a parent with threads can hang.
        env.update(TVM_NUM_THREADS="1", OMP_NUM_THREADS="1", PYTHONUNBUFFERED="1", PYTHONFAULTHANDLER="1")
        env.update(self._config.get("env", {}))
        self._output.seek(0)
        self._output.truncate()
        try:
            self._process = self._launch(theirs, env, read_end)
        except WorkerError:
            host.close()
            self.stop()
            raise
        finally:
            theirs.close()
            os.close(read_end)
        self._socket = host
        self._decoder = Decoder()
        self._pending = []
        self.description = {}
        self._closed = False
        self._greet()

    def _launch(
        self, theirs: socket.socket, env: Mapping[str, str], lifeline: int
    ) -> subprocess.Popen[bytes]:
        """Starts the process. theirs, lifeline: its ends of the socket and of the keeper's pipe."""
        try:
            return subprocess.Popen(
                [self._python, str(MAIN), str(theirs.fileno()), str(lifeline), env["TMPDIR"]],
                pass_fds=[theirs.fileno(), lifeline],
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=subprocess.STDOUT,
                env=env,
                start_new_session=True,
            )
        except OSError as e:
            raise WorkerError(
                f"the worker's interpreter {self._python} cannot be started: {e.strerror}; name another one "
                "with --byoc-python or the key python"
            ) from None

    def _greet(self) -> None:
        """Sends the worker what it has to know."""
        self._send(encode(self._config))

    def _send(self, data: bytes) -> None:
        """Sends bytes to a worker that is being started."""
        assert self._socket is not None
        try:
            self._socket.sendall(data)
        except OSError:  # The process has ended already; `ready` reports how.
            pass

    def ready(self) -> dict[str, Any]:
        """Waits until the worker is ready, and returns its description. Raises WorkerError."""
        if self.description:
            return self.description
        self._deadline = time.monotonic() + self._start_timeout
        message = self._receive()
        if message is None:
            hung = self._process is not None and self._process.poll() is None
            self.stop()
            how = f"did not get ready in {self._start_timeout:.0f} s" if hung else self._exit_in_words()
            raise WorkerError(
                f"the {self._config['role']} worker ({self._python}) {how} while importing TVM and the "
                f"target.{self._said()}",
                died=not hung,
            )
        if "failed" in message:
            failed = message["failed"]
            self.stop()
            text, loads = failed["message"], self._config["role"] == "loader"
            if loads:
                alone = ", with TVM's runtime alone" if message["runtime_only"] else ""
                text += f"\n  This was in the loader, a process that only loads and runs artifacts{alone}."
            raise WorkerError(text, failed["type"], failed["frames"], loads=loads)
        self.description, self._pid = message["ready"], message["pid"]
        self._resident = self._memory()
        return self.description

    def stop(self) -> None:
        """Ends the worker, and every process that was started in it and still runs."""
        self._working = False
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None
        if self._process is not None:
            try:
                self._process.wait(STOPPING)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._scratch is not None:
            self._scratch.remove()
            self._scratch = None

    def hang_up(self) -> None:
        """Makes a thread that waits for this worker go on, and end: no further job is taken."""
        self._hung_up = True
        with suppress(OSError):
            if self._socket is not None:
                self._socket.shutdown(socket.SHUT_RDWR)

    def _memory(self) -> int:
        """Returns the bytes of the worker's resident memory; 0 if it has ended."""
        try:
            pages = Path(f"/proc/{self._pid}/statm").read_text().split()[1]
        except OSError:
            return 0
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def _exit_in_words(self) -> str:
        assert self._process is not None
        code = self._process.returncode
        return f"died of {signal_name(-code)}" if code < 0 else f"exited with status {code}"

    def _printed(self) -> str:
        """Returns the end of what the worker has printed."""
        self._output.seek(0)
        return self._output.read()[-3000:].decode(errors="replace").strip()

    def _said(self) -> str:
        text = self._printed()
        return f" It printed:\n{text}" if text else ""

    # --- jobs --------------------------------------------------------------------------------

    def submit(self, job: Mapping[str, Any], timeout: float | None = None) -> None:
        """Sends a job to the worker; `collect` returns the report.

        Several workers may work at once. A worker that has ended is restarted. The end of an earlier
        job that nobody has waited for, because of an exception of the host, is waited for. Raises
        SessionEnded if a restart fails; `collect` raises it if a job has no room for its files.

        timeout: the seconds that a stage may take, if not the worker's usual ones.
        """
        timeout = timeout or self._timeout
        message = self._message(job, timeout)
        if self._working:
            self.collect()
        for _ in range(2):
            if self._hung_up:
                break
            gone = self._process is None or self._process.poll() is not None or self._socket is None
            if gone or (self._resident and self._memory() - self._resident > GROWTH):
                self._start_again()
            assert self._socket is not None
            self._allowed = timeout + self._slack
            self._deadline = time.monotonic() + self._allowed
            self._report = JobReport()
            try:
                self._socket.sendall(message)
                self._working = True
                return
            except OSError:  # The worker has ended in the meantime.
                self.stop()
        raise SessionEnded(
            f"the {self._config['role']} worker ({self._python}) has ended each time it was started"
        )

    def _message(self, job: Mapping[str, Any], timeout: float) -> bytes:
        """Returns the frame that holds a job."""
        return encode({"job": job, "timeout": timeout})

    def _restart(self) -> None:
        """Ends the worker, and starts another one. Raises WorkerError."""
        self.stop()
        self.start()
        self.ready()

    def _start_again(self) -> None:
        """Restarts the worker in the middle of a session.

        If it dies while it starts, which may have an external cause, it is started once more.
        Raises SessionEnded if it can't be started.
        """
        for attempts_left in (1, 0):
            try:
                self._restart()
                return
            except WorkerError as e:
                if not (e.died and attempts_left):
                    text = f"{e}\nIt was started before, and cannot be started again."
                    raise SessionEnded(text) from None

    def wait_for(self, fact: str) -> JobReport:
        """Waits for a fact, an exception or the end of the job, and returns the report so far."""
        report = self._report
        while report.end is None and not any(
            m.get("fact") == fact or "raised" in m for m in report.messages
        ):
            self._step()
        return report

    def collect(self) -> JobReport:
        """Waits for the end of the job submitted last, and returns its report."""
        while self._report.end is None:
            self._step()
        return self._report

    @property
    def report_so_far(self) -> JobReport:
        """Returns the report on the job submitted last; another thread may be collecting it."""
        return self._report

    def _step(self) -> None:
        """Waits for one message and adds it to the report.

        Raises SessionEnded if the job had no room for its files.
        """
        report = self._report
        message = self._receive()
        if message is None:
            hung = self._process is not None and self._process.poll() is None
            self.stop()
            stages = [m["stage"] for m in report.messages if set(m) == {"stage", "cpu"}]
            report.end = self._end_of_lost(hung, stages[-1] if stages else "start")
        elif "end" in message:
            self._working = False
            # Missing room for files may be the cause of whatever else has failed.
            if message["end"].get("no_room"):
                raise no_room(message["end"]["no_room"])
            report.end = message["end"]
        else:
            self._deadline = time.monotonic() + self._allowed
            if "waited" not in message:
                report.messages.append(message)

    def _end_of_lost(self, hung: bool, stage: str) -> dict[str, Any]:
        """Returns the end of a job whose worker has ended, or has hung and been stopped."""
        return {
            "stage": stage, "hung": hung, "signal": None if hung else "lost with its worker",
            "status": None, "seconds": {}, "garbage": False, "printed": self._printed(), "cpu": {},
            "peak_kib": 0, "limit": self._allowed - self._slack,
        }

    def _is_over(self) -> bool:
        """Returns whether the time for the next message is over."""
        return time.monotonic() > self._deadline

    def _take(self, messages: Iterator[Any]) -> None:
        """Keeps messages for `_receive`."""
        self._pending.extend(messages)

    def _receive(self) -> Any:
        """Returns the next message; None when the worker has ended or its time is up."""
        assert self._socket is not None
        while not self._pending:
            self._waiting()
            left = self._deadline - time.monotonic()
            ready, _, _ = select.select([self._socket], [], [], min(max(left, 0.0), 1.0))
            if not ready:
                # A message that was sent in time counts, however late the host reads it.
                if self._is_over():
                    return None
                continue
            try:
                data = self._socket.recv(1 << 20)
                self._take(self._decoder.feed(data))
            except ProtocolError:
                return None
            except OSError:
                data = b""
            if not data:
                self._closed = True
                self._reap()
                return None
        return self._pending.pop(0)

    def _reap(self) -> None:
        """Waits, at most 5 seconds, for the end of a process that has closed its socket.

        Its exit status is known then.
        """
        assert self._process is not None
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            pass
