"""The interface through which the host half of a check reads the evidence on one graph.

The class that implements it is host code (`evidence/evidence.py`). Workers import checks too, so
checks know only this interface.
"""

from __future__ import annotations

from typing import (
    TYPE_CHECKING,
    Any,
    Iterable,
    Iterator,
    Mapping,
    Protocol,
    Sequence,
)

if TYPE_CHECKING:
    import numpy as np

    from ..core.finding import Finding
    from ..core.graph import Graph
    from ..core.job_report import JobReport
    from ..core.openings import OpenExtent

    #: A run's outputs in the order of `Graph.outputs`.
    Arrays = Sequence[np.ndarray]


class OpenEvidence(Protocol):
    """A graph with open extents, and the evidence on the same graph with larger extents."""

    @property
    def extents(self) -> Sequence[OpenExtent]: ...

    @property
    def graph(self) -> Graph:
        """Returns the graph, with attributes that are right for all extents."""

    @property
    def larger(self) -> Evidence: ...


class Evidence(Protocol):
    """The reports of all workers on a graph, and comparisons of outputs with the oracle."""

    @property
    def graph(self) -> Graph: ...

    @property
    def inputs(self) -> Sequence[Mapping[str, np.ndarray]]:
        """Returns the sets of inputs, each with its arrays by name."""

    @property
    def constants(self) -> Mapping[str, np.ndarray]:
        """Returns the arrays of the graph's constants by name."""

    @property
    def target(self) -> JobReport:
        """Returns the report of the target worker, with the facts recorded by `Check.observe`."""

    @property
    def loader(self) -> JobReport:
        """Returns the report of the loader, with the facts recorded by `Check.reload`."""

    @property
    def apart(self) -> bool:
        """Returns whether target worker and loader are on different machines.

        They may round differently, so that only runs on one of them are equal bit by bit.
        """

    @property
    def deployed(self) -> JobReport:
        """Returns the loader's report on LLVM's own artifact of the graph.

        It is empty where that artifact was not needed.
        """

    @property
    def again(self) -> JobReport:
        """Returns the report on a second compilation of the graph, by another process."""

    @property
    def without_libraries(self) -> JobReport:
        """Returns the report of a loader that has none of the target's libraries."""

    @property
    def without_files(self) -> JobReport:
        """Returns the report of a loader from which the files written elsewhere are hidden."""

    @property
    def guarded(self) -> JobReport:
        """Returns the report of a loader in which malloc checks the ends of pieces of memory."""

    @property
    def larger(self) -> Evidence | None:
        """Returns the evidence on the graph for a larger batch; None if there is no such graph."""

    @property
    def openings(self) -> Sequence[OpenEvidence]:
        """Returns the evidence on the graph with open extents, once for each opening."""

    @property
    def equivalents(self) -> Sequence[tuple[str, Evidence]]:
        """Returns the evidence on graphs that compute the same, each with what was changed in words."""

    @property
    def twin(self) -> Evidence | None:
        """Returns the evidence on the graph with other constants; None if there is no such graph.

        The twin of a graph without constants is the graph for another batch.
        """

    @property
    def expected(self) -> Sequence[Sequence[Any]]:
        """Returns, for each set of inputs, the expected outputs with error bounds (`Bounded`)."""

    @property
    def regions(self) -> list[dict[str, Any]]:
        """Returns the regions of the partitioned module, as the fact "regions" lists them."""

    @property
    def nothing_offloaded(self) -> bool:
        """True if the partitioned module is known and has no region."""

    @property
    def deterministic(self) -> bool:
        """True if the target declares that equal inputs give equal bits."""

    @property
    def strict_views(self) -> bool:
        """True if the target declares `Target.strict_views`."""

    def offloaded(self) -> tuple[bool, ...]:
        """Returns for each node whether a region has a call of it."""

    def signatures(self) -> list[str]:
        """Returns for each node the signature of its call; nothing before partitioning."""

    def compare(
        self, check: str, kind: str, which: int, arrays: Arrays, how: str, by_llvm: bool = False
    ) -> Iterator[Finding]:
        """Yields findings where a run's outputs have a wrong number, type or value.

        which: the position of the set of inputs. how: the circumstances of the run, for the
        message, as in "with the vm executor". by_llvm: whether LLVM has built what was run.
        """

    def repeats(
        self, check: str, stage: str, kind: str, runs: Iterable[tuple[str, Arrays]], what: str
    ) -> Iterator[Finding]:
        """Yields findings where runs do not repeat the target's first run bit by bit.

        runs: an executor and the outputs for the first set of inputs, for each run. what: the run
        in words, with %s for the executor.
        """

    def same_bits(
        self, check: str, stage: str, kind: str, first: Arrays, second: Arrays, what: str
    ) -> Iterator[Finding]:
        """Yields findings where a second run does not repeat the first one bit by bit."""

    def near_itself(
        self, check: str, other: Evidence, first: Arrays, second: Arrays, how: str
    ) -> Iterator[Finding]:
        """Yields findings where outputs that no bound can judge differ from those of a graph that computes
        the same.

        other: the evidence on that graph. first, second: the outputs of this graph and of the other one.
        """

    def where(self, output: int, mask: np.ndarray) -> Mapping[str, Any]:
        """Returns details for a finding on the elements of an output that a mask selects.

        mask: an array of bool, of the output's shape.
        """

    def inside(self, actual: np.ndarray, expected: Any) -> np.ndarray:
        """Returns a mask (bool) of the elements that can be judged and are within their bounds."""
