"""Graphs examined side by side in one module.

Most of what a small graph costs is not its own: forks, the fixed part of TVM's builds, compilers and linkers
that are started. A module of several graphs pays that once. Where it passes, each graph in it has passed: its
outputs are inside its own bounds, and what the target takes of it is what it takes of it alone. In any other
case each graph is examined by itself, and the module decides nothing about it.
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
from ..examination.claims import Claim, Claims
from ..examination.decision import JUDGED_SHARE, causes
from ..examination.examiner import Examiner, suspicious
from ..examination.outcome import NOT_OFFLOADED, PASS, REFERENCE_WRONG, Verdict
from .known_failures import KnownFailures

#: Graphs in one module, their nodes by IR, and the elements of all their values: larger ones gain nothing.
#: (Relay infers the types of a whole module again for each of its regions.)
GRAPHS, NODES, ELEMENTS = 8, {"relay": 40, "relax": 160}, 1 << 18
#: Modules that may fail with a graph in them before it is examined alone: where several of a module fail,
#: those that are left would else be built together again for each.
ATTEMPTS = 2


@dataclass(frozen=True)
class Group:
    """Graphs that are examined together, as long as none of them fails: positions in what was grouped.
    first: of cases the one that answers for the module."""

    positions: tuple[int, ...]
    graphs: tuple[Graph, ...]
    first: str = ""


def groups(graphs: Sequence[Graph], ir: str) -> Iterator[Group]:
    """Neighbours, as many as fit into one module; what fits with none is in no group."""
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


def of_cases(graphs: Mapping[str, Graph], claims: Claims, ir: str) -> dict[str, Group]:
    """By the id of a case the group it is in: neighbours of which something is offloaded or changed. Cases of
    one graph are in one group, in which it is once."""
    cases: dict[Graph, list[str]] = {}
    known = claims.survey(graphs.values())
    for (case, graph), claim in zip(graphs.items(), known):
        if claim is not None and claim.to_be_judged:
            cases.setdefault(graph, []).append(case)
    found: dict[str, Group] = {}
    for group in groups(list(cases), ir):
        group = replace(group, first=cases[group.graphs[0]][0])
        found.update((case, group) for graph in group.graphs for case in cases[graph])
    return found


class Examinations:
    """The examinations of one target, each graph once, alone or with others in one module.

    examiner: of the target. known: the failures that the session knows. What tells nothing new is not
    examined again in full."""

    def __init__(self, examiner: Examiner, known: KnownFailures) -> None:
        self._examiner = examiner
        self._known = known
        #: See `parts`.
        self.changed_alone: set[str] = set()
        #: The number of failed modules that held a graph, by the graph's digest; modules in which a graph was
        #: known to fail do not count.
        self._failed_beside = Counter[bytes]()

    def examine(self, graph: Graph, effort: Effort) -> Verdict:
        """The verdict on a graph."""
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
        """Examines graphs in one module. The examiner then knows the verdicts on those that have passed
        there, and on those whose own outputs show a failure that is known. Returns the module's verdict
        where it fails though no graph in it does: it is a counterexample of its own."""
        examiner = self._examiner
        unknown = [g for g in graphs if not examiner.knows(g, effort)]
        effort = replace(effort, merged=effort.executors == ONE and examiner.merges)
        # Merging tells what is offloaded of each graph: it need not be surveyed before.
        surveyed = map(examiner.claims.known, unknown) if effort.merged else examiner.claims.survey(unknown)
        judged = [g for g, c in zip(unknown, surveyed) if (effort.merged if c is None else c.to_be_judged)]
        tried = [g for g in judged if self._failed_beside[g.digest] < ATTEMPTS]
        if len(tried) < 2 or not examiner.exact:
            return None
        verdict = examiner.first_look(union(tried), effort)
        if isinstance(verdict.evidence, Evidence):
            examiner.claims.learn(tried, verdict.evidence.target)
        if verdict.failed and self._learn_known_parts(verdict, tried, effort):
            # They explain it; the others are examined when their tests run.
            return None
        if suspicious(verdict):
            self._failed_beside.update(g.digest for g in tried)
            # Up to the first that explains it: that failure is reported at once, and the others' tests
            # follow.
            verdicts = (self.examine(g, effort.apart()) for g in tried)
            if any(suspicious(v) or v.outcome == REFERENCE_WRONG for v in verdicts):
                return None
            verdict = examiner.look_again(verdict, effort)
        if verdict.outcome in (PASS, NOT_OFFLOADED):
            self._learn_parts(verdict, tried, effort)
            return None
        return verdict if verdict.failed else None

    def _learn_known_parts(self, verdict: Verdict, tried: Sequence[Graph], effort: Effort) -> bool:
        """Keeps the verdicts on graphs of a failed module whose own outputs show a failure that is known.
        Returns whether there are any."""
        graphs = [tried[i] for i in positions(verdict.graph)]
        failing = failing_parts(verdict, graphs, self._examiner.claims.survey(graphs))
        known = [part for part in failing if self._is_known(part)]
        for part in known:
            self._examiner.learn(part.graph, effort, part)
        return bool(known)

    def _learn_parts(self, verdict: Verdict, tried: Sequence[Graph], effort: Effort) -> None:
        """Keeps the verdicts on the graphs of a module that has passed."""
        graphs = [tried[i] for i in positions(verdict.graph)]
        alone = self._examiner.claims.survey(graphs)
        for graph, part in zip(graphs, parts(verdict, graphs, alone, self.changed_alone)):
            if part is not None:
                self._examiner.learn(graph, effort, part)


def failing_parts(
    verdict: Verdict, graphs: Sequence[Graph], claims: Sequence[Claim | None]
) -> Iterator[Verdict]:
    """Yields the verdicts on the graphs of a module whose own outputs are wrong, where the module fails by
    nothing but its outputs."""
    found = [f for f in verdict.findings if f.outcome == WRONG_RESULT]
    if len(found) < len(verdict.findings) or not all("output" in f.details for f in found):
        return
    first = 0
    for graph, claim in zip(graphs, claims):
        outputs = range(first, first + len(graph.outputs))
        first = outputs.stop
        own = tuple(
            _moved(f, verdict.graph, graph, first=outputs.start)
            for f in found if f.details["output"] in outputs
        )
        if claim is None or not own:
            continue
        yield Verdict(
            graph, WRONG_RESULT, own, claim.offloaded, claim.regions, (), None, claim.placement,
            claim.boundary_bytes, verdict.not_checked, smallest(graph, claim.placement, claim.regions),
            verdict.merges,
        )


def _moved(finding: Finding, whole: Graph, graph: Graph, first: int) -> Finding:
    """What was found of a module's output, said of the graph whose outputs begin there."""
    there = finding.details["output"]
    here = there - first
    name = graph.outputs[here]
    message = finding.message.replace(
        f"output {there} (%{whole.outputs[there]})", f"output {here} (%{name})"
    )
    return replace(finding, message=message, details={**finding.details, "output": here, "name": name})


