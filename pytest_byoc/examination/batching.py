"""Graphs examined side by side in one module.

Most of what a small graph costs is not its own: forks, the fixed part of TVM's builds, compilers and linkers
that are started. A module of several graphs pays that once. Where it passes, each graph in it has passed: its
outputs are inside its own bounds, and what the target takes of it is what it takes of it alone. In any other
case each graph is examined by itself, and the module decides nothing about it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ..core.finding import Finding
from ..core.graph import Graph
from ..core.union import positions, union
from ..evidence.comparison import share_judged
from ..evidence.evidence import Evidence
from ..evidence.fragmentation import smallest
from .claims import Claim, Claims
from .decision import JUDGED_SHARE, causes
from .examiner import Examiner, suspicious
from .outcome import NOT_OFFLOADED, PASS, REFERENCE_WRONG, WRONG_RESULT, Verdict

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


def examine(
    examiner: Examiner, graphs: Sequence[Graph], checks: Sequence[str], quick: bool = False,
    is_known: Callable[[Verdict], bool] = lambda verdict: False,
) -> Verdict | None:
    """Examines graphs in one module; of those that have passed there the examiner knows the
    verdicts then, and of those that show in their own outputs what is known already. Returns the
    module's verdict where that fails though no graph in it does: it is a counterexample of its own.

    quick: as in `Examiner.examine`. is_known: whether nothing new is told by a failing verdict."""
    unknown = [g for g in graphs if not examiner.knows(g, checks, quick)]
    merged = quick and examiner.merges
    # Merging says what is taken of each graph: there is no need to ask before.
    claims = map(examiner.claims.known, unknown) if merged else examiner.claims.survey(unknown)
    judged = [g for g, c in zip(unknown, claims) if (merged if c is None else c.to_be_judged)]
    tried = [g for g in judged if examiner.failed_beside[g.digest] < ATTEMPTS]
    if len(tried) < 2 or not examiner.exact:
        return None
    whole = union(tried)
    verdict = examiner.first_look(whole, checks, quick, merged)
    evidence = verdict.evidence
    if isinstance(evidence, Evidence):
        examiner.claims.learn(tried, evidence.target)
    if verdict.failed:
        taken = [tried[i] for i in positions(verdict.graph)]
        known = list(_known_parts(verdict, taken, examiner.claims.survey(taken), is_known))
        for found in known:
            examiner.learn(found.graph, checks, found, quick)
        if known:
            # They explain it; the others are examined when their turns come.
            return None
    if suspicious(verdict):
        examiner.failed_beside.update(g.digest for g in tried)
        # Up to the first that explains it: if that fails it is told at once, and the others' turns come.
        verdicts = (examiner.examine(g, checks, quick, is_known) for g in tried)
        if any(suspicious(v) or v.outcome == REFERENCE_WRONG for v in verdicts):
            return None
        verdict = examiner.look_again(whole, verdict, checks, quick, merged)
    if verdict.outcome in (PASS, NOT_OFFLOADED):
        taken = [tried[i] for i in positions(verdict.graph)]
        claimed = examiner.claims.survey(taken)
        for graph, part in zip(taken, parts(verdict, taken, claimed, examiner.changed_alone)):
            if part is not None:
                examiner.learn(graph, checks, part, quick)
        return None
    return verdict if verdict.failed else None


def _known_parts(
    verdict: Verdict, taken: Sequence[Graph], claims: Sequence[Claim | None],
    is_known: Callable[[Verdict], bool],
) -> Iterator[Verdict]:
    """Of a module that fails by nothing but what its outputs are, the verdicts on those graphs in
    it whose own outputs are wrong in a way that is known."""
    found = [f for f in verdict.findings if f.outcome == WRONG_RESULT]
    if len(found) < len(verdict.findings) or not all("output" in f.details for f in found):
        return
    first = 0
    for graph, claim in zip(taken, claims):
        outputs = range(first, first + len(graph.outputs))
        first = outputs.stop
        own = tuple(
            _moved(f, verdict.graph, graph, first=outputs.start)
            for f in found if f.details["output"] in outputs
        )
        if claim is None or not own:
            continue
        part = Verdict(
            graph, WRONG_RESULT, own, claim.offloaded, claim.regions, (), None, claim.placement,
            claim.boundary_bytes, verdict.not_checked, smallest(graph, claim.placement, claim.regions),
            verdict.merges,
        )
        if all(is_known(cause) for cause in causes(part)):
            yield part


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
