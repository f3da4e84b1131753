"""Tests of the documentation: the code that it shows runs, and the names that it mentions exist."""

from __future__ import annotations

import json
import pkgutil
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from pytest_byoc.checks import CHECKS, memory, size
from pytest_byoc.config.declarations import read_tables
from pytest_byoc.config.levels import LEVELS
from pytest_byoc.config.settings import MAX_CAUSES
from pytest_byoc.evidence.comparison import NEAR
from pytest_byoc.evidence.difference import SIDE
from pytest_byoc.examination import description
from pytest_byoc.ir import dlpack
from pytest_byoc.record import findings
from pytest_byoc.record.failure import MOST_NODES
from pytest_byoc.record.listed import CASES
from pytest_byoc.report import progress, schema
from pytest_byoc.runs import measuring
from pytest_byoc.suite.known_failures import IN_A_ROW
from pytest_byoc.worker import describing

from .pages import ROOT, blocks, commands, run
from .test_layout import LAYERS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

pytestmark = pytest.mark.once
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
BESIDE = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "benchmarks/README.md")
ALL = [*PAGES, *(ROOT / page for page in BESIDE)]
#: The pages whose blocks are run: the tutorial in its order, in one folder, and each how-to page.
TUTORIAL = [DOCS / "tutorial" / f"{name}.md" for name in ("first-target", "first-failure", "first-gate")]
HOW_TO = sorted((DOCS / "how-to").glob("*.md"))
#: The beginnings of links to this project's own files.
OWN = (
    "https://github.com/pytest-byoc/pytest-byoc/blob/main/",
    "https://raw.githubusercontent.com/pytest-byoc/pytest-byoc/main/",
)
#: Lines of a page, but for code, tables and links that fill a line, are no longer.
LENGTH = 100


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.usefixtures("here")
def test_commands_of_the_tutorial_run(tmp_path: Path) -> None:
    printed = ""
    for block in (block for page in TUTORIAL for block in blocks(page) if block.mark):
        for command in commands(block):
            printed += run(command, tmp_path)
    assert "[tool.pytest-byoc.targets.my_codegen]" in printed
    # Mended again: the mistake that the second page plants.
    assert "(top, left, _, _)" in (tmp_path / "my_codegen" / "kernels.py").read_text()


@pytest.mark.usefixtures("here")
def test_python_of_tutorial_and_how_to_runs(tmp_path: Path) -> None:
    pages = (*TUTORIAL, *HOW_TO)
    texts = [block.text for page in pages for block in blocks(page) if block.language == "python"]
    assert texts
    for number, text in enumerate(texts):
        (tmp_path / f"test_page_{number}.py").write_text(text)
    tests = sum(text.count("\ndef test_") for text in texts)
    printed = run("pytest --byoc-target=example_c -q -p no:cacheprovider test_page_*.py", tmp_path)
    assert f"{tests} passed" in printed


@pytest.mark.parametrize("page", [page for page in ALL if "```toml" in page.read_text()], ids=name)
def test_tables_are_what_the_plugin_reads(page: Path, tmp_path: Path) -> None:
    for block in blocks(page):
        if block.language == "toml":
            tables = tomllib.loads(block.text)
            if "tool" in tables:
                (tmp_path / "pyproject.toml").write_text(block.text)
                read_tables(tmp_path)


def test_options_in_pages_exist() -> None:
    known = set(re.findall(r"--byoc-[a-z-]+", (DOCS / "reference" / "options.md").read_text()))
    for page in ALL:
        unknown = set(re.findall(r"--byoc-[a-z-]+", page.read_text())) - known
        assert not unknown, f"{name(page)}: {unknown}"


#: Sentences that hold a number of the code's, by page; {} stands for the number.
NUMBERS = (
    ("explanation/verdict.md", "After {} causes (`--byoc-max-causes`)", MAX_CAUSES),
    ("explanation/verdict.md", "{} times as many tests in a row", IN_A_ROW),
    ("how-to/ci.md", "`--byoc-max-causes=N` ({})", MAX_CAUSES),
    ("how-to/ci.md", "A line of progress appears after {:g} seconds", progress.FIRST),
    ("how-to/ci.md", "then every {:g} seconds on a terminal", progress.INTERVAL),
    ("how-to/ci.md", "every {:g} seconds in a pipe", progress.ELSEWHERE),
    ("how-to/lower-precision.md", "off by more than {:g} times its bound", NEAR),
    *(
        ("reference/options.md", f"{{}} at {level.name}", level.max_examples)
        for level in LEVELS.values()
    ),
    ("how-to/whose-fault.md", "all elements within {:g} times the bound", NEAR),
    ("reference/report-json.md", "off by more than {:g} times its bound", NEAR),
    ("reference/report-json.md", "the place of the first {} errors", schema._LISTED),
    ("reference/report-json.md", "`cases` the first {} that did", CASES),
    ("reference/report-json.md", "quartile of up to {} measurements", measuring.ROUNDS),
    ("reference/report-json.md", "messages of up to {} further findings", findings.MOST),
    ("reference/report-json.md", "The first {} texts are there", description.MOST),
    ("reference/report-json.md", "longer than {:,} characters", description.SHOWN),
    ("reference/report-json.md", "at most {} sources", describing.MOST),
    ("reference/report-json.md", "whole up to {:,} characters", describing.LONGEST),
    ("reference/report-json.md", "Graphs of more than {} operators are not drawn", MOST_NODES),
    ("reference/report-json.md", "at most {0} by {0}", SIDE),
    ("explanation/checks.md", "With no time for {} rounds", memory.LEAST),
    ("explanation/checks.md", "memory, for each round | {} bytes", memory.NOISE),
    ("explanation/checks.md", "memory, for each thread | {} bytes", memory.NOISE_OF_THREADS),
    ("explanation/checks.md", "address space, for each round | {} bytes", memory.MAPPED),
    ("explanation/checks.md", "open files, for each round | {}", memory.FILES),
    ("explanation/checks.md", "TVM aligns tensors to {} bytes", dlpack.ALIGNED),
    ("explanation/checks.md", "{} KiB are the pages", size.PAGES >> 10),
)


