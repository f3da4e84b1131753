"""Checks that creating, running and destroying an executor repeatedly leaks no memory and no files.

The same is done in threads that start and end.
"""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import re
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Iterator, Mapping

import numpy as np

from ..core.finding import Finding
from .base import CHOSEN, Check
from .evidence_interface import Evidence

if TYPE_CHECKING:
    from ..runs import LoaderRun

#: The number of rounds, and the seconds that they may take; slow executors get fewer rounds. With
#: fewer than LEAST the check is not made, since noise would decide.
ROUNDS = 200
SECONDS = 10.0
LEAST = 40
#: The number of rounds that run in a thread of their own each.
THREADS = 100
#: The rounds are split into so many stretches, with a measurement after each; the first stretch
#: warms up. Where the use grows in each of the others, more stretches follow, at most _MOST: the
#: growth of a cache ends, that of a leak does not.
_PARTS = 4
_MOST = 12
#: The largest growth that counts as noise, in bytes per round: less than malloc's smallest piece.
NOISE = 24
#: The same in bytes per thread: Python keeps some memory of ended threads.
NOISE_OF_THREADS = 48
#: The largest growth per round that counts as noise, as a share of the artifact's size.
SHARE = 1e-4
#: The largest growth in open files per round.
FILES = 0.5
#: The largest growth in bytes of address space per round: one page.
MAPPED = 4096
_TASKS = "/proc/self/task"


class _Mallinfo2(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )


def _measure() -> Callable[[], int] | None:
    """Returns a function that returns the bytes allocated by malloc.

    None where glibc is older than 2.33 or another C library is used.
    """
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallinfo2"):
        return None
    library.mallinfo2.restype = _Mallinfo2

    def used() -> int:
        gc.collect()
        info = library.mallinfo2()
        return int(info.uordblks) + int(info.hblkhd)

    return used


def _in_arenas() -> int:
    """Returns the bytes allocated by malloc in all threads, from its report (malloc_info)."""
    library = ctypes.CDLL(None)
    library.open_memstream.restype = ctypes.c_void_p
    text, size = ctypes.c_void_p(), ctypes.c_size_t()
    gc.collect()
    stream = ctypes.c_void_p(library.open_memstream(ctypes.byref(text), ctypes.byref(size)))
    library.malloc_info(0, stream)
    library.fclose(stream)
    report = ctypes.string_at(text, size.value).decode()
    library.free(text)
    together = report.rpartition("</heap>")[2]
    sizes = dict(re.findall(r'<(?:total|system) type="(\w+)"[^>]* size="(\d+)"', together))
    free = int(sizes.get("fast", 0)) + int(sizes.get("rest", 0))
    return int(sizes["current"]) - free + int(sizes.get("mmap", 0))


def _mapped() -> int:
    """Returns the bytes of address space in use, which also count mappings not made by malloc."""
    with open("/proc/self/statm") as f:
        return int(f.read().split()[0]) * mmap.PAGESIZE


def reload(run: LoaderRun) -> None:
    used = _measure()
    if used is None:
        run.not_checked("this C library does not say how much memory is in use (no mallinfo2)")
        return
    for executor in run.loadable:
        with run.using(executor):
            # The library is loaded before the rounds, because TVM never frees what Relax loads.
            library = run.load(executor)
            run.stage("rounds")
            rounds = _rounds(library, run.inputs[0])
            if rounds < LEAST:
                run.not_checked("a round takes too long: %d in %.0f seconds" % (rounds, SECONDS))
                continue

            once = partial(_once, library, run.inputs[0])
            size = os.path.getsize(run.artifacts[executor])
            run.record("memory", dict(_usage(run, rounds, once, used), size=size))
            few = min(rounds, THREADS)
            run.record("memory_of_threads", dict(_usage(run, few, _apart(once), _in_arenas), size=size))


def _once(library: Any, inputs: Mapping[str, np.ndarray]) -> None:
    library.fresh().run(inputs)


def _apart(once: Callable[[], None]) -> Callable[[], None]:
    """Returns a function that calls `once` in a thread of its own and waits for its end."""

    def apart() -> None:
        running = len(os.listdir(_TASKS))
        with ThreadPoolExecutor(1) as pool:
            pool.submit(once).result()
        # Python does not wait until the system has ended the thread, which then frees its arena.
        deadline = time.monotonic() + 1.0
        while len(os.listdir(_TASKS)) > running and time.monotonic() < deadline:
            time.sleep(0.0002)

    return apart


