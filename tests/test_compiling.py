"""Tests that the C compiler runs once for each source, and that TVM compiles sources that fail."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_byoc.ir.relay_executables import held_as_data
from pytest_byoc.runs import compiling


class FakeCC:
    """Stands for TVM's module tvm.contrib.cc: records the objects it has to link."""

    def __init__(self) -> None:
        self.linked: list[list[str]] = []

        def create_shared(output: str, objects: list[str], options: Any = None, **more: Any) -> None:
            self.linked.append(objects)

        create_shared.output_format = "so"  # type: ignore[attr-defined]
        create_shared.get_target_triple = lambda: "here"  # type: ignore[attr-defined]
        self.create_shared = create_shared

    def get_cc(self) -> str:
        return "g++"


@pytest.fixture
def cc(monkeypatch: pytest.MonkeyPatch) -> FakeCC:
    fake = FakeCC()
    monkeypatch.setattr(compiling, "_tvm_cc", lambda: fake)
    return fake


def sources(folder: Path, **texts: str) -> list[str]:
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / f"{name}.c").write_text(text)
    return [str(folder / f"{name}.c") for name in texts]


@pytest.mark.parametrize("cores", [1, 2])
def test_each_source_is_compiled_once_and_linked_in_order(
    tmp_path: Path, cc: FakeCC, monkeypatch: pytest.MonkeyPatch, cores: int
) -> None:
    monkeypatch.setattr(compiling, "CORES", cores)
    compile_ = compiling.Compiler(str(tmp_path)).options("a.so", {})["fcompile"]
    first = sources(tmp_path / "1", a="int a;", b="int b;", again="int a;", c="int c;")
    compile_("a.so", [*first, "lib0.o"])
    second = sources(tmp_path / "2", c="int c;", d="int d;", a="int a;")
    compile_("b.so", second)
    a, b, again, c, other = cc.linked[0]
    assert other == "lib0.o" and again == a and len({a, b, c}) == 3
    assert all(name in Path(path).read_bytes() for path, name in ((a, b"a"), (b, b"b"), (c, b"c")))
    assert cc.linked[1] == [c, cc.linked[1][1], a] and cc.linked[1][1] not in (a, b, c)
    assert len(list(tmp_path.glob("source_*.o"))) == 4


_HEADER = """#include <stdint.h>
#ifdef __cplusplus
#endif
"""


@pytest.mark.parametrize("other", [
    _HEADER + "#define N 2\nint b = N;", _HEADER + "#include <math.h>\nint b;",
    _HEADER + "#pragma pack(1)\nint b;", "int b;", _HEADER + "%:define N 2\nint b = N;",
    _HEADER + "static int same; int b;",
])
def test_sources_are_merged_only_where_that_changes_nothing(tmp_path: Path, cc: FakeCC, other: str) -> None:
    """Sources with other directives or includes, or with the same definitions, are not merged."""
    compiler = compiling.Compiler(str(tmp_path), as_one=True)
    compile_ = compiler.options("a.so", {})["fcompile"]
    same = _HEADER + "static int same; int a;"
    compile_("a.so", ["lib0.o", *sources(tmp_path / "1", a=same, other=other)])
    assert len(cc.linked[-1]) == 3
    for folder in ("2", "3"):
        compile_("a.so", ["lib0.o", *sources(tmp_path / folder, a=same, b=_HEADER + "int b;"), "lib1.o"])
        before, whole, after = cc.linked[-1]
        assert (before, after) == ("lib0.o", "lib1.o")
        assert {b"a", b"b"} <= set(Path(whole).read_bytes().split(b"\0"))
    # The merged source was compiled once.
    assert cc.linked[-1] == cc.linked[-2]
    compile_("a.so", sources(tmp_path / "4", a=same))
    assert len(cc.linked[-1]) == 1 and cc.linked[-1] != [whole]


