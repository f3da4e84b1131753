"""Everything seen of one graph: what was expected, and what each worker said."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np

from ..checks import CHECKS
from ..core.finding import SUSPICION, Finding
from ..core.graph import Graph
from ..core.job_report import JobReport
from ..reference_kernels import Bounded
from . import difference
from .comparison import agree, compare, is_inexact, share_judged, within
from .fragmentation import smallest

#: Attributes that name the axes of a result.
_LAYOUTS = ("dst_layout", "data_layout", "layout")


@lru_cache(maxsize=4096)
def type_bytes(text: str) -> int:
    """Bytes of a tensor whose type is written like TensorType, "float32[2,3]"; 0 for any other text."""
    dtype, bracket, shape = text.partition("[")
    bits = re.search(r"\d+", dtype.replace("bool", "int8"))
    if not bracket or bits is None:
        return 0
    dims = [int(d) if d.strip().isdigit() else 1 for d in shape.rstrip("]").split(",") if d.strip()]
    return math.prod(dims) * max(int(bits[0]) // 8, 1)


@dataclass
class Evidence:
    """inputs: the sets of inputs: A, B, and any between them (`data.input_sets`). expected: for each set,
    the graph's outputs."""

    graph: Graph
    inputs: list[dict[str, np.ndarray]]
    constants: dict[str, np.ndarray]
    expected: list[list[Bounded]]
    target: JobReport
    reference: JobReport
    loader: JobReport = field(default_factory=JobReport)
    deterministic: bool = True
    #: Ids of the checks that the target has switched off.
    without_checks: frozenset[str] = frozenset()
    #: Whether views are held against the target even where LLVM's own artifact reads them wrongly.
    strict_views: bool = False
    confirmation: JobReport = field(default_factory=JobReport)
    #: What the loader makes of LLVM's own artifact, asked where the target's fails there.
    deployed: JobReport = field(default_factory=JobReport)
    #: The graph for a larger batch, and with other constants (see `companions`).
    larger: Evidence | None = None
    twin: Evidence | None = None
    #: Of compiling the graph once more elsewhere, and of loading it without the target's libraries.
    again: JobReport = field(default_factory=JobReport)
    bare: JobReport = field(default_factory=JobReport)
    #: Of running it where malloc looks at the ends of what it hands out.
    watched: JobReport = field(default_factory=JobReport)
    #: Whether LLVM builds the regions in the target's place.
    partition_only: bool = False
    #: Whether the loader has TVM's runtime alone.
    runtime_only: bool = False
    #: Names of programs that TVM's own build leaves running, asked where the target leaves any.
    left_by_tvm: frozenset[str] = frozenset()
    #: Median seconds of a run, of "target" and "llvm".
    speed: dict[str, float] = field(default_factory=dict)

    @property
    def regions(self) -> list[dict[str, Any]]:
        for _, value in self.target.facts("regions"):
            return list(value["regions"])
        return []

    @property
    def nothing_offloaded(self) -> bool:
        """`JobReport.nothing_offloaded` of the target's."""
        return self.target.nothing_offloaded

    @property
    def troubled(self) -> bool:
        """Whether vendor code raised or died, in either worker that runs it."""
        return any(r.died is not None or any(r.raised()) for r in (self.target, self.loader))

    @property
    def merges(self) -> bool:
        """Whether one of the regions holds several patterns, or several operators that are of none."""
        units = [len(r.get("composites", ())) or len(r["calls"]) for r in self.regions]
        return max(units, default=0) > 1

    def smallest(self) -> int:
        """The least number of regions that would do. Where it can't be told which of equal nodes are
        offloaded, the number there is."""
        placement, found = self.placement(), len(self.regions)
        taken = tuple(region is not None for region in placement)
        return smallest(self.graph, placement, found) if taken == self.may_be_offloaded() else found

    @property
    def host_runs_some(self) -> bool:
        """Whether TVM runs operators of the partitioned module itself."""
        return any(value["host_calls"] for _, value in self.target.facts("regions"))

    def not_checked(self) -> tuple[str, ...]:
        """Checks that could not be made, each once, with the reason."""
        found = [*self.target.not_checked(), *self.loader.not_checked(), *self.bare.not_checked()]
        found += self.watched.not_checked()
        if any(r.died == "hung" for r in (self.reference, self.confirmation, self.deployed)):
            found.append(("numerics", "LLVM's own build took longer than its limit: the bound judged alone"))
        return tuple(dict.fromkeys(f"{check}: {reason}" for check, reason in found))

    def lacking_room(self) -> dict[str, Any] | None:
        """As of `worker.room.lacking`, where a process was found to have no room for files at its end."""
        reports = (self.target, self.reference, self.loader)
        return next((r.end["lacking"] for r in reports if r.end and r.end.get("lacking")), None)

    def made(self) -> tuple[str, ...]:
        """Checks that were made: that they were to be made is not enough, as a graph may have no constants,
        or the run may have ended before."""
        reports = (self.target, self.loader, self.bare, self.watched)
        sent = {pair for report in reports for pair in report.in_turns()}
        found = []
        for check in CHECKS:
            # What has no half in a worker judges what others have recorded.
            turn = check.id if check.observe or check.reload else "numerics"
            if (turn, "fact" if check.records else "stage") in sent:
                found.append(check.id)
        return tuple(found)

    def placement(self) -> tuple[int | None, ...]:
        """For each node, the position of the region its call is found in, or None. A call with the
        node's operator and output type is looked for first, then, since a partition function may
        change layouts, one with its operator. Calls found are used up; of equal calls in several
        regions the first is taken."""
        nodes = self._signatures()
        left = [(c, i) for i, r in enumerate(self.regions) for c in r["calls"] * _times(r)]
        found: list[int | None] = [None] * len(self.graph.nodes)
        for key in (lambda s: s, lambda s: s.split(" ")[0]):
            having: dict[str, list[int]] = {}
            for position in reversed(range(len(left))):
                having.setdefault(key(left[position][0]), []).append(position)
            used = set()
            for i, node in enumerate(nodes):
                if found[i] is None and having.get(key(node)):
                    used.add(position := having[key(node)].pop())
                    found[i] = left[position][1]
            left = [call for position, call in enumerate(left) if position not in used]
        return tuple(found)

    def calls(self) -> tuple[tuple[str, ...], ...]:
        """Of each region the signatures of its calls, sorted, as often as it is called; sorted too."""
        return tuple(sorted(tuple(sorted(r["calls"])) for r in self.regions for _ in range(_times(r))))

    def offloaded(self) -> tuple[bool, ...]:
        """For each node, whether its call is found in a region."""
        return tuple(region is not None for region in self.placement())

    def may_be_offloaded(self) -> tuple[bool, ...]:
        """For each node, whether it is offloaded or cannot be told from one that is: it has the same
        operator and output type, or, where that one was found by its operator alone, the same operator.
        """
        nodes, calls = self._signatures(), {c for r in self.regions for c in r["calls"]}
        if not nodes:
            return self.offloaded()
        taken = {
            node if node in calls else node.split(" ")[0]
            for node, found in zip(nodes, self.offloaded())
            if found
        }
        return tuple(node in taken or node.split(" ")[0] in taken for node in nodes)

    def _signatures(self) -> list[str]:
        """Of each node, by which its call is found; of none before the module is partitioned."""
        for _, value in self.target.facts("regions"):
            return list(value["nodes"])
        return []

    def boundary_bytes(self) -> int:
        """Bytes that one run passes into the regions and out of them, by the types of the
        partitioned module; a dimension that is not known counts as one."""
        return sum(type_bytes(t) * _times(r) for r in self.regions for t in r.get("passed", ()))

    def reference_outputs(self, which: int) -> list[np.ndarray] | None:
        found = self.all_reference_outputs(which)
        return found[0] if found else None

    def all_reference_outputs(self, which: int) -> list[list[np.ndarray]]:
        """LLVM's outputs for a set of inputs: the reference's, and what it was asked to confirm."""
        reports = (self.reference, self.confirmation)
        facts = [value for report in reports for _, value in report.facts("outputs")]
        return [list(value["arrays"]) for value in facts if value["set"] == which]

    def judged_share(self) -> float:
        """Share of the output elements that the bound can judge; of outputs without any, all of them."""
        return share_judged(self.expected[0])

    @staticmethod
    def inside(actual: np.ndarray, expected: Bounded) -> np.ndarray:
        """Where an output is judged and found to be right."""
        comparison = compare(actual, expected)
        return comparison.judged & ~comparison.outside

    def compare(
        self, check: str, kind: str, which: int, arrays: Sequence[np.ndarray], how: str
    ) -> Iterator[Finding]:
        """Findings on one run's outputs: a wrong number of outputs, type, or value; and, of the outcome
        SUSPICION, elements on which target and LLVM agree outside of the bound."""
        expected = self.expected[which]
        if len(arrays) != len(expected):
            yield Finding(
                check, "wrong-result", "compare", "output-count",
                f"{len(arrays)} outputs came back {how}, expected {len(expected)}.",
            )
            return
        reference = self.reference_outputs(which)
        for i, (actual, bounded) in enumerate(zip(arrays, expected)):
            name = self.graph.outputs[i]
            wanted = self.graph.type_of(name)
            found = array_type(actual)
            if found != str(wanted) and reference is not None and array_type(reference[i]) == found:
                # TVM's own build returns that too.
                continue
            if found != str(wanted):
                yield Finding(
                    check, "wrong-result", "compare", "output-type",
                    f"output {i} (%{name}) is a {found} {how}, expected {wanted}.",
                    {"output": i, "actual_type": found, "expected_type": str(wanted)},
                )
                continue
            if within(actual, bounded):
                continue
            outside = compare(actual, bounded).outside
            if not outside.any():
                continue
            if reference is not None and reference[i].shape == actual.shape:
                llvm_outside = compare(reference[i], bounded).outside
                both = outside & llvm_outside & agree(actual, reference[i], bounded)
                if both.any():
                    yield Finding(
                        check, SUSPICION, "compare", SUSPICION,
                        f"output {i} (%{name}): target and LLVM agree on {_element(actual, both)}, where "
                        f"the oracle expects {_element(bounded.value, both)} "
                        f"within {_element(bounded.error, both)}",
                    )
                    outside &= ~both
            for other in self.all_reference_outputs(which)[1:]:
                # Built as the target's is, LLVM's is wrong in the same way: TVM's own passes are.
                if other[i].shape == actual.shape:
                    outside &= ~(compare(other[i], bounded).outside & agree(actual, other[i], bounded))
            if not outside.any():
                continue
            # Who does not care for NaN and infinities fails in another way than who computes wrongly.
            numbers = kind != "wrong-value" or (outside & np.isfinite(bounded.value)).any()
            said = kind if numbers else "not-finite"
            if said == "wrong-value" and is_inexact(actual, bounded, outside):
                said = "inexact"
            yield self._wrong(check, said, i, actual, bounded, outside, reference, how)

    def _wrong(
        self,
        check: str,
        kind: str,
        i: int,
        actual: np.ndarray,
        bounded: Bounded,
        outside: np.ndarray,
        reference: Sequence[np.ndarray] | None,
        how: str,
    ) -> Finding:
        with np.errstate(all="ignore"):
            distance = np.abs(actual.astype(np.float64) - bounded.value)
        distance = np.where(np.isnan(distance), np.inf, distance)
        at = np.unravel_index(int(np.argmax(np.where(outside, distance, -1.0))), outside.shape)
        index = [int(v) for v in at]
        details: dict[str, Any] = {
            "output": i,
            "name": self.graph.outputs[i],
            "index": index,
            "expected": _scalar(bounded.value[at]),
            "bound": _scalar(bounded.error[at]),
            "actual": _scalar(actual[at]),
            "how": how,
            **self.where(i, outside),
        }
        text = (
            f"output {i} (%{self.graph.outputs[i]}) is outside its error bound {how}: at {index} expected "
            f"{details['expected']!r} within {details['bound']:.3g}, got {details['actual']!r}"
        )
        if reference is not None and reference[i].shape == actual.shape:
            details["llvm"] = _scalar(reference[i][at])
            text += f" (LLVM: {details['llvm']!r})"
        text += f"; {details['outside']} of {details['elements']} elements are outside."
        return Finding(check, "wrong-result", "compare", kind, text, details)

    def where(self, output: int, mask: np.ndarray) -> dict[str, Any]:
        """What a finding's details say of the elements of an output that differ."""
        return {
            "outside": int(mask.sum()), "elements": int(mask.size), "mask": difference.pack(mask),
            "layout": _layout(self.graph, self.graph.outputs[output]),
        }

    def repeats(
        self, check: str, stage: str, kind: str, runs: Iterable[tuple[str, Sequence[np.ndarray]]], what: str
    ) -> Iterator[Finding]:
        """Findings where runs with the first inputs, by executor, do not repeat the target's first run under
        that executor (see `same_bits`). what: the run in words, %s standing for the executor."""
        first = {executor: value["arrays"] for executor, value in self.target.facts("outputs")}
        for executor, arrays in runs:
            if executor in first:
                for finding in self.same_bits(check, stage, kind, first[executor], arrays, what % executor):
                    finding.details["executor"] = executor
                    yield finding

    def same_bits(
        self,
        check: str,
        stage: str,
        kind: str,
        first: Sequence[np.ndarray],
        second: Sequence[np.ndarray],
        what: str,
    ) -> Iterator[Finding]:
        """Findings where two runs that must be equal bit by bit are not. Of a target that declares
        itself not deterministic, only the bound is asked."""
        if not self.deterministic:
            yield from self.compare(check, kind, 0, second, "from " + what)
            return
        if len(first) != len(second):
            yield Finding(
                check, "wrong-result", stage, kind,
                f"{what} returned {len(second)} outputs, the first run {len(first)}.",
            )
            return
        for i, (a, b) in enumerate(zip(first, second)):
            if a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes():
                continue
            if a.shape != b.shape or a.dtype != b.dtype:
                text = f"is {b.dtype}{list(b.shape)}, in the first run {a.dtype}{list(a.shape)}"
                details: dict[str, Any] = {"output": i}
            else:
                raw_a = np.ascontiguousarray(a).view(np.uint8).reshape(a.shape + (a.itemsize,))
                raw_b = np.ascontiguousarray(b).view(np.uint8).reshape(a.shape + (a.itemsize,))
                differs = (raw_a != raw_b).any(axis=-1)
                # Two NaNs are the same NaN to the user.
                if a.dtype.kind == "f" or a.dtype == ml_dtypes.bfloat16:
                    differs &= ~(np.isnan(a) & np.isnan(b))
                if not differs.any():
                    continue
                at = tuple(int(v) for v in np.argwhere(differs)[0])
                details = {
                    "output": i, "name": self.graph.outputs[i], "index": list(at),
                    "expected": _scalar(a[at]), "actual": _scalar(b[at]), "bound": 0.0,
                    "how": what, **self.where(i, differs),
                }
                text = f"differs at {list(at)}: {details['actual']!r}, first {details['expected']!r}"
            yield Finding(
                check, "wrong-result", stage, kind,
                f"output {i} (%{self.graph.outputs[i]}) of {what} {text}.", details,
            )


def _times(region: Mapping[str, Any]) -> int:
    """From how many places a region is called."""
    return int(region.get("times", 1))


def _layout(graph: Graph, name: str) -> str:
    """What the axes of a value are, where the node that makes it says so, or one in front of it that has a
    result of the same shape; "" where none does."""
    made = {output: node for node in graph.nodes for output in node.outputs}
    shape, node = graph.type_of(name).shape, made.get(name)
    while node is not None:
        found = [node.attrs[key] for key in _LAYOUTS if node.attrs.get(key)]
        if found:
            return str(found[0])
        node = next((made[i] for i in node.inputs if i in made and graph.type_of(i).shape == shape), None)
    return ""


def array_type(array: np.ndarray) -> str:
    """An array's type, written like TensorType."""
    return f"{array.dtype}[{','.join(map(str, array.shape))}]"


def _element(array: np.ndarray, mask: np.ndarray) -> Any:
    return _scalar(array[tuple(np.argwhere(mask)[0])])


def _scalar(value: Any) -> Any:
    return value.item()
