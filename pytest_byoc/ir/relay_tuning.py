"""Builds modules of Relay with the schedules of a tuning log of AutoTVM or the auto-scheduler."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core.tuning import AUTOTVM
from .interface import Executable
from .relay_building import build


def build_tuned(
    module: Any, executor: str, opt_level: int, config: Mapping[str, Any], log: Mapping[str, str]
) -> tuple[Executable, int]:
    """Compiles a module with a log; also returns the number of workloads for which it has a schedule.

    The arguments are those of `interface.IR.build_tuned`.
    """
    used: set[Any] = set()
    if log["kind"] == AUTOTVM:
        history = _autotvm(log["path"], used)
    else:
        history = _auto_scheduler(log["path"], used)
        config = {**config, "relay.backend.use_auto_scheduler": True}
    with history:
        executable = build(module, executor, opt_level, config=config)
    return executable, len(used)


def _autotvm(path: str, used: set[Any]) -> Any:
    from tvm.autotvm.task import ApplyHistoryBest

    class History(ApplyHistoryBest):  # type: ignore[misc]
        """The best records of a log, which notes the workloads that it is asked for and has."""

        #: The workloads for which TVM itself has chosen a schedule, as for a changed layout.
        _chosen: set[str] = set()

        def _query_inside(self, target: Any, workload: Any) -> Any:
            found = super()._query_inside(target, workload)
            if found is not None and str(workload) not in self._chosen:
                used.add(str(workload))
            return found

        def update(self, target: Any, workload: Any, cfg: Any) -> None:
            self._chosen = {*self._chosen, str(workload)}
            super().update(target, workload, cfg)

    return History(path)


def _auto_scheduler(path: str, used: set[Any]) -> Any:
    from tvm.auto_scheduler import ApplyHistoryBest

    class History(ApplyHistoryBest):  # type: ignore[misc]
        """The best records of a log, which notes the workloads that it is asked for and has."""

        def _query_inside(self, target: Any, workload_key: str, *more: Any) -> Any:
            found = super()._query_inside(target, workload_key, *more)
            if found is not None:
                used.add(str(workload_key))
            return found

    return History(path)
