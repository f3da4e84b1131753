"""How much ground generated graphs cover.

    python benchmarks/diversity.py --ir relay [--seconds 300] [--operators 10]

Generates graphs for so many CPU-seconds, all in one process and nothing else, and counts the distinct
operators, (operator, dtype), (operator, dtype, rank) and (operator, dtype, rank, attributes) in them.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from pytest_byoc.generation.strategies import graphs
from pytest_byoc.graph import Graph

#: Graphs of one search: Hypothesis remembers what it has made.
AT_ONCE = 2000


class Seen:
    """Distinct things met so far."""

    def __init__(self) -> None:
        self.graphs = 0
        self.sets: dict[str, set[tuple[object, ...]]] = {
            name: set() for name in ("operators", "with dtype", "with rank", "with attributes")
        }

    def add(self, graph: Graph) -> None:
        self.graphs += 1
        for node in graph.nodes:
            x = graph.type_of(node.inputs[0])
            key = (node.op, x.dtype, x.rank, json.dumps(node.attrs, sort_keys=True))
            for length, found in enumerate(self.sets.values(), 1):
                found.add(key[:length])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--ir", choices=["relay", "relax"], required=True)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--operators", type=int, default=10)
    options = parser.parse_args()
    seen, start, turn = Seen(), time.process_time(), 0
    n = options.operators
    while time.process_time() - start < options.seconds:
        turn += 1

        @seed(turn)
        @settings(
            max_examples=AT_ONCE, database=None, deadline=None, phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(graphs(ir=options.ir, min_nodes=n, max_nodes=n))
        def generate(graph: Graph) -> None:
            if time.process_time() - start < options.seconds:
                seen.add(graph)

        generate()
    spent = time.process_time() - start
    counts = ", ".join(f"{len(found)} {name}" for name, found in seen.sets.items())
    print(f"{options.ir}: {seen.graphs} graphs of {n} operators in {spent:.0f} CPU-seconds: {counts}")


if __name__ == "__main__":
    main()
