"""Tests of the check of artifacts that need files of the build machine."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fixtures.faults.fault import Fault, Patch, apply
from fixtures.faults.places import STDIO, constants_in_file
from pytest_byoc.examination import c_libraries

from .conftest import PYTHON
from .test_corpus import report as report_of

#: Another program writes the constants; Python's audit events do not tell of that.
_BY_A_PROGRAM = constants_in_file(
    "import os, subprocess\n", "os.path.abspath(names[buffer] + '.bin')",
    "subprocess.run(['tee', path], input=np.ascontiguousarray(buffer.data).tobytes(), "
    "stdout=subprocess.DEVNULL, check=True)",
)
#: A log that each build and each run continue.
_LOG = (
    STDIO,
    Patch("c_source.py", "import numpy as np\n", "import os\nimport numpy as np\n"),
    Patch(
        "c_source.py", "body: List[str] = []",
        "path = os.path.abspath('vendor.log')\n"
        "    with open(path, 'a') as log:\n"
        "        log.write('built\\n')\n"
        "    body: List[str] = [f'FILE* const log = fopen(\"{path}\", \"a\");',\n"
        "                       'if (!log) return \"no log\";', 'fclose(log);']",
    ),
)  # fmt: skip


def _failures(pytester: pytest.Pytester, ir: str, patches: tuple[Patch, ...]) -> list[Any]:
    target = apply(Fault("files", 27, "", ("add",), None, patches), pytester.path)
    pytester.runpytest_subprocess(
        f"--byoc-target={target / '__init__.py'}:target", f"--byoc-ir={ir}", f"--byoc-python={PYTHON}",
        "--byoc-operators=add", "-p", "no:cacheprovider", "--byoc-report=out", "--byoc-level=smoke", "-x",
        "-k", "test_operator and constant_operand", timeout=300,
    )
    return list(report_of(pytester)["failures"])


@pytest.mark.once
def test_files_of_other_programs_are_found_in_the_artifact(pytester: pytest.Pytester, ir: str) -> None:
    (failure,) = _failures(pytester, ir, _BY_A_PROGRAM)
    assert failure["check"] == "build-files"
    assert ".bin (written by the build), the stage run raised" in failure["message"]


@pytest.mark.once
def test_a_log_is_no_failure(pytester: pytest.Pytester, ir: str) -> None:
    assert not _failures(pytester, ir, _LOG)


def test_a_hidden_file_is_gone_until_it_is_written_anew(tmp_path: Path) -> None:
    library = c_libraries.compiled(c_libraries.HIDDEN_FILES)
    assert library and ctypes.CDLL(library).hide_file
    code = """
import ctypes, os, sys
path = sys.argv[1]
assert open(path).read() == "old"
ctypes.CDLL(None).hide_file(path.encode())
found = [os.path.exists(path), os.access(path, os.R_OK)]
for reads in (open, os.stat, ctypes.CDLL):
    try:
        found.append(reads(path))
    except OSError as e:
        found.append("o such file" in str(e))
assert found == [False, False, True, True, True], found
with open(path, "w") as f:
    f.write("new")
assert open(path).read() == "new"
"""
    file = tmp_path.resolve() / "file"
    file.write_text("old")
    subprocess.run([sys.executable, "-c", code, str(file)], env={"LD_PRELOAD": library}, check=True)
