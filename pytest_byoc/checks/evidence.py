"""What the host's half of a check is given: everything that was seen of one graph.

The class that implements it is on the host's side of the wall (`evidence/evidence.py`); checks, which workers
import too, know this interface alone.
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

    #: A run's outputs in the order of `Graph.outputs`.
    Arrays = Sequence[np.ndarray]


class Evidence(Protocol):
    """The reports of all workers on a graph, and comparisons of outputs with what is expected of them."""

    @property
    def graph(self) -> Graph: ...

    @property
    def inputs(self) -> Sequence[Mapping[str, np.ndarray]]:
        """The sets of inputs, each with its arrays by name."""

    @property
    def constants(self) -> Mapping[str, np.ndarray]:
        """The arrays of the graph's constants by name."""

    @property
    def target(self) -> JobReport:
        """The report of the target worker: the facts that the checks' `observe` has recorded."""

    @property
    def loader(self) -> JobReport:
        """The report of the loader: the facts that the checks' `reload` has recorded."""

    @property
    def deployed(self) -> JobReport:
        """The loader's report on LLVM's own artifact of the graph; empty where that was not needed."""

    @property
    def again(self) -> JobReport:
        """The report on a second compilation of the graph, by another process."""

    @property
    def bare(self) -> JobReport:
        """The report of a loader that has none of the target's libraries."""

    @property
    def watched(self) -> JobReport:
        """The report of a loader in which malloc checks the ends of each piece of memory."""

    @property
    def larger(self) -> Evidence | None:
        """The evidence on the same graph with a larger batch; None where there is no such graph."""

    @property
    def twin(self) -> Evidence | None:
        """The evidence on the same graph with other constants; None where there is no such graph."""

    @property
    def expected(self) -> Sequence[Sequence[Any]]:
        """For each set of inputs the graph's outputs, as values with error bounds (`Bounded`)."""

    @property
    def regions(self) -> list[dict[str, Any]]:
        """The regions of the partitioned module, as the fact "regions" of the target worker lists them."""

    @property
    def nothing_offloaded(self) -> bool:
        """Whether the partitioned module is known and has no region."""

    @property
    def deterministic(self) -> bool:
        """Whether the target declares that equal inputs give equal bits."""

    @property
    def strict_views(self) -> bool:
        """Whether the target declares `Target.strict_views`."""

    def offloaded(self) -> tuple[bool, ...]:
        """For each node, whether a region has a call of it."""

    def compare(self, check: str, kind: str, which: int, arrays: Arrays, how: str) -> Iterator[Finding]:
        """Findings where a run's outputs for the set of inputs `which` are not what is expected of them.

        how: in what circumstances, for the message, as in "(vm executor)"."""

    def repeats(
        self, check: str, stage: str, kind: str, runs: Iterable[tuple[str, Arrays]], what: str
    ) -> Iterator[Finding]:
        """Findings where runs with the first set of inputs, by executor, do not repeat the first run bit by
        bit. what: the run in words, %s standing for the executor."""

    def same_bits(
        self, check: str, stage: str, kind: str, first: Arrays, second: Arrays, what: str
    ) -> Iterator[Finding]:
        """Findings where a second run does not repeat the first one bit by bit."""

    def where(self, output: int, mask: np.ndarray) -> Mapping[str, Any]:
        """A finding's details on the elements of an output that a mask (bool, of its shape) selects."""

    def inside(self, actual: np.ndarray, expected: Any) -> np.ndarray:
        """A mask (bool) of the elements that can be judged and are within their error bounds."""
