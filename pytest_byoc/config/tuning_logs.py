"""The tuning log of LLVM's build, beside which a target's speed is measured too (`reference-tuning`)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.irs import IR_TITLES
from ..core.tuning import AUTO_SCHEDULER, AUTOTVM, DATABASE, META_SCHEDULE
from .errors import SettingsError

_IR_OF = {AUTOTVM: "relay", AUTO_SCHEDULER: "relay", META_SCHEDULE: "relax"}
#: The keys of a record of each kind of log, whose lines are records.
_KEYS = {AUTOTVM: {"input", "config", "result"}, AUTO_SCHEDULER: {"i", "r"}}


@dataclass(frozen=True)
class TuningLog:
    """A tuning log. kind: which of TVM's tuners wrote it (`core.tuning`). path: a file, or the folder of a
    database. where: the key that names it, for messages."""

    kind: str
    path: Path
    where: str

    def check_ir(self, ir: str) -> None:
        """Raises SettingsError if the tuner that wrote it is another IR's."""
        if _IR_OF[self.kind] != ir:
            raise SettingsError(
                f"{self.where}: {self.path} is by {self.kind}, which tunes {IR_TITLES[_IR_OF[self.kind]]} "
                f"and not {IR_TITLES[ir]}"
            )

    def for_worker(self) -> dict[str, str]:
        return {"kind": self.kind, "path": str(self.path)}


def read(value: str | None, root: Path, table: str) -> TuningLog | None:
    """Returns the log that a target's table names; None for None. Raises SettingsError.

    root: the folder that its path is relative to. table: the table's name, for messages."""
    if value is None:
        return None
    where, path = f"{table}: reference-tuning", (root / Path(value).expanduser()).resolve()
    if path.is_dir():
        missing = [name for name in DATABASE if not (path / name).is_file()]
        if missing:
            lacks = " and no ".join(missing)
            raise SettingsError(f"{where}: {path} is no database of meta-schedule: it has no {lacks}")
        return TuningLog(META_SCHEDULE, path, where)
    if not path.is_file():
        raise SettingsError(f"{where}: there is no file or folder {path}")
    try:
        with path.open(encoding="utf-8") as f:
            first = next((line for line in f if line.strip()), "")
        record: Any = json.loads(first)
    except OSError as e:
        raise SettingsError(f"{where}: {path} cannot be read: {e.strerror}") from None
    except ValueError:
        record = None
    for kind, keys in _KEYS.items():
        if isinstance(record, dict) and keys <= set(record):
            return TuningLog(kind, path, where)
    raise SettingsError(
        f"{where}: {path} is no tuning log: expected lines of JSON as AutoTVM or the auto-scheduler write "
        "them, or the folder of a database of meta-schedule"
    )
