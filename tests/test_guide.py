"""Runs the page "Write a codegen in an afternoon" in an empty folder: its files and its commands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .pages import ROOT, blocks, commands, run

pytestmark = pytest.mark.usefixtures("here")
PAGE = ROOT / "docs" / "tutorial" / "write-codegen.md"
#: The first line of a block that is a file, or the next part of one.
FILE = re.compile(r"# (mycodegen/\w+\.py)(, continued)?\n")
#: Seconds for one command; level standard takes minutes.
LIMIT = 1200


def follow(folder: Path, marks: set[str]) -> list[str]:
    """Writes the files of the page and runs its marked commands, in the order of the page.

    Returns the commands' output. A command that is marked "test: fails" has to end with a failed test.
    """
    printed = []
    for block in blocks(PAGE):
        if block.language == "py":
            found = FILE.match(block.text)
            assert found, block.text
            path = folder / found[1]
            path.parent.mkdir(exist_ok=True)
            assert path.exists() == bool(found[2]), f"{path} is begun once, then continued"
            with path.open("a", encoding="utf-8") as file:
                file.write(block.text[found.end() :])
        elif block.mark in marks:
            code = 1 if block.mark == "test: fails" else 0
            printed += [run(command, folder, code, LIMIT) for command in commands(block)]
    return printed


def test_the_page_runs_as_it_stands(tmp_path: Path) -> None:
    partitioned, relu, wrong, right = follow(tmp_path, {"test", "test: fails"})
    assert "the stages codegen, build, export, load and run were not run" in partitioned
    assert re.search(r"nn\.relu +float32 +\d+ +[1-9]", relu)
    assert "add: wrong-result in run, check outputs-written" in wrong
    assert "failed" not in right.splitlines()[-1]


@pytest.mark.of_examples
def test_the_codegen_of_the_page_conforms_at_standard(tmp_path: Path) -> None:
    _, standard = follow(tmp_path, {"test: long"})
    assert re.search(r"(nn\.dense|matmul) +float32 +\d+ +[1-9]", standard), standard
