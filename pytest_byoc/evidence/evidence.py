"""The evidence on one graph: the expected outputs, and the report of each worker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..checks import CHECKS
from ..checks.selection import LOADED
from ..core.finding import SUSPICION, Finding
from ..core.graph import Graph
from ..core.job_report import JobReport
from ..core.openings import OpenExtent
from ..reference_kernels import Bounded
from .comparison import agree, compare, is_inexact, lost, share_judged, within
from .earlier_pass import Pass
from .fragmentation import smallest
from .output_findings import (
    array_type,
    different_bits,
    differs_from_itself,
    element,
    lost_values,
    outside_bound,
    where,
)
from .placement import may_be_offloaded, placement, times, type_bytes
from .self_comparison import too_far
from .speed import Speed


@dataclass
class OpenEvidence:
    """A graph with open extents, and the evidence on the same graph with larger extents.

    graph: the graph, with attributes that are right for all extents.
    """

    extents: Sequence[OpenExtent]
    graph: Graph
    larger: Evidence


@dataclass
class Evidence:
    """The reports of all workers on a graph, and comparisons of its outputs with the oracle.

    inputs: the sets of inputs: A, B, and any sets between them (`data.input_sets`). expected: for
    each set, the graph's outputs with error bounds.
    """

    graph: Graph
    inputs: list[dict[str, np.ndarray]]
    constants: dict[str, np.ndarray]
    expected: list[list[Bounded]]
    target: JobReport
    reference: JobReport
    loader: JobReport = field(default_factory=JobReport)
    deterministic: bool = True
    #: The ids of the checks that the target has switched off.
    without_checks: frozenset[str] = frozenset()
    #: Whether views count against the target even where LLVM's own artifact reads them wrongly.
    strict_views: bool = False
    #: Whether target worker and loader are on different machines, which may round differently.
    apart: bool = False
    #: The report on LLVM's build with another executor or opt_level than the reference's.
    confirmation: JobReport = field(default_factory=JobReport)
    #: The loader's report on LLVM's own artifact, which is loaded if the target's fails there.
    deployed: JobReport = field(default_factory=JobReport)
    #: The evidence on the graph for a larger batch, with open extents, changed so that it computes the
    #: same (with the change in words), and with other constants (see `companions`).
    larger: Evidence | None = None
    openings: list[OpenEvidence] = field(default_factory=list)
    equivalents: list[tuple[str, Evidence]] = field(default_factory=list)
    twin: Evidence | None = None
    #: The reports on a second compilation, and on loading without the target's libraries.
    again: JobReport = field(default_factory=JobReport)
    without_libraries: JobReport = field(default_factory=JobReport)
    #: The report on loading where the files are hidden that the target wrote elsewhere.
    without_files: JobReport = field(default_factory=JobReport)
    #: The report on running where malloc checks the ends of each piece of memory.
    guarded: JobReport = field(default_factory=JobReport)
    #: Whether LLVM builds the regions instead of the target.
    partition_only: bool = False
    #: Whether LLVM has not built the graph, but will if there is a finding.
    awaits_llvm: bool = False
    #: Whether the target declares lower precision.
    lower_precision: bool = False
    #: Whether the loader has only TVM's runtime.
    runtime_only: bool = False
    #: The names of programs that TVM's own build leaves running; known if the target leaves any.
    left_by_tvm: frozenset[str] = frozenset()
    #: How the device was lost with this graph, so that nothing can be said of it; "" if it was not.
    lost: str = ""
    #: The pass of an earlier session, if the target makes the same code as then: nothing was run.
    earlier: Pass | None = None
    #: The measurement of the artifacts, if one was made.
    speed: Speed | None = None

    def code(self) -> dict[str, str]:
        """Returns the digests of the exported code, by executor."""
        return {k: v for _, value in self.target.facts("code") for k, v in value.items()}

    @property
    def regions(self) -> list[dict[str, Any]]:
        for _, value in self.target.facts("regions"):
            return list(value["regions"])
        return []

    @property
    def nothing_offloaded(self) -> bool:
        """True if the partitioned module is known and has no region."""
        return self.target.nothing_offloaded

    @property
    def troubled(self) -> bool:
        """True if vendor code raised or died, in the target worker or in the loader."""
        return self.target.failed or self.loader.failed

    @property
    def merges(self) -> bool:
        """True if a region holds several composites, or none and several calls."""
        units = [len(r.get("composites", ())) or len(r["calls"]) for r in self.regions]
        return max(units, default=0) > 1

    def smallest(self) -> int:
        """Returns the least number of regions that could hold the offloaded nodes.

        Where it is unknown which of equal nodes are offloaded, this is the actual number.
        """
        placement, actual = self.placement(), len(self.regions)
        offloaded = tuple(region is not None for region in placement)
        return smallest(self.graph, placement, actual) if offloaded == self.may_be_offloaded() else actual

    @property
    def host_runs_some(self) -> bool:
        """True if TVM runs operators of the partitioned module itself."""
        return any(value["host_calls"] for _, value in self.target.facts("regions"))

    def _of_target(self) -> tuple[JobReport, ...]:
        """Returns the reports on the target's own module and artifact."""
        return self.target, self.loader, self.without_libraries, self.without_files, self.guarded

    def not_checked(self) -> tuple[str, ...]:
        """Returns the checks that could not be made, each once, as "check: reason"."""
        pairs = [pair for report in self._of_target() for pair in report.not_checked()]
        if any(r.died == "hung" for r in (self.reference, self.confirmation, self.deployed)):
            text = "TVM's own LLVM build took longer than its limit, so only the bound judged the graph"
            pairs.append(("numerics", text))
        return tuple(dict.fromkeys(f"{check}: {reason}" for check, reason in pairs))

    def lacking_room(self) -> dict[str, Any] | None:
        """Returns the first report of missing room for files at the end of a process, or None.

        It has the form of `worker.disk_space.lacking`.
        """
        reports = (self.target, self.reference, self.loader)
        return next((r.end["lacking"] for r in reports if r.end and r.end.get("lacking")), None)

    def checks_made(self) -> tuple[str, ...]:
        """Returns the ids of the checks that were made.

        A check of the job is not made if, for example, the graph has no constants, or the run has
        ended before.
        """
        sent = {pair for report in self._of_target() for pair in report.sent_by_checks()}
        ids = []
        for check in CHECKS:
            # A check without a worker half judges the facts of numerics.
            sender = check.id if check.observe or check.reload else "numerics"
            if check.id not in self.without_checks and (sender, "fact" if check.records else "stage") in sent:
                ids.append(check.id)
        return tuple(ids)

    def placement(self) -> tuple[int | None, ...]:
        """Returns for each node the position of the region that holds its call, or None."""
        return placement(self.signatures(), self.regions, len(self.graph.nodes))

    def calls(self) -> tuple[tuple[str, ...], ...]:
        """Returns for each region the sorted signatures of its calls; the regions are sorted too.

        A region that is called from several places is listed once for each.
        """
        return tuple(sorted(tuple(sorted(r["calls"])) for r in self.regions for _ in range(times(r))))

    def offloaded(self) -> tuple[bool, ...]:
        """Returns for each node whether its call is in a region."""
        return tuple(region is not None for region in self.placement())

    def may_be_offloaded(self) -> tuple[bool, ...]:
        """Returns for each node whether it is offloaded, or indistinguishable from one that is."""
        return may_be_offloaded(self.signatures(), self.regions, self.offloaded())

    def signatures(self) -> list[str]:
        """Returns for each node the signature of its call; nothing before partitioning."""
        for _, value in self.target.facts("regions"):
            return list(value["nodes"])
        return []

    def boundary_bytes(self) -> int:
        """Returns the bytes that one run passes into the regions and out of them.

        They follow from the types in the partitioned module; an unknown dimension counts as 1.
        """
        return sum(type_bytes(t) * times(r) for r in self.regions for t in r.get("passed", ()))

    def reference_outputs(self, which: int) -> list[np.ndarray] | None:
        outputs = self.all_reference_outputs(which)
        return outputs[0] if outputs else None

    def all_reference_outputs(self, which: int) -> list[list[np.ndarray]]:
        """Returns LLVM's outputs for a set of inputs: the reference's, then the confirmation's."""
        reports = (self.reference, self.confirmation)
        facts = [value for report in reports for _, value in report.facts("outputs")]
        return [list(value["arrays"]) for value in facts if value["set"] == which]

    def judged_share(self) -> float:
        """Returns the share of the output elements that the bound can judge; 1 without elements."""
        return share_judged(self.expected[0])

    @staticmethod
    def inside(actual: np.ndarray, expected: Bounded) -> np.ndarray:
        """Returns a mask of the elements that can be judged and are within their bounds."""
        comparison = compare(actual, expected)
        return comparison.judged & ~comparison.outside

    def compare(
        self, check: str, kind: str, which: int, arrays: Sequence[np.ndarray], how: str,
        by_llvm: bool = False,
    ) -> Iterator[Finding]:
        """Yields findings on one run's outputs: a wrong number of outputs, type, or value.

        by_llvm: whether LLVM has built what was run. It keeps a sum in 16 bits or in 32, as the code around
        it goes, so that a sum which overflows in one of its builds need not do so in another.

        Elements on which target and LLVM agree outside of the bound give findings of the outcome
        SUSPICION. Elements that the confirmation gets wrong in the same way give none.
        """
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
                # TVM's own build returns the same wrong type.
                continue
            if found != str(wanted):
                yield Finding(
                    check, "wrong-result", "compare", "output-type",
                    f"output {i} (%{name}) is a {found} {how}, expected {wanted}.",
                    {"output": i, "actual_type": found, "expected_type": str(wanted)},
                )
                continue
            llvm = reference[i] if reference is not None else None
            gone = None if by_llvm else self._lost(actual, bounded, llvm)
            if gone is not None:
                yield lost_values(self.graph, check, i, actual, bounded, gone, how)
                continue
            if within(actual, bounded):
                continue
            outside = compare(actual, bounded).outside
            if not outside.any():
                continue
            if llvm is not None and llvm.shape == actual.shape:
                llvm_outside = compare(llvm, bounded).outside
                both = outside & llvm_outside & agree(actual, llvm, bounded)
                if both.any():
                    yield Finding(
                        check, SUSPICION, "compare", SUSPICION,
                        f"output {i} (%{name}): target and LLVM agree on {element(actual, both)}, where "
                        f"the oracle expects {element(bounded.value, both)} "
                        f"within {element(bounded.error, both)}",
                    )
                    outside &= ~both
            for other in self.all_reference_outputs(which)[1:]:
                # Built with the target's options, LLVM's output has the same error, so TVM's own
                # passes cause it.
                if other[i].shape == actual.shape:
                    outside &= ~(compare(other[i], bounded).outside & agree(actual, other[i], bounded))
            if not outside.any():
                continue
            # A target that ignores NaN and infinities has another fault than one whose numbers are
            # wrong.
            numbers = kind != "wrong-value" or (outside & np.isfinite(bounded.value)).any()
            final_kind = kind if numbers else "not-finite"
            if final_kind == "wrong-value" and is_inexact(actual, bounded, outside):
                final_kind = "inexact"
            yield outside_bound(self.graph, check, final_kind, i, actual, bounded, outside, llvm, how)

    def _lost(
        self, actual: np.ndarray, bounded: Bounded, reference: np.ndarray | None
    ) -> np.ndarray | None:
        """Returns a mask of elements as `comparison.lost`, or None if there are none or it is not
        known whether LLVM has them, too."""
        known = reference is not None and reference.shape == actual.shape
        if not bounded.is_float or self.lower_precision or not (known or self.awaits_llvm):
            return None
        mask = lost(actual, bounded, reference if known else None)
        return mask if mask.any() else None

    def near_itself(
        self, check: str, other: Any, first: Sequence[np.ndarray], second: Sequence[np.ndarray], how: str
    ) -> Iterator[Finding]:
        """Yields findings where outputs that no bound can judge differ from those of a graph that computes
        the same.

        other: the evidence on that graph. LLVM's outputs for both graphs have to be known. first,
        second: the outputs of this graph and of the other one.
        """
        llvm, llvm_of_other = self.reference_outputs(0), other.reference_outputs(0)
        if llvm is None or llvm_of_other is None or len(first) != len(second):
            return
        for i, (a, b) in enumerate(zip(first, second)):
            expected = (self.expected[0][i], other.expected[0][i])
            far = too_far(a, b, expected, (llvm[i], llvm_of_other[i]))
            if far is not None:
                yield differs_from_itself(self.graph, check, i, a, b, far, how)

    def where(self, output: int, mask: np.ndarray) -> dict[str, Any]:
        """Returns details for a finding on the elements of an output that a mask selects."""
        return where(self.graph, output, mask)

    def repeats(
        self, check: str, stage: str, kind: str, runs: Iterable[tuple[str, Sequence[np.ndarray]]], what: str
    ) -> Iterator[Finding]:
        """Yields findings where runs do not repeat the target's first run with that executor.

        runs: an executor and the outputs for the first set of inputs, for each run (see
        `same_bits`). what: the run in words, with %s for the executor. Where target worker and loader
        are on different machines (`apart`), runs of the loader repeat its own first run.
        """
        first = {executor: value["arrays"] for executor, value in self.target.facts("outputs")}
        if self.apart and check in LOADED:
            first = dict(self.loader.facts("reloaded"))
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
        """Yields findings where two runs with the first set of inputs are not equal bit by bit.

        The second run of a target that is not deterministic only has to be within the bound.
        """
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
            finding = different_bits(self.graph, check, stage, kind, i, a, b, what)
            if finding is not None:
                yield finding
