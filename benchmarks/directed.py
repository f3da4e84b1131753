"""Measures how often generated graphs match a target's patterns.

    python benchmarks/directed.py --ir relay --python PATH_TO_PYTHON_WITH_TVM [--only dnnl,…] [--graphs 200]

For each pattern table inside TVM it prints the number of patterns that are matched, the reasons for
the others, the number of patterns that occur in directed graphs of ten operators, and the share of
these graphs that contains a composite of the table. Nothing is built.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.options import add_python
from benchmarks.tables import RELAX, RELAY
from pytest_byoc.core.graph import Graph
from pytest_byoc.examination.client import Worker
from pytest_byoc.examination.partitions import Partitions
from pytest_byoc.generation.patterns import search
from pytest_byoc.generation.random_graphs import some
from pytest_byoc.generation.systematic import cases
from pytest_byoc.operators import OPERATORS as OPERATOR_RECORDS

OPERATORS = 10
SECONDS = 60.0


@dataclass
class Result:
    """The result for one table.

    patterns: the number of its patterns, of which are matched, shadowed (their graphs match other
    patterns of the table first) or never matched. operators: the number of offloaded operators, if
    the table has no patterns. met: patterns matched in the directed graphs. hits: directed graphs
    with a composite of the table, or with a region if it has no patterns. nodes: mean number of
    operators of a directed graph. searching: seconds of the search. seconds: seconds in total.
    reasons: why patterns are not matched."""

    table: str
    patterns: int
    matched: int = 0
    shadowed: int = 0
    never: int = 0
    operators: int = 0
    met: int = 0
    hits: int = 0
    graphs: int = 0
    nodes: float = 0.0
    searching: float = 0.0
    seconds: float = 0.0
    reasons: dict[str, str] = field(default_factory=dict)


def directed(fragments: Sequence[Graph], ir: str, count: int) -> list[Graph]:
    """Returns graphs of ten operators, generated around each of the fragments in turn; always the
    same ones."""
    graphs: list[Graph] = []
    for number, fragment in enumerate(fragments):
        wanted = count * (number + 1) // len(fragments) - len(graphs)
        if wanted > 0:
            graphs += _around(fragment, fragments, ir, wanted, number)
    return graphs


def _around(fragment: Graph, fragments: Sequence[Graph], ir: str, count: int, number: int) -> list[Graph]:
    # The first graph is as small as possible, so one more is generated and the first left out.
    limits = {"min_nodes": OPERATORS, "max_nodes": OPERATORS}
    return some(count + 1, number, ir=ir, fragments=fragments, fragment=fragment, **limits)[-count:]


def offloaded_cases(partitions: Partitions, ir: str) -> list[Graph]:
    """Returns the first offloaded systematic case of each operator that the target offloads."""
    all_cases = cases(list(OPERATOR_RECORDS), ir)
    first: dict[str, Graph] = {}
    for case, partition in zip(all_cases, partitions.survey(c.graph for c in all_cases)):
        if partition is not None and any(partition.offloaded):
            first.setdefault(case.operator, case.graph)
    return list(first.values())


def measure(table: str, ir: str, python: str, count: int) -> Result:
    attribute = f"{ir}_{table.replace('-', '_')}"
    reference = f"{Path(__file__).with_name('tables.py')}:{attribute}"
    declaration = {"name": table, "reference": reference, "options": {}}
    config = {"role": "target", "ir": ir, "memory": 0, "target": declaration, "libraries": [], "sys_path": []}
    worker = Worker(python, config, SECONDS)
    worker.start()
    worker.ready()
    try:
        partitions = Partitions(worker)
        patterns = partitions.patterns()
        result = Result(table, len(patterns))
        start = time.monotonic()
        found = [search(p, ir, partitions.composites, partitions.alone) for p in patterns]
        fragments = [f.fragments[0].graph for f in found if f.fragments]
        for f in found:
            setattr(result, f.fate, getattr(result, f.fate) + 1)
        result.reasons = {f"{f.fate}: {f.pattern}": f.reason for f in found if f.reason}
        if not patterns:
            fragments = offloaded_cases(partitions, ir)
            result.operators = len(fragments)
        result.searching = time.monotonic() - start
        made = directed(fragments, ir, count)
        result.graphs = len(made)
        result.nodes = sum(len(g.nodes) for g in made) / max(len(made), 1)
        seen = [c for c in partitions.survey(made) if c is not None]
        names = {p.name for p in patterns}
        result.hits = sum(bool(c.composites & names) if names else c.regions > 0 for c in seen)
        composites = frozenset[str]().union(*(c.composites for c in seen))
        result.met = sum(f.fate == "matched" and p.name in composites for f, p in zip(found, patterns))
        result.seconds = time.monotonic() - start
        return result
    finally:
        worker.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--ir", choices=["relay", "relax"], required=True)
    add_python(parser)
    parser.add_argument("--only", default="", help="tables, separated by commas")
    parser.add_argument("--graphs", type=int, default=200)
    parser.add_argument("--json", default=None, help="write the results there as well")
    options = parser.parse_args()
    tables = RELAY if options.ir == "relay" else RELAX
    results = []
    heads = ("patterns", "matched", "shadowed", "never", "met", "graphs", "with one", "operators", "seconds")
    print(f"{'table':16}" + "".join(f"{head:>10}" for head in heads))
    for table in options.only.split(",") if options.only else tables:
        r = measure(table, options.ir, options.python, options.graphs)
        results.append(r)
        share = f"{r.hits / r.graphs:.1%}" if r.graphs else "-"
        print(
            f"{r.table:16}{r.patterns:10}{r.matched:10}{r.shadowed:10}{r.never:10}{r.met:10}{r.graphs:10}"
            f"{share:>10}{r.nodes:10.1f}{r.seconds:10.0f}",
            flush=True,
        )
        for name, reason in r.reasons.items():
            print(f"    {name}: {reason}", flush=True)
    total = sum(r.patterns for r in results)
    matched, shadowed = sum(r.matched for r in results), sum(r.shadowed for r in results)
    print(f"of {total} patterns {matched} matched, {shadowed} shadowed, {total - matched - shadowed} never")
    if options.json:
        Path(options.json).write_text(json.dumps([asdict(r) for r in results], indent=1))


if __name__ == "__main__":
    main()
