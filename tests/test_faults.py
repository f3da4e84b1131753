"""Tests that faults planted in the example target are found by the checks made for them."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

import fixtures.faults
from fixtures.faults import (
    CLASSES,
    EXAMPLE,
    FAULTS,
    WITHOUT_CHECK,
    WITHOUT_FAULT,
    Fault,
    FaultError,
    Patch,
    apply,
)
from pytest_byoc.checks import CHECKS
from pytest_byoc.config import plan
from pytest_byoc.config.levels import LEVELS
from pytest_byoc.operators import OPERATORS
from pytest_byoc.report import bundle

from .conftest import PYTHON

#: By check, a fault that only this check finds, or that it finds first: (fault, test that shows it,
#: -k).
FIRST_SEEN_BY = {
    "process": ("crash_in_partition", "test_operator", "shape_2x3x4x5"),
    "offload": ("predicate_raises", "test_operator", "sum and axis_all"),
    "inputs-unmodified": ("input_overwritten", "test_operator", "nn.relu"),
    "outputs-written": ("vector_tail", "test_operator", "nn.relu"),
    "numerics": ("constants_cached", "test_structure", "constants_in_two_regions"),
    "fenv": ("denormals_off", "test_operator", "nn.relu"),
    "rerun": ("conv2d_packed_by_address", "test_operator", "conv2d and weight_input"),
    "each-input": ("result_kept_for_first_input", "test_operator", "subtract"),
    "roundtrip": ("constants_in_python", "test_operator", "constant_operand"),
    "build-files": ("constants_in_absolute_file", "test_operator", "constant_operand"),
    "regions": ("regions_trivial", "test_structure", "flows"),
    "bystanders": ("others_dropped", "test_thoroughly", "diamond"),
    "idempotent": ("partitioned_once", "test_thoroughly", "diamond"),
    "annotated": ("marks_left_alone", "test_thoroughly", "diamond"),
    "ir-json": ("attribute_not_saved", "test_thoroughly", "diamond"),
    "inline-back": ("meaning_changed", "test_thoroughly", "inputs_reversed"),
    "opt-levels": ("relu_left_to_a_pass", "test_operator", "nn.relu"),
    "instances": ("handles_run_out", "test_operator", "nn.relu"),
    "moved": ("constants_in_folder", "test_operator", "constant_operand"),
    "views": ("byte_offset_ignored", "test_operator", "nn.relu"),
    "overread": ("read_one_ahead", "test_operator", "nn.relu"),
    "aliasing": ("output_is_view", "test_operator", "reshape"),
    "threads": ("workspace_static", "test_thoroughly", "large"),
    "memory": ("workspace_leaked", "test_thoroughly", "long_chain"),
    "archive": ("header_beside_compiler", "test_thoroughly", "diamond"),
    "params": ("blob_required", "test_thoroughly", "diamond"),
    "aot": ("rank_asked", "test_thoroughly", "diamond"),
    "unbound": ("bias_input_dropped", "test_thoroughly", "uniform_constants"),
    "non-op-nodes": ("every_node_has_arguments", "test_thoroughly", "host_between"),
    "size": ("constants_twice", "test_thoroughly", "large_weight"),
    "batches": ("cache_keyed_without_batch", "test_thoroughly", "diamond"),
    "dynamic": ("dynamic_is_one", "test_thoroughly", "diamond"),
    "equivalent": ("long_sum_cut", "test_thoroughly", "long_sums"),
    "together": ("constants_registered", "test_thoroughly", "constants_in_two_regions"),
    "reproducible": ("sum_order_by_hash", "test_thoroughly", "weights_alike"),
    "missing-library": ("runtime_not_linked", "test_thoroughly", "diamond"),
    "overrun": ("workspace_short", "test_thoroughly", "long_chain"),
    "truncated": ("head_of_saved_subtracted", "test_thoroughly", "diamond"),
    "surroundings": ("traps_ignored", "test_operator", "nn.relu"),
    "exit": ("crash_at_exit", "test_operator", "nn.relu"),
}
#: The entries that differ by IR, by check and IR.
OF_IR = {
    # Where example_c offloads graphs with open extents, the faults are in reading them.
    ("dynamic", "relax"): ("open_axis_read_as_batch", "test_thoroughly", "diamond"),
    ("regions", "relax"): ("regions_out_of_order", "test_structure", "host_between"),
    # Under Relay's VM, TVM's own kernels read views from their beginning.
    ("views", "relay"): ("dense_strides_refused", "test_operator", "nn.relu"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_fault_applies(name: str, tmp_path: Path) -> None:
    fault = FAULTS[name]
    assert fault.name == name and name.isidentifier()
    assert {fault.check or "process", *fault.also} <= {"process", *(c.id for c in CHECKS)}
    assert fault.operators and set(fault.operators) <= set(OPERATORS)
    path = apply(fault, tmp_path)
    for patch in fault.patches:
        changed = (path / patch.file).read_text()
        assert changed != (EXAMPLE / patch.file).read_text()
        compile(changed, patch.file, "exec")


def test_a_patch_that_does_not_apply_is_named(tmp_path: Path) -> None:
    patch = Patch("support.py", "no such text", "")
    with pytest.raises(FaultError, match=r"fault f: in example_c/support.py .* 0 times.*\nno such text"):
        apply(Fault("f", 1, "", ("add",), "numerics", (patch,)), tmp_path)


def test_every_class_of_bugs_has_a_fault_or_a_reason() -> None:
    everything = set(range(1, CLASSES + 1))
    assert {f.bug_class for f in FAULTS.values()} == everything - set(WITHOUT_FAULT)
    seen = {f.bug_class for f in FAULTS.values() if f.check}
    assert seen == everything - set(WITHOUT_FAULT) - set(WITHOUT_CHECK)
    assert len(FAULTS) >= 100 and all(len(reason) > 10 for reason in WITHOUT_FAULT.values())


def test_names_of_faults_are_unique() -> None:
    names = [fault.name for module in fixtures.faults._MODULES for fault in module.FAULTS]
    assert sorted(names) == sorted(FAULTS)


def test_the_page_of_bug_classes_names_the_checks_that_find_them() -> None:
    page = Path(__file__).parent.parent / "docs" / "explanation" / "bug-classes.md"
    rows = re.findall(r"^\| (\d+) \| [^|]+ \| ([^|]+) \|$", page.read_text(), re.M)
    assert [int(number) for number, _ in rows] == list(range(1, CLASSES + 1))
    seen_by = {int(number): set(re.findall("`([a-z-]+)`", text)) for number, text in rows}
    wrong = [f.name for f in FAULTS.values() if f.check and f.check not in seen_by[f.bug_class]]
    assert not wrong
    others = {"main", "not-offloaded", "--byoc-baseline", "--byoc-fail-under"}
    assert {n for names in seen_by.values() for n in names} - others <= {"process", *(c.id for c in CHECKS)}


def test_every_check_has_a_fault() -> None:
    page = Path(__file__).parent.parent / "docs" / "reference" / "checks.md"
    documented = re.findall(r"^\| `([a-z-]+)` \|", page.read_text(), re.M)
    assert set(FIRST_SEEN_BY) == set(documented)
    for check, (name, _, _) in [*FIRST_SEEN_BY.items(), *((c, f) for (c, _), f in OF_IR.items())]:
        assert FAULTS[name].check == check


#: Checks that compare runs of artifacts, and do not look at modules: one IR is enough.
OF_RUNS = frozenset(c.id for c in CHECKS if c.reload is not None and c.observe is None) | {
    "process", "inputs-unmodified", "outputs-written", "numerics", "fenv", "rerun", "each-input", "roundtrip",
    "size", "batches", "together", "reproducible", "surroundings",
}


def level_of(check: str, module: str) -> str:
    """Returns the fastest level that makes the check in that module of the suite."""
    # Smoke may choose an executor under which no view reaches the target.
    at_smoke = set(plan.effort(LEVELS["smoke"]).checks) - {"views"}
    every = module != "test_thoroughly" and check in at_smoke
    return "smoke" if every else "standard"


def the_failure(
    pytester: pytest.Pytester, ir: str, name: str, pattern: str, level: str = "standard"
) -> dict[str, Any]:
    """Runs a session on a fault, which its first failing test ends, and returns the report entry of the
    first failure."""
    fault = FAULTS[name]
    target = apply(fault, pytester.path)
    result = pytester.runpytest_subprocess(
        f"--byoc-target={target / '__init__.py'}:target", f"--byoc-python={PYTHON}",
        f"--byoc-ir={ir}", f"--byoc-operators={','.join(fault.operators)}", "--byoc-report=out",
        f"--byoc-level={level}",
        "-x", "-k", pattern, "-p", "no:cacheprovider", timeout=300,
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    failure, *_ = json.loads(pytester.path.joinpath("out", "report.json").read_text())["failures"]
    return failure


@pytest.mark.parametrize(
    "check",
    [pytest.param(c, marks=pytest.mark.once) if c in OF_RUNS else c for c in FIRST_SEEN_BY],
)
def test_fault_is_found(
    pytester: pytest.Pytester, ir: str, check: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, module, pattern = OF_IR.get((check, ir)) or FIRST_SEEN_BY[check]
    if ir not in FAULTS[name].irs:
        pytest.skip(f"{check} is not made in {ir}: see docs/reference/checks.md")
    temporary = pytester.mkdir("temporary")
    monkeypatch.setenv("TMPDIR", str(temporary))
    failure = the_failure(pytester, ir, name, f"{module} and ({pattern})", level_of(check, module))
    # Nothing is left, however the target's processes ended.
    assert not list(temporary.iterdir())
    assert failure["check"] == check
    assert len(json.loads(Path(failure["graph"]).read_text())["nodes"]) <= 3
    if check not in (*bundle.REPRODUCED, "process", "memory"):
        return  # The script is the same for all checks that it does not make, "memory" among them.
    if ir == "relax" and check not in OF_RUNS:
        return  # Relay's scripts are run for these checks, Relax's for the others.
    script = Path(failure["graph"]).with_name("reproduce.py")
    done = subprocess.run(
        [PYTHON, str(script)], cwd=pytester.path, capture_output=True, text=True, timeout=180
    )
    assert done.returncode, done.stdout
    assert done.returncode != 1 or "FAILED:" in done.stdout, done.stderr


_BESIDE_TVM = """\
import pytest_byoc as byoc

