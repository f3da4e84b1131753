"""Tests of what a worker imports at its start."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_byoc.core.protocol import encode
from pytest_byoc.examination.examiner import Examiner
from pytest_byoc.generation.systematic import default_case
from pytest_byoc.runs.reporter import Reporter
from pytest_byoc.worker import warming

from .conftest import declaration, make_settings


def imported(*names: str, threads: int = 0) -> dict[str, Any]:
    return {"fact": "imported", "executor": None, "value": {"names": list(names), "threads": threads}}


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module that can be imported and has not been."""
    (tmp_path / "imported_lately.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "imported_lately", raising=False)
    return "imported_lately"


def test_the_modules_reported_last_are_imported(module: str) -> None:
    names = warming.reported([{"stage": "build", "cpu": 0.0}, imported(), imported("no.such.module", module)])
    warming.import_all(names)
    assert module in sys.modules


def test_nothing_is_imported_beside_threads_or_without_a_report(module: str) -> None:
    assert warming.reported([imported(module), imported(module, threads=1)]) == []
    assert warming.reported([{"raised": {}, "stage": "partition"}]) == []


def test_each_step_is_followed_by_a_report(module: str) -> None:
    """The steps that were taken before one raises count."""
    read_end, write_end = os.pipe()

    def steps(reporter: Reporter) -> Any:
        __import__(module)
        yield
        raise ValueError("cannot be built")

    with pytest.raises(ValueError, match="cannot be built"):
        warming.report_imports(frozenset(sys.modules), steps, Reporter(write_end, list))
    os.close(write_end)
    listener = warming.Listener()
    with os.fdopen(read_end, "rb") as pipe:
        listener.sendall(pipe.read())
    assert [m["value"]["names"] for m in listener.messages] == [[module]]


def test_messages_arrive_whatever_their_pieces() -> None:
    listener, data = warming.Listener(), encode(imported("a")) + encode(imported("b"))
    for at in range(0, len(data), 7):
        listener.sendall(data[at : at + 7])
    assert [m["value"]["names"] for m in listener.messages] == [["a"], ["b"]]


_LAZY = """\
import os, sys
sys.path.insert(0, os.path.dirname(__file__))
def partition(mod):
    import lazy_codegen
    return mod
"""
_CODEGEN = """\
import os
with open(os.path.join(os.path.dirname(__file__), "imports"), "a") as f:
    f.write("%d\\n" % os.getpid())
"""


@pytest.mark.parametrize(
    ("more", "imports_at_start"), [("", 3), ("import tempfile; tempfile.mkdtemp()\n", 2)]
)
def test_a_lazy_codegen_is_imported_by_the_worker_unless_that_leaves_files(
    tmp_path: Path, ir: str, more: str, imports_at_start: int
) -> None:
    """Two children try it; later ones have it from their start, or import it each."""
    (tmp_path / "lazy.py").write_text(_LAZY)
    (tmp_path / "lazy_codegen.py").write_text(_CODEGEN + more)
    examiner = Examiner(make_settings(tmp_path), declaration(f"{tmp_path / 'lazy.py'}:partition", ir))
    examiner.open()
    try:
        for name in ("nn.relu", "add", "nn.softmax"):
            assert examiner.partitions.of(default_case(name, "float32").graph) is not None
        imports = (tmp_path / "imports").read_text().split()
    finally:
        examiner.close()
    assert len(imports) == len(set(imports))
    assert len(imports) == imports_at_start if not more else len(imports) > imports_at_start + 3
