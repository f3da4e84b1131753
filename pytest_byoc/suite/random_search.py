"""The examination of one operator's random graphs, driven by Hypothesis."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence, Set
from hashlib import sha256
from itertools import chain, islice
from typing import Any

import hypothesis
from hypothesis import HealthCheck, Phase

from .. import __version__
from ..config.plan import NUMEROUS, OPENED, REWRITTEN
from ..core.graph import Graph
from ..examination.outcome import INCONCLUSIVE, PASS, Verdict
from ..generation.batch_sizes import at_batch, batch_size
from ..generation.equivalents import equivalents
from ..generation.openings import openings
from ..generation.plans import Plan, fixed, plans
from ..storage.shared_examples import SharedExamples
from .batching import GRAPHS
from .cases import Suite
from .novelty import Novelty
from .session import TargetSession

#: Number of plans that Hypothesis draws in one run of --byoc-explore. It varies the plans that
#: scored best once half of them are drawn, and a further run begins from other ones.
ROUND = 20
#: Number of graphs made for each outline of a drawn plan, of which one is examined.
VARIANTS = 4
#: The plan without a graph. Hypothesis refuses a run that has no example.
_NOTHING = Plan((), b"")
#: The larger batches for which a graph is examined again: one that is no multiple of the old batch
#: (unless that is 1 or 5), and its double.
_LARGER = (lambda batch: 2 * batch + 5, lambda batch: 2 * batch)


class RandomSearch:
    """The search for a failing graph among the random graphs of one operator.

    An example of Hypothesis is a plan of several graphs, not one graph, since graphs are examined
    together in one module (`batching.py`) and the module may fail though none of them does. Without
    --byoc-explore the plans are explicit examples, which depend on the operator alone: examples
    that Hypothesis derives from a fixed seed change with its version. Hypothesis shrinks nothing:
    the reducer shrinks the failing graph (`shrinking.py`).

    The first run has the explicit examples, and replays the failing plans of the database. Further
    ones, with --byoc-explore, draw plans. A graph is made in a fiftieth of the time that its
    examination takes. So of each outline of a drawn plan several graphs are made, and the one with
    most new nodes is examined. A replay examines them all, since it does not know what was new.

    share_of_time: the seconds for which the search may go on after the number of graphs of the
    level."""

    def __init__(self, session: TargetSession, suite: Suite, operator: str, share_of_time: float) -> None:
        self._session = session
        self._settings = session.settings
        self._operator = operator
        self._case = f"random[{operator}]"
        self._end = time.monotonic() + share_of_time
        self._failures: dict[Plan, Exception] = {}
        self._verdicts: list[Verdict] = []
        #: One graph is examined for larger batches, one with open extents, and one with graphs that
        #: compute the same.
        self._tried_batches = self._tried_openings = self._rewritten = False
        #: Whether Hypothesis draws plans: False in the first run.
        self._draws = False
        offloaded = suite.offloaded.operators()
        self._novelty = Novelty(offloaded)
        explicit = fixed(operator, self._settings.max_examples, GRAPHS)
        self._explicit = explicit if self._settings.explore is None else [_NOTHING]
        #: Fragments of the target's patterns, of which each graph holds one, if the operator is
        #: offloaded within patterns only.
        self._parts = [] if operator in offloaded else suite.offloaded.parts_with(operator)
        #: Whether the target offloads the operator, in a systematic case or a pattern.
        self.possible = operator in offloaded or bool(self._parts)
        self._options: dict[str, Any] = {
            "operators": suite.offloaded.drawn(), "ir": session.ir, "max_nodes": self._settings.max_nodes,
            "prefer": list(offloaded), "fragments": session.patterns.fragments(),
        }  # fmt: skip
        if operator in offloaded:
            fit = suite.offloaded.fit(operator)
            self._options |= {"focus": operator, "dtypes": offloaded[operator], "fit": fit}

    # --- Hypothesis ------------------------------------------------------------------------------

    def goes_on(self) -> bool:
        """Returns whether Hypothesis is to draw further plans after a run without a failure."""
        return self._settings.explore is not None and not self._is_over()

    def driven(self, test: Callable[..., None], number: int) -> Callable[..., None]:
        """Returns a test that examines a plan as a test of Hypothesis, which runs it with plans.

        number: the number of the run. All but the first, 0, draw plans, other ones each."""
        self._draws = number > 0
        phases = [Phase.generate, Phase.target] if self._draws else [Phase.explicit, Phase.reuse]
        driven = hypothesis.given(plan=plans(GRAPHS))(test)
        for plan in reversed(self._explicit):
            driven = hypothesis.example(plan=plan)(driven)
        driven = hypothesis.seed(f"{self._settings.explore} {self._operator} {number}")(driven)
        return hypothesis.settings(
            max_examples=ROUND, phases=phases, deadline=None, database=self._database(), derandomize=False,
            suppress_health_check=list(HealthCheck), report_multiple_bugs=False, print_blob=False,
        )(driven)

    def _database(self) -> SharedExamples | None:
        """Returns the database of the user's profile of Hypothesis, for this test; None if the
        profile has none, or the session must not depend on earlier ones."""
        chosen = hypothesis.settings().database
        if chosen is None or not self._settings.remembers:
            return None
        # A plan gives the same graphs only where all this is the same.
        graphs = {name: value for name, value in self._options.items() if name != "fit"}
        graphs["fragments"] = [fragment.digest.hex() for fragment in self._options["fragments"]]
        parts = [part.digest.hex() for part in self._parts]
        where = (__version__, self._session.record.target, self._operator, parts, sorted(graphs.items()))
        return SharedExamples(chosen, sha256(repr(where).encode()).digest())

    def _is_over(self) -> bool:
        """Returns whether the level's number of graphs is reached and the time is used up."""
        number = len({v.graph for v in self._verdicts})
        return number >= self._settings.max_examples and time.monotonic() >= self._end

    # --- examination -----------------------------------------------------------------------------

    def examine_first(self) -> None:
        """Examines the graphs of the first run that depend on the operator alone."""
        if self.possible and self._settings.explore is None:
            for plan in self._explicit:
                self.examine(plan)

    def outcomes(self) -> list[str]:
        """Returns the outcomes of the graphs examined so far, each once."""
        return sorted({verdict.outcome for verdict in self._verdicts})

    def examine(self, plan: Plan) -> None:
        """Examines the graphs of a plan. Raises ConformanceFailure if the target fails one of them,
        or the module of all, and the failure is not excused."""
        if plan in self._failures:
            # Hypothesis runs a failing example again. It is shrunk and listed once.
            raise self._failures[plan].with_traceback(None)
        if self._draws and (self._is_over() or not any(plan.seed)):
            # Hypothesis begins with the simplest plan whatever its seed. It ends a run only after a
            # number of examples.
            hypothesis.event("not examined")
            return
        variants = 1 if plan in self._explicit else VARIANTS
        made = plan.graphs(variants, self._parts, **self._options)
        picked = [self._novelty.pick(graphs) for graphs in made] if self._draws else []
        try:
            verdicts = self._examine([graph for graph, _ in picked] or [*chain.from_iterable(made)])
        except Exception as failure:
            self._failures[plan] = failure
            raise
        if self._draws:
            hypothesis.target(sum(new for _, new in picked), label="new nodes")
            hypothesis.target(self._novelty.new_regions(verdicts), label="new regions")

    def _examine(self, graphs: Sequence[Graph]) -> list[Verdict]:
        session, case = self._session, self._case
        module = session.ahead(graphs, {NUMEROUS})
        verdicts = [self._judge(graph) for graph in graphs]
        if module is not None and session.holds_against(module, case):
            session.fail(module, case)
        passed = [v.graph for v in verdicts if v.outcome == PASS]
        if not self._tried_openings:
            kinds = {NUMEROUS, OPENED}
            opened = [g for g in passed if not session.is_plain(g, kinds) and openings(g)][:1]
            self._tried_openings = bool(opened)
            verdicts += [self._judge(graph, kinds) for graph in opened]
        if not self._rewritten:
            # What no bound can judge is judged by itself.
            kinds = {NUMEROUS, REWRITTEN}
            unjudged = [v.graph for v in verdicts if v.outcome == INCONCLUSIVE]
            more = (g for g in (*unjudged, *passed) if not session.is_plain(g, kinds))
            rewritten = [*islice((g for g in more if equivalents(g, session.ir)), 1)]
            self._rewritten = bool(rewritten)
            verdicts += [self._judge(graph, kinds) for graph in rewritten]
        if not self._tried_batches:
            # A larger batch of a graph exposes caches whose key lacks a part of the shape.
            larger = larger_batches(passed, self._settings.level.batches)
            self._tried_batches = bool(larger)
            verdicts += map(self._judge, larger)
        return verdicts

    def _judge(self, graph: Graph, kinds: Set[str] = frozenset({NUMEROUS})) -> Verdict:
        verdict = self._session.examine(graph, self._case, kinds)
        if verdict.failed and not self._session.failures.excused(verdict, self._case):
            self._session.fail(verdict, self._case)
        self._verdicts.append(verdict)
        return verdict


def larger_batches(candidates: Sequence[Graph], number: int) -> list[Graph]:
    """Returns the first of the graphs that has a batch, for that number of larger batches."""
    for graph in candidates:
        chosen = _LARGER[:number] if batch_size(graph) else ()
        found = [at_batch(graph, larger(batch_size(graph))) for larger in chosen]
        if found and None not in found:
            return [g for g in found if g is not None]
    return []