ROWS = byoc.TensorType((3, 5), "float32")

def test_rounded(byoc_check):
    nodes = (
        byoc.Node("nn.relu", inputs=("x0",), attrs={}, outputs=("v0",), types=(ROWS,)),
        byoc.Node("floor", inputs=("x1",), attrs={}, outputs=("v1",), types=(ROWS,)),
    )
    inputs = tuple(byoc.Source(name, ROWS) for name in ("x0", "x1"))
    byoc_check(byoc.Graph(inputs, constants=(), nodes=nodes, outputs=("v0", "v1")))
"""


def test_views_check_inputs_of_the_target_beside_nodes_run_by_tvm(pytester: pytest.Pytester, ir: str) -> None:
    """Only inputs of the target are views: nodes that TVM runs in the same module do not disable
    the check."""
    target = apply(FAULTS["byte_offset_ignored"], pytester.path)
    pytester.makepyfile(test_mine=_BESIDE_TVM)
    # TVM's own build, too, reads views wrongly under Relay's VM.
    pytester.makepyprojecttoml(
        f"[tool.pytest-byoc.targets.faulty]\npartition = \"{target / '__init__.py'}:target\"\n"
        "strict-views = true\n"
    )
    result = pytester.runpytest_subprocess(
        "--byoc-target=faulty", f"--byoc-python={PYTHON}", f"--byoc-ir={ir}", "--byoc-report=out",
        "-p", "no:cacheprovider", "test_mine.py", timeout=300,
    )
    result.assert_outcomes(failed=1)
    (failure,) = json.loads(pytester.path.joinpath("out", "report.json").read_text())["failures"]
    assert (failure["check"], failure["outcome"]) == ("views", "wrong-result")


def test_a_tuple_passed_on_whole(pytester: pytest.Pytester, ir: str) -> None:
    """The tuple holds inputs in Relay, and is an operator's result in Relax."""
    name = {"relay": "tuple_parameter_reversed", "relax": "whole_tuple_reversed"}[ir]
    failure = the_failure(pytester, ir, name, "test_thoroughly and joined_and_cut")
    assert (failure["check"], failure["outcome"]) == ("non-op-nodes", "wrong-result")
    words = {"relay": "with inputs that are tuples", "relax": "with a tuple passed on whole"}[ir]
    assert f"outside its error bound {words} (vm executor)" in failure["message"]
