"""The run of a loader: exported artifacts are loaded without the vendor's compiler."""

from __future__ import annotations

import gc
import os
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..ir.interface import IR, Executable
from .base import Run
from .preparing import Preparation
from .reporter import Reporter


class LoaderRun(Run):
    """A run through the stages load and run, in a process without the vendor's compiler."""

    def __init__(
        self, ir: IR, job: Mapping[str, Any], reporter: Reporter, preparation: Preparation
    ) -> None:
        super().__init__(ir, job, reporter)
        # The declared preparation is for the target's artifact, not for LLVM's own.
        self._preparation = None if job.get("of_llvm") else preparation
        #: The paths of artifacts by executor.
        self.artifacts: Mapping[str, str] = job["artifacts"]
        #: The paths of files that are to be hidden.
        self.hidden: list[str] = job.get("hidden", [])
        #: Whether the process ends by a normal exit, which runs its exit handlers.
        self.leaves_normally = False
        self._first: dict[str, list[np.ndarray]] = {}
        self._passed_on: Mapping[str, Mapping[str, Any]] = job.get("passed_on", {})
        #: Whether the target declares that equal inputs give bitwise equal outputs.
        self.deterministic: bool = job.get("deterministic", True)

    @property
    def loadable(self) -> list[str]:
        """Returns the executors whose artifacts have been loaded and run."""
        return list(self._first)

    def new_folder(self) -> str:
        """Creates an empty folder beside the artifacts, and returns its path.

        The host removes it with the artifacts, however this process ends.
        """
        beside = os.path.dirname(next(iter(self.artifacts.values())))
        return tempfile.mkdtemp(prefix=self._check + "-", dir=beside)

    def passed_on(self, executor: str) -> Any:
        """Returns the value that the check left with `pass_on` in the target worker, or None."""
        return self._passed_on.get(self._check, {}).get(executor)

    def first(self, executor: str) -> list[np.ndarray]:
        """Returns the outputs of the artifact for the first set of inputs."""
        return self._first[executor]

    def load(self, executor: str) -> Executable:
        """Loads the artifact another time."""
        return self.load_from(self.artifacts[executor], executor)

    def run_loaded(self, load: Callable[[], Executable]) -> list[np.ndarray]:
        """Loads an executable with a function, and returns its outputs for the first inputs."""
        self.stage("load")
        executable = self.ready(load())
        self.stage("run")
        outputs: list[np.ndarray] = executable.run(self.inputs[0])[0]
        return outputs

    def load_and_run(self, executor: str, which: int) -> list[np.ndarray]:
        """Loads and runs the artifact, and returns its outputs.

        which: the number of the set of inputs. The artifact is unloaded in a stage of its own,
        since unloading may crash.
        """
        self.stage("load")
        executable = self.load(executor)
        self.stage("run")
        outputs = executable.run(self.inputs[which])[0]
        self.stage("unload")
        del executable
        gc.collect()
        self._first.setdefault(executor, outputs)
        return outputs