@pytest.mark.parametrize(("page", "sentence", "number"), NUMBERS)
def test_numbers_in_pages_are_those_of_the_code(page: str, sentence: str, number: float) -> None:
    text = " ".join((DOCS / page).read_text().split())
    assert sentence.format(number) in text


def named(page: Path) -> Iterator[str]:
    """Yields the paths and dotted names of the project that a page has in backticks, but not the names of
    files in an example, such as `operators.py`."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)
    folders = "|".join((*LAYERS, "pytest_byoc", "tests", "benchmarks", "fixtures", "scripts"))
    dotted = rf"(?:{folders})(?!\.py`)(?:\.\w+)+(?<!\.json)"
    yield from re.findall(rf"`((?:{folders})(?:/[\w.]+)+/?|{dotted})`", text)


def resolves(text: str) -> bool:
    """Returns whether a path exists in the checkout or the package, or a dotted name in the package."""
    if "/" in text:
        return any((folder / text).exists() for folder in (ROOT, ROOT / "pytest_byoc"))
    with suppress(ImportError, AttributeError):
        pkgutil.resolve_name(text if text.startswith("pytest_byoc") else f"pytest_byoc.{text}")
        return True
    return False


@pytest.mark.parametrize("page", [page for page in ALL if "operators" not in page.parts], ids=name)
def test_paths_and_names_in_pages_exist(page: Path) -> None:
    #: A file that a session writes, and the group of entry points.
    others = {"report.json", "report.html", "report.schema", "pytest_byoc.targets"}
    missing = [text for text in named(page) if text not in others and not resolves(text)]
    assert not missing, f"{name(page)}: {missing}"


def test_fields_of_the_report_are_on_its_page() -> None:
    text = (DOCS / "reference" / "report-json.md").read_text()
    described = json.loads(schema.PATH.read_text())
    definitions = described["$defs"]
    fields = set(described["properties"])
    fields |= {name for kind in ("target", "details") for name in definitions[kind]["properties"]}
    cells = re.findall(r"^\| (`[^|]+`) \|", text, re.M)
    assert not fields - {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    for field, kind in (("failures", "failure"), ("excused", "excused")):
        (row,) = re.findall(rf"^\| `{field}` \|[^{{]*`{{([\w, ]+)}}`", text, re.M)
        assert set(definitions[kind]["properties"]) - {"target"} == set(row.split(", "))


def test_every_check_is_in_the_table() -> None:
    text = (DOCS / "reference" / "checks.md").read_text()
    assert all(f"| `{check.id}` |" in text for check in CHECKS)


def test_table_of_folders_is_the_layout() -> None:
    text = (DOCS / "explanation" / "architecture.md").read_text()
    assert tuple(re.findall(r"^\| `(\w+)` \|", text, re.M)) == LAYERS


@pytest.mark.parametrize("page", ALL, ids=name)
def test_links_lead_to_files(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        path = link.partition("#")[0]
        # The links of the README are absolute, for PyPI's sake.
        own = next((path.removeprefix(start) for start in OWN if path.startswith(start)), None)
        if own is not None:
            assert (ROOT / own).exists(), f"{name(page)}: {link}"
        elif path and "://" not in path:
            assert page != ROOT / "README.md", f"{name(page)}: {link} leads nowhere on PyPI"
            assert (page.parent / path).exists(), f"{name(page)}: {link}"


@pytest.mark.parametrize("page", [page for page in ALL if "operators" not in page.parts], ids=name)
def test_lines_are_short(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)
    long = [
        line for line in re.sub(r"\]\([^)]*\)", "]", text).splitlines()
        if len(line) > LENGTH and not line.startswith(("|", "    ", "!")) and " " in line.strip()
    ]
    assert not long, f"{name(page)}: {long[0]}"


@pytest.mark.parametrize(("page", "lines"), [("README.md", 120), ("benchmarks/README.md", 100)])
def test_readmes_are_short(page: str, lines: int) -> None:
    assert len((ROOT / page).read_text().splitlines()) <= lines
