"""Finds the operators that cannot be tested with the workers' TVM, so that the others still are."""

from __future__ import annotations

from collections.abc import Iterable

from ..core.graph import Graph
from ..examination.workers import Workers
from ..generation import data, without_llvm
from ..generation.systematic import cases, default_case
from ..operators import OPERATORS, measured


def unusable_operators(workers: Workers, names: Iterable[str]) -> dict[str, str]:
    """Returns the reason for each operator that the IR has in general but that cannot be tested
    here."""
    found = generate(names, workers.ir)
    # The TVM version that the records were measured with has all operators.
    if workers.versions.get("tvm") != measured.table().get(workers.ir, {}).get("tvm"):
        left = [n for n in names if n not in found and workers.ir in OPERATORS[n].irs()]
        found.update(_not_lowered(workers, left))
    return found


def generate(names: Iterable[str], ir: str) -> dict[str, str]:
    """Generates the systematic cases of an IR's operators, which are kept from then on.

    Returns the reason for each operator whose cases can't be generated."""
    found = {}
    for name in names:
        if ir in OPERATORS[name].irs():
            try:
                cases([name], ir)
                without_llvm.cases([name], ir)
            except Exception as e:  # Whatever one record raises, the other operators are tested.
                found[name] = f"its cases could not be generated: {_in_words(e)}"
    return found


def _not_lowered(workers: Workers, names: Iterable[str]) -> dict[str, str]:
    """Returns the reason for each operator whose simplest case this TVM cannot express."""
    graphs = {n: default_case(n, OPERATORS[n].dtypes[0], workers.ir).graph for n in names}
    found = {}
    # A job ends at an operator that ends the process; the next job begins after that operator.
    while graphs:
        report = workers.ask_reference({"kind": "types", "graphs": [_entry(g) for g in graphs.values()]})
        said = [value for _, value in report.facts("types")]
        for name, types in zip(graphs, said):
            if isinstance(types, str):
                found[name] = f"this TVM cannot express it: {types.strip().splitlines()[-1]}"
        rest = list(graphs)[len(said) :]
        if rest:
            found[rest[0]] = f"this TVM cannot express it: the process {report.ended}"
        graphs = {name: graphs[name] for name in rest[1:]}
    return found


def _entry(graph: Graph) -> dict[str, object]:
    return {"graph": graph.to_dict(), "constants": data.constants(graph)}


def _in_words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
