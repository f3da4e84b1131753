"""Detects changes of process-wide state that running a graph must not change.

The state comprises cores, the working directory, signal handlers, limits and random seeds.
"""

from __future__ import annotations

import ctypes
import os
import random
import resource
import signal
from typing import Any

import numpy as np

#: More bytes than a `struct sigaction` has. Only its first member, the handler, is compared, since
#: the C library does not write all of the others.
_ACTION_BYTES = 256
_POINTER_BYTES = ctypes.sizeof(ctypes.c_void_p)
_LC_ALL = 6
#: Words in the state of a Mersenne Twister, the generator of Python's and NumPy's random numbers;
#: and how many times that number of words may be drawn before a changed state counts as a new seed.
_WORDS, _BLOCKS = 624, 64

_libc = ctypes.CDLL(None)
_libc.setlocale.restype = ctypes.c_char_p
_libc.setlocale.argtypes = (ctypes.c_int, ctypes.c_char_p)


def _locale() -> str:
    return (_libc.setlocale(_LC_ALL, None) or b"").decode("utf-8", "replace")


def _umask() -> int:
    # The mask can only be read by setting it.
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _action(number: int) -> bytes:
    buffer = ctypes.create_string_buffer(_ACTION_BYTES)
    _libc.sigaction(number, None, buffer)
    return buffer.raw[:_POINTER_BYTES]


def _streams() -> dict[str, Any]:
    streams = {}
    for number, name in enumerate(("input", "output", "error")):
        try:
            status = os.fstat(number)
            streams["standard " + name] = [status.st_dev, status.st_ino, os.get_blocking(number)]
        except OSError:
            continue
    return streams


def _generators() -> dict[str, tuple[int, ...]]:
    """Returns the states of the random generators that all code of a process shares."""
    of_numpy: Any = np.random.get_state()
    return {
        "the seed of Python's random numbers": random.getstate()[1][:_WORDS],
        "the seed of NumPy's random numbers": tuple(map(int, of_numpy[1])),
    }


def _drawn(before: tuple[int, ...], now: tuple[int, ...]) -> bool:
    """Returns whether drawing numbers explains the change of a state, so that nobody has seeded it.

    A new seed is a fault: all code of the process would draw the same numbers each time.
    """
    twister = random.Random()
    twister.setstate((3, (*before, _WORDS), None))
    for _ in range(_BLOCKS):
        if twister.getstate()[1][:_WORDS] == now:
            return True
        twister.getrandbits(32 * _WORDS)
    return False


def state() -> dict[str, Any]:
    """Returns the values that must not change, by their names in messages."""
    values: dict[str, Any] = {
        "the cores that the thread may run on": sorted(os.sched_getaffinity(0)),
        "how the thread is scheduled": [os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0)],
        "the working directory": os.getcwd(),
        "the mask for new files": oct(_umask()),
        "C's locale": _locale(),
        "the signals that are blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
    }
    values.update({"the handler of %s" % s.name: _action(s) for s in signal.Signals})
    limits = {getattr(resource, n): n for n in sorted(dir(resource), reverse=True) if n.startswith("RLIMIT_")}
    for number, name in limits.items():
        try:
            values["the limit %s" % name] = list(resource.getrlimit(number))
        except (OSError, ValueError):  # this kernel does not have the limit
            continue
    values.update(_streams())
    values.update(_generators())
    return values


def changes(before: dict[str, Any]) -> list[str]:
    """Returns the values that differ from `before`, in words."""
    now, changed = state(), []
    for what in {**before, **now}:
        old, new = before.get(what), now.get(what)
        # Only the states of random generators are tuples.
        if old != new and not (isinstance(old, tuple) and isinstance(new, tuple) and _drawn(old, new)):
            readable = not isinstance(old or new, (bytes, tuple))
            changed.append("%s (%r before, %r now)" % (what, old, new) if readable else what)
    return changed
