"""Executors in several threads at once compute what one computes alone."""

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
from .evidence import Evidence

if TYPE_CHECKING:
    from ..runs import LoaderRun

#: Threads, and how long and how often at most each of them runs.
THREADS = 4
SECONDS = 1.0
RUNS = 300
#: Copies of a library: how often there is a first time.
COPIES = 4
#: Runs that differ which are kept, those farthest off.
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
    # Each is made ready, and says what is right, before the others run.
    alone = [[e.run(inputs)[0] for inputs in run.inputs[:2]] for e in executables]
    wrong = _race(run, executables, alone, RUNS)
    for _ in range(COPIES):
        if wrong and run.deterministic:
            break
        # A copy is loaded as a library of its own: what is set up at the first run is not yet.
        path = os.path.join(run.new_folder(), os.path.basename(run.artifacts[executor]))
        shutil.copy(run.artifacts[executor], path)
        copied = run.load_from(path, executor)
        wrong += _race(run, [copied.fresh() for _ in range(THREADS)], alone, 1)
    run.record("threads", wrong)


def _race(run: LoaderRun, executables: list[Any], alone: list[Any], runs: int) -> list[dict[str, Any]]:
    """Runs that differ from those alone, of so many in each thread."""
    wrong: list[dict[str, Any]] = []
    raised: list[BaseException] = []
    keeping = threading.Lock()
    begin, end = threading.Barrier(THREADS), time.monotonic() + SECONDS

    def work(number: int) -> None:
        try:
            for n in range(runs):
                which = (n + number) % len(alone[number])
                # They begin together, not one after the other's preparations: what is made at the first
                # run may take no longer than these.
                outputs = executables[number].run(run.inputs[which], begin.wait if n == 0 else None)[0]
                if [a.tobytes() for a in outputs] != [a.tobytes() for a in alone[number][which]]:
                    with keeping:
                        wrong.append({"set": which, "arrays": outputs, "alone": alone[number][which]})
                        wrong.sort(key=_distance, reverse=True)
                        del wrong[KEPT:]
                # Of a target that need not repeat itself the next run may be farther off.
                if (wrong and run.deterministic) or raised or time.monotonic() > end:
                    return
        except BaseException as e:  # it is told in the main thread
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
    """How far a run is from that alone; infinitely, where a value is not finite or the types differ."""
    farthest = 0.0
    for a, b in zip(found["arrays"], found["alone"]):
        if a.shape != b.shape or not a.size:
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
    rule="Four threads, each with an executor of its own on one loaded library, compute what one computes "
    "alone, bit by bit; also at a library's first use.",
    why="Workspaces shared without a lock.",
    where="chosen graphs, each operator's large case",
    how="in several threads at once",
    reload=reload,
    judge=judge,
    made=CHOSEN,
    owns=True,
)
