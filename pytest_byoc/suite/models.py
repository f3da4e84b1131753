"""Whole models in one target's session: each is examined as it is, then each of its regions alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..config import plan
from ..config.models import Model
from ..core.graph import Graph, Node, Source
from ..core.parts import part
from ..evidence.evidence import Evidence
from ..evidence.judging import judge
from ..examination.decision import decide
from ..examination.examiner import Examiner
from ..examination.outcome import INCONCLUSIVE, ConformanceFailure, Verdict
from ..examination.subject import Subject
from ..generation import data
from ..oracle import evaluation, sampling
from ..record.target_record import TargetRecord
from ..reference_kernels import Bounded, exact
from ..storage.scratch import Scratch
from . import culprit
from .culprit import Arrays
from .failures import Failures
from .model_import import Imported, load
from .observer import Observer

#: The most elements that a graph may hold as numbers where only those of the model show its failure.
_HELD = 50_000


class ModelEvidence(Evidence):
    """The evidence on a whole model, whose calls are found in the partitioned module exactly."""

    def placement(self) -> tuple[int | None, ...]:
        for _, value in self.target.facts("regions"):
            if value.get("places") is not None and len(value["places"]) == len(self.graph.nodes):
                return tuple(value["places"])
        return super().placement()


class Models:
    """The whole models of one target's session.

    check: checks a graph as any other, under a case: shrinks it if it fails, and raises
    ConformanceFailure.
    """

    def __init__(
        self, examiner: Examiner, record: TargetRecord, failures: Failures, observer: Observer,
        check: Callable[[Graph, str], Verdict],
    ) -> None:
        self._examiner = examiner
        self._record = record
        self._failures = failures
        self._observer = observer
        self._check = check

    def check(self, model: Model) -> Verdict:
        """Returns the verdict on a model. Raises NotImported, and ConformanceFailure if the target fails
        it and the failure is not excused."""
        scratch = Scratch("model")
        try:
            return self._examine(f"model[{model.name}]", load(self._examiner.workers, model, scratch.path))
        finally:
            scratch.remove()

    def _examine(self, case: str, imported: Imported) -> Verdict:
        graph, constants = imported.graph, imported.constants
        inputs = [imported.inputs(0), imported.inputs(1)]
        outputs, known = self._expected(imported, inputs)
        whole = self._whole(Subject(graph, inputs, {}, None, outputs, str(imported.file)))
        if imported.reason:
            note = f"no bound is known: {imported.reason}; crashes, errors and repeated runs alone are judged"
            outcome = whole.outcome if whole.failed else INCONCLUSIVE
            whole = replace(whole, outcome=outcome, notes=(*whole.notes, note))
        self._note(whole, case)
        if not imported.reason:
            for region in _distinct(graph, whole.placement):
                given = [{s.name: culprit.array(v[s.name]) for s in region.inputs} for v in known]
                own = {s.name: constants[s.name] for s in region.constants}
                verdict = self._alone(region, given, own)
                self._note(verdict, case)
                self._report(verdict, case, graph, given, own)
            self._report(whole, case, graph, inputs, constants)
        elif whole.failed and not self._failures.excused(whole, case):
            self._failures.fail(whole, case, shrink=False)
        return whole

    def _expected(
        self, imported: Imported, inputs: Sequence[Arrays]
    ) -> tuple[list[list[Bounded]], list[dict[str, Bounded]]]:
        """Returns the outputs for each set of inputs, and all values."""
        if imported.reason:
            return [_unknown(imported.graph) for _ in inputs], []
        precision, constants = self._examiner.workers.precision, imported.constants
        both = [sampling.expected(imported.graph, {**constants, **given}, precision) for given in inputs]
        return [outputs for outputs, _ in both], [known for _, known in both]

    def _whole(self, subject: Subject) -> Verdict:
        evidence, _ = self._examiner.gather(subject, plan.every_graph())
        evidence = ModelEvidence(**vars(evidence))
        return decide(evidence, judge(evidence))

    def _alone(self, graph: Graph, inputs: Sequence[Arrays], constants: Arrays) -> Verdict:
        """Returns the verdict on a part of a model, with the numbers that it has there."""
        precision = self._examiner.workers.precision
        outputs = [sampling.expected(graph, {**constants, **given}, precision)[0] for given in inputs]
        subject = Subject(graph, [dict(given) for given in inputs], constants, None, outputs)
        return decide(*self._examiner.gather(subject, plan.every_graph()))

    def _note(self, verdict: Verdict, case: str) -> None:
        self._record.add(verdict, case)
        self._observer.examined(verdict)

    def _report(
        self, verdict: Verdict, case: str, model: Graph, inputs: Sequence[Arrays], constants: Arrays
    ) -> None:
        """Lists a failing verdict on a model or a part of it, by the fewest nodes that show it.

        Raises ConformanceFailure, unless the verdict is no failure or is excused.
        """
        if not verdict.failed or self._failures.excused(verdict, case):
            return
        graph, precision = verdict.graph, self._examiner.workers.precision
        found: culprit.Culprit | None = None
        if len(graph.nodes) > 1:
            known = [evaluation.values(graph, {**constants, **given}, precision) for given in inputs]
            found = culprit.find(
                graph, inputs, constants, known,
                lambda few, given, own: self._alone(few, given, own).failed,
            )
        where = _where(found.graph.nodes[-1:] if found else graph.nodes, model)
        if found is not None:
            graph, inputs, constants = found.graph, found.inputs, found.constants
        arrays = {**constants, **inputs[0]}
        # Other numbers of the same size show most failures, and make a graph that can be shrunk.
        drawn = _drawn(graph, arrays)
        try:
            if self._examiner.examine(drawn).failed:
                self._check(drawn, case)
            if graph.elements <= _HELD:
                self._check(_held(graph, arrays), case)
            self._failures.fail(verdict, case, shrink=False)
        except ConformanceFailure as e:
            raise ConformanceFailure(f"In {case}: {where}.\n\n{e}", e.verdict) from None


def _where(nodes: Sequence[Node], model: Graph) -> str:
    """Returns which nodes of a model fail, in words."""
    positions = {node.outputs: number for number, node in enumerate(model.nodes, 1)}
    first, last, of = positions[nodes[0].outputs], positions[nodes[-1].outputs], len(model.nodes)
    if len(nodes) == of:
        return "its result is wrong, and that of no smaller part of it is"
    if len(nodes) > 1:
        return f"the region of the operators {first} to {last} of {of} fails, and no smaller part of it does"
    (node,) = nodes
    return f"the first wrong result is that of {node.op} (%{node.outputs[0]}), operator {last} of {of}"


def _unknown(graph: Graph) -> list[Bounded]:
    """Returns outputs of which nothing is known."""
    found = []
    for name in graph.outputs:
        type_ = graph.type_of(name)
        zeros = exact(np.zeros(type_.shape, data.numpy_dtype(type_.dtype)), type_.dtype)
        found.append(replace(zeros, ambiguous=np.ones(type_.shape, bool)))
    return found


def _distinct(graph: Graph, placement: Sequence[int | None]) -> Iterator[Graph]:
    """Yields the regions of a model as graphs, in the order of computation, each form once; not a region
    that is the whole model."""
    seen: set[bytes] = set()
    for region in dict.fromkeys(place for place in placement if place is not None):
        positions = {n for n, place in enumerate(placement) if place == region}
        if len(positions) == len(graph.nodes):
            return
        found = part(graph, positions)
        form = _form(found)
        if form not in seen:
            seen.add(form)
            yield found


def _form(graph: Graph) -> bytes:
    """Returns what graphs have in common that differ in the names and the numbers of their values."""
    names: dict[str, str] = {}

    def renamed(name: str) -> str:
        return names.setdefault(name, f"n{len(names)}")

    def source(s: Source) -> Source:
        return Source(renamed(s.name), s.type)

    inputs, constants = (tuple(map(source, sources)) for sources in (graph.inputs, graph.constants))
    nodes = tuple(
        replace(n, inputs=tuple(map(renamed, n.inputs)), outputs=tuple(map(renamed, n.outputs)))
        for n in graph.nodes
    )
    return Graph(inputs, constants, nodes, tuple(map(renamed, graph.outputs))).digest


def _drawn(graph: Graph, arrays: Arrays) -> Graph:
    """Returns a graph whose inputs and constants are drawn from the ranges that they have in the model."""

    def source(s: Source, number: int) -> Source:
        numbers = arrays[s.name].astype(np.float64)
        finite = numbers[np.isfinite(numbers)]
        low, high = (float(finite.min()), float(finite.max())) if finite.size else (s.low, s.high)
        return replace(s, low=low, high=high, seed=number + 1)

    inputs = tuple(source(s, n) for n, s in enumerate(graph.inputs))
    constants = tuple(source(s, n + len(inputs)) for n, s in enumerate(graph.constants))
    return replace(graph, inputs=inputs, constants=constants)


def _held(graph: Graph, arrays: Mapping[str, np.ndarray]) -> Graph:
    """Returns a graph that holds the numbers of its inputs and constants."""

    def source(s: Source) -> Source:
        return replace(s, data=_listed(arrays[s.name]))

    inputs, constants = (tuple(map(source, sources)) for sources in (graph.inputs, graph.constants))
    return replace(graph, inputs=inputs, constants=constants)


def _listed(array: np.ndarray) -> Any:
    """Returns an array as nested lists. JSON has no number for NaN and infinities, which become texts."""
    if array.dtype.kind in "iub":
        return array.tolist()

    def number(value: Any) -> Any:
        if isinstance(value, list):
            return [number(v) for v in value]
        return value if np.isfinite(value) else str(value)

    return number(array.astype(np.float64).tolist())