def test_sources_are_merged_with_those_that_have_the_same_includes(tmp_path: Path, cc: FakeCC) -> None:
    compile_ = compiling.Compiler(str(tmp_path), as_one=True).options("a.so", {})["fcompile"]
    texts = {"a": _HEADER + "int a;", "b": "int b;", "other": _HEADER + "int other;", "d": "int d;"}
    compile_("a.so", sources(tmp_path / "1", **texts, none=";"))
    assert len(cc.linked[-1]) == 2
    for path, names in zip(cc.linked[-1], ({b"a", b"other"}, {b"b", b"d"})):
        assert names <= set(Path(path).read_bytes().split(b"\0"))


def test_a_source_without_code_costs_no_compiler(tmp_path: Path, cc: FakeCC) -> None:
    compile_ = compiling.Compiler(str(tmp_path)).options("a.so", {})["fcompile"]
    compile_("a.so", sources(tmp_path / "1", none=";", a="int a;", b="int b;"))
    a, b = cc.linked[-1]
    assert b"a" in Path(a).read_bytes() and b"b" in Path(b).read_bytes()


def test_c_sources_are_not_merged(tmp_path: Path, cc: FakeCC) -> None:
    """Two C sources may define the same variable; each has its own."""
    compiler = compiling.Compiler(str(tmp_path), as_one=True)
    compile_ = compiler.options("a.so", {})["fcompile"]
    compile_("a.so", sources(tmp_path / "1", a="static int n;", b="static int n;"), cc="gcc")
    assert len(cc.linked[-1]) == 2


def test_sources_that_do_not_compile_are_left_to_tvm(tmp_path: Path, cc: FakeCC) -> None:
    compile_ = compiling.Compiler(str(tmp_path)).options("a.so", {})["fcompile"]
    for folder in (tmp_path / "1", tmp_path / "2"):
        good, bad = sources(folder, good="int a;", bad="int ;;; (")
        compile_("a.so", [good, bad])
        # The path is that of this export: the file of an earlier one may be gone.
        assert cc.linked[-1][1] == bad and cc.linked[-1][0] != good


def test_a_source_is_compiled_again_with_other_options(tmp_path: Path, cc: FakeCC) -> None:
    compile_ = compiling.Compiler(str(tmp_path)).options("a.so", {})["fcompile"]
    source = sources(tmp_path / "1", a="int a = N;")
    compile_("a.so", source, ["-DN=1"])
    compile_("b.so", source, ["-DN=2"])
    assert cc.linked[0] != cc.linked[1]


def test_a_compiler_named_by_the_target_is_kept(tmp_path: Path, cc: FakeCC) -> None:
    compiler = compiling.Compiler(str(tmp_path))
    assert compiler.options("a.so", {"fcompile": print}) == {"fcompile": print}
    assert "fcompile" not in compiler.options("a.tar", {})


def test_a_source_is_compiled_again_after_an_include_changed(tmp_path: Path, cc: FakeCC) -> None:
    compile_ = compiling.Compiler(str(tmp_path)).options("a.so", {})["fcompile"]
    header = tmp_path / "h.h"
    for folder in (tmp_path / "1", tmp_path / "2"):
        header.write_text(f"int of_{folder.name};\n")
        compile_("a.so", sources(folder, a=f'#include "{header}"\n'))
    for name, paths in zip("12", cc.linked, strict=True):
        assert f"of_{name}".encode() in Path(paths[0]).read_bytes()


def test_modules_that_a_library_holds_as_data() -> None:
    """TVM calls the functions of such modules by name, which AOT does not. Before 0.12 a module
    does not tell whether it is code."""

    def module(kind: str, *imported: Any, **says: bool) -> Any:
        return SimpleNamespace(type_key=kind, imported_modules=imported, **says)

    code, old = module("mine", is_dso_exportable=True), module("c")
    constants = module("const_loader", module("dnnl_json", is_dso_exportable=False), is_dso_exportable=False)
    assert held_as_data(module("llvm", code, old)) == []
    assert held_as_data(module("llvm", code, constants, module("other_json"))) == ["dnnl_json", "other_json"]
