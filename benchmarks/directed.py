"""How often generated graphs reach a target's patterns.

    python benchmarks/directed.py --ir relay --python PATH_TO_PYTHON_WITH_TVM [--only dnnl,…] [--graphs 200]

For each pattern table inside TVM: how many of its patterns are matched, which are not and why, and which
share of directed graphs of ten operators contain a composite of the table. Nothing is built.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.tables import RELAX, RELAY
from pytest_byoc.claims import Claims
from pytest_byoc.generation.patterns import Found, search
from pytest_byoc.generation.strategies import graphs
from pytest_byoc.graph import Graph
from pytest_byoc.worker.client import Worker

OPERATORS = 10
SECONDS = 60.0


@dataclass
class Result:
    """patterns: of the table; found: those a graph was found for; met: those met in the directed graphs.
    hits: directed graphs with a composite of the table. seconds: of the search, of everything else."""

    table: str
    patterns: int
    found: int = 0
    met: int = 0
    hits: int = 0
    graphs: int = 0
    operators: float = 0.0
    searching: float = 0.0
    seconds: float = 0.0
    unmatched: dict[str, str] = field(default_factory=dict)


def directed(found: Sequence[Found], ir: str, count: int) -> list[Graph]:
    """Graphs of ten operators, made around the fragments; each fragment gets its turn."""
    fragments = [f.fragments[0].graph for f in found if f.fragments]
    if not fragments:
        return []
    made: list[Graph] = []

    @settings(
        max_examples=count, derandomize=True, database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(graphs(ir=ir, min_nodes=OPERATORS, max_nodes=OPERATORS, fragments=fragments))
    def collect(graph: Graph) -> None:
        made.append(graph)

    collect()
    return made


def measure(table: str, ir: str, python: str, count: int) -> Result:
    attribute = f"{ir}_{table.replace('-', '_')}"
    reference = f"{Path(__file__).with_name('tables.py')}:{attribute}"
    declaration = {"name": table, "reference": reference, "options": {}}
    config = {"role": "target", "ir": ir, "memory": 0, "target": declaration, "libraries": [], "sys_path": []}
    worker = Worker(python, config, SECONDS)
    worker.start()
    worker.ready()
    try:
        claims = Claims(worker)
        patterns = claims.patterns()
        names = {p.name for p in patterns}
        result = Result(table, len(names))
        start = time.monotonic()
        found = [search(p, ir, claims.composites) for p in patterns]
        result.searching = time.monotonic() - start
        matched = {f.pattern for f in found if f.fragments}
        result.found = len(matched)
        result.unmatched = {f.pattern: f.reason for f in found if f.pattern not in matched}
        made = directed(found, ir, count)
        result.graphs = len(made)
        result.operators = sum(len(g.nodes) for g in made) / max(len(made), 1)
        composites = [c or frozenset() for c in claims.composites(made)]
        result.hits = sum(bool(c & names) for c in composites)
        result.met = len(names & frozenset().union(*composites)) if composites else 0
        result.seconds = time.monotonic() - start
        return result
    finally:
        worker.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--ir", choices=["relay", "relax"], required=True)
    parser.add_argument("--python", default=sys.executable, help="interpreter that holds TVM")
    parser.add_argument("--only", default="", help="tables, separated by commas")
    parser.add_argument("--graphs", type=int, default=200)
    parser.add_argument("--json", default=None, help="write the results there as well")
    options = parser.parse_args()
    tables = RELAY if options.ir == "relay" else RELAX
    results = []
    print(f"{'table':16} patterns  matched  met in graphs  graphs  with a composite  operators  seconds")
    for table in options.only.split(",") if options.only else tables:
        r = measure(table, options.ir, options.python, options.graphs)
        results.append(r)
        share = f"{r.hits / r.graphs:.1%}" if r.graphs else "-"
        print(
            f"{r.table:16} {r.patterns:8}  {r.found:7}  {r.met:13}  {r.graphs:6}  {share:>16}  "
            f"{r.operators:9.1f}  {r.seconds:7.0f}",
            flush=True,
        )
        for name, reason in r.unmatched.items():
            print(f"    {name}: {reason}", flush=True)
    total = sum(r.patterns for r in results)
    print(f"{sum(r.found for r in results)} of {total} patterns matched")
    if options.json:
        Path(options.json).write_text(json.dumps([asdict(r) for r in results], indent=1))


if __name__ == "__main__":
    main()
