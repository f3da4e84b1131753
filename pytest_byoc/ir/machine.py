"""The machine that code is compiled for: this one, or the device on which artifacts run."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

#: Attributes of TVM's target kind "llvm" that a device declares.
_ATTRIBUTES = ("mtriple", "mcpu", "mattr")


class Machine:
    """The machine that this process compiles for.

    device: the attributes of the LLVM target that the device declares; empty without a device. cc:
    the C++ compiler for it with its options; empty for this machine's.
    """

    def __init__(self) -> None:
        self.device: dict[str, Any] = {}
        self.cc: list[str] = []
        #: Whether artifacts for the device can't run in this process.
        self.foreign = False
        self._current: dict[str, Any] = {}

    def declare(self, given: Mapping[str, Any]) -> None:
        """Takes over the declaration of a device (`Device.for_worker`)."""
        self.device = {name: given[name] for name in _ATTRIBUTES if given.get(name)}
        self.cc, self.foreign = list(given.get("cc", ())), bool(given.get("foreign"))

    @contextmanager
    def of_the_device(self) -> Iterator[None]:
        """Compiles for the device, where one is declared, as long as the context lasts."""
        before, self._current = self._current, self.device
        try:
            yield
        finally:
            self._current = before

    def llvm(self) -> dict[str, Any]:
        """Returns the LLVM target as a mapping from attributes to values."""
        return {"kind": "llvm", **self._current}

    def llvm_text(self) -> str:
        """Returns the LLVM target as text, with the triple even for this machine, since a vendor's TVM
        may have another default."""
        values = {"mtriple": "%s-linux-gnu" % platform.machine(), **self._current}
        words = ["-%s=%s" % (k, ",".join(v) if isinstance(v, list) else v) for k, v in values.items()]
        return " ".join(["llvm", *words])


#: The machine of this process.
MACHINE = Machine()
