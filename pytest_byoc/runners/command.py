"""A runner that calls a command for each run, which reads its inputs from files and writes its outputs."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Mapping, Sequence, TypeVar

import numpy as np

from ..core.errors import Failure
from ..core.names import signal_name
from ..core.runner import RunnerCrashed, RunnerError, RunnerHung

_Read = TypeVar("_Read")
#: The places of the command where paths and names are put.
PLACES = ("{artifact}", "{inputs}", "{outputs}", "{executor}")
_PLACE = re.compile(r"\{\w+\}")
#: The file, in the folder for outputs, with the seconds of a run or of several.
SECONDS = "seconds.json"
#: Exit statuses by which a shell says that its command died of signal status - 128.
_OF_SIGNALS = range(129, 160)
#: Characters at the end of the command's output that a message repeats.
_TAIL = 2000


class CommandRunner:
    """A runner that starts a process for each set of inputs.

    command: its words may contain "{artifact}" (the path of the shared library), "{inputs}" (a folder
    with `inputs.json` and the input number N as `N.npy`), "{outputs}" (an empty folder, into which the
    command writes the output number N as `N.npy`, and, if it measures runs, their seconds as
    `seconds.json`) and "{executor}".
    """

    def __init__(self, command: str) -> None:
        try:
            self._words = shlex.split(command)
        except ValueError as e:
            raise Failure("runner: the command cannot be read (%s): %r" % (e, command)) from None
        for place in PLACES[:3]:
            if place not in command:
                raise Failure("runner: the command must contain %s, found %r" % (place, command))
        for unknown in set(_PLACE.findall(command)) - set(PLACES):
            known = ", ".join(PLACES)
            raise Failure("runner: the command contains %s; known are %s" % (unknown, known))
        if shutil.which(self._words[0]) is None:
            raise Failure("runner: there is no program %s" % self._words[0])

    def describe(self) -> Mapping[str, str]:
        return {"runner": shlex.join(self._words)}

    def run(
        self, artifact: Path, executor: str, inputs: Sequence[Mapping[str, np.ndarray]], timeout: float
    ) -> Sequence[Sequence[np.ndarray]]:
        return [self._once(artifact, executor, arrays, timeout, _outputs) for arrays in inputs]

    def seconds(
        self, artifact: Path, executor: str, inputs: Mapping[str, np.ndarray], timeout: float
    ) -> Sequence[float]:
        """Returns what the command has written into `seconds.json`; nothing without that file."""
        return self._once(artifact, executor, inputs, timeout, _seconds)

    def _once(
        self, artifact: Path, executor: str, arrays: Mapping[str, np.ndarray], timeout: float,
        read: Callable[[Path], _Read],
    ) -> _Read:
        """Calls the command with a set of inputs, and returns what `read` finds in its outputs' folder."""
        with tempfile.TemporaryDirectory(prefix="run-") as folder:
            given, made = Path(folder, "inputs"), Path(folder, "outputs")
            given.mkdir()
            made.mkdir()
            _write(given, arrays)
            places = dict(zip(PLACES, (str(artifact), str(given), str(made), executor)))
            printed = self._call([_filled(word, places) for word in self._words], timeout)
            try:
                return read(made)
            except (ValueError, OSError) as e:
                raise RunnerError(str(e), printed) from None

    def _call(self, words: Sequence[str], timeout: float) -> str:
        """Runs a command, and returns what it has printed. Raises RunnerError where it fails."""
        with tempfile.TemporaryFile() as printed:
            try:
                process = subprocess.Popen(
                    words, stdin=subprocess.DEVNULL, stdout=printed, stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as e:
                raise Failure("runner: %s cannot be started: %s" % (words[0], e.strerror)) from None
            try:
                status = process.wait(timeout)
            except subprocess.TimeoutExpired:
                status = None
            finally:
                _end_all(process)
            printed.seek(0)
            said = printed.read()[-_TAIL:].decode(errors="replace").strip()
        if status is None:
            raise RunnerHung("the command had not ended after %g s" % timeout, said)
        if status < 0 or status in _OF_SIGNALS:
            number = -status if status < 0 else status - 128
            raise RunnerCrashed("died of %s" % signal_name(number), said)
        if status:
            last = said.rpartition("\n")[2] or "it printed nothing"
            raise RunnerError("the command exited with status %d: %s" % (status, last), said)
        return said


def _filled(word: str, places: Mapping[str, str]) -> str:
    for place, value in places.items():
        word = word.replace(place, value)
    return word


def _end_all(process: subprocess.Popen[bytes]) -> None:
    """Ends the command and what it has started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def _write(folder: Path, arrays: Mapping[str, np.ndarray]) -> None:
    described = []
    for number, (name, array) in enumerate(arrays.items()):
        np.save(folder / ("%d.npy" % number), array)
        described.append({"name": name, "dtype": str(array.dtype), "shape": list(array.shape)})
    (folder / "inputs.json").write_text(json.dumps(described))


def _outputs(folder: Path) -> list[np.ndarray]:
    outputs: list[np.ndarray] = []
    while (path := folder / ("%d.npy" % len(outputs))).exists():
        array = np.load(path, allow_pickle=False)
        outputs.append(_as_bfloat16(array) if array.dtype == np.dtype("V2") else array)
    if not outputs:
        raise ValueError("the command has written no 0.npy into its folder for outputs")
    return outputs


def _seconds(folder: Path) -> list[float]:
    path = folder / SECONDS
    if not path.exists():
        return []
    try:
        written = json.loads(path.read_text())
    except ValueError as e:
        raise ValueError("%s cannot be read: %s" % (SECONDS, e)) from None
    values = written if isinstance(written, list) else [written]
    if not values or not all(isinstance(v, (int, float)) and v > 0 for v in values):
        raise ValueError("%s must hold a positive number, or a list of them: %r" % (SECONDS, written))
    return [float(v) for v in values]


def _as_bfloat16(array: np.ndarray) -> np.ndarray:
    import ml_dtypes

    return array.view(ml_dtypes.bfloat16)