def parts(
    verdict: Verdict, taken: Sequence[Graph], claims: Sequence[Claim | None], changed_alone: set[str],
) -> Iterator[Verdict | None]:
    """Of a module that has passed, the verdict on each graph in it; None where it says nothing: another part
    of the graph is offloaded than if it is alone, or too little of it can be judged. Where the module was
    merged of each alone, nothing else can be; nor where its regions are those of each alone: whose a call
    is cannot be told where several graphs have the like.

    changed_alone: operators of which a graph that partitioning changes, though nothing of it is offloaded,
    has been left to be examined alone. In a module of several, partitioning may leave it as it is; where
    they were merged of each alone, that can't be."""
    evidence = verdict.evidence
    assert isinstance(evidence, Evidence)
    merged = any(kept["merged"] for _, kept in evidence.target.facts("kept"))
    claimed = tuple(sorted(region for claim in claims if claim for region in claim.calls))
    alike = merged or evidence.calls() == claimed
    node = output = 0
    for graph, claim in zip(taken, claims):
        offloaded = verdict.offloaded[node : node + len(graph.nodes)]
        expected = evidence.expected[0][output : output + len(graph.outputs)] if evidence.expected else ()
        node, output = node + len(graph.nodes), output + len(graph.outputs)
        same = claim is not None and (alike or offloaded == claim.offloaded)
        if claim is not None and not claim.regions:
            # It was changed, and is right, if it was changed here too.
            operators = {n.op for n in graph.nodes}
            here = merged or (bool(expected) and operators <= changed_alone)
            changed_alone |= operators
            yield Verdict(graph, NOT_OFFLOADED, offloaded=claim.offloaded) if here else None
        elif claim is None or not same or share_judged(expected) < JUDGED_SHARE:
            yield None
        else:
            yield Verdict(
                graph, PASS, (), claim.offloaded, claim.regions, (), None, claim.placement,
                claim.boundary_bytes, verdict.not_checked, smallest(graph, claim.placement, claim.regions),
                verdict.merges, made=verdict.made,
            )
