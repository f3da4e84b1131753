"""Writes the generated pages of the documentation.

These are docs/operators/ with a page for each family of operators (from the records),
docs/kernels-checked.md (from the tests' tables) and the table in docs/checks.md (from the checks).

    python scripts/write_docs.py
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from pytest_byoc.checks import CHECKS
from pytest_byoc.core.graph import TensorType, show
from pytest_byoc.core.irs import IR_TITLES
from pytest_byoc.generation.systematic import default_case
from pytest_byoc.operators import FAMILIES, OPERATORS, measured
from pytest_byoc.operators.record import Operator, Parameter
from pytest_byoc.report.to_onnx import MAPPING
from tests.others import TABLES
from tests.plain import WRITTEN_OUT, evaluated_by

ROOT = Path(__file__).resolve().parent.parent
CHECKS_PAGE = ROOT / "docs" / "checks.md"


def pages() -> dict[str, str]:
    """Returns the text of each page of docs/operators/ by its file name."""
    made = {"README.md": _overview()}
    for family in FAMILIES:
        if family.OPERATORS:
            made[_file(family)] = _page(family)
    return made


def _file(family: Any) -> str:
    return family.__name__.rpartition(".")[2] + ".md"


def _overview() -> str:
    counts = {ir: sum(ir in op.irs() for op in OPERATORS.values()) for ir in IR_TITLES}
    lines = [
        "# Operators",
        "",
        f"{len(OPERATORS)} operators: {counts['relay']} in Relay, {counts['relax']} in Relax. Generated from",
        "the records in `pytest_byoc/operators/` by `python scripts/write_docs.py`.",
        "",
        "Dtypes in parentheses are those TVM's own LLVM build does not run, measured with "
        + ", ".join(f"{IR_TITLES[ir]} of TVM {part['tvm']}" for ir, part in sorted(measured.table().items()))
        + ":",
        "nothing can be judged there, and no graph is generated. Cases at the edges (special values, a large",
        "tensor, one of a single element, of rank 0, of no elements) are left out where TVM's build fails or",
        "is wrong, or too few elements have a value that is sure; `pytest_byoc/operators/measured.json` has",
        "the reasons.",
        "",
    ]
    for family in FAMILIES:
        if family.OPERATORS:
            names = ", ".join(f"`{op.name}`" for op in family.OPERATORS)
            lines += [f"- [{_summary(family)}]({_file(family)}): {names}"]
    return "\n".join(lines) + "\n"


def _summary(family: Any) -> str:
    return (family.__doc__ or "").strip().partition("\n")[0].rstrip(".")


def _page(family: Any) -> str:
    lines = [f"# {_summary(family)}", ""]
    for op in family.OPERATORS:
        lines += _operator(op)
    return "\n".join(lines)


def _operator(op: Operator) -> list[str]:
    names = [f"{IR_TITLES[ir]} `{getattr(op, ir).op}`" for ir in op.irs()]
    lines = [f"## `{op.name}`", "", f"- In {', '.join(names)}"]
    for ir in op.irs():
        lines.append(f"- Dtypes in {IR_TITLES[ir]}: {_dtypes(op, ir)}")
    lines.append(f"- Error bound: {op.accuracy}")
    for ir in op.irs():
        left_out = sorted(measured.table()[ir].get("left_out", {}).get(op.name, {}))
        if left_out:
            lines.append(f"- Not tried at these edges in {IR_TITLES[ir]}: {', '.join(left_out)}")
    if op.domain:
        lines.append(f"- Made for values between {op.domain[0]:g} and {op.domain[1]:g}")
    if op.parameters:
        lines += ["", "| parameter | classes and their values |", "| --- | --- |"]
        lines += [f"| {_parameter_name(p)} | {_classes(op, i)} |" for i, p in enumerate(op.parameters)]
    example = show(default_case(op.name, op.dtypes[0]).graph)
    return [*lines, "", "```text", example, "```", ""]


def _dtypes(op: Operator, ir: str) -> str:
    runs = measured.dtypes(op, ir)
    return ", ".join(d if d in runs else f"({d})" for d in op.dtypes)


def _parameter_name(parameter: Parameter) -> str:
    return f"`{parameter.name}`" if parameter.attribute else f"{parameter.name} (of the operands)"


def _classes(op: Operator, position: int) -> str:
    """Returns the classes of a parameter with their values for all shapes of the record; the
    parameters before it have their defaults."""
    found: dict[str, list[str]] = {}
    for shape in op.shapes:
        x = TensorType(shape, op.dtypes[0])
        chosen: dict[str, Any] = {}
        for parameter in op.parameters[:position]:
            values = parameter.values(x, chosen)
            chosen[parameter.name] = next(iter(values.values()))[0]
        for name, values in op.parameters[position].values(x, chosen).items():
            texts = found.setdefault(name, [])
            texts += [t for t in map(_value, values) if t not in texts]
    return "; ".join(f"{name}: {_some(texts)}" for name, texts in found.items())


def _value(value: Any) -> str:
    return f"`{json.dumps(value)}`"


def _some(texts: Sequence[str], limit: int = 4) -> str:
    return ", ".join(texts[:limit]) + (", …" if len(texts) > limit else "")


# --- what kernels are checked against ------------------------------------------------------------

_ONNX = "ONNX's reference evaluator"


def others(name: str) -> list[str]:
    """Returns the libraries that a kernel is compared to, besides its plain evaluation."""
    # tests/test_bundle.py runs the models of to_onnx over all systematic cases.
    found = [_ONNX] if name in MAPPING else []
    return found + [library for library, table in TABLES.items() if name in table and library not in found]


_CHECKED = """\
# Kernels checked against others

