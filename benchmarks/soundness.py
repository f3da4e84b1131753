"""Measures whether the oracle's bounds hold for TVM's own LLVM build, and how tight they are.

    python benchmarks/soundness.py --ir relay --python PATH_TO_PYTHON_WITH_TVM [--graphs 5000] [--operators 6]

TVM infers the types of random graphs and builds them with LLVM; their results are compared with the
oracle. Graphs on which LLVM is outside the bound are written to --out (`pytest
--byoc-replay=FOLDER` accepts them), and counted as known if docs/explanation/tvm-faults.md
describes the fault. The share of elements that can be judged is measured too.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.options import add_python
from pytest_byoc.core.graph import Graph, show
from pytest_byoc.core.job_report import JobReport
from pytest_byoc.core.union import union
from pytest_byoc.evidence.comparison import compare, share_judged
from pytest_byoc.examination.client import Worker
from pytest_byoc.generation import data
from pytest_byoc.generation.random_graphs import some
from pytest_byoc.oracle import evaluation
from pytest_byoc.reference_kernels import Bounded
from pytest_byoc.suite.batching import groups

SECONDS = 300.0
#: Number of graphs drawn from one seed.
AT_ONCE = 1000


@dataclass(frozen=True)
class KnownFault:
    """A fault of TVM's own that the records cannot reasonably avoid; docs/explanation/tvm-faults.md has its
    smallest case.

    said: a part of TVM's message; "" for a wrong value. operators: the graph contains one of these
    (empty: any operator). dtype: some value has this dtype ("": any)."""

    what: str
    said: str = ""
    operators: tuple[str, ...] = ()
    dtype: str = ""

    def explains(self, graph: Graph, fault: str) -> bool:
        if self.said not in fault if self.said else BUILD_FAILS in fault:
            return False
        types = {s.type.dtype for s in graph.sources()} | {t.dtype for n in graph.nodes for t in n.types}
        return (not self.operators or bool({*self.operators} & {*graph.operators})) and (
            not self.dtype or self.dtype in types
        )


BUILD_FAILS = "LLVM's build fails"
KNOWN_TVM_FAULTS = {
    "relay": (
        KnownFault(
            "a gradient of a convolution whose data another legalisation made",
            "legalize_conv2d_backward_weight",
        ),
        KnownFault("a sum of a contraction with itself, simplified", "SimplifyExpr"),
        KnownFault("bfloat16 moved by what is fused with it", dtype="bfloat16"),
    ),
    "relax": (
        KnownFault("an average pool with some windows", "Instruction does not dominate all uses"),
    ),
}


def known_fault(graph: Graph, fault: str, ir: str) -> str | None:
    """Returns the known fault of TVM that explains a failure; None if none does."""
    return next((k.what for k in KNOWN_TVM_FAULTS[ir] if k.explains(graph, fault)), None)


def random_graphs(count: int, ir: str, first: int = 0, **options: Any) -> list[Graph]:
    """Returns random graphs, the same every time. first: the first seed."""
    found: list[Graph] = []
    while len(found) < count:
        found += some(min(AT_ONCE, count - len(found)), first, ir=ir, **options)
        first += 1
    return found


def typed(worker: Worker, found: list[Graph]) -> Iterator[tuple[Graph, Any]]:
    """Yields each graph with the output types that TVM infers, or with its error message."""
    for start in range(0, len(found), 100):
        chunk = found[start : start + 100]
        entries = [{"graph": g.to_dict(), "constants": data.constants(g)} for g in chunk]
        worker.submit({"kind": "types", "graphs": entries})
        report = worker.collect()
        assert report.died is None, report.end
        yield from zip(chunk, (value for _, value in report.facts("types")))


def wrong_types(worker: Worker, found: list[Graph]) -> list[str]:
    """Returns a text for each graph for which TVM infers other output types than ours."""
    return [
        f"TVM says {types} of\n{show(graph)}"
        for graph, types in typed(worker, found)
        if types != [str(graph.type_of(o)) for o in graph.outputs]
    ]


@dataclass
class Judged:
    """The comparison of LLVM's outputs of a graph with the oracle.

    fault: the deviation from the bound, or the failure of the build; None without one. share: share
    of the elements that can be judged. ratios: ratios of bound to value of the elements of float32
    outputs."""

    graph: Graph
    fault: str | None = None
    share: float = 1.0
    ratios: list[float] = field(default_factory=list)


def built(worker: Worker, graph: Graph) -> tuple[JobReport, list[Bounded]]:
    """Builds and runs a graph with TVM's LLVM on its first inputs. Returns the report and the
    oracle's expected values. An exception of a reference kernel passes through."""
    inputs, constants = data.inputs(graph, 0), data.constants(graph)
    expected = evaluation.evaluate(graph, {**inputs, **constants})
    worker.submit(
        {
            "kind": "examine",
            "graph": graph.to_dict(),
            "inputs": [inputs],
            "constants": constants,
            "executor": worker.description["executors"][0],
            "opt_level": 1,
        }
    )
    return worker.collect(), expected


