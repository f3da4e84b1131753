"""The device on which a target's artifacts run, where that is not the machine that compiles them."""

from __future__ import annotations

import os
import platform
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import SettingsError

#: The place in a loader's command where the name of a board is put.
BOARD = "{board}"
#: Names that other tools give to the machines of `platform.machine`.
_SAME = {"amd64": "x86_64", "arm64": "aarch64"}


@dataclass(frozen=True)
class Device:
    """The device of a target.

    loader: the command that starts Python there; () for this machine. boards: the names that are put
    in the place of "{board}", one for each process of pytest-xdist. mtriple, mcpu, mattr: attributes
    of the LLVM target of the code that runs there. cc: the C++ compiler for it, with options. run_here:
    whether the artifact may be run on this machine too, if it is for such a machine. runner: what runs
    artifacts where no Python can be started: a reference, `rpc://HOST:PORT/KEY` or {"command": …}; "" if
    a loader does.
    """

    loader: tuple[str, ...] = ()
    runner: str | dict[str, str] = ""
    boards: tuple[str, ...] = ()
    mtriple: str = ""
    mcpu: str = ""
    mattr: tuple[str, ...] = ()
    cc: tuple[str, ...] = ()
    run_here: bool = True

    @property
    def is_elsewhere(self) -> bool:
        """Returns whether a command or a runner loads artifacts, and not a process started here."""
        return bool(self.loader or self.runner)

    @property
    def in_words(self) -> str:
        """Returns what the device is reached by."""
        runner = self.runner if isinstance(self.runner, str) else self.runner["command"]
        return runner or shlex.join(self.loader)

    @property
    def is_foreign(self) -> bool:
        """Returns whether artifacts can't run, or must not be run, on this machine."""
        return bool(self.runner) or not self.run_here or not _is_of_this_machine(self.mtriple)

    def for_worker(self) -> dict[str, Any]:
        """Returns what target and reference worker need to compile for the device."""
        return {
            "mtriple": self.mtriple, "mcpu": self.mcpu, "mattr": list(self.mattr), "cc": list(self.cc),
            "foreign": self.is_foreign,
        }

    def command(self, process: int) -> tuple[str, ...]:
        """Returns the loader's command for one process of the session, counted from 0.

        Raises SettingsError if there are fewer boards than processes.
        """
        if not self.boards:
            return self.loader
        if process >= len(self.boards):
            raise SettingsError(
                f"boards names {len(self.boards)} ({', '.join(self.boards)}), but process {process + 1} of "
                "pytest-xdist needs one too: start at most as many processes (-n) as there are boards"
            )
        return tuple(part.replace(BOARD, self.boards[process]) for part in self.loader)


def read(table: dict[str, Any], root: Path, where: str) -> Device:
    """Takes the device's keys out of a target's table. Raises SettingsError.

    table: the keys have underscores. root: the folder to which paths of programs are relative. where:
    the table's name, for messages.
    """
    device = Device(
        loader=_command(table.pop("loader", ()), root), boards=tuple(table.pop("boards", ())),
        mtriple=table.pop("mtriple", ""), mcpu=table.pop("mcpu", ""),
        mattr=_words(table.pop("mattr", ())), cc=_command(table.pop("cc", ()), root),
        run_here=table.pop("run_here", True), runner=_runner(table.pop("runner", None), root, where),
    )
    if device.loader and device.runner:
        raise SettingsError(f"{where}: loader and runner exclude each other: both run artifacts")
    named = any(BOARD in part for part in device.loader)
    if named and not device.boards:
        raise SettingsError(f"{where}: loader contains {BOARD}, so the key boards must name at least one")
    if device.boards and not named:
        raise SettingsError(f"{where}: boards are named, but loader does not say where: write {BOARD} there")
    if device.is_foreign and not device.is_elsewhere:
        what = f"mtriple = {device.mtriple!r} is another machine" if device.run_here else "run-here is false"
        raise SettingsError(
            f"{where}: {what}, so the key loader must say how Python is started there, for example "
            'loader = ["ssh", "board", "python3"], or the key runner what runs artifacts without Python'
        )
    if not _is_of_this_machine(device.mtriple) and not device.cc:
        raise SettingsError(
            f"{where}: mtriple = {device.mtriple!r} is another machine, so the key cc must name the C++ "
            f'compiler for it, for example cc = "{device.mtriple}-g++"'
        )
    return device


def _runner(value: Any, root: Path, where: str) -> Any:
    """Returns a runner, whose file is relative to the root; "" for None. Raises SettingsError."""
    if value is None:
        return ""
    if not value:
        raise SettingsError(f"{where}: runner is empty: leave the key out where a loader runs artifacts")
    if isinstance(value, dict):
        if set(value) != {"command"} or not isinstance(value["command"], str):
            found = ", ".join(sorted(set(value) - {"command"})) or f"command = {value.get('command')!r}"
            raise SettingsError(
                f'{where}: a table of runner has one key, command, which is a string: {{ command = "…" }}; '
                f"found {found}"
            )
        return value
    if not value.startswith("rpc://") and ":" not in value:
        raise SettingsError(
            f"{where}: runner = {value!r} names no runner: expected module:attribute or file.py:attribute, "
            '"rpc://HOST:PORT/KEY", or a command: { command = "mysim {artifact} {inputs} {outputs}" }'
        )
    module, _, attribute = value.rpartition(":")
    if value.startswith("rpc://") or not (module.endswith(".py") or os.sep in module):
        return value
    return f"{(root / Path(module).expanduser()).resolve()}:{attribute}"


def _words(value: Any) -> tuple[str, ...]:
    return tuple(shlex.split(value)) if isinstance(value, str) else tuple(value)


def _command(value: Any, root: Path) -> tuple[str, ...]:
    """Returns a command as words; a program with a folder is relative to the root."""
    program, *rest = _words(value) or ("",)
    if os.sep in program:
        program = str(root / Path(program).expanduser())
    return (program, *rest) if program else ()


def _is_of_this_machine(mtriple: str) -> bool:
    """Returns whether a triple names this machine's architecture and system; "" does."""
    if not mtriple:
        return True
    given, here = mtriple.split("-")[0], platform.machine()
    runs = _SAME.get(given, given) == _SAME.get(here, here)
    system = {"Linux": "linux", "Darwin": "darwin", "Windows": "windows"}.get(platform.system(), "")
    return runs and (system in mtriple or "-" not in mtriple)


def process_number() -> int:
    """Returns the number of this process among those of pytest-xdist, counted from 0; 0 without it."""
    digits = os.environ.get("PYTEST_XDIST_WORKER", "gw0").lstrip("gw")
    return int(digits) if digits.isdigit() else 0
