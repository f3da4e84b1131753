"""Measures the diversity of generated graphs.

    python benchmarks/diversity.py --ir relay [--seconds 300] [--operators 10] [--nnsmith PYTHON]

Generates graphs for the given CPU seconds in one process, and counts the distinct operators, pairs
of operator and dtypes of its operands, the same with ranks, and with attributes. It also counts the
triples of operator, dtype and class of a parameter, for which NNSmith has no counterpart. With
--nnsmith, an interpreter with NNSmith 0.1.0 does the same for the same time, and is counted in the
same way.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.options import interpreter
from pytest_byoc.core.graph import Graph, Node
from pytest_byoc.generation.builder import first
from pytest_byoc.generation.random_graphs import some
from pytest_byoc.operators import within
from pytest_byoc.suite.novelty import described

#: Number of graphs between two readings of the time.
AT_ONCE = 50
LEVELS = ("operators", "with dtypes", "with ranks", "with attributes")


class Seen:
    """The sets of distinct items generated so far."""

    def __init__(self, ir: str) -> None:
        self.ir = ir
        self.graphs = 0
        self.seconds = 0.0
        self.sets: dict[str, set[tuple[object, ...]]] = {name: set() for name in (*LEVELS, "classes")}

    def add(self, graph: Graph) -> None:
        start = time.process_time()
        self.graphs += 1
        for node in graph.nodes:
            self.sets["classes"].update(self._classes(graph, node))
        for key in described(graph):
            for length, name in enumerate(LEVELS, 1):
                self.sets[name].add(key[:length])
        self.seconds += time.process_time() - start

    def _classes(self, graph: Graph, node: Node) -> list[tuple[object, ...]]:
        x = graph.type_of(node.inputs[0])
        found: list[tuple[object, ...]] = [(node.op, x.dtype)]
        chosen = dict(node.attrs)
        for parameter in within(node.op, self.ir).parameters:
            classes = parameter.values(x, chosen)
            if not parameter.attribute:
                # The graph does not show the value of a parameter that is no attribute.
                chosen[parameter.name] = first(parameter.name, classes)
                continue
            label = next((k for k, v in classes.items() if node.attrs.get(parameter.name) in v), None)
            if label is not None:
                found.append((node.op, x.dtype, parameter.name, label))
        return found


def ours(ir: str, seconds: float, operators: int) -> str:
    seen, start, round_ = Seen(ir), time.process_time(), 0

    def spent() -> float:
        return time.process_time() - start - seen.seconds

    while spent() < seconds:
        round_ += 1
        for graph in some(AT_ONCE, round_, ir=ir, min_nodes=operators, max_nodes=operators):
            seen.add(graph)
    return line(ir, seen.graphs, operators, spent(), {n: len(s) for n, s in seen.sets.items()})


#: The script for NNSmith's interpreter. A failed attempt counts with its time, but yields no graph.
_NNSMITH = """
import json, sys, time
from nnsmith.abstract.op import Constant, Input
from nnsmith.graph_gen import model_gen
from nnsmith.materialize import Model
from nnsmith.narrow_spec import auto_opset

seconds, operators = float(sys.argv[1]), int(sys.argv[2])
levels = sys.argv[3].split(",")
leave_out = ("inp_ranks", "out_ranks", "same_inp_dims", "bind")
opset = auto_opset(Model.init("onnx"))
sets = {name: set() for name in levels}
graphs = failed = round_ = 0
counting, start = 0.0, time.process_time()
while time.process_time() - start - counting < seconds:
    round_ += 1
    try:
        ir = model_gen(opset=opset, method="symbolic-cinit", seed=round_, max_nodes=operators).make_concrete()
    except Exception:
        failed += 1
        continue
    before = time.process_time()
    graphs += 1
    for inst in ir.insts:
        op = inst.iexpr.op
        if isinstance(op, (Input, Constant)):
            continue
        types = [ir.vars[v] for v in inst.iexpr.args]
        attrs = {k: str(v) for k, v in vars(op).items() if k not in leave_out}
        dtypes, ranks = tuple(str(t.dtype) for t in types), tuple(t.ndims for t in types)
        key = (type(op).__name__, dtypes, ranks, json.dumps(attrs, sort_keys=True))
        for length, name in enumerate(levels, 1):
            sets[name].add(key[:length])
    counting += time.process_time() - before
spent = time.process_time() - start - counting
print("RESULT" + json.dumps([graphs, spent, failed, {n: len(s) for n, s in sets.items()}]))
"""


def nnsmith(python: str, seconds: float, operators: int) -> str:
    made = subprocess.run(
        [python, "-c", _NNSMITH, str(seconds), str(operators), ",".join(LEVELS)],
        capture_output=True,
        text=True,
        check=False,
    )
    result = next((t for t in made.stdout.splitlines() if t.startswith("RESULT")), None)
    if result is None:
        sys.exit(f"NNSmith said nothing: {made.stderr[-2000:]}")
    count, spent, failed, counts = json.loads(result[len("RESULT") :])
    return line("NNSmith", count, operators, spent, counts) + f" ({failed} times it made none)"


def line(who: str, count: int, operators: int, spent: float, counts: dict[str, int]) -> str:
    said = ", ".join(f"{n} {name}" for name, n in counts.items())
    return f"{who}: {count} graphs of {operators} operators in {spent:.0f} CPU-seconds: {said}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--ir", choices=["relay", "relax"], action="append", required=True)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--operators", type=int, default=10)
    parser.add_argument("--nnsmith", type=interpreter, default=None, help="interpreter that holds NNSmith")
    options = parser.parse_args()
    for ir in options.ir:
        print(ours(ir, options.seconds, options.operators), flush=True)
    if options.nnsmith:
        print(nnsmith(options.nnsmith, options.seconds, options.operators))


if __name__ == "__main__":
    main()
