"""A runner that uses TVM's RPC: a tracker, and servers on the devices that have registered with it."""

from __future__ import annotations

import socket
import threading
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Mapping, Sequence

import numpy as np

from ..core.errors import Failure
from ..core.runner import RunnerCrashed, RunnerHung, RunnerLost
from ..ir.interface import MEASURED
from ..runs.measuring import ROUNDS

#: Seconds to wait for a free server of the key.
WAITING = 60.0
#: The time limit of a session, in time limits of a call: TVM has no limit for a call.
_CALLS = 4
#: How TVM measures on a device.
_MEASURED = {**MEASURED, "repeat": ROUNDS}
#: Seconds in which a tracker has to answer.
_CONNECTING = 10.0
#: Words of TVM's exceptions when the server's process has died.
_DIED = ("kShutdown", "socket closed", "Connection reset", "Broken pipe", "closed by the server")
#: Names of TVM's exceptions, or words in them, when a session has taken too long.
_LATE = ("RPCSessionTimeoutError", "SessionTimeout")


def parse(url: str) -> tuple[str, int, str]:
    """Returns host, port and key of `rpc://HOST:PORT/KEY`. Raises Failure."""
    parts = urllib.parse.urlsplit(url)
    key = urllib.parse.unquote(parts.path.lstrip("/"))
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if parts.scheme != "rpc" or not host or not port or not key or "/" in key:
        raise Failure(
            "runner: expected rpc://HOST:PORT/KEY, the address of a tracker and the key of its servers, "
            "found %r" % url
        )
    return host, port, key


class RpcRunner:
    """A runner that has a server of a tracker run artifacts.

    A server takes a second or two to begin a session, so that one session serves several calls; after
    an exception the next call begins a new one.
    """

    def __init__(self, url: str, ir: str) -> None:
        self._host, self._port, self._key = parse(url)
        self._ir = ir
        #: The session in use, which TVM ends a time after it began, and the number of its files.
        self._session: Any = None
        self._began = 0.0
        self._uploads = 0
        #: Over RPC, Relay's VM returns the addresses of its tensors in place of their contents.
        self.executors = ("graph", "aot") if ir == "relay" else ()

    def describe(self) -> Mapping[str, str]:
        return {"runner": "rpc://%s:%d/%s" % (self._host, self._port, self._key)}

    def open(self) -> None:
        """Asks the tracker for the servers of the key. Raises RunnerLost."""
        servers = self._tracker().summary()["queue_info"]
        if self._key not in servers:
            raise RunnerLost(
                "the tracker at %s:%d has no server with the key %r; it has: %s"
                % (self._host, self._port, self._key, ", ".join(sorted(servers)) or "none")
            )

    def run(
        self, artifact: Path, executor: str, inputs: Sequence[Mapping[str, np.ndarray]], timeout: float
    ) -> Sequence[Sequence[np.ndarray]]:
        with self._in_session(timeout):
            main = self._load(artifact, executor)
            return [main.run(arrays) for arrays in inputs]

    def seconds(
        self, artifact: Path, executor: str, inputs: Mapping[str, np.ndarray], timeout: float
    ) -> Sequence[float]:
        """Measures by TVM's time_evaluator, on the device."""
        with self._in_session(timeout):
            return self._load(artifact, executor).seconds(inputs)

    @contextmanager
    def _in_session(self, timeout: float) -> Iterator[None]:
        """Has a session for one call, and translates TVM's exceptions."""
        limit = _CALLS * timeout
        if self._session is None or time.monotonic() - self._began > limit - timeout:
            self._session = None
            self._session, self._began = self._request(limit), time.monotonic()
        try:
            yield
        except Exception as e:
            self._session = None
            text = "%s: %s" % (type(e).__name__, e)
            if any(word in text for word in _LATE):
                raise RunnerHung("the session took more than %g s" % limit) from None
            if any(word in text for word in _DIED):
                raise RunnerCrashed("the process of the session died (%s)" % _last_line(e)) from None
            raise

    def close(self) -> None:
        self._session = None

    def _load(self, artifact: Path, executor: str) -> _Relax | _Relay:
        # A server loads a file of the same name only once.
        self._uploads += 1
        name = "%d_%s" % (self._uploads, artifact.name)
        self._session.upload(str(artifact), name)
        # Session.load_module fails in some versions of TVM.
        library = self._session.get_function("tvm.rpc.server.load_module")(name)
        self._session.remove(name)
        device = self._session.cpu(0)
        return _Relax(library, device) if self._ir == "relax" else _Relay(library, device, executor)

    def _tracker(self) -> Any:
        from tvm import rpc

        try:
            # TVM tries for a minute.
            socket.create_connection((self._host, self._port), timeout=_CONNECTING).close()
            return rpc.connect_tracker(self._host, self._port)
        except Exception as e:
            raise RunnerLost(
                "no tracker answers at %s:%d (%s)" % (self._host, self._port, _last_line(e))
            ) from None

    def _request(self, timeout: float) -> Any:
        """Returns a session with a free server. Raises RunnerLost if there is none for WAITING seconds."""
        got: list[Any] = []

        def request() -> None:
            try:
                got.append(self._tracker().request(self._key, session_timeout=timeout, max_retry=1))
            except Exception as e:
                got.append(e)

        # TVM waits without end.
        thread = threading.Thread(target=request, daemon=True)
        thread.start()
        thread.join(WAITING)
        if not got:
            raise RunnerLost(
                "no server with the key %r became free in %g s; a server of TVM that died in a session "
                "leaves its tracker, so that something has to start it again" % (self._key, WAITING)
            )
        if isinstance(got[0], Exception):
            raise RunnerLost("no session with %r: %s" % (self._key, _last_line(got[0])))
        return got[0]


