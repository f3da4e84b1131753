"""The host's end of a worker that a command starts on another machine."""

from __future__ import annotations

import functools
import io
import json
import math
import os
import select
import shlex
import socket
import struct
import subprocess
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..core.protocol import encode
from ..worker.remote import PULSE
from ..worker.sent_files import FILES
from .client import WorkerError
from .returning_worker import ReturningWorker

#: Seconds in which the command has to start Python, and then Python has to import TVM. Boards and
#: emulators are slow.
START_TIMEOUT = 300.0
#: Seconds without a sign of life after which the connection counts as lost.
SILENCE = 6 * PULSE
#: Threads that a worker has started would be missing in the children that it forks.
_ONE_THREAD = {"TVM_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
#: What the far end writes once it runs: everything before is the command's, or Python's own.
_HERE = b"pytest-byoc is here\n"
#: The packages that a worker needs.
_PACKAGES = ("checks", "core", "ir", "operators", "runs", "worker")
#: Python runs a console that reads lines from its standard input: no argument has a character that a
#: shell would change, as in `ssh board python3`, and nothing has to be there.
_CONSOLE = ("-u", "-m", "code", "-q")
#: The line that the console runs. It receives an environment and the sources, and starts the worker.
_BOOT = """
import io, json, os, struct, sys, tempfile, traceback, zipfile
out = os.dup(1)
os.dup2(2, 1)
try:
    os.write(out, {here!r})
    def take():
        return more(struct.unpack("<Q", more(8))[0])
    def more(n):
        data = b""
        while len(data) < n:
            piece = os.read(0, min(n - len(data), 1 << 20))
            if not piece:
                os._exit(0)
            data += piece
        return data
    environment, sources = json.loads(take().decode()), take()
    folder = tempfile.mkdtemp(prefix="pytest-byoc-sources-")
    with zipfile.ZipFile(io.BytesIO(sources)) as archive:
        archive.extractall(folder)
    sys.path.insert(0, folder)
    from pytest_byoc.worker.remote import main
    del sys.path[0]
    main(out, folder, environment)
except Exception:
    traceback.print_exc()
    os._exit(1)
"""


class RemoteWorker(ReturningWorker):
    """A worker that a command starts on another machine, with which it shares no folder.

    command: starts Python there, with its standard input and output connected to this process.
    """

    _start_timeout = START_TIMEOUT

    def __init__(
        self, command: Sequence[str], config: Mapping[str, Any], timeout: float,
        waiting: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(shlex.join(command), config, timeout, waiting)
        self._command = list(command)
        self._heard = 0.0
        self._greeted = False
        #: How the worker has ended, if its machine has said so; "" if the connection was lost.
        self._ended = ""

    # --- life ------------------------------------------------------------------------------------

    def _launch(
        self, theirs: socket.socket, env: Mapping[str, str], lifeline: int
    ) -> subprocess.Popen[bytes]:
        self._greeted, self._ended = False, ""
        try:
            return subprocess.Popen(
                [*self._command, *_CONSOLE], stdin=theirs.fileno(), stdout=theirs.fileno(),
                stderr=self._output, start_new_session=True,
            )
        except OSError as e:
            raise WorkerError(
                f"the loader's command cannot be started ({self._python}): {e.strerror}; see the key loader "
                "of the target's table"
            ) from None

    def _greet(self) -> None:
        """Sends the line that receives the rest. The console may read more than it, so the rest is sent
        once the line runs."""
        code = _BOOT.format(here=_HERE)
        self._send(f"exec({code!r})\n".encode())

    def ready(self) -> dict[str, Any]:
        if not self._greeted and not self.description:
            self._wait_for_python()
            environment = json.dumps({**_ONE_THREAD, **self._config.get("env", {})}).encode()
            for part in (environment, _sources()):
                self._send(struct.pack("<Q", len(part)) + part)
            self._send(encode(self._config))
            # Silence counts from the first frame on.
            self._greeted, self._heard = True, math.inf
        return super().ready()

    def _wait_for_python(self) -> None:
        assert self._socket is not None
        said, deadline = b"", time.monotonic() + START_TIMEOUT
        while _HERE not in said:
            self._waiting()
            ready, _, _ = select.select([self._socket], [], [], 1.0)
            try:
                data = self._socket.recv(1 << 16) if ready else b""
            except OSError:  # It has ended without reading.
                data = b""
            said += data
            if (ready and not data) or time.monotonic() > deadline:
                if ready:
                    self._reap()
                hung = self._process is not None and self._process.poll() is None
                how = f"has not started Python in {START_TIMEOUT:.0f} s" if hung else self._exit_in_words()
                printed = said.decode(errors="replace").replace(">>> ", "").strip()
                raise self._not_started(how, printed)

    def _not_started(self, how: str, printed: str) -> WorkerError:
        self.stop()
        text = f" It printed:\n{printed}" if printed else ""
        return WorkerError(
            f"the loader's command ({self._python}) {how}.{text}{self._said()}\n  It has to start Python 3.8 "
            "or newer with NumPy and TVM's runtime, and to connect its standard input and output.",
            loads=True,
        )

    def _memory(self) -> int:
        return 0  # What the process holds here is the command's.

    # --- jobs ------------------------------------------------------------------------------------

    def _message(self, job: Mapping[str, Any], timeout: float) -> bytes:
        files = {path: np.frombuffer(Path(path).read_bytes(), np.uint8) for path in _files(job)}
        return encode({"job": job, "timeout": timeout, FILES: files})

    def _exit_in_words(self) -> str:
        return self._ended or super()._exit_in_words()

    def _end_of_lost(self, hung: bool, stage: str) -> dict[str, Any]:
        end = super()._end_of_lost(hung, stage)
        if self._ended:
            return end
        said = self._said().strip()
        if self._closed:
            how = "closed it" if hung else self._exit_in_words()
            lost = f"the command {how}" + (f". {said}" if said else "")
        elif self._is_silent():
            lost = f"nothing was heard from it for {SILENCE:.0f} s"
        else:
            return end
        return {**end, "hung": False, "lost": lost}

    def _is_silent(self) -> bool:
        return self._greeted and time.monotonic() - self._heard > SILENCE

    def _is_over(self) -> bool:
        return super()._is_over() or self._is_silent()

    def _take(self, messages: Iterator[Any]) -> None:
        self._heard = time.monotonic()
        for message in messages:
            if "worker_ended" in message:
                self._ended = message["worker_ended"]
            elif "alive" not in message:
                self._pending.append(message)


@functools.cache
def _sources() -> bytes:
    """Returns the sources of the packages that a worker needs, as a zip file."""
    root = Path(__file__).parents[1]
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        packages = (p for name in _PACKAGES for p in sorted((root / name).rglob("*.py")))
        for path in (root / "__init__.py", *packages):
            archive.write(path, path.relative_to(root.parent).as_posix())
    return written.getvalue()


def _files(value: Any) -> Iterator[str]:
    """Yields the paths of files in a job."""
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from _files(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _files(inner)
    elif isinstance(value, str) and value.startswith(os.sep) and os.path.isfile(value):
        yield value
