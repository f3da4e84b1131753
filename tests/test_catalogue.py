"""The catalogue against what TVM's own backends claim, and its documentation against the records."""

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
#: What the catalogue is to hold at least.
LEAST = {"relay": 130, "relax": 110}


@lru_cache(maxsize=2)
def claimed(ir: str, python: str) -> dict[str, list[str]]:
    """Operators claimed in that interpreter's TVM, by backend."""
    script = Path(__file__).with_name("claimed_operators.py")
    run = subprocess.run(
        [python, str(script), ir, str(ROOT)], capture_output=True, text=True, timeout=300, check=False
    )
    line = next((x for x in run.stdout.splitlines() if x.startswith("CLAIMED ")), None)
    assert line is not None, run.stderr[-2000:]
    found: dict[str, list[str]] = json.loads(line[len("CLAIMED ") :])
    return found


def recorded(ir: str) -> set[str]:
    return {getattr(op, ir).op for op in OPERATORS.values() if getattr(op, ir) is not None}


def test_what_upstream_backends_claim_is_recorded(ir: str, tvm_python: str) -> None:
    union = {op for ops in claimed(ir, tvm_python).values() for op in ops}
    # So many are claimed in TVM 0.16 and 0.27: fewer would mean that the tables were not found.
    assert len(union) >= (77 if ir == "relay" else 68)
    missing = sorted(union - recorded(ir) - set(ABSENT[ir]))
    assert not missing, f"neither a record nor a reason for {missing}"


@pytest.mark.parametrize("ir", ["relay", "relax"])
def test_reasons_are_given_only_for_what_is_absent(ir: str) -> None:
    assert not set(ABSENT[ir]) & recorded(ir)
    assert all(ABSENT[ir].values())


@pytest.mark.parametrize("ir", ["relay", "relax"])
def test_size_of_the_catalogue(ir: str) -> None:
    count = sum(ir in op.irs() for op in OPERATORS.values())
    assert count >= LEAST[ir]


def test_measurements_are_of_operators_that_exist() -> None:
    for ir, part in measured.table().items():
        for name, fails in part["fails"].items():
            assert name in OPERATORS and ir in OPERATORS[name].irs(), f"measured.json: {ir} {name}"
            assert set(fails) <= set(OPERATORS[name].dtypes), f"measured.json: {ir} {name}"


@pytest.mark.parametrize("ir", ["relay", "relax"])
def test_every_operator_runs_in_some_dtype(ir: str) -> None:
    for op in OPERATORS.values():
        if ir in op.irs():
            assert measured.dtypes(op, ir), f"{op.name}: LLVM runs it in no dtype, so it can't be judged"


def test_documentation_is_what_the_records_say() -> None:
    """`python scripts/write_docs.py` has been run since the records and checks were last changed."""
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
