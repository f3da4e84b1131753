"""Starts the workers of one target, and holds the facts about the target that they report."""

from __future__ import annotations

import functools
import os
import time
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..checks import CHECKS, overrun
from ..checks.selection import NOT_BY_RUNNER
from ..config.declarations import TargetDeclaration
from ..config.device import process_number
from ..config.effort import EVERY, FIRST, ONE, Effort
from ..config.settings import Settings
from ..core.graph import Graph
from ..core.job_report import JobReport
from ..core.jobs import Job, changed
from ..operators import OPERATORS
from ..reference_kernels import FULL, Precision
from ..storage.stored_surveys import StoredSurveys
from .activity import Activity
from .c_libraries import HIDDEN_FILES, NATIVE_STACK, compiled
from .client import Worker, WorkerError
from .remote_worker import RemoteWorker
from .returning_worker import ReturningWorker

#: The environment of a process whose malloc aborts if the end of a piece has been overwritten.
_GUARDED = {"LD_PRELOAD": overrun.LIBRARY, "MALLOC_CHECK_": "3"}
#: The notice on libraries that start threads, so that a forked process can't inherit them.
_THREADS = (
    "the target's libraries loaded once for all graphs: they start threads when they are loaded, which no "
    "forked process has, so that each loads them for itself"
)
#: The notice on a loader that has all of TVM.
_ONE_LIBRARY = (
    "loading with TVM's runtime alone: this TVM has no runtime library, so the loader has the compiler in "
    "memory too"
)
#: The checks that a loader on another machine can't make, with the reasons.
_NOT_ELSEWHERE = {
    "archive": "TVM would compile the sources of an archive on the loader's machine",
    "overrun": "malloc cannot be replaced where a command starts the loader",
}


