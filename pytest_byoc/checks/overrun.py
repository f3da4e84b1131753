"""Checks that nothing is written before or behind allocated pieces of memory."""

from __future__ import annotations

import ctypes
import gc
import re
from typing import TYPE_CHECKING, Iterator

from ..core.finding import Finding
from .base import CHOSEN, GUARDED, Check, of_death, of_raised
from .evidence_interface import Evidence

if TYPE_CHECKING:
    from ..runs import LoaderRun

#: glibc's malloc that checks the ends of the pieces it has allocated: a library since glibc 2.34.
LIBRARY = "libc_malloc_debug.so.0"

#: The number of runs, each with its pieces at other addresses. The byte that malloc expects behind
#: a piece depends on the address, and malloc may mistake a byte of the piece for it (glibc's
#: `mem2chunk_check`), so that one run alone may show nothing.
ROUNDS = 4
#: The sizes in bytes of the pieces that are allocated between two runs.
SIZES = (24, 200, 1000, 4000, 16_000, 64_000)
#: The messages of glibc before it ends a process whose heap is broken.
_BROKEN = re.compile(
    r"\b(?:free|malloc|realloc|munmap_chunk|malloc_consolidate|_int_malloc)\(\): "
    r"|corrupted (?:size|double-linked)"
)


def reload(run: LoaderRun) -> None:
    """Runs each artifact in a process whose malloc checks the byte behind a piece when it is freed.

    The process has to end normally, because some pieces are freed only at its end.
    """
    run.leaves_normally = True
    if not _is_guarded():
        run.not_checked("this C library has no " + LIBRARY)
        return
    for executor, path in run.artifacts.items():
        with run.using(executor):
            run.stage("load")
            executable = run.load_from(path, executor)
            # TVM's memory pools round sizes up, which would hide a write behind the end.
            executable.exact = True
            run.stage("run")
            for _ in range(ROUNDS):
                outputs = executable.run(run.inputs[0])
                _move_on()
            run.stage("unload")
            del executable, outputs
            gc.collect()


def _move_on() -> None:
    """Allocates pieces and keeps them, so that the next run gets memory at other addresses."""
    malloc = ctypes.CDLL(None).malloc
    malloc.argtypes, malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
    for size in SIZES:
        malloc(size)


def _is_guarded() -> bool:
    try:
        with open("/proc/self/maps") as f:
            return LIBRARY.partition(".")[0] in f.read()
    except OSError:
        return False


def reported_by_malloc(printed: str) -> bool:
    """Returns whether a process printed that malloc found its heap broken."""
    return _BROKEN.search(printed) is not None


def judge(evidence: Evidence) -> Iterator[Finding]:
    where = "where malloc checks the ends of each piece of memory"
    yield from of_death(
        "overrun", evidence.guarded,
        where + ", the process ends in the stage {stage} ({how}): something was written behind (or before) "
        "an output or a piece that the target allocated.",
        hung=where + ", the process hung in the stage {stage}.",
    )
    yield from of_raised("overrun", evidence.guarded, where + ",")


CHECK = Check(
    id="overrun",
    rule="Run in a process in which malloc checks the ends of each piece (`MALLOC_CHECK_` of glibc), with "
    "every tensor in a piece of exactly its size, nothing is written behind or before a piece.",
    why="Whole vectors written at the end of a row, workspaces that are too small.",
    where=f"{CHOSEN} and single-element operators of which TVM runs nothing itself",
    reload=reload,
    judge=judge,
    made_on=CHOSEN,
    owns=True,
    records=False,
    needs=(GUARDED,),
    by_machine=True,
    at_smoke=("each_once", "large"),
    on_kinds=("one element",),
)
