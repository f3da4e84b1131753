"""Runs the page "Write a codegen in an afternoon" in an empty folder: its files and its commands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import PYTHON

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "tutorial" / "write-codegen.md"
#: A block: the comment before it, its language and its text.
BLOCK = re.compile(r"(?:^<!-- (test[\w: ]*) -->\n)?^```(\w+)\n(.*?)^```$", re.M | re.S)
#: The first line of a block that is a file, or the next part of one.
FILE = re.compile(r"# (mycodegen/\w+\.py)(, continued)?\n")
#: Seconds for one command.
LIMIT = 600


def follow(folder: Path, marks: set[str]) -> list[str]:
    """Writes the files of the page and runs its marked commands, in the order of the page.

    Returns the commands' output. A command that is marked "test: fails" has to end with a failed test.
    """
    printed = []
    for mark, language, text in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        if language == "py":
            found = FILE.match(text)
            assert found, text
            path = folder / found[1]
            path.parent.mkdir(exist_ok=True)
            assert path.exists() == bool(found[2]), f"{path} is begun once, then continued"
            with path.open("a", encoding="utf-8") as file:
                file.write(text[found.end() :])
        elif language == "console" and mark in marks:
            for line in text.splitlines():
                done = subprocess.run(
                    [sys.executable, "-m", *line.removeprefix("$ ").split(), "-p", "no:cacheprovider"],
                    cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=LIMIT, text=True,
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                )  # fmt: skip
                assert done.returncode == (1 if mark == "test: fails" else 0), f"{line}\n{done.stdout}"
                printed.append(done.stdout)
    return printed


@pytest.fixture(autouse=True)
def here(ir: str) -> None:
    """Skips where the tests' interpreter is not the workers': the page names no --byoc-python."""
    if Path(PYTHON).absolute() != Path(sys.executable).absolute():
        pytest.skip("the tests' interpreter has no TVM")


def test_the_page_runs_as_it_stands(tmp_path: Path) -> None:
    partitioned, relu, wrong, right = follow(tmp_path, {"test", "test: fails"})
    assert "the stages codegen, build, export, load and run were not run" in partitioned
    assert re.search(r"nn\.relu +float32 +\d+ +[1-9]", relu)
    assert "add: wrong-result in run, check outputs-written" in wrong
    assert "failed" not in right.splitlines()[-1]


@pytest.mark.of_examples
def test_the_codegen_of_the_page_conforms_at_standard(tmp_path: Path) -> None:
    (standard,) = follow(tmp_path, {"test: long"})
    assert re.search(r"(nn\.dense|matmul) +float32 +\d+ +[1-9]", standard), standard
