"""Tests of the time and memory of whole models beside LLVM's builds, and of tuning logs."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pytest_byoc.config.declarations import declare
from pytest_byoc.config.errors import SettingsError
from pytest_byoc.core.tuning import AUTO_SCHEDULER, AUTOTVM, META_SCHEDULE
from pytest_byoc.evidence.speed import Speed, Times
from pytest_byoc.record import measured
from pytest_byoc.report import speed_plot
from pytest_byoc.report.model_lines import speed_in_words, time

from .conftest import FIXTURES, PYTHON
from .test_speed import recorded
from .test_whole_models import session

#: A model with the operators of `fixtures/tuning_log.py`, for a number of rows.
MADE = {
    "relax": """\
def made(rows):
    from tvm import relax
    tensor = getattr(relax, "TensorStructInfo", None) or relax.TensorType
    x, w = relax.Var("x", tensor([rows, 16], "float32")), relax.Var("w", tensor([16, 5], "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x, w]):
        with builder.dataflow():
            out = builder.emit_output(relax.op.nn.relu(relax.op.matmul(x, w)))
        builder.emit_func_output(out)
    return builder.get()
""",
    "relay": """\
def made(rows):
    import tvm
    from tvm import relay
    x, w = relay.var("x", shape=(rows, 16)), relay.var("w", shape=(5, 16))
    return tvm.IRModule.from_expr(relay.Function([x, w], relay.nn.relu(relay.nn.dense(x, w))))
""",
}
FUNCTIONS = """
def three():
    return made(3)

def four():
    return made(4)
"""
#: The tuners of each IR, as `fixtures/tuning_log.py` names them.
TUNERS = {"relax": ("meta-schedule",), "relay": ("autotvm", "auto-scheduler")}
TABLE = """\
[tool.pytest-byoc.targets.mine]
partition = "pytest_byoc.examples.example_c:target"
reference-tuning = "log"
opt-level = 2
"""


# --- words -----------------------------------------------------------------------------------------


@pytest.mark.once
def test_times_in_words() -> None:
    assert [time(us) for us in (0.41, 999, 1500, 2.5e6)] == ["0.41 µs", "999 µs", "1.5 ms", "2.5 s"]


def as_dict(**more: Any) -> dict[str, Any]:
    """Returns the measurement of a model, as a report has it."""
    target, llvm = Times(1.8e-3, 1.7e-3, 1.9e-3), Times(2.4e-3, 2.3e-3, 2.5e-3)
    speed = Speed("vm", target, llvm, **more)
    (found,) = recorded(("model[net]", speed)).speed
    return found


@pytest.mark.once
def test_a_measurement_in_words() -> None:
    peaks = {"target_peak": 12_000_000, "llvm_peak": 14_000_000}
    assert speed_in_words(as_dict(**peaks)) == (
        "a run takes 1.8 ms, LLVM 2.4 ms (0.75x); peak memory 12MB, LLVM 14MB"
    )
    tuned = Times(2e-3, 2e-3, 2e-3)
    assert speed_in_words(as_dict(**peaks, tuned=tuned, tuned_peak=13_000_000)) == (
        "a run takes 1.8 ms, LLVM 2.4 ms (0.75x), tuned LLVM 2 ms (0.90x); peak memory 12MB, LLVM 14MB, "
        "tuned LLVM 13MB"
    )
    assert speed_in_words(as_dict(not_tuned="the tuning log fits nothing of it")) == (
        "a run takes 1.8 ms, LLVM 2.4 ms (0.75x); no time of tuned LLVM: the tuning log fits nothing of it"
    )
    assert speed_in_words(None) == ""


@pytest.mark.once
def test_the_column_of_tuned_builds() -> None:
    tuned = as_dict(tuned=Times(2e-3, 1.9e-3, 2.1e-3))
    section = speed_plot.section([tuned])
    assert section is not None
    assert section["has_tuned"] and section["rows"][0]["tuned"] == "2,000.0 ±5 %"
    without = speed_plot.section([as_dict()])
    assert without is not None and not without["has_tuned"]
    # The gate compares with LLVM's own build.
    assert measured.Ratio.of(tuned) == measured.Ratio.of(as_dict())


# --- logs ------------------------------------------------------------------------------------------

AUTOTVM_LINE = '{"input": ["llvm", "dense", [], {}], "config": {}, "result": [], "version": 0.2}\n'
AUTO_SCHEDULER_LINE = '\n{"i": [[], []], "r": [[0.1], 0, 0.1, 0], "v": "v0.6"}\n'


def declared(folder: Path, ir: str | None = None) -> Any:
    (folder / "pyproject.toml").write_text(TABLE)
    return declare("mine", folder, ir, None, folder).tuning


@pytest.mark.once
def test_logs_are_told_apart_by_their_content(tmp_path: Path) -> None:
    log = tmp_path / "log"
    for text, kind in ((AUTOTVM_LINE, AUTOTVM), (AUTO_SCHEDULER_LINE, AUTO_SCHEDULER)):
        log.write_text(text)
        found = declared(tmp_path, "relay")
        assert (found.kind, found.path) == (kind, log)
        with pytest.raises(SettingsError, match=r"reference-tuning: .*, which tunes Relay and not Relax"):
            declared(tmp_path, "relax")
    log.unlink()
    log.mkdir()
    for name in ("database_workload.json", "database_tuning_record.json"):
        (log / name).touch()
    assert declared(tmp_path).kind == META_SCHEDULE
    with pytest.raises(SettingsError, match="by meta-schedule, which tunes Relax and not Relay"):
        declared(tmp_path, "relay")
    (log / "database_workload.json").unlink()
    with pytest.raises(SettingsError, match=r"database of meta-schedule: it has no database_workload\.json"):
        declared(tmp_path)


@pytest.mark.once
@pytest.mark.parametrize("text", ["", "no JSON", "[1, 2]", '{"input": 3}', "\udcff"])
def test_files_that_are_no_logs(tmp_path: Path, text: str) -> None:
    (tmp_path / "log").write_text(text, errors="surrogateescape")
    with pytest.raises(SettingsError, match="is no tuning log: expected lines of JSON as AutoTVM or"):
        declared(tmp_path)


# --- sessions --------------------------------------------------------------------------------------


def written(folder: Path, ir: str) -> Path:
    (folder / "pyproject.toml").write_text(TABLE)
    (folder / "made.py").write_text(MADE[ir] + FUNCTIONS)
    return folder / "made.py"


def test_a_model_is_measured(pytester: pytest.Pytester, ir: str) -> None:
    path = written(pytester.path, ir)
    plain = session(pytester, ir, "example_c", f"--byoc-model={path}:three", "--byoc-report=plain")
    assert plain.ret == 0
    (model,) = json.loads((pytester.path / "plain" / "report.json").read_text())["models"]
    assert "speed" not in model
    plain.stdout.no_fnmatch_line("*a run takes*")
    asked = (f"--byoc-model={path}:three", "--byoc-time", "--byoc-report=timed")
    timed = session(pytester, ir, "example_c", *asked)
    assert timed.ret == 0
    timed.stdout.fnmatch_lines([
        "model[[]three[]]: pass; 2 of 2 operators offloaded*",
        "  a run takes *, LLVM * (*x); peak memory *B, LLVM *B",
    ])
    found = json.loads((pytester.path / "timed" / "report.json").read_text())
    (model,) = found["models"]
    assert found["speed"] == [model["speed"]]
    assert model["speed"]["case"] == "model[three]"
    assert min(model["speed"][f"{name}_us"] for name in ("target", "llvm")) > 0
    assert "tuned_us" not in model["speed"] and "not_tuned" not in model["speed"]
    assert "a run takes" in (pytester.path / "timed" / "report.html").read_text()


@pytest.mark.parametrize("number", [0, 1])
def test_llvm_with_a_tuning_log(pytester: pytest.Pytester, ir: str, number: int) -> None:
    if number >= len(TUNERS[ir]):
        pytest.skip(f"{ir} has one tuner")
    path, log = written(pytester.path, ir), pytester.path / "log"
    script = FIXTURES / "tuning_log.py"
    subprocess.run([PYTHON, script, TUNERS[ir][number], log, "3"], check=True, timeout=120)
    models = [f"--byoc-model={path}:{name}" for name in ("three", "four")]
    result = session(pytester, ir, "mine", *models, "--byoc-time", "--byoc-report=out")
    assert result.ret == 0
    result.stdout.fnmatch_lines([
        "model[[]three[]]: pass*", "  a run takes *, LLVM * (*x), tuned LLVM * (*x); peak memory *",
        "model[[]four[]]: pass*", "  a run takes *; no time of tuned LLVM: the tuning log fits nothing of it",
    ])
    report = json.loads((pytester.path / "out" / "report.json").read_text())
    three, four = (model["speed"] for model in report["models"])
    assert three["tuned_us"] > 0 and three["tuned_peak_bytes"] > 0 and "not_tuned" not in three
    assert "tuned_us" not in four
    assert "tuned LLVM, µs" in (pytester.path / "out" / "report.html").read_text()


def test_logs_that_cannot_be_used(pytester: pytest.Pytester, ir: str) -> None:
    path, log = written(pytester.path, ir), pytester.path / "log"
    result = session(pytester, ir, "mine", f"--byoc-model={path}:three")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    missing = "ERROR: [[]tool.pytest-byoc.targets.mine[]]: reference-tuning: there is no file or folder *log"
    result.stderr.fnmatch_lines([missing])
    # It begins as a log does, and TVM can't read it.
    if ir == "relax":
        log.mkdir()
        for name in ("database_workload.json", "database_tuning_record.json"):
            (log / name).write_text("no JSON\n")
    else:
        log.write_text(AUTO_SCHEDULER_LINE.lstrip())
    result = session(pytester, ir, "mine", f"--byoc-model={path}:three", "--byoc-time")
    assert result.ret == 0
    fails = "LLVM's build with the tuning log fails"
    result.stdout.fnmatch_lines([f"  a run takes *; no time of tuned LLVM: {fails}*"])
