"""Records the loads and runs of a target worker that only the device can make, and plays them there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..core.tape import PLAYED, STEP, awaited
from ..ir.interface import IR, Executable
from .base import Run
from .preparing import Preparation
from .reporter import Reporter


class Recorder:
    """The recorder of the tape of one job, whose facts go to the host."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._steps = 0

    def load(self, path: str, executor: str) -> Executable:
        """Returns a stand-in for the artifact at a path, loaded on the device for that executor."""
        return Absent(self, self.step({"load": path, "with": executor}))

    def step(self, what: Mapping[str, Any]) -> int:
        """Records a step of the current check, and returns its number."""
        number, self._steps = self._steps, self._steps + 1
        self._run.record(STEP, {"number": number, "check": self._run.check, **what})
        return number


class Absent(Executable):
    """A stand-in for an executable that is loaded on the device. A run returns placeholders."""

    def __init__(self, recorder: Recorder, loaded: int) -> None:
        self._recorder, self._loaded = recorder, loaded

    def run(self, inputs: Mapping[str, Any], ready: Callable[[], Any] | None = None) -> Any:
        number = self._recorder.step({"run": self._loaded, "inputs": dict(inputs)})
        return awaited(number, "outputs"), awaited(number, "modified")


class DeviceRun(Run):
    """The run of a loader that plays the tape of a target worker."""

    def __init__(
        self, ir: IR, job: Mapping[str, Any], reporter: Reporter, preparation: Preparation
    ) -> None:
        super().__init__(ir, job, reporter)
        self._preparation = None if job.get("of_llvm") else preparation
        self._loaded: dict[int, Executable] = {}
        #: The pairs of check and executor of which a step has failed; the rest is left out.
        self._lost: set[tuple[str, str | None]] = set()

    def play(self, steps: Sequence[Mapping[str, Any]]) -> None:
        """Makes the loads and runs in their order, and sends the results of each run.

        After an exception, the further steps of that check with that executor are left out, as they
        are where the target worker runs artifacts itself.
        """
        for step in steps:
            pair = (step["check"], step["executor"])
            if pair in self._lost or step.get("run", -1) not in (-1, *self._loaded):
                self._lost.add(pair)
                continue
            if step["check"] != self.check:
                self.begin(step["check"])
            failures = len(self._reported)
            with self.using(step["executor"]):
                self._make(step)
            if len(self._reported) > failures:
                self._lost.add(pair)

    def _make(self, step: Mapping[str, Any]) -> None:
        if "load" in step:
            self.stage("load")
            self._loaded[step["number"]] = self.load_from(step["load"], step["with"])
            return
        self.stage("run")
        outputs, modified = self._loaded[step["run"]].run(step["inputs"])
        self.record(PLAYED, {"number": step["number"], "outputs": outputs, "modified": modified})
