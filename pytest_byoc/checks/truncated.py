"""Checks that an artifact with truncated module data raises an error, and kills no process."""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING, Iterator

from ..core.finding import Finding
from .base import CHOSEN, Check
from .evidence_interface import Evidence

if TYPE_CHECKING:
    from ..runs import LoaderRun

#: The symbol of the data that modules have saved, which begin with their length: Relay's, Relax's.
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
                run.not_checked("the data that the modules have saved are not found in the artifact")
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
                except Exception:  # An exception is the right answer.
                    continue
                run.record("cut_off", outputs)


def saved_at(data: bytes | bytearray) -> int | None:
    """Returns the offset of the length of the data that TVM's modules have saved in an ELF file.

    None for files other than little-endian ELF files of 64 bits, and where there are no such data.
    """
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
            # In section 0 the symbol is undefined: the target's code only refers to it.
            if where and bytes(data[names + name : data.index(b"\0", names + name)]) in _SYMBOLS:
                return int(sections[where][4] + value - sections[where][3])
    return None


def judge(evidence: Evidence) -> Iterator[Finding]:
    """Yields findings where a truncated artifact runs and gives other outputs than the whole one.

    If the part cut off is not needed, the outputs are the same. Executors under which LLVM's own
    truncated artifact runs too are left out. A death is reported like any other.
    """
    tvm_too = {executor for executor, _ in evidence.deployed.facts("cut_off")}
    runs = ((e, arrays) for e, arrays in evidence.loader.facts("cut_off") if e not in tvm_too)
    yield from evidence.repeats(
        "truncated", "load", "unnoticed", runs,
        "a copy of the artifact with truncated module data, which loads and runs without an error "
        "(%s executor)",
    )


CHECK = Check(
    id="truncated",
    rule="A copy of the artifact in which the data that its modules have saved are truncated raises an "
    "error, or gives the same outputs if the missing part is not needed; the process survives.",
    why="Loaders that do not validate what they read.",
    reload=reload,
    judge=judge,
    made_on=CHOSEN,
    owns=True,
    tvm_too=True,
    at_smoke=("large_weight",),
)
