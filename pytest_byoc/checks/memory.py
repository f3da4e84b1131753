"""Creating, running and destroying an executor again and again takes no more memory, nor more open files; nor
does it in threads that come and go."""

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
from .evidence import Evidence

if TYPE_CHECKING:
    from ..runs import LoaderRun

#: Rounds, fewer where they would take longer than so many seconds; below the least the noise decides.
ROUNDS = 200
SECONDS = 10.0
LEAST = 40
#: Rounds that are made in a thread of their own each.
THREADS = 100
#: Measured after each of so many stretches; what the first takes is warming up. Where more is in use after
#: each of them there are more, up to the most: what fills a cache comes to an end, what leaks does not.
_PARTS = 4
_MOST = 12
#: What is taken for noise, in bytes a round: less than malloc's smallest piece.
NOISE = 24
#: In bytes a thread: Python keeps something of some.
NOISE_OF_THREADS = 48
#: In bytes a round, as a share of the artifact's size.
SHARE = 1e-4
#: In open files a round.
FILES = 0.5
#: In bytes of address space a round: less than a page.
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
    """A function that returns the bytes that malloc has handed out; None where glibc is older than 2.33
    or another C library is used."""
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
    """Bytes that malloc has handed out to any thread, by what it says of its arenas (malloc_info)."""
    library = ctypes.CDLL(None)
    library.open_memstream.restype = ctypes.c_void_p
    text, size = ctypes.c_void_p(), ctypes.c_size_t()
    gc.collect()
    stream = ctypes.c_void_p(library.open_memstream(ctypes.byref(text), ctypes.byref(size)))
    library.malloc_info(0, stream)
    library.fclose(stream)
    told = ctypes.string_at(text, size.value).decode()
    library.free(text)
    together = told.rpartition("</heap>")[2]
    sizes = dict(re.findall(r'<(?:total|system) type="(\w+)"[^>]* size="(\d+)"', together))
    free = int(sizes.get("fast", 0)) + int(sizes.get("rest", 0))
    return int(sizes["current"]) - free + int(sizes.get("mmap", 0))


def _mapped() -> int:
    """Bytes of address space in use; what is not malloc's is seen in them alone."""
    with open("/proc/self/statm") as f:
        return int(f.read().split()[0]) * mmap.PAGESIZE


def reload(run: LoaderRun) -> None:
    used = _measure()
    if used is None:
        run.not_checked("this C library does not say how much memory is in use (no mallinfo2)")
        return
    for executor in run.loadable:
        with run.using(executor):
            # Not within the rounds: TVM frees nothing of what Relax loads.
            library = run.load(executor)
            run.stage("rounds")
            rounds = _rounds(library, run.inputs[0])
            if rounds < LEAST:
                run.not_checked("a round takes too long: %d in %.0f seconds" % (rounds, SECONDS))
                continue

            once = partial(_once, library, run.inputs[0])
            size = os.path.getsize(run.artifacts[executor])
            run.record("memory", dict(_watched(run, rounds, once, used), size=size))
            few = min(rounds, THREADS)
            run.record("memory_of_threads", dict(_watched(run, few, _apart(once), _in_arenas), size=size))


def _once(library: Any, inputs: Mapping[str, np.ndarray]) -> None:
    library.fresh().run(inputs)


def _apart(once: Callable[[], None]) -> Callable[[], None]:
    """The same in a thread of its own, which ends."""

    def apart() -> None:
        running = len(os.listdir(_TASKS))
        with ThreadPoolExecutor(1) as pool:
            pool.submit(once).result()
        # Python does not wait for the end of what it was for the system: until then its arena is not free.
        deadline = time.monotonic() + 1.0
        while len(os.listdir(_TASKS)) > running and time.monotonic() < deadline:
            time.sleep(0.0002)

    return apart


def _watched(
    run: LoaderRun, rounds: int, once: Callable[[], None], used: Callable[[], int]
) -> dict[str, Any]:
    """What is in use before and after each stretch; rounds: in one of them."""
    measured: dict[str, Any] = {"used": [], "opened": [], "mapped": [], "rounds": rounds // _PARTS}
    while True:
        measured["used"].append(used())
        measured["opened"].append(len(os.listdir("/proc/self/fd")))
        measured["mapped"].append(_mapped())
        stretches = len(measured["used"]) - 1
        if stretches >= _MOST or (stretches >= _PARTS and not _grows(measured)):
            return measured
        # Its limit is for each stretch.
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
    """How many there is time for, a multiple of the parts: by what the second one takes."""
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
        found = growth(value, "used")
        if found > limit:
            leaking.add(executor)
            yield Finding(
                "memory", "error", "rounds", "leak",
                "each round of create, run and destroy leaves %.0f bytes behind (%s executor, the "
                "least of %d stretches of %d rounds; taken for noise: %.0f)."
                % (found, executor, len(value["used"]) - 2, value["rounds"], limit),
                {"executor": executor, "bytes_per_round": found, "limit": limit},
            )
        mapped = growth(value, "mapped")
        if found <= limit and mapped > MAPPED + allowed("mapped"):
            yield Finding(
                "memory", "error", "rounds", "mappings",
                "each round of create, run and destroy leaves %.0f bytes mapped behind, which malloc has not "
                "handed out (%s executor)." % (mapped, executor),
                {"executor": executor, "bytes_per_round": mapped, "limit": MAPPED},
            )
        opened = growth(value, "opened")
        if opened > FILES + allowed("opened"):
            yield Finding(
                "memory", "error", "rounds", "descriptors",
                "each round of create, run and destroy leaves %.2g open files behind (%s executor)."
                % (opened, executor),
                {"executor": executor, "files_per_round": opened},
            )
    for executor, value in evidence.loader.facts("memory_of_threads"):
        limit = max(NOISE_OF_THREADS, SHARE * value["size"])
        limit += _of_tvm(evidence, "memory_of_threads", executor, "used")
        found = growth(value, "used")
        if found > limit and executor not in leaking:
            yield Finding(
                "memory", "error", "rounds", "threads",
                "each thread that creates, runs and destroys it once and ends leaves %.0f bytes behind (%s "
                "executor, the least of %d stretches of %d threads; taken for noise: %.0f)."
                % (found, executor, len(value["used"]) - 2, value["rounds"], limit),
                {"executor": executor, "bytes_per_thread": found, "limit": limit},
            )


def _of_tvm(evidence: Evidence, fact: str, executor: str, what: str) -> float:
    """How much LLVM's own artifact grows by, where it was asked."""
    measured = dict(evidence.deployed.facts(fact)).get(executor)
    return growth(measured, what) if measured else 0.0


def growth(measured: dict[str, Any], what: str) -> float:
    """How much a round, the least of the stretches after the first: what grows once is no leak."""
    used, rounds = measured[what], measured["rounds"]
    steps = [(b - a) / rounds for a, b in zip(used, used[1:])]
    return max(0.0, min(steps[1:]))


CHECK = Check(
    id="memory",
    rule="Over 200 rounds (fewer where these would take more than 10 seconds) of create, run, destroy the "
    "memory in use does not go on growing, nor the address space, nor the number of open files; nor the "
    "memory over 100 threads that each make one round and end; where it does, up to three times as many are "
    "made: a cache fills up, a leak goes on.",
    why="Engines, workspaces, handles never freed.",
    how="created, run and destroyed again and again",
    reload=reload,
    judge=judge,
    made=CHOSEN,
    owns=True,
    tvm_too=True,
    by_machine=True,
)