class Workers:
    """The target worker, the reference worker and the loader of one target.

    Call `open` first and `close` at the end. Companions start further workers when they need them.

    ir, name, versions, executors: facts about the target, known after `open`. not_checked: the
    aspects that can't be checked, in words. host_lacks: the operators that TVM itself can't run in
    a loaded artifact, since its runtime library lacks them.
    """

    target: Worker
    reference: Worker
    loader: Worker

    def __init__(
        self, settings: Settings, declaration: TargetDeclaration, activity: Activity | None = None
    ) -> None:
        self.settings = settings
        self.declaration = declaration
        self.ir: str = ""
        self.name = declaration.name
        self.versions: dict[str, str] = {}
        self.executors: list[str] = []
        self.not_checked: list[str] = []
        #: Whether TVM knows the target by name, and whether its partition function is TVM's own.
        self.named_in_tvm = self.tvms_partition = False
        #: The reason why only partitioning is run; "" if all stages are run.
        self.partition_only = ""
        #: Whether the registered patterns are used in place of TVM's own partition function.
        self.by_table = False
        self.deterministic = True
        #: The target's "opt_level" and "pass_config", as entries of a job of the reference.
        self.built: dict[str, Any] = {"opt_level": 0, "pass_config": {}}
        #: The ids of the checks that the target has switched off.
        self.without_checks: frozenset[str] = frozenset()
        self.strict_views = False
        self.precision: Precision = FULL
        self.host_lacks: frozenset[str] = frozenset()
        self._waiting = (activity or Activity()).tick
        #: Creates a worker from its configuration, without starting it.
        self.make_worker: Callable[[dict[str, Any]], Worker] = functools.partial(
            Worker, declaration.python, timeout=settings.timeout, waiting=self._waiting
        )
        #: When the workers were started, in seconds since the epoch.
        self._began = 0.0
        self._target_config: dict[str, Any] = {}
        #: The configurations of a loader without the target's libraries, and of one with them.
        self._common: dict[str, Any] = {}
        self._with_libraries: dict[str, Any] = {}
        self._libraries: list[str] = []
        #: All workers ever started, so that `close` stops them even if `open` has failed.
        self._started: list[Worker] = []

    def open(self, meanwhile: Callable[[str], None] = lambda ir: None) -> None:
        """Starts the workers. Raises WorkerError if one can't be started, and SettingsError if the tuning
        log is not one of the target's IR.

        meanwhile: is called with the IR as soon as it is known, mostly while the workers import TVM."""
        self._began = time.time()
        device = self.declaration.device
        common: dict[str, Any] = {
            "ir": self.declaration.ir, "memory": self.settings.memory_bytes,
            "native_stack": compiled(NATIVE_STACK), "device": device.for_worker(),
            "elsewhere": device.is_elsewhere,
        }
        self._target_config = target_config = {
            **common,
            "role": "target",
            "target": self.declaration.for_worker(),
            "libraries": self.declaration.libraries,
            "sys_path": self.declaration.sys_path,
            "tells_files": self.settings.keeps_surveys,
            # The seed is fixed, for the same verdict every time; `reproducible` uses another one.
            "env": {"PYTHONHASHSEED": "0"},
        }
        target = self.target = self._worker(target_config)
        if common["ir"] is None or not self.declaration.reference:
            # The target's IR, and whether a target of that name exists, is known once it is ready.
            common["ir"] = target.ready()["ir"]
        self.reference = self._worker({**common, "role": "reference"})
        if not device.runner:
            self.loader = self._loader(common, [])
        meanwhile(common["ir"])
        if device.runner:
            self._open_runner()
            return
        target.ready()
        self.reference.ready()
        self._describe(target.description)
        libraries, prepare = (target.description[k] for k in ("runtime_libraries", "prepare"))
        if prepare is not None:
            common = {**common, "prepare": prepare, "sys_path": self.declaration.sys_path}
        with_libraries = common
        if libraries or prepare is not None:
            self.loader.stop()
            self.loader = self._loader(common, libraries)
            if self.loader.ready()["threads"]:
                self.loader.stop()
                with_libraries = {**common, "late": True}
                self.loader = self._loader(with_libraries, libraries)
                self.not_checked.append(_THREADS)
        self._common, self._with_libraries, self._libraries = common, with_libraries, libraries
        said = self.loader.ready()
        self.host_lacks = frozenset(n for n, op in OPERATORS.items() if set(said["absent"]) & set(op.calls))
        if not said["runtime_only"]:
            self.not_checked.append(_ONE_LIBRARY)
        if self.declaration.device.is_elsewhere:
            self.versions = {**self.versions, "artifacts": said["machine"]}
            self.without_checks |= set(_NOT_ELSEWHERE)
            self.not_checked += [f"check {check}: {why}" for check, why in _NOT_ELSEWHERE.items()]

    @property
    def apart(self) -> bool:
        """Returns whether the target worker and the loader run artifacts on different machines."""
        device = self.declaration.device
        return device.is_elsewhere and not device.is_foreign

    @property
    def measures(self) -> bool:
        """Returns whether runs can be measured where artifacts run."""
        return not self.by_runner or bool(self.loader.description.get("measures"))

    @property
    def by_runner(self) -> bool:
        """Returns whether a runner runs artifacts, so that there is no loader."""
        return bool(self.declaration.device.runner)

    def _open_runner(self) -> None:
        """Starts the worker that holds the runner, and takes it for the loader."""
        said = self.target.ready()
        config = {
            "role": "runner", "ir": said["ir"], "runner": self.declaration.device.runner,
            "sys_path": self.declaration.sys_path,
        }
        self.loader = self._begin(
            ReturningWorker(self.declaration.python, config, self.settings.timeout, self._waiting)
        )
        self.reference.ready()
        self._describe(said)
        runner = self.loader.ready()
        self.versions = {**self.versions, **runner["facts"]}
        able = [name for name in self.executors if name in (runner["executors"] or self.executors)]
        if not able:
            raise WorkerError(
                f"target {self.name}: the runner can run the executors {', '.join(runner['executors'])}, the "
                f"target those named {', '.join(self.executors)}"
            )
        unable = [name for name in self.executors if name not in able]
        self.executors = able
        self.not_checked += [f"executor {name}: the runner cannot run it" for name in unable]
        self.without_checks |= NOT_BY_RUNNER
        listed = ", ".join(check.id for check in CHECKS if check.id in NOT_BY_RUNNER)
        self.not_checked.append(f"the checks {listed}: a runner loads and runs artifacts, and nothing more")
        if self.settings.measures and not self.measures:
            self.not_checked.append("speed: the runner has no method seconds")

    def another(self) -> Workers:
        """Returns the workers of the same target once more, which are not started."""
        return Workers(self.settings, self.declaration)

    def follow(self, first: Workers) -> None:
        """Takes over what has been decided on the target since the first workers were started."""
        if first.by_table and not self.by_table:
            self.partition_by_table("")
        self.partition_only, self.without_checks = first.partition_only, first.without_checks

    def another_target(self) -> Worker:
        """Starts another target worker, in which Python's strings have other hashes."""
        return self._worker({**self._target_config, "ir": self.ir, "env": {"PYTHONHASHSEED": "1"}})

    def loader_without_libraries(self) -> Worker | None:
        """Starts a loader without the target's libraries; returns None if it declares none."""
        return self._loader({**self._common, "without_libraries": True}, []) if self._libraries else None

    def loader_without_files(self) -> Worker | None:
        """Starts a loader that can hide files from itself, if the library for that can be compiled.

        Returns None where the loader is on another machine, which has none of the files.
        """
        if self.declaration.device.is_elsewhere:
            return None
        return self._loader(self._with_libraries, self._libraries, LD_PRELOAD=compiled(HIDDEN_FILES))

    def guarded_loader(self) -> Worker:
        """Starts a loader whose malloc checks the ends of each piece of memory."""
        return self._loader(self._with_libraries, self._libraries, **_GUARDED)

    def executor_for(self, graph: Graph) -> str:
        """Returns the executor for a graph that is built for only one: its digest selects it.

        It is the first executor if a result of a node has no elements, because Relay's VM does not
        call functions whose results are all empty.
        """
        if any(not t.size for node in graph.nodes for t in node.types):
            return self.executors[0]
        return self.executors[zlib.crc32(graph.digest) % len(self.executors)]

    def executors_for(self, graph: Graph, effort: Effort) -> list[str]:
        """Returns the executors for which a graph is built with an effort."""
        if effort.executors == EVERY:
            return list(self.executors)
        if effort.executors == FIRST:
            return self.executors[:1]
        return [self.executor_for(graph) if effort.executors == ONE else effort.executors]

    def partition_by_table(self, reason: str) -> None:
        """Restarts the target worker, to partition by the patterns registered under its name.

        They replace TVM's own partition function. Raises WorkerError if the worker can't be
        started. reason: why that function can't be used.
        """
        self._target_config["target"]["by_table"] = self.by_table = True
        self.target.stop()
        self.target = self._worker(self._target_config)
        self._describe({**self.target.ready(), "not_checked": self.not_checked})
        self.not_checked.append(
            f"TVM's own partition function for {self.name}: {reason}; the patterns registered under that "
            "name are used in TVM's usual passes"
        )

    def _describe(self, said: dict[str, Any]) -> None:
        self.ir, self.name = said["ir"], said["name"]
        self.versions, self.executors = said["versions"], said["executors"]
        self.not_checked, self.deterministic = list(said["not_checked"]), said["deterministic"]
        self.named_in_tvm, self.tvms_partition = said["named_in_tvm"], said["tvms_partition"]
        self.built = {key: said[key] for key in ("opt_level", "pass_config")}
        self.without_checks, self.strict_views = frozenset(said["without_checks"]), said["strict_views"]
        self.precision = Precision(**said["precision"])
        if self.declaration.tuning is not None:
            self.declaration.tuning.check_ir(self.ir)

    def _loader(self, common: dict[str, Any], libraries: list[str], **env: str) -> Worker:
        functions = sorted({f for op in OPERATORS.values() for f in op.calls})
        config = {
            **common, "role": "loader", "libraries": libraries, "functions": functions,
            "tells_files": self.settings.keeps_passes,
        }
        runtime = {"TVM_USE_RUNTIME_LIB": "1"}
        device = self.declaration.device
        if device.is_elsewhere:
            here = {"native_stack": "", "sys_path": [], "env": runtime}
            command, config = device.command(process_number()), {**config, **here}
            return self._begin(RemoteWorker(command, config, self.settings.timeout, self._waiting))
        preloaded = " ".join(filter(None, [env.pop("LD_PRELOAD", ""), os.environ.get("LD_PRELOAD")]))
        if preloaded:
            env["LD_PRELOAD"] = preloaded
        return self._worker({**config, "env": {**runtime, **env}})

    def stored_surveys(self) -> StoredSurveys:
        """Returns what earlier sessions have found out about graphs, and what this one will keep."""
        if not self.settings.keeps_surveys:
            return StoredSurveys()
        configuration = {**self._target_config, "python": self.declaration.python}
        stored = StoredSurveys.of(configuration, os.environ, self._began)
        stored.depend_on(self.target.description["files"])
        return stored

    def _worker(self, config: dict[str, Any]) -> Worker:
        return self._begin(self.make_worker(config))

    def _begin(self, worker: Worker) -> Worker:
        self._started.append(worker)
        worker.start()
        return worker

    def hang_up(self) -> None:
        """Makes another thread that uses the workers end."""
        for worker in self._started:
            worker.hang_up()

    def close(self) -> None:
        for worker in self._started:
            worker.stop()

    def ask_reference(self, job: Mapping[str, Any]) -> JobReport:
        """Returns the reference worker's report on a job of any kind."""
        self.reference.submit(job)
        return self.reference.collect()

    def export_by_llvm(self, job: Job, name: str, **entries: Any) -> tuple[JobReport, str]:
        """Has LLVM build a job's graph and export it to a file of that name in the job's folder.

        entries: replace those of the job. Returns the report, and the file's path; "" if there is none.
        """
        path = Path(job["folder"], name)
        said = self.ask_reference(changed(job, **entries, export=str(path)))
        return said, str(path) if path.exists() else ""

    def another_reference(self) -> Worker:
        """Starts another reference worker; the caller may stop it before `close` does."""
        device = self.declaration.device.for_worker()
        common = {"ir": self.ir, "memory": self.settings.memory_bytes, "device": device}
        return self._worker({**common, "role": "reference"})
