"""Finds, by partitioning graphs, some in which the target's partitioning matches a pattern."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from ...core.graph import Graph
from ...operators import OPERATORS
from ...operators.record import UNSET
from .alternatives import NoInstance, records_of
from .instance import Instance, instance, varied
from .search_result import Alone, AskAlone, Fragment, Matches, SearchResult
from .tree import Pattern, Way, ways

#: Seeds of the graphs tried for each way of a pattern, one round after the other until one matches.
ROUNDS = (range(4), range(4, 20), range(20, 60))
#: Once a pattern has a fragment, its other ways are tried only in the rounds before this one.
_PATIENCE = 2
#: If a check refuses all graphs of the rounds, graphs that get further in it are varied: the number
#: of generations, the new graphs of a generation, and the graphs that it varies.
_GENERATIONS, _CHILDREN, _PARENTS = 24, 60, 8
#: Attempts for each new graph: a changed choice often gives a graph that was tried before.
_CHANCES = 3
#: Graphs whose neighbours are all tried although nothing got further since, and the values that are
#: tried of a choice.
_NEIGHBOURHOODS, _VALUES = 6, 40
#: The most changes that are tried of one graph.
_CHANGES = 500
#: Graphs, of those that got furthest, from which the one with new types of inputs is chosen.
_ALIKE = 40
#: The search ends after so many generations without a graph that gets further; after fewer if the
#: pattern alone matches.
_STALLED, _SHADOWED = 10, 3
#: The number of nodes, of all graphs that were made by changing choices, after which no more
#: generations are made: graphs of large patterns take long to make.
_MOST_NODES = 150_000
#: For each further way of a pattern that is matched in one: the number of generations and of those
#: without progress; for all of them together, the number of graphs after which no more are tried.
_WAY_GENERATIONS, _WAY_STALLED, _WAYS_GRAPHS = 8, 3, 500
#: Graphs that match of which one is made plainer; graphs of choices opened by another choice.
_SETTLED, _OPENED = 3, 150


def search(pattern: Pattern, ir: str, matches: Matches, alone: AskAlone) -> SearchResult:
    """Searches, for each way of matching a pattern, for a graph in which the target matches it."""
    return _Search(pattern, ir, matches, alone).run()


class _Search:
    def __init__(self, pattern: Pattern, ir: str, matches: Matches, alone: AskAlone) -> None:
        self._pattern, self._ir, self._matches, self._alone = pattern, ir, matches, alone
        self._result = SearchResult(pattern.label)
        #: Composites that the table makes of graphs that the pattern alone would match.
        self._takers: set[str] = set()
        #: Reasons why graphs could not be made.
        self._why: list[str] = []
        self._tried = self._structured = self._raising = self._nodes = 0
        self._said: dict[Graph, Alone | None] = {}
        self._raised = ""
        #: Values with which the check may compare attributes and dtypes.
        self._words: dict[Any, None] = {}
        #: Instances that have the pattern's structure, and the first of each way that the table matches.
        self._pool: list[Instance] = []
        self._matched: list[Instance] = []

    def run(self) -> SearchResult:
        left = ways(self._pattern)
        for number, seeds in enumerate(ROUNDS):
            if self._result.fragments and number >= _PATIENCE:
                break
            left = [way for way in left if not self._take(way, self._instances(way, seeds), number == 0)]
            if number and self._hopeless():
                break
        if not self._result.fragments and self._structured > self._raising:
            self._climb(left, _GENERATIONS, _STALLED)
        matched = [one.way for one in self._matched]
        self._climb_each([way for way in left if way not in matched])
        if not self._result.fragments:
            self._result.reason = self._reason()
        else:
            self._result.raising = None
        return self._result

    # --- matching ----------------------------------------------------------------------------

    def _instances(self, way: Way, seeds: range) -> list[Instance]:
        instances: dict[Graph, Instance] = {}
        for seed in seeds:
            try:
                one = instance(self._pattern, way, self._ir, seed, tuple(self._words))
            except NoInstance as e:
                if str(e) not in self._why:
                    self._why.append(str(e))
            else:
                instances.setdefault(one.graph, one)
        return list(instances.values())

    def _ask(self, instances: Sequence[Instance]) -> None:
        """Finds the match of the pattern alone in each graph for which it is not known yet."""
        new = list({m.graph: m for m in instances if m.graph not in self._said}.values())
        for one, said in zip(new, self._alone(self._pattern, [m.graph for m in new]) if new else ()):
            self._said[one.graph] = said
            self._tried += 1
            if said is not None:
                if said.structure:
                    self._pool.append(one)
                self._structured += said.structure
                self._raised = self._raised or said.raised
                self._raising += bool(said.raised)
                if said.raised and self._result.raising is None:
                    self._result.raising = one.graph
                self._words.update(dict.fromkeys(said.words))

    def _take(self, way: Way, instances: Sequence[Instance], all_of_them: bool) -> bool:
        """Makes the first graph in which the table matches the pattern a fragment; False if none.

        all_of_them: also partition graphs that the pattern alone does not match, because a
        partition function may change a graph before it looks for patterns."""
        self._ask(instances)
        fit = [m for m in instances if self._fits(m)]
        others = [m for m in instances if not self._fits(m)] if all_of_them or not fit else []
        others = others if all_of_them else [m for m in others if self._said[m.graph] is None]
        matches = self._matches([m.graph for m in (*fit, *others)]) if fit or others else []
        for one, composites in zip((*fit, *others), matches):
            # Of several patterns of one name another one may have made the composite.
            if self._has_it(composites) and (one in fit or not self._pattern.repeated):
                graph = self._plainest([m for m, c in zip(fit, matches) if self._has_it(c)]) or one.graph
                self._result.fragments.append(Fragment(self._pattern.label, _label(way), graph))
                self._matched.append(one)
                return True
        for one, composites in zip(fit, matches):
            self._takers.update(composites or ())
            if len(self._result.shadowed) < 3:
                self._result.shadowed.append(Fragment(self._pattern.label, _label(way), one.graph))
        if matches and all(t is None for t in matches) and _RAISES not in self._why:
            self._why.append(_RAISES)
            self._result.raising = self._result.raising or (*fit, *others)[0].graph
        return False

    def _has_it(self, composites: Collection[str] | None) -> bool:
        return composites is not None and self._pattern.name in composites

    def _plainest(self, found: Sequence[Instance]) -> Graph | None:
        """Returns a graph that the table matches with mostly default choices, if possible one that TVM
        itself can build; None if there is none."""
        first: Graph | None = None
        for one in found[:_SETTLED]:
            graph = self._settled(one).graph
            if graph != one.graph and not self._has_it(self._matches([graph])[0]):
                graph = one.graph
            if not _unbuilt(graph, self._ir):
                return graph
            first = first or graph
        return first

    def _settled(self, found: Instance) -> Instance:
        """Returns a graph that matches with as many of its choices at their defaults as the check
        allows. The drawn choices may be a pooling of one element, for example, which shows
        little."""
        if found.seed == 0 and not found.changed:
            return found
        # 0.0 leads to the default; 0.999 keeps a draw from preferring a word.
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
        """Returns the instance with other numbers for some choices; None if it gives no graph."""
        return self._varied(parent.way, parent.seed, parent.attempt, {**parent.changed, **changed})

    def _varied(self, way: Way, seed: int, attempt: int, changed: Mapping[str, float]) -> Instance | None:
        self._nodes += len(self._pattern.nodes)
        try:
            return varied(self._pattern, way, self._ir, seed, attempt, changed, tuple(self._words))
        except NoInstance:
            return None

    def _fits(self, one: Instance) -> bool:
        said = self._said[one.graph]
        return said is not None and said.matched

    def _hopeless(self) -> bool:
        """Returns whether it is known that more graphs will not help: TVM's calls cannot have the
        structure, or the check always raises."""
        if self._structured:
            return self._raising == self._structured
        if not self._said or not self._never_structured():
            return False
        # Without its optional attributes a call may have fewer arguments.
        if UNSET not in self._words and self._has_optional():
            self._words[UNSET] = None
            return False
        return True

    def _has_optional(self) -> bool:
        """Returns whether a call of the pattern may have attributes that can be left out."""
        calls = (op for node in self._pattern.nodes for op in records_of(node, self._ir))
        return any(getattr(op, self._ir).optional for op in calls)

    # --- climbing ----------------------------------------------------------------------------

    def _climb_each(self, left: Sequence[Way]) -> None:
        """Climbs for each way without a fragment, if another has one, within a number of graphs for
        all of them."""
        end = self._tried + _WAYS_GRAPHS
        for way in left if self._matched else ():
            if self._tried >= end or self._nodes > _MOST_NODES:
                return
            # Parts that the ways share are made by the choices that led to a match.
            carried = [self._varied(way, one.seed, one.attempt, one.numbers) for one in self._matched]
            if not self._take(way, [one for one in carried if one], False):
                self._climb([way], _WAY_GENERATIONS, _WAY_STALLED)

    def _climb(self, left: Sequence[Way], generations: int, stalled: int) -> None:
        """Varies the graphs of some ways that got furthest in the check, until one matches.

        stalled: the number of generations without a graph that gets further after which it ends."""
        best, idle, tried = 0.0, 0, set[Graph]()
        for generation in range(generations):
            # The newest of the graphs that got equally far are varied: a change that makes no
            # difference by itself may have to come before one that does.
            self._pool = sorted(self._pool, key=self._progress)
            reached = [one for one in self._pool if one.way in left]
            pool = reached[-_PARENTS:][::-1]
            if not pool or idle >= stalled or self._nodes > _MOST_NODES:
                return
            idle = 0 if self._progress(pool[0]) > best else idle + 1
            best = max(best, self._progress(pool[0]))
            children = list(self._children(pool, generation))
            new = [one for one in reached[-_ALIKE:] if one.graph not in tried]
            if new and (idle == 0 or len(tried) < _NEIGHBOURHOODS):
                chosen = min(new, key=lambda one: self._merit(one, tried))
                tried.add(chosen.graph)
                children += self._neighbours(chosen)
            self._ask(children)
            hits = [m for m in children if self._fits(m)]
            if any(self._take(way, [m for m in hits if m.way == way], False) for way in left):
                return
            if hits:
                # Other patterns match these first, but perhaps not all that this one matches.
                stalled = min(stalled, _SHADOWED)

    def _merit(self, one: Instance, tried: Collection[Graph]) -> tuple[float, bool, bool]:
        """Returns a key by which the best graph comes first: one that got furthest, of float32, as
        checks compare numbers more closely than 16 bits hold them, with inputs of other types than
        those of the graphs tried."""
        inputs = {tuple(s.type for s in graph.inputs) for graph in tried}
        precise = all(source.type.dtype == "float32" for source in one.graph.sources())
        return -self._progress(one), not precise, tuple(s.type for s in one.graph.inputs) in inputs

    def _neighbours(self, parent: Instance) -> Iterable[Instance]:
        """Yields the instances that differ from one in a single choice: each other value of each.

        If other patterns match the parent first, choices that such a change opens are made too."""
        graphs = {parent.graph}
        opened = 0
        # The check's code may have shown more values since the graph was made.
        now = self._changed(parent, {}) or parent
        for child in self._each_other(now, list(now.draws)):
            if child.graph in graphs:
                continue
            graphs.add(child.graph)
            yield child
            names = [n for n in child.draws if n not in now.draws] if self._fits(parent) else []
            for further in islice(self._each_other(child, names), _OPENED - opened):
                opened += 1
                yield further

    def _each_other(self, parent: Instance, names: Sequence[str]) -> Iterable[Instance]:
        """Yields instances with each other value of some choices, one changed at a time; of very many
        a selection."""
        changes = [(name, point) for name in names for point in parent.draws[name][:_VALUES]]
        if len(changes) > _CHANGES:
            changes = random.Random(len(changes)).sample(changes, _CHANGES)
        for name, point in changes:
            child = self._changed(parent, {name: point})
            if child is not None:
                yield child

    def _children(self, parents: Sequence[Instance], generation: int) -> Iterable[Instance]:
        draws = random.Random(f"{self._pattern.label} {generation}")
        count = 0
        for _ in range(_CHILDREN * _CHANCES):
            if count == _CHILDREN:
                return
            parent = draws.choice(parents)
            changed: dict[str, float] = {}
            for _ in range(draws.choice((1, 1, 2, 4))):
                # 0.0 gives the default, numbers near 1 mostly another value.
                number = draws.choice((0.0, draws.random(), 0.9 + 0.1 * draws.random()))
                changed[draws.choice(list(parent.draws))] = number
            child = self._changed(parent, changed)
            if child is not None and child.graph not in self._said:
                count += 1
                yield child

    def _progress(self, one: Instance) -> float:
        said = self._said.get(one.graph)
        return said.progress if said is not None else 0

    # --- reasons -----------------------------------------------------------------------------

    def _reason(self) -> str:
        if self._result.shadowed:
            takers = ", ".join(sorted(self._takers)) or "nothing"
            return f"it matches alone; in the table {takers} matches its graphs first"
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
        return f"TVM finds its structure in none of the {self._tried} graphs generated for it"

    def _never_structured(self) -> str:
        """Returns why TVM never finds the structure, or "" if that is not known. The pattern's
        calls may have another number of arguments than TVM's, or the pattern may begin where TVM
        does not look."""
        if self._ir == "relax" and self._pattern.nodes[self._pattern.root].kind in ("item", "tuple"):
            return "its root is not a call, and FuseOpsByPattern begins only at calls"
        for node in self._pattern.nodes:
            if node.kind != "call" or node.of is None or node.more or node.ops is None:
                continue
            seen = [n for a in self._said.values() if a for op in node.ops for n in a.arguments.get(op, ())]
            if seen and len(node.of) not in seen:
                wanted = " or ".join(map(str, sorted(set(seen))))
                plural = "s" if wanted != "1" else ""
                given = len(node.of)
                return f"{node.ops[0]} has {wanted} argument{plural} in TVM, the pattern gives it {given}"
        return ""


def _unbuilt(graph: Graph, ir: str) -> bool:
    """Returns whether TVM's own build cannot compile some node because of its attributes."""
    return any(getattr(OPERATORS[n.op], ir).is_unbuilt(n.attrs) for n in graph.nodes)


_RAISES = "partitioning raises"


def _label(way: Way) -> str:
    return "-".join(f"{n}.{b}" for n, b in sorted(way.items())) or "first"
