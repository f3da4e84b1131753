"""Graphs that a target's partitioner really takes for its patterns, found by asking it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...core.graph import Graph
from ...operators import OPERATORS
from .instance import Instance, instance, varied
from .reading import NoInstance
from .tree import Pattern, Way, ways

#: Graphs tried for each way of a pattern, one round after the other, until one is matched.
ROUNDS = (range(4), range(4, 20), range(20, 60))
#: After a pattern has been matched, its other ways are not looked for any further than this round.
_PATIENCE = 2
#: A check that refuses all graphs of the rounds is climbed: graphs that get further in it are varied.
_GENERATIONS, _CHILDREN, _PARENTS = 24, 60, 8
#: Many a choice makes no difference: so many are made for each child, at most.
_CHANCES = 3
#: Generations without a graph that gets further.
_STALLED = 10

#: Names of the composites the partitioner makes of each graph; None where it fails.
Matches = Callable[[Sequence[Graph]], "list[frozenset[str] | None]"]


@dataclass(frozen=True)
class Alone:
    """What a pattern would take of a graph, were it the only one of its table.

    matched: something. structure: something has its structure, whatever its check says. progress: how
    much of the check was executed. raised: what the check raised. arguments: where nothing has the
    structure, how many arguments the graph's calls have, by the operator's name in the IR. words: strings
    and numbers in the check's code.
    """

    matched: bool
    structure: bool = True
    progress: int = 0
    raised: str = ""
    arguments: Mapping[str, Sequence[int]] = field(default_factory=dict)
    words: Sequence[Any] = ()

    @staticmethod
    def of(said: Mapping[str, Any]) -> Alone:
        """From what the worker sent."""
        return Alone(**{name: said[name] for name in said if name != "number"})


#: What the pattern alone makes of each graph; None where that cannot be told.
AskAlone = Callable[[Pattern, Sequence[Graph]], "list[Alone | None]"]


@dataclass(frozen=True)
class Fragment:
    """A graph that matches. way: which of the pattern's alternatives it takes."""

    pattern: str
    way: str
    graph: Graph


@dataclass
class Found:
    """What became of one pattern. fragments: graphs it takes, for each of its ways at most one. shadowed:
    graphs it would take, were it alone, but other patterns of the table take first. reason: why there is
    no fragment, in words. raising: where the check, or partitioning, raises of graphs and there is no
    fragment, one of them. failed: what the search itself raised."""

    pattern: str
    fragments: list[Fragment] = field(default_factory=list)
    shadowed: list[Fragment] = field(default_factory=list)
    reason: str = ""
    raising: Graph | None = None
    failed: Exception | None = None

    @property
    def fate(self) -> str:
        """matched, shadowed or never."""
        return "matched" if self.fragments else "shadowed" if self.shadowed else "never"


def search(pattern: Pattern, ir: str, matches: Matches, alone: AskAlone) -> Found:
    """For each way of matching a pattern, a graph that the target takes for it."""
    return _Search(pattern, ir, matches, alone).run()


