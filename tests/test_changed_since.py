"""Tests of --byoc-changed-since: what is taken over from an earlier session, and what is not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fixtures.faults import Fault, apply
from pytest_byoc.config.errors import SettingsError
from pytest_byoc.core.job_report import JobReport
from pytest_byoc.evidence.earlier_pass import Pass
from pytest_byoc.runs import export_digest
from pytest_byoc.storage import stored_passes
from pytest_byoc.storage.stored_passes import EarlierPasses, Passes, key_of

from .conftest import PYTHON

CODE = {"vm": "a digest"}
KEY = key_of(b"graph", "effort")
CONDITIONS = {"pytest-byoc": "1", "the processor": "x"}
_UNCHANGED = Fault("unchanged", 0, "", (), None, ())
_TANH = '    if kernel in ("exp", "tanh", "sqrt"):'
#: A codegen that computes a wrong tanh.
_WRONG_TANH = f'    if kernel == "tanh":\n        return f"tanh{{f}}({{x}} * 1.25f)"\n{_TANH}'


# --- the file --------------------------------------------------------------------------------------


def write(report: Path, passes: Passes) -> None:
    """Writes the passes of a target to the file beside a report."""
    stored_passes.write(report, {("npu", "relax"): passes})
    stored_passes.read.cache_clear()


def kept(report: Path, runtime: Path, **changes: Any) -> Passes:
    """Writes one pass of a target to the file beside a report."""
    passes = Passes(**{"conditions": CONDITIONS, **changes})
    state = runtime.stat()
    passes.depend_on([(str(runtime), state.st_size, state.st_mtime_ns)])
    passes.passes[KEY] = {"code": CODE, "checks": ["numerics"], "not_checked": [], "notes": []}
    write(report, passes)
    return passes


@pytest.fixture
def report(tmp_path: Path) -> Path:
    return tmp_path / "report.json"


@pytest.fixture
def runtime(tmp_path: Path) -> Path:
    path = tmp_path / "libnpu_runtime.so"
    path.write_text("1")
    return path


@pytest.fixture(autouse=True)
def all_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_passes, "_ONE_AMONG", 1 << 60)


def opened(report: Path, conditions: Mapping[str, str] = CONDITIONS) -> tuple[EarlierPasses, str]:
    earlier = EarlierPasses()
    return earlier, earlier.open(report, "npu", "relax", Passes(dict(conditions)))


def test_a_pass_is_read_back(report: Path, runtime: Path) -> None:
    kept(report, runtime)
    earlier, why = opened(report)
    assert not why
    assert earlier.of(KEY) == Pass(CODE, ("numerics",)) and earlier.of("0" * 24) is None
    assert earlier.open(report, "other", "relax", Passes()) == "it has no passes of other in relax"


def test_nothing_holds_once_the_runtime_has_another_content(report: Path, runtime: Path) -> None:
    kept(report, runtime)
    runtime.write_text("2")
    earlier, why = opened(report)
    assert why == f"changed since: {runtime}" and earlier.of(KEY) is None
    # Continuous integration writes the same files anew.
    runtime.write_text("1")
    assert not opened(report)[1]
    runtime.unlink()
    assert opened(report)[1] == why


def test_nothing_holds_under_other_conditions(report: Path, runtime: Path) -> None:
    kept(report, runtime)
    earlier, why = opened(report, {**CONDITIONS, "the processor": "y"})
    assert why == "changed since: the processor" and earlier.of(KEY) is None


def test_nothing_is_kept_if_a_file_changes_during_the_session(report: Path, runtime: Path) -> None:
    passes = kept(report, runtime)
    runtime.write_text("longer")
    assert not passes.as_dict()["passes"]
    write(report, passes)
    assert opened(report)[1] == f"{runtime} changed while that session ran"


def test_shards_on_different_machines_leave_passes_that_hold_nowhere(report: Path, runtime: Path) -> None:
    passes = kept(report, runtime)
    passes.add(Passes({**CONDITIONS, "the processor": "y"}).take())
    write(report, passes)
    assert opened(report)[1] == "changed since: the processor"


def test_a_shard_without_a_file_of_passes_takes_none_from_the_others(report: Path, runtime: Path) -> None:
    passes = kept(report, runtime)
    passes.add(vars(stored_passes.of_shard(report.parent / "nowhere" / "report.json", "npu", "relax")))
    write(report, passes)
    earlier, why = opened(report)
    assert not why and earlier.of(KEY) is not None


def test_some_are_examined_again_in_each_session(
    report: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_passes, "_ONE_AMONG", 4)
    taken = []
    for sessions in range(4):
        kept(report, runtime, sessions=sessions)
        taken.append(opened(report)[0].of(KEY) is not None)
    assert taken.count(False) == 1


def test_a_failure_with_the_code_of_a_pass_ends_the_taking_over(report: Path, runtime: Path) -> None:
    kept(report, runtime)
    earlier, _ = opened(report)
    earlier.end_if_passed(KEY, {"vm": "another digest"})
    assert earlier.of(KEY) is not None
    earlier.end_if_passed(KEY, CODE)
    assert earlier.of(KEY) is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "pytest-byoc/passes", "version": 9}'])
def test_a_damaged_file_is_refused(report: Path, text: str) -> None:
    stored_passes.read.cache_clear()
    stored_passes.path_beside(report).write_text(text)
    with pytest.raises(SettingsError, match=r"report\.passes\.json is damaged .*; name the report\.json of"):
        stored_passes.read(report)


# --- what an export is made of ---------------------------------------------------------------------


def test_the_digest_depends_on_contents_kinds_and_options(tmp_path: Path) -> None:
    a, b, c = tmp_path / "a.c", tmp_path / "b.c", tmp_path / "c.o"
    for path in (a, b, c):
        path.write_text("int x;")

    def digest(*paths: Path, options: list[str] | None = None) -> str:
        return export_digest.digest([str(p) for p in paths], options or [], {})

    assert digest(a) == digest(b) != digest(c)
    assert digest(a) != digest(a, options=["-O2"])
    b.write_text("int y;")
    assert digest(a, b) == digest(b, a) != digest(a)


def test_files_that_a_linker_reads(tmp_path: Path) -> None:
    library, crt = tmp_path / "libnpu.a", tmp_path / "crt.o"
    for path in (library, crt):
        path.touch()
    for options in ([f"-L{tmp_path}", "-lnpu"], ["-L", str(tmp_path), "-l", "npu"]):
        assert list(export_digest.linked([*options, "-O2", str(crt), "-lm"])) == [str(library), str(crt)]


def test_headers_of_a_rule(tmp_path: Path) -> None:
    rule = tmp_path / "x.d"
    rule.write_text("x.o: x.c /usr/include/math.h \\\n /opt/npu/my\\ kernels.h \\\n /opt/npu/api.h\n")
    assert export_digest.headers(str(rule)) == ["/opt/npu/my kernels.h", "/opt/npu/api.h"]
    assert export_digest.headers(str(tmp_path / "absent.d")) == []


def test_what_is_told_of_code_and_files_makes_no_check() -> None:
    told = [{"fact": name, "executor": None, "value": []} for name in ("code", "known", "files")]
    report = JobReport([{"begins": "aliasing"}, *told])
    assert list(report.sent_by_checks()) == []


# --- sessions --------------------------------------------------------------------------------------


def run(pytester: pytest.Pytester, ir: str, target: Path, *args: str) -> pytest.RunResult:
    return pytester.runpytest_subprocess(
        f"--byoc-target={target / '__init__.py'}:target", f"--byoc-ir={ir}", f"--byoc-python={PYTHON}",
        "-p", "no:cacheprovider", "--byoc-report=out", "--byoc-level=smoke", "--byoc-operators=tanh,nn.relu",
        "-k", "test_operator", *args, timeout=600,
    )


def report_of(pytester: pytest.Pytester) -> Mapping[str, Any]:
    data: Mapping[str, Any] = json.loads((pytester.path / "out" / "report.json").read_text())
    return data


def test_only_what_a_change_of_the_codegen_reaches_is_examined(
    pytester: pytest.Pytester, ir: str, tmp_path: Path
) -> None:
    target = apply(_UNCHANGED, tmp_path)
    assert run(pytester, ir, target).ret == 0
    first = report_of(pytester)
    assert first["taken_over"] == 0 and first["graphs"] > 10

    # The report may be replaced by the new one.
    assert run(pytester, ir, target, "--byoc-changed-since=out").ret == 0
    second = report_of(pytester)
    assert 0.8 * second["outcomes"]["pass"] < second["taken_over"] and not second["not_taken_over"]
    for key in ("outcomes", "graphs", "subgraphs", "cells", "cases", "held", "fragmentation"):
        assert first[key] == second[key], key

    kernels = target / "kernels.py"
    text = kernels.read_text()
    assert text.count(_TANH) == 1
    kernels.write_text(text.replace(_TANH, _WRONG_TANH))
    result = run(pytester, ir, target, "--byoc-changed-since=out/report.json")
    assert result.ret == 1
    third = report_of(pytester)
    assert {(f["check"], *f["operators"]) for f in third["failures"]} == {("numerics", "tanh")}
    assert third["taken_over"] > 5
    result.stdout.fnmatch_lines([
        f"taken over from the earlier session: {third['taken_over']} graphs",
        "*graphs beyond partition and codegen: they passed in the session that --byoc-changed-since names,*",
    ])
    # What failed is examined again, and what passes now is found out.
    kernels.write_text(text)
    assert run(pytester, ir, target, "--byoc-changed-since=out").ret == 0
    last = report_of(pytester)
    assert last["cells"] == first["cells"] and 5 < last["taken_over"] < second["taken_over"]


@pytest.mark.once
def test_another_declaration_has_everything_examined(
    pytester: pytest.Pytester, ir: str, tmp_path: Path
) -> None:
    target = apply(_UNCHANGED, tmp_path)
    assert run(pytester, ir, target, "--byoc-operators=nn.relu").ret == 0
    init = target / "__init__.py"
    name = '    name = "example_c"\n'
    init.write_text(init.read_text().replace(name, f"{name}    opt_level = 2\n"))
    result = run(pytester, ir, target, "--byoc-operators=nn.relu", "--byoc-changed-since=out")
    assert result.ret == 0 and report_of(pytester)["taken_over"] == 0
    result.stdout.fnmatch_lines(
        ["nothing is taken over from the earlier session: changed since: what the target declares"]
    )


@pytest.mark.once
def test_a_report_without_passes_is_refused(pytester: pytest.Pytester, ir: str) -> None:
    (pytester.path / "report.json").write_text("{}")
    result = pytester.runpytest_subprocess(
        "--byoc-target=example_c", f"--byoc-ir={ir}", f"--byoc-python={PYTHON}",
        "--byoc-changed-since=report.json",
    )
    assert result.ret == 4
    result.stderr.fnmatch_lines([
        "ERROR: --byoc-changed-since: */report.passes.json cannot be read: No such file or directory; name "
        "the report.json of a session that ended, with the files beside it (--byoc-report writes them)"
    ])
