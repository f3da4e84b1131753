"""Writes docs/operators/: a page for each family of operators, from the records.

    python scripts/write_operator_docs.py
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from pytest_byoc.generation.systematic import default_case
from pytest_byoc.graph import TensorType, show
from pytest_byoc.operators import FAMILIES, OPERATORS, measured
from pytest_byoc.operators.record import Operator, Parameter

ROOT = Path(__file__).resolve().parent.parent
TITLES = {"relay": "Relay", "relax": "Relax"}


def pages() -> dict[str, str]:
    """The text of each page by its file name."""
    made = {"README.md": _overview()}
    for family in FAMILIES:
        if family.OPERATORS:
            made[_file(family)] = _page(family)
    return made


def _file(family: Any) -> str:
    return family.__name__.rpartition(".")[2] + ".md"


def _overview() -> str:
    counts = {ir: sum(ir in op.irs() for op in OPERATORS.values()) for ir in TITLES}
    lines = [
        "# Operators",
        "",
        f"{len(OPERATORS)} operators: {counts['relay']} in Relay, {counts['relax']} in Relax. Generated from",
        "the records in `pytest_byoc/operators/` by `python scripts/write_operator_docs.py`.",
        "",
        "Dtypes in parentheses are those TVM's own LLVM build does not run, measured with "
        + ", ".join(f"{TITLES[ir]} of TVM {part['tvm']}" for ir, part in sorted(measured.table().items()))
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
    names = [f"{TITLES[ir]} `{getattr(op, ir).op}`" for ir in op.irs()]
    lines = [f"## `{op.name}`", "", f"- In {', '.join(names)}"]
    for ir in op.irs():
        lines.append(f"- Dtypes in {TITLES[ir]}: {_dtypes(op, ir)}")
    lines.append(f"- Error bound: {op.accuracy}")
    for ir in op.irs():
        left_out = sorted(measured.table()[ir].get("left_out", {}).get(op.name, {}))
        if left_out:
            lines.append(f"- Not tried at these edges in {TITLES[ir]}: {', '.join(left_out)}")
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
    """Classes over all of the record's shapes, the other parameters at their defaults."""
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


def main() -> None:
    folder = ROOT / "docs" / "operators"
    folder.mkdir(parents=True, exist_ok=True)
    made = pages()
    for old in folder.glob("*.md"):
        if old.name not in made:
            old.unlink()
    for name, text in made.items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
