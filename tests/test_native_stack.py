"""Tests of a process's native stack: how its handler is compiled, and how its output is
described."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_byoc.examination import c_libraries
from pytest_byoc.worker import native_stack

pytestmark = pytest.mark.once

SOURCE = """
static void inner(volatile int *p) { *p = 1; }
void vendor_kernel(void) { inner((volatile int *)8); }
"""


@pytest.fixture
def handler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    c_libraries.compiled.cache_clear()
    yield c_libraries.compiled(c_libraries.NATIVE_STACK)
    c_libraries.compiled.cache_clear()


def compiled(folder: Path, source: str) -> Path:
    """Compiles a vendor's library and returns its path."""
    file, library = folder / "vendor.c", folder / "vendor.so"
    file.write_text(source)
    subprocess.run(["cc", "-g", "-O0", "-shared", "-fPIC", "-o", library, file], check=True)
    return library


def died(handler: str, code: str, file: Path) -> str:
    """Returns the output of the handler in a process that dies while running `code`."""
    script = (
        "import ctypes, faulthandler, os, sys\n"
        "fd = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT)\n"
        "faulthandler.enable(file=fd)\n"
        "ctypes.CDLL(sys.argv[1]).install(fd, 63)\n" + code
    )
    subprocess.run([sys.executable, "-c", script, handler, str(file)], check=False, capture_output=True)
    return file.read_text()


def test_the_vendors_function_and_line_are_reported(handler: str, tmp_path: Path) -> None:
    library = compiled(tmp_path, SOURCE)
    text = died(handler, f"ctypes.CDLL({str(library)!r}).vendor_kernel()", tmp_path / "stack")
    inner, outer = native_stack.described(text)[:2]
    assert inner.startswith("inner (vendor.so+0x") and inner.endswith(", vendor.c:2)")
    assert outer.startswith("vendor_kernel (vendor.so+0x") and outer.endswith(", vendor.c:3)")
    # Python's stack follows, from the handler installed before.
    assert native_stack.fatal_signal(text.splitlines()[0]) == 11
    assert "Fatal Python error: Segmentation fault" in text and "most recent call first" in text


def test_a_jump_to_an_invalid_address_is_reported(handler: str, tmp_path: Path) -> None:
    library = compiled(tmp_path, "void leap(void (*to)(void)) { to(); }")
    text = died(handler, f"ctypes.CDLL({str(library)!r}).leap(16)", tmp_path / "stack")
    nowhere, caller = native_stack.described(text)
    assert nowhere == "address 0x10, where there is no code"
    assert caller.startswith("leap (vendor.so+0x") and caller.endswith(", vendor.c:1)")
    assert "Fatal Python error: Segmentation fault" in text


def test_the_stack_of_an_endless_recursion_is_reported(handler: str, tmp_path: Path) -> None:
    library = compiled(
        tmp_path, "int deep(int n) { volatile char room[4096]; room[0] = n; return deep(n + 1) + room[0]; }"
    )
    text = died(handler, f"ctypes.CDLL({str(library)!r}).deep(0)", tmp_path / "stack")
    frames = native_stack.described(text)
    assert len(frames) > 5 and all(f.startswith("deep") and "(vendor.so+0x" in f for f in frames)


def test_a_foreign_signal_handler_stays_first(handler: str, tmp_path: Path) -> None:
    """It may repair the cause of the signal."""
    script = (
        "faulthandler.disable()\n"
        "libc = ctypes.CDLL(None)\n"
        "mend = ctypes.CFUNCTYPE(None, ctypes.c_int)(lambda number: os._exit(0))\n"
        "libc.signal(11, mend)\n"
        "ctypes.CDLL(sys.argv[1]).install(fd, 63)\n"
        "os.kill(os.getpid(), 11)"
    )
    assert died(handler, script, tmp_path / "stack") == ""


def test_without_a_compiler_there_is_no_handler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("CXX", "false")
    c_libraries.compiled.cache_clear()
    assert c_libraries.compiled(c_libraries.NATIVE_STACK) == ""
    c_libraries.compiled.cache_clear()
    native_stack.load("")
    native_stack.install(1, 63)


def test_a_file_that_is_no_library_installs_no_handler(tmp_path: Path) -> None:
    broken = tmp_path / "broken.so"
    broken.write_bytes(b"none")
    native_stack.load(str(broken))
    native_stack.install(1, 63)


def test_frames_end_where_the_interpreter_begins() -> None:
    text = "Native stack: signal 6\nnative\t/no/lib0.so\t12\trun\nnative\t/no/libpython3.11.so\t9\tcall\n"
    assert native_stack.described(text) == ["run (lib0.so+0x12)"]
    assert native_stack.described("") == []


def test_the_handler_is_compiled_once(handler: str) -> None:
    before = Path(handler).stat().st_mtime_ns
    c_libraries.compiled.cache_clear()
    assert c_libraries.compiled(c_libraries.NATIVE_STACK) == handler
    assert Path(handler).stat().st_mtime_ns == before
    assert ctypes.CDLL(handler).install is not None