class _Search:
    def __init__(self, pattern: Pattern, ir: str, matches: Matches, alone: AskAlone) -> None:
        self._pattern, self._ir, self._matches, self._alone = pattern, ir, matches, alone
        self._found = Found(pattern.label)
        #: Composites that the table makes of graphs the pattern would take.
        self._takers: set[str] = set()
        #: What stood in the way of making graphs.
        self._why: list[str] = []
        self._tried = self._structured = self._raising = 0
        self._said: dict[Graph, Alone | None] = {}
        self._raised = ""
        #: What the check may compare attributes and dtypes with.
        self._words: set[Any] = set()
        #: Instances that have the structure.
        self._pool: list[Instance] = []

    def run(self) -> Found:
        left = ways(self._pattern)
        for number, seeds in enumerate(ROUNDS):
            if self._found.fragments and number >= _PATIENCE:
                break
            left = [way for way in left if not self._take(way, self._made(way, seeds), number == 0)]
            if number and self._hopeless():
                break
        if not self._found.fragments and not self._found.shadowed and self._structured > self._raising:
            self._climb()
        if not self._found.fragments:
            self._found.reason = self._reason()
        else:
            self._found.raising = None
        return self._found

    # --- asking ------------------------------------------------------------------------------

    def _made(self, way: Way, seeds: range) -> list[Instance]:
        made: dict[Graph, Instance] = {}
        for seed in seeds:
            try:
                one = instance(self._pattern, way, self._ir, seed, frozenset(self._words))
            except NoInstance as e:
                if str(e) not in self._why:
                    self._why.append(str(e))
            else:
                made.setdefault(one.graph, one)
        return list(made.values())

    def _ask(self, made: Sequence[Instance]) -> None:
        """Finds out what the pattern alone makes of graphs not asked about yet."""
        new = list({m.graph: m for m in made if m.graph not in self._said}.values())
        for one, said in zip(new, self._alone(self._pattern, [m.graph for m in new]) if new else ()):
            self._said[one.graph] = said
            self._tried += 1
            if said is not None:
                if said.structure:
                    self._pool.append(one)
                self._structured += said.structure
                self._raised = self._raised or said.raised
                self._raising += bool(said.raised)
                if said.raised and self._found.raising is None:
                    self._found.raising = one.graph
                self._words.update(said.words)

    def _take(self, way: Way, made: Sequence[Instance], all_of_them: bool) -> bool:
        """Whether the table takes one of the graphs for the pattern; it becomes a fragment.

        all_of_them: ask the table of those too that the pattern alone does not take: a partition function
        may change a graph before it looks for patterns."""
        self._ask(made)
        settled = [self._settled(m) for m in made if self._fits(m)]
        fit = sorted((m.graph for m in settled), key=lambda g: _unbuilt(g, self._ir))
        others = [m.graph for m in made if not self._fits(m)] if all_of_them or not fit else []
        others = others if all_of_them else [g for g in others if self._said[g] is None]
        graphs = fit + others
        taken = self._matches(graphs) if graphs else []
        for graph, composites in zip(graphs, taken):
            if composites is not None and self._pattern.name in composites:
                self._found.fragments.append(Fragment(self._pattern.label, _label(way), graph))
                return True
        for graph, composites in zip(fit, taken):
            self._takers.update(composites or ())
            if len(self._found.shadowed) < 3:
                self._found.shadowed.append(Fragment(self._pattern.label, _label(way), graph))
        if graphs and all(t is None for t in taken) and _RAISES not in self._why:
            self._why.append(_RAISES)
            self._found.raising = self._found.raising or graphs[0]
        return False

    def _settled(self, found: Instance) -> Instance:
        """A graph that fits, with as many of its choices at their defaults as the check allows: what was
        drawn may be a pooling of one element, which shows nothing."""
        if found.seed == 0 and not found.changed:
            return found
        # Numbers that lead to the default; what is worded is preferred to it.
        plain = {name: 0.999 if name.endswith("worded") else 0.0 for name in found.draws}
        apart = {n: c for n in plain if (c := self._changed(found, {n: plain[n]})) is not None}
        self._ask(list(apart.values()))
        settled = found
        for name, child in apart.items():
            if child.graph == found.graph or not self._fits(child):
                continue
            both = self._changed(settled, {name: plain[name]})
            if both is not None:
                self._ask([both])
                settled = both if self._fits(both) else settled
        return settled

    def _changed(self, parent: Instance, changed: Mapping[str, float]) -> Instance | None:
        """The instance with other numbers for some of its choices; None where there is no such graph."""
        try:
            return varied(
                self._pattern, parent.way, self._ir, parent.seed, parent.attempt,
                {**parent.changed, **changed}, parent.words,
            )
        except NoInstance:
            return None

    def _fits(self, made: Instance) -> bool:
        said = self._said[made.graph]
        return said is not None and said.matched

    def _hopeless(self) -> bool:
        """Whether it is known that more graphs will not help: what TVM makes of them can't have the
        structure, or the check always raises."""
        if self._structured:
            return self._raising == self._structured
        return bool(self._said) and bool(self._never_structured())

    # --- climbing ----------------------------------------------------------------------------

    def _climb(self) -> None:
        """Varies the graphs that got furthest in the check until one is taken."""
        best, idle = 0, 0
        for generation in range(_GENERATIONS):
            # Of those that got equally far the newest: what makes no difference may have to change first.
            self._pool = sorted(self._pool, key=self._progress)
            pool = self._pool[-_PARENTS:][::-1]
            if not pool or idle >= _STALLED:
                return
            idle = 0 if self._progress(pool[0]) > best else idle + 1
            best = max(best, self._progress(pool[0]))
            children = list(self._children(pool, generation))
            self._ask(children)
            hits = [m for m in children if self._fits(m)]
            if any(self._take(m.way, [m], False) for m in hits[:4]) or hits:
                return

    def _children(self, parents: Sequence[Instance], generation: int) -> Iterable[Instance]:
        draws = random.Random(f"{self._pattern.label} {generation}")
        made = 0
        for _ in range(_CHILDREN * _CHANCES):
            if made == _CHILDREN:
                return
            parent = draws.choice(parents)
            changed: dict[str, float] = {}
            for _ in range(draws.choice((1, 1, 2, 4))):
                # The default, or anything, or anything but the default.
                number = draws.choice((0.0, draws.random(), 0.9 + 0.1 * draws.random()))
                changed[draws.choice(parent.draws)] = number
            child = self._changed(parent, changed)
            if child is not None and child.graph not in self._said:
                made += 1
                yield child

    def _progress(self, made: Instance) -> int:
        said = self._said.get(made.graph)
        return said.progress if said is not None else 0

    # --- words -------------------------------------------------------------------------------

    def _reason(self) -> str:
        if self._found.shadowed:
            takers = ", ".join(sorted(self._takers)) or "nothing"
            return f"matches alone; in the table {takers} takes its graphs first"
        if not self._tried:
            return "; ".join(self._why[:3])
        if self._structured:
            if self._raising == self._structured:
                return f"its check raises {self._raised}"
            raised = f"; it raised {self._raised}" if self._raised else ""
            inputs = sorted({s.type.dtype for m in self._pool for s in m.graph.inputs})
            tried = f"of its structure that were tried (inputs of {', '.join(inputs)})"
            return f"its check refuses all {self._structured} graphs {tried}{raised}"
        never = self._never_structured()
        if never:
            return never
        if all(said is None for said in self._said.values()):
            return "; ".join(self._why[:3]) or "partitioning raises"
        return f"none of the {self._tried} graphs made to have its structure has it for TVM"

    def _never_structured(self) -> str:
        """Why TVM never finds the structure, where that is known: calls of the pattern have another number of
        arguments than TVM's, or it begins where TVM does not look."""
        if self._ir == "relax" and self._pattern.nodes[self._pattern.root].kind in ("item", "tuple"):
            return "its root is no call, and FuseOpsByPattern begins at calls alone"
        for node in self._pattern.nodes:
            if node.kind != "call" or node.of is None or node.more or node.ops is None:
                continue
            seen = [n for a in self._said.values() if a for op in node.ops for n in a.arguments.get(op, ())]
            if seen and len(node.of) not in seen:
                wanted = " or ".join(map(str, sorted(set(seen))))
                plural = "s" if wanted != "1" else ""
                return f"{node.ops[0]} takes {wanted} argument{plural}, the pattern gives it {len(node.of)}"
        return ""


def _unbuilt(graph: Graph, ir: str) -> bool:
    """Whether an operator has an attribute with which TVM's own build cannot judge it."""
    return any(getattr(OPERATORS[n.op], ir).is_unbuilt(n.attrs) for n in graph.nodes)


_RAISES = "partitioning raises"


def _label(way: Way) -> str:
    return "-".join(f"{n}.{b}" for n, b in sorted(way.items())) or "first"