A kernel of `reference_kernels` decides what is right. Here is what holds it to account, made from the tables
of the tests by `python scripts/write_docs.py`.

- *Plain evaluation* (`tests/plain`, run by `tests/test_kernels.py`): the operator once more, sharing no code
  with the kernel, over the record's shapes and attributes drawn at random. In float64 the kernel's value is
  the same to 1e-13; in float32, float16 and bfloat16, with sums made in three orders, its results lie inside
  the bound. *Written out* means loops and indexing of our own.
- *Another library*: the value is what the library says, for those attributes it has (`tests/others`, run by
  `tests/test_others.py`: to 1e-13, or 5e-6 where ONNX's evaluator computes in float32 by itself); for what
  `report/to_onnx.py` writes as a model, over all systematic cases (`tests/test_bundle.py`).
- *TVM's LLVM* (`tests/test_against_tvm.py`): its results lie inside the bound, over systematic cases (CI
  takes one in eight) and random graphs, in so many dtypes of Relay and Relax. TVM is no authority on what is
  right (see [what it gets wrong](tvm-faults.md)), but shares nothing with our code.

Of %d kernels %d are checked against another library or in rational arithmetic. The other %d are of operators
that neither ONNX nor SciPy has as such; what most of them are made of (moving elements, sums, resampling) is
checked where it is an operator of its own.

| operator | plain evaluation | another library | LLVM, Relay | LLVM, Relax |
| --- | --- | --- | --- | --- |
"""


def kernels_checked() -> str:
    """Returns the text of docs/kernels-checked.md."""
    alone = sum(evaluated_by(n) == WRITTEN_OUT and not others(n) for n in OPERATORS)
    page = _CHECKED % (len(OPERATORS), len(OPERATORS) - alone, alone)
    for op in OPERATORS.values():
        counts = [len(measured.dtypes(op, ir)) if ir in op.irs() else 0 for ir in IR_TITLES]
        ran = [f"{n} dtype{'s' * (n > 1)}" if n else "" for n in counts]
        cells = (f"`{op.name}`", evaluated_by(op.name), ", ".join(others(op.name)), *ran)
        page += "|" + "|".join(f" {c} " if c else " " for c in cells) + "|\n"
    return page



def checks_page() -> str:
    """Returns the text of docs/checks.md with a new table from the checks; the rest stays as it
    is."""
    text = CHECKS_PAGE.read_text(encoding="utf-8")
    before, rows, after = re.split(r"((?:^\| `.*\n)+)", text, maxsplit=1, flags=re.M)
    process = rows.partition("\n")[0]
    made = [f"| `{c.id}` | {c.rule} | {c.why} | {c.where or c.made} |" for c in CHECKS]
    return before + "\n".join([process, *made]) + "\n" + after


def main() -> None:
    folder = ROOT / "docs" / "operators"
    folder.mkdir(parents=True, exist_ok=True)
    made = pages()
    for old in folder.glob("*.md"):
        if old.name not in made:
            old.unlink()
    for name, text in made.items():
        (folder / name).write_text(text, encoding="utf-8")
    (ROOT / "docs" / "kernels-checked.md").write_text(kernels_checked(), encoding="utf-8")
    CHECKS_PAGE.write_text(checks_page(), encoding="utf-8")


if __name__ == "__main__":
    main()