def _usage(
    run: LoaderRun, rounds: int, once: Callable[[], None], used: Callable[[], int]
) -> dict[str, Any]:
    """Returns the bytes and files in use before and after each stretch.

    The entry "rounds" is the number of rounds in one stretch.
    """
    measured: dict[str, Any] = {"used": [], "opened": [], "mapped": [], "rounds": rounds // _PARTS}
    while True:
        measured["used"].append(used())
        measured["opened"].append(len(os.listdir("/proc/self/fd")))
        measured["mapped"].append(_mapped())
        stretches = len(measured["used"]) - 1
        if stretches >= _MOST or (stretches >= _PARTS and not _grows(measured)):
            return measured
        # Beginning the stage again restarts its time limit for each stretch.
        run.stage("rounds")
        for _ in range(measured["rounds"]):
            once()


def _grows(measured: dict[str, Any]) -> bool:
    return (
        growth(measured, "used") > NOISE
        or growth(measured, "opened") > FILES
        or growth(measured, "mapped") > MAPPED
    )


def _rounds(library: Any, inputs: Mapping[str, np.ndarray]) -> int:
    """Returns the number of rounds that fit into SECONDS, a multiple of _PARTS.

    The time of a round is that of the second one; the first warms up.
    """
    _once(library, inputs)
    began = time.monotonic()
    _once(library, inputs)
    fit = SECONDS / max(time.monotonic() - began, 1e-9)
    return int(min(ROUNDS, fit)) // _PARTS * _PARTS


def judge(evidence: Evidence) -> Iterator[Finding]:
    leaking = set()
    for executor, value in evidence.loader.facts("memory"):
        allowed = partial(_of_tvm, evidence, "memory", executor)
        limit = max(NOISE, SHARE * value["size"]) + allowed("used")
        grown = growth(value, "used")
        if grown > limit:
            leaking.add(executor)
            yield Finding(
                "memory", "error", "rounds", "leak",
                "each round of create, run and destroy leaves %.0f bytes allocated (%s executor, the "
                "least of %d stretches of %d rounds; up to %.0f bytes count as noise)."
                % (grown, executor, len(value["used"]) - 2, value["rounds"], limit),
                {"executor": executor, "bytes_per_round": grown, "limit": limit},
            )
        mapped = growth(value, "mapped")
        if grown <= limit and mapped > MAPPED + allowed("mapped"):
            yield Finding(
                "memory", "error", "rounds", "mappings",
                "each round of create, run and destroy leaves %.0f bytes mapped, which were not allocated by "
                "malloc (%s executor)." % (mapped, executor),
                {"executor": executor, "bytes_per_round": mapped, "limit": MAPPED},
            )
        opened = growth(value, "opened")
        if opened > FILES + allowed("opened"):
            yield Finding(
                "memory", "error", "rounds", "descriptors",
                "each round of create, run and destroy leaves %.2g files open (%s executor)."
                % (opened, executor),
                {"executor": executor, "files_per_round": opened},
            )
    for executor, value in evidence.loader.facts("memory_of_threads"):
        limit = max(NOISE_OF_THREADS, SHARE * value["size"])
        limit += _of_tvm(evidence, "memory_of_threads", executor, "used")
        grown = growth(value, "used")
        if grown > limit and executor not in leaking:
            yield Finding(
                "memory", "error", "rounds", "threads",
                "each thread that creates, runs and destroys an executor once and ends leaves %.0f bytes "
                "allocated (%s executor, the least of %d stretches of %d threads; up to %.0f bytes count as "
                "noise)."
                % (grown, executor, len(value["used"]) - 2, value["rounds"], limit),
                {"executor": executor, "bytes_per_thread": grown, "limit": limit},
            )


def _of_tvm(evidence: Evidence, fact: str, executor: str, what: str) -> float:
    """Returns the growth per round with LLVM's own artifact; 0 where that was not measured."""
    measured = dict(evidence.deployed.facts(fact)).get(executor)
    return growth(measured, what) if measured else 0.0


def growth(measured: dict[str, Any], what: str) -> float:
    """Returns the growth per round: the least of all stretches after the first, and not below 0.

    The least counts because a use that grows only once is no leak.
    """
    used, rounds = measured[what], measured["rounds"]
    steps = [(b - a) / rounds for a, b in zip(used, used[1:])]
    return max(0.0, min(steps[1:]))


CHECK = Check(
    id="memory",
    rule="Over 200 rounds of create, run and destroy (fewer where these would take more than 10 seconds), "
    "the memory in use, the address space and the number of open files do not keep growing; nor does the "
    "memory over 100 threads that each make one round and end. Where one of them grows, up to three times "
    "as many rounds are made, since a cache fills up and a leak does not.",
    why="Engines, workspaces and handles that are never freed.",
    how="while its executor was created, run and destroyed repeatedly",
    reload=reload,
    judge=judge,
    made_on=CHOSEN,
    owns=True,
    tvm_too=True,
    by_machine=True,
    at_smoke=("each_once",),
)
