"""Tests of a loader that a command starts: on this machine as if it were another, and what goes wrong."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from fixtures.faults import FAULTS, apply
from pytest_byoc.config.errors import SettingsError

from .conftest import PYTHON
from .far_device import EXAMPLE, device_of, far_python, report, session


def test_keys_of_a_device(tmp_path: Path) -> None:
    device = device_of(
        tmp_path, loader="ssh {board} python3", boards=["pi1", "pi2"], mtriple="aarch64-linux-gnu",
        mattr=["+neon", "+dotprod"], cc="tools/g++ --sysroot=/opt",
    )
    assert device.command(1) == ("ssh", "pi2", "python3")
    assert device.cc == (str(tmp_path / "tools" / "g++"), "--sysroot=/opt")
    assert device.is_foreign and device.mattr == ("+neon", "+dotprod")
    with pytest.raises(SettingsError, match=r"boards names 2 .*process 3 of"):
        device.command(2)
    here = device_of(tmp_path, loader=["docker", "run", "-i", "image", "python3"])
    assert here.is_elsewhere and not here.is_foreign
    assert device_of(tmp_path, loader="ssh x python3", run_here=False).is_foreign


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"loader": ["ssh", "{board}", "python3"]}, "the key boards must name at least one"),
        ({"loader": ["ssh", "x", "python3"], "boards": ["x"]}, "loader does not say where"),
        ({"mtriple": "riscv64-linux-gnu"}, "'riscv64-linux-gnu' is another machine, so the key loader"),
        ({"mtriple": "riscv64-linux-gnu", "loader": "x"}, 'the key cc must .* cc = "riscv64-linux-gnu-g'),
        ({"run_here": False}, "run-here is false, so the key loader must"),
        ({"loader": 3}, "loader must be a string or a list of strings, found 3"),
    ],
)
def test_keys_that_do_not_fit(tmp_path: Path, keys: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        device_of(tmp_path, **keys)


@pytest.mark.once
def test_the_results_are_those_of_this_machine(pytester: pytest.Pytester, ir: str) -> None:
    cases = "(test_thoroughly and (around or joined)) or (test_operator and float32)"
    usual = pytester.runpytest_subprocess(
        f"--byoc-target={EXAMPLE}", f"--byoc-python={PYTHON}", f"--byoc-ir={ir}", "--byoc-level=standard",
        "--byoc-operators=nn.relu", "--byoc-report=usual", "-p", "no:cacheprovider", "-k", cases, timeout=300,
    )
    assert usual.ret == 0
    here = json.loads((pytester.path / "usual" / "report.json").read_text())
    for run_here in (False, True):
        assert session(pytester, ir, EXAMPLE, "-k", cases, level="standard", run_here=run_here).ret == 0
        assert not list((pytester.path / "device").iterdir())
        on_device = report(pytester)
        for key in ("cells", "cases"):
            assert on_device[key] == here[key]


@pytest.mark.parametrize(
    ("name", "check", "cases"),
    [
        pytest.param("vector_tail", "outputs-written", "test_operator and nn.relu", marks=pytest.mark.once),
        ("input_overwritten", "inputs-unmodified", "test_operator and nn.relu"),
        pytest.param("crash_at_exit", "exit", "test_operator and nn.relu", marks=pytest.mark.once),
        ("relu_left_to_a_pass", "opt-levels", "test_operator and nn.relu"),
    ],
)
def test_faults_are_found_on_the_device(
    pytester: pytest.Pytester, ir: str, name: str, check: str, cases: str
) -> None:
    fault = FAULTS[name]
    if ir not in fault.irs:
        pytest.skip(f"{name} is no fault in {ir}")
    target = apply(fault, pytester.path)
    result = session(
        pytester, ir, f"{target / '__init__.py'}:target", "-x", "-k", cases, level="standard",
        operators=",".join(fault.operators),
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    failure, *_ = report(pytester)["failures"]
    assert failure["check"] == check
    result.stdout.no_fnmatch_line("*or, without pytest-byoc*")
    text = Path(failure["graph"]).with_name("failure.txt").read_text()
    assert "There is no reproduce.py: it would run the artifact on this machine" in text


#: Commands that end the device once it has been sent an artifact: each time, or the first time alone.
_LOST = """
(exec </dev/null >/dev/null 2>&1
while ! ls -d {folder}/*/*-*; do kill -0 $$ || exit; sleep 0.01; done; kill -9 $$) &
"""
#: The same, but the first device lives through its first artifact, which is LLVM's. It is looked for by the
#: one folder that it is sent in: of several, ls would fail as soon as one is removed.
_LOST_LATER = """
(exec </dev/null >/dev/null 2>&1; sent() {{ kill -0 $$ || exit; ls -d {folder}/*/sent-*; }}
if ! [ -e {folder}.tried ]; then
    touch {folder}.tried
    until sent; do sleep 0.01; done; while sent; do sleep 0.01; done
fi
until sent; do sleep 0.01; done; kill -9 $$) &
"""
_LOST_ONCE = f"if ! [ -e {{folder}}.lost ]; then touch {{folder}}.lost{_LOST.rstrip()} fi"


def test_a_lost_connection_is_made_again(pytester: pytest.Pytester, ir: str) -> None:
    before = _LOST_ONCE.format(folder=pytester.path / "device")
    result = session(pytester, ir, EXAMPLE, "-k", "test_operator and float32", before=before)
    assert (pytester.path / "device.lost").exists()
    assert result.ret == 0
    assert {cell["failed"] for cell in report(pytester)["cells"]} == {0}


@pytest.mark.once
def test_a_device_that_is_lost_with_each_graph_ends_the_session(
    pytester: pytest.Pytester, ir: str
) -> None:
    before = _LOST_LATER.format(folder=pytester.path / "device")
    result = session(pytester, ir, EXAMPLE, "-k", "test_operator and float32", before=before)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stdout.fnmatch_lines(["*the device (*far_python) was lost twice with this graph: *"])
    assert not report(pytester)["failures"]


@pytest.mark.once
@pytest.mark.parametrize(
    ("loader", "message"),
    [
        (["no-such-command"], "the loader's command cannot be started (no-such-command): No such file"),
        (["sh", "-c", "echo no route >&2; exit 255"], "exited with status 255. It printed: no route"),
        (["echo", "busy"], "the loader's command (echo busy) exited with status 0. It printed: busy"),
    ],
)
def test_a_command_that_starts_no_python(
    pytester: pytest.Pytester, ir: str, loader: list[str], message: str
) -> None:
    result = session(pytester, ir, EXAMPLE, loader=loader)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert message in " ".join(result.outlines + result.errlines)


@pytest.mark.once
def test_python_without_numpy(pytester: pytest.Pytester, ir: str) -> None:
    loader = far_python(pytester.path, python=f"{sys.executable} -I -S")
    result = session(pytester, ir, EXAMPLE, loader=str(loader))
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "No module named 'numpy'" in result.stdout.str() + result.stderr.str()


@pytest.mark.once
def test_processes_of_xdist_have_a_board_each(pytester: pytest.Pytester, ir: str) -> None:
    loader = [str(far_python(pytester.path, f'echo "$1" >> {pytester.path}/used; shift')), "{board}"]
    cases = ("-n", "2", "-k", "test_operator and float32")
    result = session(pytester, ir, EXAMPLE, *cases, loader=loader, boards=["east", "west"])
    assert result.ret == 0
    assert set((pytester.path / "used").read_text().split()) == {"east", "west"}
    result = session(pytester, ir, EXAMPLE, *cases, loader=loader, boards=["east"])
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*start at most as many processes (-n) as there are boards*"])
