"""The far end of a worker that a command starts on another machine, with no shared file system.

The host's command starts Python there, which runs `BOOT` (`examination/remote_worker.py`): that
receives the package's sources, and calls `main`. This process stays between host and worker: it
passes on frames from its standard input to the worker, and from the worker to its standard output;
what anybody prints goes to standard error. While the worker is silent it sends a sign of life, so that
the host notices a machine that has gone. When the host closes the connection, or it is lost, the
keeper ends all processes of the worker.
"""

from __future__ import annotations

import faulthandler
import os
import select
import shutil
import socket
import tempfile
from typing import Mapping

from ..core.names import signal_name
from .keeper import keep

#: Seconds of silence after which a sign of life is sent.
PULSE = 5.0


def main(out: int, folder: str, environment: Mapping[str, str]) -> None:
    """Starts the worker, and passes on frames until one side closes. Does not return.

    out: the descriptor for frames to the host. folder: the folder that holds the sources; it is
    removed at the end.
    """
    # No new program is started, which an emulator could not do: the environment is changed instead.
    os.environ.update(environment)
    faulthandler.enable()
    control, theirs = socket.socketpair()
    watched, lifeline = os.pipe()
    scratch = tempfile.mkdtemp(prefix="pytest-byoc-worker-")
    pid = os.fork()
    if not pid:
        control.close()
        os.close(lifeline)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.close(out)
        os.environ["TMPDIR"] = tempfile.tempdir = scratch
        keep(lifeline=watched, control=theirs.fileno(), scratch=scratch)
        from .server import serve

        serve(theirs.detach())
        # The frames of the caller must not be left: they belong to the parent.
        os._exit(0)
    theirs.close()
    os.close(watched)
    # After the fork: NumPy may start threads.
    from ..core.protocol import encode

    try:
        _pass_on(control, out)
    except OSError:  # The host has gone.
        pass
    os.close(lifeline)
    status = os.waitpid(pid, 0)[1]
    try:
        _send(out, encode({"worker_ended": _in_words(status)}))
    except OSError:
        pass
    for path in (scratch, folder):
        shutil.rmtree(path, ignore_errors=True)
    os._exit(0)


def _pass_on(control: socket.socket, out: int) -> None:
    """Passes on what both sides send, until one of them has closed."""
    from ..core.protocol import Decoder, encode

    frames = Decoder()
    while True:
        ready, _, _ = select.select([0, control.fileno()], [], [], PULSE)
        if not ready:
            _send(out, encode({"alive": True}))
        if 0 in ready:
            data = os.read(0, 1 << 20)
            if not data:
                return
            control.sendall(data)
        if control.fileno() in ready:
            data = control.recv(1 << 20)
            if not data:
                return
            # Whole frames only: a sign of life must not stand within one.
            for frame, _ in frames.feed_raw(data):
                _send(out, frame)


def _send(out: int, frame: bytes) -> None:
    data = memoryview(frame)
    while data:
        data = data[os.write(out, data) :]


def _in_words(status: int) -> str:
    if os.WIFSIGNALED(status):
        return "died of %s" % signal_name(os.WTERMSIG(status))
    return "exited with status %d" % os.WEXITSTATUS(status)
