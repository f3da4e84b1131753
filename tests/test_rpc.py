"""Tests of the runner that uses TVM's RPC, with a tracker and servers on this machine."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from fixtures.faults import Fault, Patch, apply
from pytest_byoc.core.errors import Failure
from pytest_byoc.runners import rpc

from .conftest import PYTHON
from .far_device import ONE_CASE, report, with_runner


@pytest.mark.parametrize("url", ["rpc://board", "rpc://board:9190", "rpc://board:x/pi", "rpc://:9190/pi"])
def test_addresses_of_trackers(url: str) -> None:
    with pytest.raises(Failure, match=r"expected rpc://HOST:PORT/KEY"):
        rpc.parse(url)
    assert rpc.parse("rpc://board:9190/rasp4b") == ("board", 9190, "rasp4b")


class Rpc:
    """A tracker on this machine, with servers of the key "pi". Their processes end with `stop`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[subprocess.Popen[bytes]] = []
        self._over = False
        self.port = self._bound("tvm.exec.rpc_tracker")
        self.server()

    @property
    def url(self) -> str:
        return f"rpc://127.0.0.1:{self.port}/pi"

    def server(self) -> None:
        self._bound("tvm.exec.rpc_server", f"--tracker=127.0.0.1:{self.port}", "--key=pi")

    def supervise(self) -> None:
        """Starts another server where the last one has left the tracker, as Relax's do when they crash,
        until `stop`."""
        watch = (
            "import time\nfrom tvm import rpc\n"
            f"tracker = rpc.connect_tracker('127.0.0.1', {self.port})\n"
            "while True:\n"
            "    print(len(tracker.summary()['server_info']), flush=True)\n"
            "    time.sleep(1)\n"
        )
        watching = subprocess.Popen(
            [PYTHON, "-c", watch], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
        )
        self._started.append(watching)
        assert watching.stdout is not None
        for line in watching.stdout:
            if line.strip() == b"0" and not self._over:
                self.server()

    def _bound(self, module: str, *arguments: str) -> int:
        """Starts a program of TVM, and returns the port that it is bound to."""
        log = self._folder / f"{len(self._started)}.log"
        port = random.randrange(20000, 40000)
        command = [PYTHON, "-m", module, "--host=127.0.0.1", f"--port={port}", f"--port-end={port + 99}"]
        with log.open("wb") as printed:
            process = subprocess.Popen(
                [*command, *arguments], stdout=printed, stderr=subprocess.STDOUT, start_new_session=True
            )
        self._started.append(process)
        for _ in range(300):
            if found := re.search(r"bind to (?:127\.0\.0\.1|0\.0\.0\.0):(\d+)", log.read_text()):
                return int(found[1])
            if self._over:
                return port
            assert process.poll() is None, log.read_text()
            time.sleep(0.1)
        raise AssertionError(log.read_text())

    def stop(self) -> None:
        self._over = True
        for process in self._started[::-1]:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture
def rpc_pi(tmp_path: Path, ir: str) -> Iterator[Rpc]:
    pytest.importorskip("tornado")
    started = Rpc(tmp_path)
    supervisor = threading.Thread(target=started.supervise)
    supervisor.start()
    yield started
    started.stop()
    supervisor.join()
    started.stop()  # It may have started one more server.


def test_rpc(pytester: pytest.Pytester, ir: str, rpc_pi: Rpc) -> None:
    cases = "nn.relu and (test_operator and float32 or test_speed)"
    result = with_runner(pytester, ir, rpc_pi.url, "-k", cases, "--byoc-time")
    assert result.ret == 0
    found = report(pytester)
    (speed,) = found["speed"]
    assert speed["case"] == "speed[nn.relu]" and 0 < speed["target_us"] < 1e6
    assert found["versions"]["runner"] == rpc_pi.url
    assert sum(cell["passed"] for cell in found["cells"]) > 5
    excluded = "executor vm: the runner cannot run it" in found["not_checked"]
    assert excluded == (ir == "relay")


#: What relu of a faulty target is in C: an artifact that is wrong, crashes, or hangs.
RELU = {"wrong-result": "{x}", "crash": "*(volatile float*)8", "hang": "({{ while (1) {{}} 0; }})"}


@pytest.mark.parametrize(
    "outcome", ["wrong-result", *(pytest.param(o, marks=pytest.mark.once) for o in ("crash", "hang"))]
)
def test_faults_are_found_by_rpc(pytester: pytest.Pytester, ir: str, rpc_pi: Rpc, outcome: str) -> None:
    patch = Patch("kernels.py", '{x} > {zero} ? {x} : {zero}"', f'{RELU[outcome]}"')
    target = apply(Fault("relu", 47, "", ("nn.relu",), "process", (patch,)), pytester.path)
    partition = f"{target / '__init__.py'}:target"
    result = with_runner(
        pytester, ir, rpc_pi.url, "-x", *ONE_CASE, "--byoc-timeout=3", partition=partition
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    (failure,) = report(pytester)["failures"]
    assert failure["outcome"] == outcome


@pytest.mark.once
def test_a_key_that_no_server_has(pytester: pytest.Pytester, ir: str, rpc_pi: Rpc) -> None:
    result = with_runner(pytester, ir, rpc_pi.url.replace("/pi", "/raspberry"))
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "has no server with the key 'raspberry'; it has: pi" in result.stdout.str() + result.stderr.str()
