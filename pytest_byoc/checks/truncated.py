"""An artifact whose data are cut off gives an error, and does not end the process."""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING, Iterator

from ..core.finding import Finding
from .base import CHOSEN, Check
from .evidence import Evidence

if TYPE_CHECKING:
    from ..runs import LoaderRun

#: What modules have saved stands behind this symbol, its length first: Relay's name, Relax's.
_SYMBOLS = (b"__tvm_dev_mblob", b"__tvm_ffi__library_bin")
_LENGTH = struct.Struct("<Q")


def reload(run: LoaderRun) -> None:
    folder = run.new_folder()
    for executor in run.loadable:
        with run.using(executor):
            with open(run.artifacts[executor], "rb") as f:
                data = bytearray(f.read())
            at = saved_at(data)
            if at is None:
                run.not_checked("what the modules have saved is not found in the artifact")
                continue
            (length,) = _LENGTH.unpack_from(data, at)
            for left in (16, length // 2, length - 1):
                _LENGTH.pack_into(data, at, left)
                path = os.path.join(folder, "%s_%d.so" % (executor, left))
                with open(path, "wb") as f:
                    f.write(data)
                run.stage("load")
                try:
                    outputs = run.load_from(path, executor).run(run.inputs[0])[0]
                except Exception:  # as it should be
                    continue
                run.record("cut_off", outputs)


def saved_at(data: bytes | bytearray) -> int | None:
    """Position in an ELF file of 64 bits (little-endian) at which the length of what TVM's modules have saved
    stands; None for other files."""
    if data[:6] != b"\x7fELF\x02\x01":
        return None
    (sections_at,) = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    # name, type, flags, address, offset, size, link, information, alignment, size of an entry
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, sections_at + i * size) for i in range(count)]
    for section in sections:
        if section[1] != 11:  # dynamic symbols
            continue
        names = sections[section[6]][4]
        for at in range(section[4], section[4] + section[5], 24):
            name, _, _, where, value, _ = struct.unpack_from("<IBBHQQ", data, at)
            # The target's code may name it too, without being where it is (section 0: undefined).
            if where and bytes(data[names + name : data.index(b"\0", names + name)]) in _SYMBOLS:
                return int(sections[where][4] + value - sections[where][3])
    return None


def judge(evidence: Evidence) -> Iterator[Finding]:
    """A process that dies is seen like any other; an exception is what is asked for. Where what is cut off is
    not needed the outputs are what they were; nor is it the target's where TVM's own artifact runs on."""
    believed = {executor for executor, _ in evidence.deployed.facts("cut_off")}
    runs = ((e, arrays) for e, arrays in evidence.loader.facts("cut_off") if e not in believed)
    yield from evidence.repeats(
        "truncated", "load", "unnoticed", runs,
        "a copy of the artifact whose data are cut off, which loads and runs without an error (%s executor)",
    )


CHECK = Check(
    id="truncated",
    rule="A copy of the artifact in which what its modules have saved is cut off gives an error, or the "
    "same as before where it is not needed; the process lives on.",
    why="Loaders that believe what they read.",
    reload=reload,
    judge=judge,
    made=CHOSEN,
    owns=True,
    tvm_too=True,
)
