"""Nothing is written behind the end of what was allocated."""

from __future__ import annotations

import ctypes
import gc
import re
from typing import TYPE_CHECKING, Iterator

from ..core.finding import Finding
from .base import CHOSEN, WATCHED, Check, of_death, of_raised
from .evidence import Evidence

if TYPE_CHECKING:
    from ..runs import LoaderRun

#: glibc's malloc that looks at the ends of what it hands out, from 2.34 on a library of its own.
LIBRARY = "libc_malloc_debug.so.0"

#: Runs, each of which has its pieces elsewhere. What malloc looks for behind a piece depends on its address,
#: and now and then it takes a byte of the piece for what was written over (glibc's `mem2chunk_check`).
ROUNDS = 4
#: Bytes of the pieces taken between them.
TAKEN = (24, 200, 1000, 4000, 16_000, 64_000)
#: What glibc says before it ends a process whose heap is broken.
_BROKEN = re.compile(
    r"\b(?:free|malloc|realloc|munmap_chunk|malloc_consolidate|_int_malloc)\(\): "
    r"|corrupted (?:size|double-linked)"
)


def reload(run: LoaderRun) -> None:
    """In a process whose malloc looks at the byte behind a piece when that is given back; some are only when
    it ends."""
    run.leaves_normally = True
    if not _watched():
        run.not_checked("this C library has no " + LIBRARY)
        return
    for executor, path in run.artifacts.items():
        with run.using(executor):
            run.stage("load")
            executable = run.load_from(path, executor)
            # TVM's pools round sizes up.
            executable.exact = True
            run.stage("run")
            for _ in range(ROUNDS):
                outputs = executable.run(run.inputs[0])
                _move_on()
            run.stage("unload")
            del executable, outputs
            gc.collect()


def _move_on() -> None:
    """Takes the pieces that were given back, as far as they fit, and keeps them: the next run has others."""
    malloc = ctypes.CDLL(None).malloc
    malloc.argtypes, malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
    for size in TAKEN:
        malloc(size)


def _watched() -> bool:
    try:
        with open("/proc/self/maps") as f:
            return LIBRARY.partition(".")[0] in f.read()
    except OSError:
        return False


def told_by_malloc(printed: str) -> bool:
    """Whether a process has died of what the C library's malloc found broken, by what it printed."""
    return _BROKEN.search(printed) is not None


def judge(evidence: Evidence) -> Iterator[Finding]:
    where = "where malloc looks at the ends of what it hands out"
    yield from of_death(
        "overrun", evidence.watched,
        where + " the process ends in the stage {stage} ({how}): something was written behind (or before) an "
        "output or a piece of the target's own.",
        hung=where + " the process does not end in the stage {stage}.",
    )
    yield from of_raised("overrun", evidence.watched, where + ",")


CHECK = Check(
    id="overrun",
    rule="Run where malloc looks at the ends of what it hands out (`MALLOC_CHECK_` of glibc), every tensor "
    "in a piece of exactly its size: nothing is written behind or before one.",
    why="Whole vectors written at the end of a row, workspaces counted too small.",
    where="chosen graphs and single-element operators of which TVM runs nothing itself",
    reload=reload,
    judge=judge,
    made=CHOSEN,
    owns=True,
    records=False,
    needs=(WATCHED,),
    by_machine=True,
)
