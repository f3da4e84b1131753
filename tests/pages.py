"""Blocks of code in the pages of the documentation, and their commands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .conftest import FIXTURES

ROOT = FIXTURES.parent
_BLOCK = re.compile(r"(?:^<!-- (test[\w: ]*) -->\n)?^```(\w+)\n(.*?)^```$", re.M | re.S)


@dataclass(frozen=True)
class Block:
    """A block of code of a page.

    mark: the comment before it: "test" if its commands are run, "test: …" for those that need
    something special, "" if there is none."""

    mark: str
    language: str
    text: str


def blocks(page: Path) -> Iterator[Block]:
    for found in _BLOCK.findall(page.read_text(encoding="utf-8")):
        yield Block(*found)


def commands(block: Block) -> list[str]:
    """Returns the commands of a block of a console."""
    assert block.language == "console"
    return [line.removeprefix("$ ") for line in block.text.splitlines()]


def run(command: str, folder: Path, code: int = 0, limit: float = 240) -> str:
    """Runs a command of a page by the interpreter of the tests, and returns what it prints.

    code: the exit code that it must have. limit: seconds that it may take."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, timeout=limit, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
    )  # fmt: skip
    assert done.returncode == code, f"{command}\n{done.stdout}"
    return done.stdout
