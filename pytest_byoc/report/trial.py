"""Runs the reproduce.py of a failure once, to tell the user if it does not show the failure."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ..core.errors import MainLost, NotAModule
from ..core.finding import Finding
from ..examination.client import MAIN, STOPPING
from ..examination.outcome import CRASH, ERROR, HANG

#: Address space in bytes of an interpreter with TVM, in addition to the target's limit.
_OF_TVM = 8 << 30
#: Bytes that are read from the end of the output.
_TAIL = 1 << 16
#: Seconds beyond the limits of the script's stages; the script imports TVM twice.
_SLACK = 120.0
_APART = "the fresh process"
_NO_MODULE = "expected a tvm.IRModule"


@dataclass(frozen=True)
class Ended:
    """The end of a script. status: its exit code, negative for a signal, None if it had to be
    killed. printed: the end of both its streams."""

    status: int | None
    printed: str

    @property
    def failed(self) -> list[str]:
        """Returns the sentences with which the script and its own processes failed."""
        lines = self.printed.splitlines()
        return [line.removeprefix("FAILED: ") for line in lines if line.startswith("FAILED: ")]

    @property
    def words(self) -> str:
        """Returns the end of a sentence about the script."""
        if self.status is None:
            return "did not end in time"
        if self.status < 0:
            named = -self.status in signal.valid_signals() and -self.status < signal.SIGRTMIN
            return f"died of {signal.Signals(-self.status).name if named else f'signal {-self.status}'}"
        if self.failed:
            return f"said: {self.failed[-1][:300].rstrip('.')}"
        last = next((line for line in reversed(self.printed.splitlines()) if line.strip()), "")
        return f"ended with {last.strip()[:300]!r} and status {self.status}"


@dataclass(frozen=True)
class Trial:
    """The conditions of a trial run. python: the interpreter. stage: seconds granted to a stage of
    the script. memory: bytes that the target may use; 0: no limit."""

    python: str
    stage: float
    memory: int

    def run(self, script: Path) -> Ended:
        """Runs a script as a user does, but under a keeper process like a worker, since it runs the
        target's code. Leaves no files or processes behind. Raises OSError if it can't be
        started."""
        folder = tempfile.TemporaryDirectory(prefix="pytest-byoc-trial-", ignore_cleanup_errors=True)
        with folder as scratch, tempfile.TemporaryFile() as out, open(os.devnull) as nothing:
            read_end, lifeline = os.pipe()
            memory = self.memory + _OF_TVM if self.memory else 0
            program = shutil.which(self.python) or self.python
            kept = [str(nothing.fileno()), str(read_end), scratch, str(memory), program, str(script)]
            try:
                process = subprocess.Popen(
                    [self.python, str(MAIN), *kept], pass_fds=[nothing.fileno(), read_end],
                    stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                    env={**os.environ, "TMPDIR": scratch}, start_new_session=True,
                )
                # The script ends its stages itself, also one that hangs.
                status = _waited_for(process, _SLACK + 4 * self.stage)
            finally:
                os.close(lifeline)
                os.close(read_end)
            if status is None and _waited_for(process, STOPPING) is None:
                process.kill()
                process.wait()
            out.seek(max(0, out.seek(0, os.SEEK_END) - _TAIL))
            return Ended(status, out.read().decode(errors="replace"))


def _waited_for(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    """Waits for a process and returns its status; None if it is still running."""
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None


def shows(ended: Ended, finding: Finding) -> bool:
    """Returns whether the script failed as the finding says: it died, hung, raised the same
    exception, or returned something wrong."""
    failed = ended.failed
    apart = any(text.startswith(_APART) for text in failed)
    if finding.outcome == CRASH:
        died = ended.status is not None and ended.status < 0
        return died or apart or any("called exit()" in text for text in failed)
    if finding.outcome == HANG:
        return "Timeout (" in ended.printed or any(" hung: " in text for text in failed)
    if finding.kind == MainLost.__name__:
        # The script has no check for that; a later stage fails.
        return any("the stage import" not in text for text in failed)
    if finding.outcome == ERROR and "exception" in finding.details:
        words = _NO_MODULE if finding.kind == NotAModule.__name__ else f" raised {finding.kind}:"
        return any(words in text for text in failed)
    otherwise = (text for text in failed if " raised " not in text and " hung: " not in text)
    return any(not text.startswith(_APART) for text in otherwise)


def note(ended: Ended, finding: Finding, command: str) -> str:
    """Returns a remark on a script that did not show the failure; "" if it did."""
    if shows(ended, finding):
        return ""
    repeat = f" Repeat it with: {command}" if command else ""
    return f"reproduce.py did not show this failure when it was tried: it {ended.words}.{repeat}"
