"""Tests of sessions with several targets: each has its own name, and an unusable one does not stop
the others."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from pytest_byoc.config.declarations import declare
from pytest_byoc.config.errors import SettingsError
from pytest_byoc.config.settings import _distinct
from pytest_byoc.core.names import folder_name, printable
from pytest_byoc.storage.corpus import Entry

from .conftest import PYTHON

#: One IR is enough: the tests examine the host.
pytestmark = pytest.mark.once

#: Targets that offload nothing; the file is written to a test's folder.
PLAIN = """
def partition(mod):
    return mod

class Named:
    name = "vend"
    partition = staticmethod(partition)

class Other(Named):
    pass

class Odd(Named):
    name = "od\\x1b[31md"

def nothing(mod):
    return None
"""


def declared(root: Path, given: str, start: Path | None = None) -> str:
    return declare(given, root, None, None, start or root).name


def run(pytester: pytest.Pytester, ir: str, *args: str) -> pytest.RunResult:
    few = ["--byoc-operators=nn.relu", "--byoc-level=smoke", "--byoc-report=out"]
    few += ["-k", "test_target or (test_operator and float32])"]
    worker = [f"--byoc-python={PYTHON}", f"--byoc-ir={ir}"]
    return pytester.runpytest_subprocess(*worker, *few, *args, timeout=400)


# --- names ---------------------------------------------------------------------------------------


def test_the_name_of_a_module_includes_its_packages(tmp_path: Path) -> None:
    assert declared(tmp_path, "vend.a:partition") == "vend.a:partition"
    assert declared(tmp_path, "vend.b:partition") == "vend.b:partition"


def test_a_file_is_named_relative_to_the_projects_root(tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    for folder in (root / "a", root / "b", elsewhere):
        folder.mkdir(parents=True)
        (folder / "codegen.py").touch()
    (root / "a" / "__init__.py").touch()
    assert declared(root, "a/codegen.py:target") == "a/codegen.py:target"
    assert declared(root, "codegen.py:target", root / "b") == "b/codegen.py:target"
    assert declared(root, f"{root}/b/codegen.py:target") == "b/codegen.py:target"
    assert declared(root, "./a:target") == "a/__init__.py:target"
    assert declared(root, f"{elsewhere}/codegen.py:target") == f"{elsewhere}/codegen.py:target"


def test_a_target_given_in_two_ways_is_tested_once(tmp_path: Path) -> None:
    (tmp_path / "codegen.py").touch()
    both = [declare(g, tmp_path, None, None, tmp_path) for g in ("codegen.py:t", "./codegen.py:t")]
    assert [t.given for t in _distinct(both)] == ["codegen.py:t"]
    (tmp_path / "pyproject.toml").write_text(
        '[tool.pytest-byoc.targets."codegen.py:t"]\npartition = "other:t"\n'
    )
    both = [declare(g, tmp_path, None, None, tmp_path) for g in ("codegen.py:t", "./codegen.py:t")]
    with pytest.raises(SettingsError, match=r"codegen\.py:t and \./codegen\.py:t are both called codegen"):
        _distinct(both)


def test_different_names_have_different_folders() -> None:
    long = ["x" * 300 + "1", "y" * 300 + "1", "x" * 300]
    names = [*long, "a:b", "a-b", "a.b", "a/b", "a-b-relay", "é", "\ud800"]
    folders = {folder_name(name, ir) for name in names for ir in ("relay", "relax")}
    assert len(folders) == 2 * len(names)
    assert max(map(len, folders)) < 80
    assert folder_name("example_c", "relay") == "example_c-relay"


def test_a_saved_failure_belongs_to_one_target(tmp_path: Path) -> None:
    folder = tmp_path / f"{folder_name('vend.a:partition', 'relay')}-0123456789"
    entry = Entry("id", folder / "graph.json", automatic=True)
    assert entry.is_for("vend.a:partition", "relay")
    assert not any(entry.is_for(name, "relay") for name in ("vend-a-partition", "vend.b:partition", "vend:a"))


def test_control_characters_in_names_are_escaped(pytester: pytest.Pytester, ir: str) -> None:
    assert printable("a\x1b[31m\n\u202eé") == "a\\x1b[31m\\n\\u202eé"
    pytester.makepyfile(odd=PLAIN)
    result = run(pytester, ir, "--byoc-target=odd:Odd", "--byoc-target=odd:x\x1b[1m", "--color=no")
    assert "od\\x1b[31md" in result.stdout.str()
    assert "\x1b" not in result.stdout.str() + result.stderr.str()


# --- some unusable targets -----------------------------------------------------------------------


def test_unusable_targets_fail_and_the_others_are_tested(
    pytester: pytest.Pytester, ir: str
) -> None:
    for package in ("a", "b"):
        path = pytester.path / "vend" / f"{package}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(PLAIN)
    given = [
        "vend.a:nothing", "vend.a:missing", "vend.a:Named", "vend.b:Named", "nobody", "example_c",
        "vend.a:partition", "vend.b:partition",
    ]
    result = run(pytester, ir, *(f"--byoc-target={name}" for name in given), "-v")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    unusable = ("vend.a:nothing", "vend.a:missing", "vend.b:Named", "nobody")
    result.stdout.fnmatch_lines_random(
        [f"FAILED *test_target.py::test_target[[]{name}] - *" for name in unusable]
        + ["*both called vend: give one another name*", "*there is no target called 'nobody'*"]
        + ["*test_operators.py::test_operator[[]example_c-nn.relu*PASSED*"]
    )
    report = json.loads(pytester.path.joinpath("out", "report.json").read_text())
    names = [t["target"] for t in report["targets"]]
    assert names == [name if name != "vend.a:Named" else "vend" for name in given]
    assert [t["target"] for t in report["targets"] if t["outcomes"]["pass"]] == ["example_c"]
    reasons = [t["not_checked"][0] for t in report["targets"] if t["target"] in unusable]
    assert len(reasons) == 4 and all(reason.startswith("anything: ") for reason in reasons)


def test_only_unusable_targets_are_a_usage_error(pytester: pytest.Pytester, ir: str) -> None:
    result = run(pytester, ir, "--byoc-target=nobody", "--byoc-target=noone")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*no target called 'nobody'*", "*no target called 'noone'*"])


def test_tests_of_a_vendor_fail_for_an_unusable_target(
    pytester: pytest.Pytester, ir: str
) -> None:
    pytester.makepyfile("def test_own(byoc_target):\n    assert byoc_target.ir\n")
    result = run(pytester, ir, "--byoc-target=example_c", "--byoc-target=nobody", "-k", "own", os.curdir)
    result.assert_outcomes(passed=1, errors=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_two_tables_with_one_class_are_named_after_the_tables(pytester: pytest.Pytester, ir: str) -> None:
    pytester.makepyfile(vend=PLAIN)
    tables = "".join(f'[tool.pytest-byoc.targets.{n}]\npartition = "vend:Named"\n' for n in ("one", "two"))
    pytester.path.joinpath("pyproject.toml").write_text(tables)
    run(pytester, ir, "--byoc-target=one", "--byoc-target=two")
    report = json.loads(pytester.path.joinpath("out", "report.json").read_text())
    assert [t["target"] for t in report["targets"]] == ["one", "two"]
