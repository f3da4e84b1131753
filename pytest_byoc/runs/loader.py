"""What was exported, in a process that never saw the vendor's compiler."""

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
    """load, run: in a process that has never seen the vendor's compiler."""

    def __init__(
        self, ir: IR, job: Mapping[str, Any], reporter: Reporter, preparation: Preparation
    ) -> None:
        super().__init__(ir, job, reporter)
        # LLVM's own artifact knows nothing of the target.
        self._preparation = None if job.get("of_llvm") else preparation
        #: Paths of artifacts by executor.
        self.artifacts: Mapping[str, str] = job["artifacts"]
        #: Whether the process is to run its exit handlers when all is done.
        self.leaves_normally = False
        self._first: dict[str, list[np.ndarray]] = {}
        self._handed: Mapping[str, Mapping[str, Any]] = job.get("handed", {})
        #: Whether the target is held to the same bits each time.
        self.deterministic: bool = job.get("deterministic", True)

    @property
    def loadable(self) -> list[str]:
        """Executors whose artifact has been loaded and run."""
        return list(self._first)

    def new_folder(self) -> str:
        """An empty folder, beside the artifacts: the host removes it with them, however this process ends."""
        beside = os.path.dirname(next(iter(self.artifacts.values())))
        return tempfile.mkdtemp(prefix=self._check + "-", dir=beside)

    def handed(self, executor: str) -> Any:
        """What the check's half in the target worker has left for this one (`hand`), or None."""
        return self._handed.get(self._check, {}).get(executor)

    def first(self, executor: str) -> list[np.ndarray]:
        """What the artifact returned for the first inputs."""
        return self._first[executor]

    def load(self, executor: str) -> Executable:
        """The artifact, loaded once more."""
        return self.load_from(self.artifacts[executor], executor)

    def run_loaded(self, load: Callable[[], Executable]) -> list[np.ndarray]:
        """Outputs for the first inputs of what a function loads."""
        self.stage("load")
        executable = self.ready(load())
        self.stage("run")
        outputs: list[np.ndarray] = executable.run(self.inputs[0])[0]
        return outputs

    def load_and_run(self, executor: str, which: int) -> list[np.ndarray]:
        """Outputs of the artifact; it is unloaded again, which may be what crashes."""
        self.stage("load")
        executable = self.load(executor)
        self.stage("run")
        outputs = executable.run(self.inputs[which])[0]
        self.stage("unload")
        del executable
        gc.collect()
        self._first.setdefault(executor, outputs)
        return outputs
