"""Writes the pages of docs/ that are made from the code and from the tests' tables.

docs/reference/operators/ has a page for each family of operators, from the records;
docs/explanation/kernels-checked.md says what each kernel is checked against; `scoreboard_page` makes
docs/reference/scoreboard.md from the results beside it, and `reference_pages` the rest of docs/reference/.

    python scripts/write_docs.py
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import reference_pages
import scoreboard_page
from markdown_pages import NOTE

from pytest_byoc.core.graph import TensorType, show
from pytest_byoc.core.irs import IR_TITLES
from pytest_byoc.generation.systematic import default_case
from pytest_byoc.operators import FAMILIES, OPERATORS, measured
from pytest_byoc.operators.record import Operator, Parameter
from pytest_byoc.report.to_onnx import MAPPING
from tests.others import TABLES
from tests.plain import WRITTEN_OUT, evaluated_by

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"


def pages() -> dict[str, str]:
    """Returns the text of each page by its file name."""
    made = {"index.md": _overview()}
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
        f"The catalogue holds {len(OPERATORS)} operators: {counts['relay']} in Relay, "
        f"{counts['relax']} in Relax.",
        "",
        NOTE,
        "",
        "The page of a family has for each operator: its names in the IRs, its dtypes, its error bound, the",
        "values of its parameters by class, and its simplest case. [Options](../options.md) says how to list",
        "them on a terminal (`--byoc-list-operators`).",
        "",
        "TVM's own LLVM build does not run the dtypes in parentheses. That was measured with",
        " and ".join(f"{IR_TITLES[ir]} of TVM {part['tvm']}" for ir, part in sorted(measured.table().items()))
        + ".",
        "Nothing can be judged there, and no graph is generated. Cases at the edges (special values, a large",
        "tensor, a tensor of one element, of rank 0, without elements) are left out where TVM's build fails",
        "or is wrong, or where too few elements have a certain value; `pytest_byoc/operators/measured.json`",
        "has the reasons.",
        "",
    ]
    for family in FAMILIES:
        if family.OPERATORS:
            names = ", ".join(f"`{op.name}`" for op in family.OPERATORS)
            lines += [f"- [{_summary(family)}]({_file(family)}): {names}"]
    files = [_file(family) for family in FAMILIES if family.OPERATORS]
    lines += ["", "```{toctree}", ":hidden:", ":maxdepth: 1", "", *files, "```"]
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

%s

A kernel of `reference_kernels` decides which values are right. Each is held to account in three
ways.

- *Plain evaluation* (`tests/plain`, run by `tests/test_kernels.py`) computes the operator once
  more, sharing no code with the kernel, over the record's shapes and attributes drawn at random. In
  float64 the kernel's value is the same to 1e-13. In float32, float16 and bfloat16, with sums made
  in three orders, the results lie inside the bound. *Written out* means loops and indexing of the
  test's own.
- *Another library* computes the value for the attributes that it has (`tests/others`, run by
  `tests/test_others.py`). The values agree to 1e-13, or to 5e-6 where ONNX's evaluator computes in
  float32 itself. `tests/test_bundle.py` does the same over all systematic cases for the operators
  that `report/to_onnx.py` writes as a model.
- *TVM's LLVM* (`tests/test_against_tvm.py`): its results lie inside the bound over systematic cases
  (one in %d of them, unless `BYOC_TEST_STRIDE` says otherwise) and random graphs, in the numbers of
  dtypes below. TVM is no authority on what is right ([it gets some cases wrong](tvm-faults.md)),
  but it shares no code with pytest-byoc.

Of %d kernels %d are checked against another library or in rational arithmetic. Neither ONNX nor
SciPy has the operators of the other %d as such; most of them are made of parts (moving elements,
sums, resampling) that are checked where they are operators themselves.

| operator | plain evaluation | another library | LLVM, Relay | LLVM, Relax |
| --- | --- | --- | --- | --- |
"""


def stride() -> int:
    """Returns n, where tests/test_against_tvm.py runs one in n systematic cases."""
    text = (ROOT / "tests" / "test_against_tvm.py").read_text(encoding="utf-8")
    return int(text.partition('"BYOC_TEST_STRIDE", "')[2].partition('"')[0])


def kernels_checked() -> str:
    """Returns the text of docs/explanation/kernels-checked.md."""
    alone = sum(evaluated_by(n) == WRITTEN_OUT and not others(n) for n in OPERATORS)
    page = _CHECKED % (NOTE, stride(), len(OPERATORS), len(OPERATORS) - alone, alone)
    for op in OPERATORS.values():
        counts = [len(measured.dtypes(op, ir)) if ir in op.irs() else 0 for ir in IR_TITLES]
        ran = [f"{n} dtype{'s' * (n > 1)}" if n else "" for n in counts]
        cells = (f"`{op.name}`", evaluated_by(op.name), ", ".join(others(op.name)), *ran)
        page += "|" + "|".join(f" {c} " if c else " " for c in cells) + "|\n"
    return page


def written() -> dict[Path, str]:
    """Returns the text of every generated page by its path within docs/."""
    operators = {Path("reference") / "operators" / name: text for name, text in pages().items()}
    return {
        **operators,
        Path("explanation") / "kernels-checked.md": kernels_checked(),
        scoreboard_page.PAGE.relative_to(DOCS): scoreboard_page.committed(),
        **reference_pages.pages(),
    }


def main() -> None:
    texts = written()
    folder = DOCS / "reference" / "operators"
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.md"):
        if old.relative_to(DOCS) not in texts:
            old.unlink()
    for path, text in texts.items():
        (DOCS / path).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
