"""Checks that executors in several threads at once compute the same as one alone."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Iterator

import numpy as np

from ..core.finding import Finding
from .base import CHOSEN, Check
from .evidence_interface import Evidence

if TYPE_CHECKING:
    from ..runs import LoaderRun

#: The number of threads, the most seconds for which each of them runs, and the most runs of each.
THREADS = 4
SECONDS = 1.0
RUNS = 1000
#: The number of copies of a library, each of which gives one first use.
COPIES = 4
#: The number of differing runs that are recorded, those with the largest differences.
KEPT = 4


def reload(run: LoaderRun) -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for executor in run.loadable:
            with run.using(executor):
                _at_once(run, executor)
    finally:
        sys.setswitchinterval(interval)


def _at_once(run: LoaderRun, executor: str) -> None:
    library = run.load(executor)
    executables = [library.fresh() for _ in range(THREADS)]
    # Each executor is run alone first: that prepares it, and gives the outputs to compare with.
    alone = [[e.run(inputs)[0] for inputs in run.inputs[:2]] for e in executables]
    wrong = _race(run, executables, alone, RUNS)
    for _ in range(COPIES):
        if wrong and run.deterministic:
            break
        # A copy is loaded as a separate library, so its state of the first run is not set up yet.
        path = os.path.join(run.new_folder(), os.path.basename(run.artifacts[executor]))
        shutil.copy(run.artifacts[executor], path)
        copied = run.load_from(path, executor)
        wrong += _race(run, [copied.fresh() for _ in range(THREADS)], alone, 1)
    run.record("threads", wrong)


def _race(run: LoaderRun, executables: list[Any], alone: list[Any], runs: int) -> list[dict[str, Any]]:
    """Runs the executables at once, and returns the runs whose outputs differ from those alone.

    runs: the largest number of runs in each thread.
    """
    wrong: list[dict[str, Any]] = []
    raised: list[BaseException] = []
    keeping = threading.Lock()
    begin, end = threading.Barrier(THREADS), time.monotonic() + SECONDS

    def work(number: int) -> None:
        try:
            for n in range(runs):
                which = (n + number) % len(alone[number])
                # The threads wait until all have prepared their run, because the work of a first
                # run may be shorter than these preparations.
                outputs = executables[number].run(run.inputs[which], begin.wait if n == 0 else None)[0]
                if [a.tobytes() for a in outputs] != [a.tobytes() for a in alone[number][which]]:
                    with keeping:
                        wrong.append({"set": which, "arrays": outputs, "alone": alone[number][which]})
                        wrong.sort(key=_distance, reverse=True)
                        del wrong[KEPT:]
                # If the target need not repeat its results, a later run may differ by more.
                if (wrong and run.deterministic) or raised or time.monotonic() > end:
                    return
        except BaseException as e:  # The main thread raises it again.
            raised.append(e)
            begin.abort()

    run.stage("threads")
    threads = [threading.Thread(target=work, args=(i,)) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]
    return wrong


def _distance(found: dict[str, Any]) -> float:
    """Returns the largest difference of a run's outputs from those alone.

    It is infinite where shapes differ, or where a difference is not finite.
    """
    farthest = 0.0
    for a, b in zip(found["arrays"], found["alone"]):
        if a.shape != b.shape:
            return float("inf")
        if not a.size:
            continue
        with np.errstate(all="ignore"):
            apart = np.abs(a.astype(np.float64) - b.astype(np.float64))
        farthest = max(farthest, float(np.where(np.isfinite(apart), apart, np.inf).max()))
    return farthest


def judge(evidence: Evidence) -> Iterator[Finding]:
    for executor, wrong in evidence.loader.facts("threads"):
        for value in wrong:
            what = "one of %d threads (%s executor)" % (THREADS, executor)
            if evidence.deterministic:
                yield from evidence.same_bits(
                    "threads", "threads", "differs", value["alone"], value["arrays"], what
                )
            else:
                yield from evidence.compare(
                    "threads", "differs", value["set"], value["arrays"], "from " + what
                )


CHECK = Check(
    id="threads",
    rule="Four threads at once, each with an executor of its own on one loaded library, compute the same as "
    "one alone, bit by bit; also at the first use of a library.",
    why="Workspaces shared without a lock.",
    where=f"{CHOSEN}, each operator's large case",
    how="in several threads at once",
    reload=reload,
    judge=judge,
    made_on=CHOSEN,
    owns=True,
    at_smoke=("each_once", "large", "forms_that_take_a_while"),
    on_kinds=("large tensors",),
)