def judge(worker: Worker, graph: Graph) -> Judged:
    """Builds and runs the graph with TVM's LLVM, and compares the outputs with the oracle."""
    report, expected = built(worker, graph)
    arrays = next((value["arrays"] for _, value in report.facts("outputs")), [])
    found = compared(graph, arrays, expected)
    raised = next(report.raised(), None)
    if report.died or raised:
        found.fault = f"{BUILD_FAILS}: {report.died or raised}"
    return found


def judge_all(worker: Worker, found: Sequence[Graph], ir: str) -> Iterator[Judged]:
    """Yields the result of `judge` for each graph, in half the time: several graphs share a module
    as long as none of them has a fault."""
    shared = {group.positions[0]: group for group in groups(found, ir)}
    known: dict[int, Judged] = {}
    for i, graph in enumerate(found):
        if i in shared:
            parts = side_by_side(worker, shared[i].graphs)
            known = dict(zip(shared[i].positions, parts))
        yield known.get(i) or judge(worker, graph)


def side_by_side(worker: Worker, found: Sequence[Graph]) -> list[Judged]:
    """Judges several graphs in one module. Returns the result for each graph; none if the module
    fails or any graph has a fault."""
    report, expected = built(worker, union(found))
    arrays = next((value["arrays"] for _, value in report.facts("outputs")), None)
    if arrays is None or report.died or any(report.raised()):
        return []
    parts, first = [], 0
    for graph in found:
        last = first + len(graph.outputs)
        parts.append(compared(graph, arrays[first:last], expected[first:last]))
        first = last
    return parts if all(part.fault is None for part in parts) else []


def compared(graph: Graph, arrays: Sequence[np.ndarray], expected: Sequence[Bounded]) -> Judged:
    """Compares the outputs of a run with the oracle's bounds."""
    found = Judged(graph)
    found.share = share_judged(expected)
    for actual, bounded in zip(arrays, expected):
        assert actual.shape == bounded.shape
        if str(actual.dtype) != bounded.dtype:
            found.fault = f"returns {actual.dtype}, expected {bounded.dtype}"
        comparison = compare(actual, bounded)
        if comparison.outside.any():
            at = tuple(map(int, np.argwhere(comparison.outside)[0]))
            found.fault = (
                f"at {at}: {actual[at]}, expected {bounded.value[at]} within {bounded.error[at]:.3g}"
            )
        if bounded.dtype == "float32":
            use = comparison.judged & np.isfinite(bounded.value) & (np.abs(bounded.value) > 1e-3)
            found.ratios += (bounded.error[use] / np.abs(bounded.value[use])).tolist()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--ir", choices=["relay", "relax"], required=True)
    add_python(parser)
    parser.add_argument("--graphs", type=int, default=5000)
    parser.add_argument("--operators", type=int, default=6, help="the most in a graph")
    parser.add_argument("--first", type=int, default=0, help="seed to begin with")
    parser.add_argument("--out", default=None, help="folder for the graphs that are outside")
    options = parser.parse_args()
    start = time.monotonic()
    worker = Worker(options.python, {"role": "reference", "ir": options.ir, "memory": 0}, SECONDS)
    worker.start()
    worker.ready()
    found = random_graphs(options.graphs, options.ir, options.first, max_nodes=options.operators)
    wrong = wrong_types(worker, found)
    print(f"{options.ir}: {len(found)} graphs, {len(set(found))} different, {len(wrong)} do not type-check")
    print("\n\n".join(wrong[:5]), flush=True)
    faults: list[Judged] = []
    known: dict[str, int] = {}
    shares, ratios = [], []
    for number, result in enumerate(judge_all(worker, found, options.ir)):
        graph = result.graph
        if result.fault is None:
            shares.append(result.share)
            ratios += result.ratios
        elif why := known_fault(graph, result.fault, options.ir):
            known[why] = known.get(why, 0) + 1
        else:
            faults.append(result)
            print(f"\n#{number} {result.fault[:1500]}\n{show(graph)}", flush=True)
            if options.out:
                folder = Path(options.out)
                folder.mkdir(parents=True, exist_ok=True)
                (folder / f"{number}.json").write_text(graph.to_json())
    worker.stop()
    inconclusive = sum(share < 0.5 for share in shares)
    print(
        f"{options.ir}: {len(shares)} inside the bound, {len(faults)} outside, known faults of TVM: {known}; "
        f"{inconclusive} inconclusive ({inconclusive / max(len(shares), 1):.2%}); float32 bound/value: "
        f"median {np.median(ratios):.2g}, 90% below {np.percentile(ratios, 90):.2g}; "
        f"{time.monotonic() - start:.0f} s"
    )


if __name__ == "__main__":
    main()
