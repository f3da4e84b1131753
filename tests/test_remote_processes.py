"""Tests of pytest-xdist with processes that it reaches over a socket and by ssh, both on 127.0.0.1."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from .conftest import PYTHON

#: One IR is enough: the tests examine the host.
pytestmark = pytest.mark.once

#: In place of ssh: runs the command that it would run on the other machine, which it gets last.
SSH = '#!/bin/sh\nfor last; do :; done\necho ran >>"$SSH_LOG"\nexec sh -c "$last"\n'


@pytest.fixture
def gateway() -> Iterator[str]:
    """Starts a server of execnet on a free port of 127.0.0.1, and returns its address."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{found.getsockname()[1]}"
    command = [sys.executable, "-m", "execnet.script.socketserver", address]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    # It serves one connection at a time, so that none can be tried.
    time.sleep(1)
    assert server.poll() is None
    yield address
    server.kill()
    server.wait()


def test_processes_over_socket_and_ssh_are_one_session(
    pytester: pytest.Pytester, ir: str, gateway: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = pytester.path / "bin" / "ssh"
    script.parent.mkdir()
    script.write_text(SSH)
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("SSH_LOG", str(pytester.path / "log"))
    result = pytester.runpytest_subprocess(
        "--byoc-target=example_c", f"--byoc-python={PYTHON}", f"--byoc-ir={ir}", "--byoc-level=smoke",
        "--byoc-operators=nn.relu", "-k", "test_operator and float32", "-p", "no:cacheprovider",
        "--byoc-report=out", "-v", "-d", "--tx", f"socket={gateway}",
        "--tx", f"ssh=127.0.0.1//python={sys.executable}", timeout=300,
    )
    assert result.ret == 0
    assert (pytester.path / "log").read_text() == "ran\n"
    printed = result.stdout.str()
    assert "[gw0]" in printed and "[gw1]" in printed
    report = json.loads((pytester.path / "out" / "report.json").read_text())
    assert report["outcomes"]["pass"] == result.parseoutcomes()["passed"] > 5
    assert report["gate"]["exit"] == 0