class _Relax:
    """An artifact of Relax that is loaded on a device."""

    def __init__(self, library: Any, device: Any) -> None:
        from tvm.runtime import vm

        self._device = device
        self._machine = vm.VirtualMachine(library, device)

    def _set(self, arrays: Mapping[str, np.ndarray]) -> None:
        import tvm

        tensors = [tvm.runtime.tensor(array, self._device) for array in arrays.values()]
        self._machine.set_input("main", *tensors)

    def run(self, arrays: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        self._set(arrays)
        self._machine.invoke_stateful("main")
        outputs = self._machine.get_outputs("main")
        return [output.numpy() for output in (outputs if isinstance(outputs, (list, tuple)) else [outputs])]

    def seconds(self, arrays: Mapping[str, np.ndarray]) -> Sequence[float]:
        self._set(arrays)
        measure = self._machine.time_evaluator("invoke_stateful", self._device, **_MEASURED)
        return list(measure("main").results)


class _Relay:
    """An artifact of Relay that is loaded on a device."""

    def __init__(self, library: Any, device: Any, executor: str) -> None:
        from tvm.contrib import graph_executor
        from tvm.runtime.executor import AotModule

        kind = AotModule if executor == "aot" else graph_executor.GraphModule
        self._device = device
        self._module = kind(library["default"](device))

    def _set(self, arrays: Mapping[str, np.ndarray]) -> None:
        from ..ir.relay_executables import tensor_on

        for name, array in arrays.items():
            self._module.set_input(name, tensor_on(array, self._device))

    def run(self, arrays: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        from ..ir.relay_executables import arrays_of

        self._set(arrays)
        self._module.run()
        return arrays_of([self._module.get_output(i) for i in range(self._module.get_num_outputs())])

    def seconds(self, arrays: Mapping[str, np.ndarray]) -> Sequence[float]:
        self._set(arrays)
        measure = self._module.module.time_evaluator("run", self._device, **_MEASURED)
        return list(measure().results)


def _last_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[-1].strip()[:200] if lines else type(error).__name__
