"""Sessions of a target that accumulates in half precision, with and without declaring it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fixtures.faults import FAULTS, Fault, Patch, apply

from .conftest import PYTHON

#: The last term of each dot product is left out.
LAST_TERM = Fault(
    "last_term", 18, "", ("nn.dense",), "numerics",
    (Patch("kernels.py", 'loop("k", depth, [f"acc +=', 'loop("k", max(1, depth - 1), [f"acc +='),),
)


def run(pytester: pytest.Pytester, ir: str, fault: Fault, *declared: str) -> tuple[int, dict[str, object]]:
    """Runs the systematic cases of nn.dense in float32 by a target with that fault and these
    settings. The planted rounding to half precision does not support infinities, and extreme values
    overflow in it."""
    path = apply(fault, pytester.path) / "__init__.py"
    lines = ["[tool.pytest-byoc.targets.mine]", f'partition = "{path}:target"', *declared]
    pytester.makepyprojecttoml("\n".join(lines))
    result = pytester.runpytest_subprocess(
        "--byoc-target=mine", f"--byoc-python={PYTHON}", f"--byoc-ir={ir}", "--byoc-operators=nn.dense",
        "--byoc-report=out", "--byoc-level=smoke", "-x",
        "-k", "test_operator and float32 and not infinities and not extremes",
        "-p", "no:cacheprovider", timeout=300,
    )
    report: dict[str, object] = json.loads(Path(pytester.path, "out", "report.json").read_text())
    note = "the target declares lower precision, which widens the error bounds: it accumulates"
    assert (note in result.stdout.str()) == bool(declared)
    return int(result.ret), report


@pytest.mark.once
def test_half_precision_fails_unless_it_is_declared(pytester: pytest.Pytester, ir: str) -> None:
    half = FAULTS["half_accumulator"]
    status, report = run(pytester, ir, half)
    assert status == pytest.ExitCode.TESTS_FAILED
    assert {f["check"] for f in report["failures"]} == {"numerics"}  # type: ignore[attr-defined]
    status, report = run(pytester, ir, half, 'accumulate-dtype = { float32 = "float16" }')
    assert status == pytest.ExitCode.OK and report["failures"] == []
    assert report["outcomes"]["pass"] >= 10  # type: ignore[index]
    vague = {case for case, o in report["cases"].items() if o == "inconclusive"}  # type: ignore[attr-defined]
    # Sums of 260 or 1000 terms in float16 cannot be judged.
    long = ("tiles_4x260x3", "tiles_1x1031x260", "tiles_5x1031x30", "tiles_33x1031x97", "large")
    assert vague <= {f"nn.dense[float32-{label}]" for label in long}
    assert report["precision"] == "accumulates float32 in float16"


@pytest.mark.once
def test_a_declaration_does_not_excuse_wrong_results(pytester: pytest.Pytester, ir: str) -> None:
    status, report = run(pytester, ir, LAST_TERM, 'accumulate-dtype = "float16"')
    assert status == pytest.ExitCode.TESTS_FAILED
    assert {f["check"] for f in report["failures"]} == {"numerics"}  # type: ignore[attr-defined]


@pytest.mark.once
@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('contraction-dtype = "tf32"', "*target *: contraction_dtype, *one of tfloat32, *found 'tf32'*"),
        ("contraction-dtype = 19", "*contraction-dtype must be a string, found 19*"),
        ('flush-subnormals = "no"', "*flush-subnormals must be true or false, found 'no'*"),
        ("function-ulps = { relu = 2 }", "*the accuracy of 'relu' cannot be declared, only that of *exp,*"),
        ('executors = ["vmm"]', "*target *: executors contains 'vmm'; known are graph, vm, aot*"),
        ('executors = "aot"', "*target *: executors must name one of *vm*found aot*"),
    ],
)
def test_invalid_declarations_fail(pytester: pytest.Pytester, ir: str, line: str, message: str) -> None:
    pytester.makepyprojecttoml(
        '[tool.pytest-byoc.targets.mine]\npartition = "pytest_byoc.examples.example_c:target"\n' + line
    )
    result = pytester.runpytest_subprocess("--byoc-target=mine", f"--byoc-python={PYTHON}", f"--byoc-ir={ir}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])
