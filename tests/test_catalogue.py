"""Tests of the catalogue against TVM's own backends, and of its documentation against the
records."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

import pytest

from pytest_byoc.operators import FAMILIES, OPERATORS, measured
from pytest_byoc.operators.absent import ABSENT

ROOT = Path(__file__).resolve().parent.parent
#: Least number of operators in the catalogue, by IR.
LEAST = {"relay": 130, "relax": 110}


@lru_cache(maxsize=2)
def supported_operators(ir: str, python: str) -> dict[str, list[str]]:
    """Returns the operators that backends of that interpreter's TVM support, by backend."""
    script = Path(__file__).with_name("supported_operators.py")
    run = subprocess.run(
        [python, str(script), ir, str(ROOT)], capture_output=True, text=True, timeout=300, check=False
    )
    line = next((x for x in run.stdout.splitlines() if x.startswith("SUPPORTED ")), None)
    assert line is not None, run.stderr[-2000:]
    by_backend: dict[str, list[str]] = json.loads(line[len("SUPPORTED ") :])
    return by_backend


def recorded(ir: str) -> set[str]:
    return {getattr(op, ir).op for op in OPERATORS.values() if getattr(op, ir) is not None}


def test_operators_of_upstream_backends_are_recorded(ir: str, tvm_python: str) -> None:
    union = {op for ops in supported_operators(ir, tvm_python).values() for op in ops}
    # TVM 0.16 and 0.27 have this many: fewer would mean that the tables were not found.
    assert len(union) >= (77 if ir == "relay" else 68)
    missing = sorted(union - recorded(ir) - set(ABSENT[ir]))
    assert not missing, f"neither a record nor a reason for {missing}"


@pytest.mark.parametrize("ir", ["relay", "relax"])
def test_reasons_are_given_only_for_absent_operators(ir: str) -> None:
    assert not set(ABSENT[ir]) & recorded(ir)
    assert all(ABSENT[ir].values())


@pytest.mark.parametrize("ir", ["relay", "relax"])
def test_size_of_the_catalogue(ir: str) -> None:
    count = sum(ir in op.irs() for op in OPERATORS.values())
    assert count >= LEAST[ir]


def test_measurements_name_existing_operators() -> None:
    for ir, part in measured.table().items():
        for name, fails in part["fails"].items():
            assert name in OPERATORS and ir in OPERATORS[name].irs(), f"measured.json: {ir} {name}"
            assert set(fails) <= set(OPERATORS[name].dtypes), f"measured.json: {ir} {name}"


@pytest.mark.parametrize("ir", ["relay", "relax"])
def test_every_operator_runs_in_some_dtype(ir: str) -> None:
    for op in OPERATORS.values():
        if ir in op.irs():
            assert measured.dtypes(op, ir), f"{op.name}: LLVM runs it in no dtype, so it can't be judged"


def test_documentation_is_up_to_date() -> None:
    """`python scripts/write_docs.py` has been run since the last change of records and checks."""
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        import write_docs  # type: ignore[import-not-found]
    finally:
        sys.path.pop(0)
    assert len(write_docs.pages()) == len([f for f in FAMILIES if f.OPERATORS]) + 1
    texts = write_docs.written()
    for path, text in texts.items():
        assert (write_docs.DOCS / path).read_text(encoding="utf-8") == text, f"docs/{path} is out of date"
    operators = Path("reference") / "operators"
    there = {operators / p.name for p in (write_docs.DOCS / operators).glob("*.md")}
    assert there == {path for path in texts if path.parent == operators}
    checked = texts[Path("explanation") / "kernels-checked.md"]
    assert all(f"| `{name}` |" in checked for name in OPERATORS)
