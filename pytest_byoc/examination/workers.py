"""The workers of one target, and what is known of it once they have started."""

from __future__ import annotations

import functools
import os
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from ..checks import overrun
from ..config.declarations import TargetDeclaration
from ..config.settings import Settings
from ..core.graph import Graph
from ..core.job_report import JobReport
from ..operators import OPERATORS
from ..reference_kernels import FULL, Precision
from .activity import Activity
from .client import Worker
from .native_handler import compiled

#: Environment of a process whose malloc aborts where the ends of a piece have been written over.
_WATCHING = {
    "LD_PRELOAD": " ".join(filter(None, [overrun.LIBRARY, os.environ.get("LD_PRELOAD")])),
    "MALLOC_CHECK_": "3",
}
#: What is told of libraries that a forked process cannot have from its parent.
_THREADS = (
    "the target's libraries loaded once for all graphs: they start threads when they are loaded, which no "
    "forked process has, so that each loads them for itself"
)
#: What is told where the loader has all of TVM.
_ONE_LIBRARY = (
    "loading with TVM's runtime alone: this TVM has no runtime library, so the loader has the compiler in "
    "memory too"
)


class Workers:
    """target, reference and loader; the companions start theirs when they are needed. `open` before, `close`
    after use; between them:

    ir, name, versions, executors: of the target. not_checked: what can't be, in words. host_lacks: operators
    that TVM itself cannot run where an artifact is deployed, since its runtime library lacks them."""

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
        #: Whether TVM knows the target by its name, and whether TVM brings the partition function along.
        self.named_in_tvm = self.tvms_partition = False
        #: Why no stage behind partitioning can be run here, or is to be; "" where all are.
        self.partition_only = ""
        #: Whether the patterns registered under the target's name are used in place of TVM's own function.
        self.by_table = False
        self.deterministic = True
        #: How the target is built: "opt_level" and "pass_config", as for jobs of the reference.
        self.built: dict[str, Any] = {"opt_level": 0, "pass_config": {}}
        #: Ids of the checks that the target has switched off.
        self.without_checks: frozenset[str] = frozenset()
        self.strict_views = False
        self.precision: Precision = FULL
        self.host_lacks: frozenset[str] = frozenset()
        #: Makes a worker of a config, which is then started.
        self.make_worker: Callable[[dict[str, Any]], Worker] = functools.partial(
            Worker, declaration.python, timeout=settings.timeout,
            waiting=(activity or Activity()).tick,
        )
        self._target_config: dict[str, Any] = {}
        #: The configurations of loaders, without and with what the target declares of them.
        self._common: dict[str, Any] = {}
        self._with_libraries: dict[str, Any] = {}
        self._libraries: list[str] = []
        #: All there ever were: a session that is refused leaves none behind.
        self._started: list[Worker] = []

    def open(self) -> None:
        """Starts the workers. Raises WorkerError when one can't be had."""
        common: dict[str, Any] = {
            "ir": self.declaration.ir, "memory": self.settings.memory_bytes, "native_stack": compiled(),
        }
        self._target_config = target_config = {
            **common,
            "role": "target",
            "target": self.declaration.for_worker(),
            "libraries": self.declaration.libraries,
            "sys_path": self.declaration.sys_path,
            # The same verdict every time; the check `reproducible` has another one.
            "env": {"PYTHONHASHSEED": "0"},
        }
        target = self.target = self._worker(target_config)
        if common["ir"] is None or not self.declaration.reference:
            # Which IR the target is for, and whether there is one of that name, is known once it is ready.
            common["ir"] = target.ready()["ir"]
        self.reference = self._worker({**common, "role": "reference"})
        self.loader = self._loader(common, [])
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

    def another_target(self) -> Worker:
        """One more target worker, started, in which Python's strings have other hashes."""
        return self._worker({**self._target_config, "ir": self.ir, "env": {"PYTHONHASHSEED": "1"}})

    def bare_loader(self) -> Worker | None:
        """A loader that has none of the target's libraries, started; None where there are none."""
        return self._loader({**self._common, "bare": True}, []) if self._libraries else None

    def watched_loader(self) -> Worker:
        """A loader whose malloc checks the ends of each piece of memory, started."""
        return self._loader(self._with_libraries, self._libraries, **_WATCHING)

    def executor_for(self, graph: Graph) -> str:
        """The executor of a graph that is built for one: each in turn, by the graph's digest. Where a result
        is empty it is the first: Relay's VM calls no function whose results are all empty."""
        if any(not t.size for node in graph.nodes for t in node.types):
            return self.executors[0]
        return self.executors[zlib.crc32(graph.digest) % len(self.executors)]

    def partition_by_table(self, reason: str) -> None:
        """Starts the target's worker anew, to partition by the patterns registered under its name and not by
        TVM's own partition function. Raises WorkerError.

        reason: why that function can't be used here."""
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

    def _loader(self, common: dict[str, Any], libraries: list[str], **env: str) -> Worker:
        functions = sorted({f for op in OPERATORS.values() for f in op.calls})
        config = {"role": "loader", "libraries": libraries, "functions": functions}
        return self._worker({**common, **config, "env": {"TVM_USE_RUNTIME_LIB": "1", **env}})

    def _worker(self, config: dict[str, Any]) -> Worker:
        worker = self.make_worker(config)
        self._started.append(worker)
        worker.start()
        return worker

    def close(self) -> None:
        for worker in self._started:
            worker.stop()

    def ask_reference(self, job: Mapping[str, Any]) -> JobReport:
        """The reference worker's report on a job of any kind."""
        self.reference.submit(job)
        return self.reference.collect()

    def another_reference(self) -> Worker:
        """One more reference worker, started; the caller may stop it sooner than `close` does."""
        return self._worker({"ir": self.ir, "memory": self.settings.memory_bytes, "role": "reference"})
