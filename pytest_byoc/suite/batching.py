"""Examines several graphs together in one module.

Most of the cost of a small graph is fixed: forks, the fixed part of TVM's builds, the start of
compilers and linkers. A module of several graphs pays it once. Where the module passes, each graph
in it has passed: its outputs are inside its own bounds, and the target offloads the same nodes as
of the graph alone. Otherwise each graph is examined by itself, and the module decides nothing about
it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ..config.effort import ONE, Effort
from ..core.finding import WRONG_RESULT, Finding
from ..core.graph import Graph
from ..core.union import positions, union
from ..evidence.comparison import share_judged
from ..evidence.evidence import Evidence
from ..evidence.fragmentation import smallest
from ..examination.decision import JUDGED_SHARE, causes
from ..examination.examiner import Examiner, suspicious
from ..examination.outcome import NOT_OFFLOADED, PASS, REFERENCE_WRONG, Verdict
from ..examination.partitions import Partition, Partitions
from .known_failures import KnownFailures

#: Largest numbers of graphs in one module, of their nodes (by IR), and of the elements of all their
#: values: larger modules save nothing. (Relay infers the types of a whole module again for each
#: region.)
GRAPHS, NODES, ELEMENTS = 8, {"relay": 40, "relax": 160}, 1 << 18
#: Number of failed modules with a graph in them after which the graph is examined alone. Without
#: this limit, where several graphs of a module fail, the remaining ones would be built together
#: again for each of them.
ATTEMPTS = 2


@dataclass(frozen=True)
class Group:
    """Graphs that are examined together as long as none of them fails.

    positions: of the graphs in the sequence that was grouped. first: the case whose test reports a
    failure of the module as a whole."""

    positions: tuple[int, ...]
    graphs: tuple[Graph, ...]
    first: str = ""


def groups(graphs: Sequence[Graph], ir: str) -> Iterator[Group]:
    """Yields groups of neighbouring graphs, each as large as one module may be. A graph that does
    not fit with a neighbour is in no group."""
    found: list[int] = []
    nodes = size = 0
    for i, graph in enumerate([*graphs, None]):
        fits = graph is not None and len(found) < GRAPHS
        if graph is not None:
            nodes, size = nodes + len(graph.nodes), size + graph.elements
            fits = fits and nodes <= NODES[ir] and size <= ELEMENTS
        if not fits:
            if len(found) > 1:
                yield Group(tuple(found), tuple(graphs[k] for k in found))
            found = []
            if graph is not None:
                nodes, size = len(graph.nodes), graph.elements
        if graph is not None:
            found.append(i)


def _fits(graph: Graph, ir: str) -> bool:
    """Returns whether a graph is small enough for a group."""
    return len(graph.nodes) < NODES[ir] and graph.elements < ELEMENTS


def of_cases(graphs: Mapping[str, Graph], partitions: Partitions, ir: str) -> dict[str, Group]:
    """Returns the group of each case, by the case's id. Groups consist of neighbouring graphs of
    which partitioning offloads or changes something. Several cases may share one graph, which is in
    its group once."""
    cases: dict[Graph, list[str]] = {}
    # What is too large for any group is partitioned when it is examined.
    small = {case: graph for case, graph in graphs.items() if _fits(graph, ir)}
    known = partitions.survey(small.values())
    for (case, graph), partition in zip(small.items(), known):
        if partition is not None and partition.to_be_judged:
            cases.setdefault(graph, []).append(case)
    found: dict[str, Group] = {}
    for group in groups(list(cases), ir):
        group = replace(group, first=cases[group.graphs[0]][0])
        found.update((case, group) for graph in group.graphs for case in cases[graph])
    return found


class Examinations:
    """The examinations of one target's graphs: each graph once, alone or with others in one module.

    examiner: the target's. known: the failures that the session knows. A verdict that shows nothing
    but known failures is not examined again in full."""

    def __init__(self, examiner: Examiner, known: KnownFailures) -> None:
        self._examiner = examiner
        self._known = known
        #: Operators by which `parts` has left a changed graph to be examined alone.
        self.changed_alone: set[str] = set()
        #: The number of failed modules that contained a graph, by the graph's digest. Modules in
        #: which a graph was known to fail do not count.
        self._failed_beside = Counter[bytes]()

    def examine(self, graph: Graph, effort: Effort) -> Verdict:
        """Returns the verdict on a graph."""
        verdict = self._examiner.recall(graph, effort)
        if verdict is None:
            verdict = self._examiner.first_look(graph, effort)
            if not (verdict.failed and self._is_known(verdict)):
                verdict = self._examiner.look_again(verdict, effort)
            self._examiner.learn(graph, effort, verdict)
        return verdict

    def _is_known(self, verdict: Verdict) -> bool:
        return all(map(self._known.tells_nothing_new, causes(verdict)))

    def together(self, graphs: Sequence[Graph], effort: Effort) -> Verdict | None:
        """Examines graphs in one module. The examiner then knows the verdicts on the graphs that
        have passed there, and on the graphs whose own outputs show a known failure. Returns the
        module's verdict if the module fails though no graph in it does, since the module is then a
        counterexample itself."""
        examiner = self._examiner
        tried, effort = self.tried(graphs, effort)
        if not tried:
            return None
        verdict = examiner.first_look(union(tried), effort)
        if isinstance(verdict.evidence, Evidence):
            examiner.partitions.learn(tried, verdict.evidence.target)
        if verdict.failed and self._learn_known_parts(verdict, tried, effort):
            # They explain the failure; the other graphs are examined when their tests run.
            return None
        if suspicious(verdict):
            self._failed_beside.update(g.digest for g in tried)
            # The search ends with the first graph that explains the failure, so that it is reported
            # at once; the other graphs are examined by their own tests.
            verdicts = (self.examine(g, effort.apart()) for g in tried)
            if any(suspicious(v) or v.outcome == REFERENCE_WRONG for v in verdicts):
                return None
            verdict = examiner.look_again(verdict, effort)
        if verdict.outcome in (PASS, NOT_OFFLOADED):
            self._learn_parts(verdict, tried, effort)
            return None
        return verdict if verdict.failed else None

    def tried(self, graphs: Sequence[Graph], effort: Effort) -> tuple[list[Graph], Effort]:
        """Returns those of the graphs that `together` examines in one module, none if it makes no module,
        and the effort with which it does."""
        examiner = self._examiner
        unknown = [g for g in graphs if not examiner.knows(g, effort)]
        effort = replace(effort, merged=effort.executors == ONE and examiner.merges(graphs))
        # Merging partitions each graph by itself, so a survey of the graphs is not needed before.
        partitions = examiner.partitions
        surveyed = map(partitions.known, unknown) if effort.merged else partitions.survey(unknown)
        judged = [g for g, p in zip(unknown, surveyed) if (effort.merged if p is None else p.to_be_judged)]
        tried = [g for g in judged if self._failed_beside[g.digest] < ATTEMPTS]
        return (tried if len(tried) > 1 and examiner.exact else []), effort

    def _learn_known_parts(self, verdict: Verdict, tried: Sequence[Graph], effort: Effort) -> bool:
        """Stores the verdicts on the graphs of a failed module whose own outputs show a known
        failure. Returns whether there are any."""
        graphs = [tried[i] for i in positions(verdict.graph)]
        failing = failing_parts(verdict, graphs, self._examiner.partitions.survey(graphs))
        known = [part for part in failing if self._is_known(part)]
        for part in known:
            self._examiner.learn(part.graph, effort, part)
        return bool(known)

    def _learn_parts(self, verdict: Verdict, tried: Sequence[Graph], effort: Effort) -> None:
        """Stores the verdicts on the graphs of a module that has passed."""
        graphs = [tried[i] for i in positions(verdict.graph)]
        alone = self._examiner.partitions.survey(graphs)
        for graph, part in zip(graphs, parts(verdict, graphs, alone, self.changed_alone)):
            if part is not None:
                self._examiner.learn(graph, effort, part)
            elif not verdict.taken_over:
                # What is taken over has no values by which its parts could be judged.
                self._examiner.since.forget(union(tried), effort)


def failing_parts(
    verdict: Verdict, graphs: Sequence[Graph], partitions: Sequence[Partition | None]
) -> Iterator[Verdict]:
    """Yields the verdicts on the graphs of a module whose own outputs are wrong. Yields nothing if
    the module has any finding but wrong outputs."""
    found = [f for f in verdict.findings if f.outcome == WRONG_RESULT]
    if len(found) < len(verdict.findings) or not all("output" in f.details for f in found):
        return
    first = 0
    for graph, partition in zip(graphs, partitions):
        outputs = range(first, first + len(graph.outputs))
        first = outputs.stop
        own = tuple(
            _moved(f, verdict.graph, graph, first=outputs.start)
            for f in found if f.details["output"] in outputs
        )
        if partition is None or not own:
            continue
        yield Verdict(
            graph, WRONG_RESULT, own, partition.offloaded, partition.regions, (), None, partition.placement,
            partition.boundary_bytes, verdict.not_checked,
            smallest(graph, partition.placement, partition.regions), verdict.merges,
        )


def _moved(finding: Finding, whole: Graph, graph: Graph, first: int) -> Finding:
    """Returns a finding on a module's output as a finding on the graph that the output belongs to.

    first: the position of the graph's first output among the module's outputs."""
    there = finding.details["output"]
    here = there - first
    name = graph.outputs[here]
    message = finding.message.replace(
        f"output {there} (%{whole.outputs[there]})", f"output {here} (%{name})"
    )
    return replace(finding, message=message, details={**finding.details, "output": here, "name": name})


def parts(
    verdict: Verdict, graphs: Sequence[Graph], partitions: Sequence[Partition | None],
    changed_alone: set[str],
) -> Iterator[Verdict | None]:
    """Yields the verdict on each graph of a module that has passed, or None where the module does
    not decide about the graph: other nodes are offloaded than of the graph alone, or too few
    elements can be judged.

    The offloaded nodes agree for certain if the graphs were partitioned one by one and then merged.
    If the module's regions are together those of the graphs alone, they count as the same too:
    where several graphs have equal calls, the graph that a call belongs to cannot be determined.

    changed_alone: operators of graphs that were left to be examined alone because partitioning
    changes them though it offloads nothing. In a module of several graphs partitioning may leave
    such a graph as it is, unless the graphs were partitioned one by one."""
    evidence = verdict.evidence
    assert isinstance(evidence, Evidence)
    merged = any(kept["merged"] for _, kept in evidence.target.facts("kept"))
    calls_alone = tuple(sorted(region for partition in partitions if partition for region in partition.calls))
    alike = merged or evidence.calls() == calls_alone
    node = output = 0
    for graph, partition in zip(graphs, partitions):
        offloaded = verdict.offloaded[node : node + len(graph.nodes)]
        expected = evidence.expected[0][output : output + len(graph.outputs)] if evidence.expected else ()
        node, output = node + len(graph.nodes), output + len(graph.outputs)
        same = partition is not None and (alike or offloaded == partition.offloaded)
        if partition is not None and not partition.regions:
            # Partitioning changed the graph, and the result is right, if it was changed here too.
            operators = {n.op for n in graph.nodes}
            here = merged or (bool(expected) and operators <= changed_alone)
            changed_alone |= operators
            yield Verdict(graph, NOT_OFFLOADED, offloaded=partition.offloaded) if here else None
        elif partition is None or not same or share_judged(expected) < JUDGED_SHARE:
            yield None
        else:
            yield Verdict(
                graph, PASS, (), partition.offloaded, partition.regions, (), None, partition.placement,
                partition.boundary_bytes, verdict.not_checked,
                smallest(graph, partition.placement, partition.regions), verdict.merges,
                checks_made=verdict.checks_made, taken_over=verdict.taken_over,
            )
