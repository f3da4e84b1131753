"""Whole models in one target's session: each is examined as it is, then each of its regions alone."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace

import numpy as np

from ..checks import dynamic
from ..config import plan
from ..config.models import Model
from ..core.finding import WRONG_RESULT
from ..core.graph import Graph, Node
from ..core.job_report import JobReport
from ..evidence.evidence import Evidence, OpenEvidence
from ..evidence.fragmentation import smallest
from ..evidence.judging import judge
from ..examination.decision import decide
from ..examination.examiner import Examiner
from ..examination.outcome import (
    INCONCLUSIVE,
    ORACLE_SUSPECT,
    REFERENCE_WRONG,
    ConformanceFailure,
    Verdict,
)
from ..examination.subject import Subject
from ..generation import data
from ..oracle import evaluation, sampling
from ..record.target_record import TargetRecord
from ..reference_kernels import Bounded, exact
from ..storage.scratch import Scratch
from . import culprit, float64_models, model_memory
from .culprit import Arrays
from .failures import Failures
from .model_equivalents import examined
from .model_facts import BY_FLOAT64, facts, not_imported
from .model_graphs import FEW_NODES, distinct_regions, drawn, held, pieces
from .model_import import WHOLE, Imported, NotImported, load
from .observer import Observer

#: The outcomes of a model with which graphs that compute the same are examined at every level.
_DOUBTFUL = (INCONCLUSIVE, ORACLE_SUSPECT, REFERENCE_WRONG)
#: The number of failing parts of a model after which no further part is examined.
MOST = 3
#: The most elements that a graph may hold as numbers where only those of the model show its failure.
_HELD = 50_000


class ModelEvidence(Evidence):
    """The evidence on a whole model, whose calls are found in the partitioned module exactly.

    A region that is called from several places counts as several.
    """

    def _places(self) -> tuple[int | None, ...] | None:
        if self.graph.nodes[0].op.startswith(WHOLE):
            # One node stands for all operators.
            return (0 if self.regions else None,)
        for _, value in self.target.facts("regions"):
            if value.get("places") is not None and len(value["places"]) == len(self.graph.nodes):
                return tuple(value["places"])
        return None

    def placement(self) -> tuple[int | None, ...]:
        places = self._places()
        return super().placement() if places is None else places

    def may_be_offloaded(self) -> tuple[bool, ...]:
        places = self._places()
        return super().may_be_offloaded() if places is None else tuple(p is not None for p in places)

    def called(self) -> int:
        """Returns the number of calls of regions."""
        return len({p for p in self.placement() if p is not None})

    def smallest(self) -> int:
        return smallest(self.graph, self.placement(), self.called())


class Models:
    """The whole models of one target's session.

    check: checks a graph as any other, under a case: shrinks it if it fails, and raises
    ConformanceFailure.
    """

    def __init__(
        self, examiner: Examiner, record: TargetRecord, failures: Failures, observer: Observer,
        check: Callable[[Graph, str, Set[str]], Verdict],
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
            imported = load(self._examiner.workers, model, scratch.path)
        except NotImported as e:
            self._record.models.append(not_imported(f"model[{model.name}]", str(e)))
            scratch.remove()
            raise
        try:
            return self._examine(model, imported)
        finally:
            scratch.remove()

    def _examine(self, model: Model, imported: Imported) -> Verdict:
        case, graph, constants = f"model[{model.name}]", imported.graph, imported.constants
        inputs = [imported.inputs(0), imported.inputs(1)]
        outputs, known, imported = self._expected(imported, inputs)
        opened = self._opened(imported) if imported.opening and not imported.reason else None
        whole = self._whole(Subject(graph, inputs, {}, None, outputs, str(imported.file), opened))
        if imported.by_float64:
            whole = replace(whole, notes=(*whole.notes, f"{BY_FLOAT64}: {imported.reason}"))
        elif imported.reason:
            note = f"no bound is known: {imported.reason}; crashes, errors and repeated runs alone are judged"
            outcome = whole.outcome if whole.failed else INCONCLUSIVE
            whole = replace(whole, outcome=outcome, notes=(*whole.notes, note))
        elif whole.outcome == INCONCLUSIVE:
            note = "no bound can judge the result of the whole model; its parts are judged alone"
            whole = replace(whole, notes=(*whole.notes, note))
        self._note(whole, case)
        self._record.models.append(facts(case, whole, imported, self._examiner))
        if not imported.reason:
            regions = list(distinct_regions(graph, whole.placement))
            if whole.outcome == INCONCLUSIVE and not regions:
                # It is one region, whose result the bound can't judge: its parts can be judged.
                regions = [*pieces(graph)]
            self._parts(regions, case, imported, known)
            self._report(whole, case, graph, inputs, constants)
            if self._examiner.settings.level.name == "full" or whole.outcome in _DOUBTFUL:
                self._rewritten(whole, case, imported, inputs, outputs)
        elif whole.failed and not self._failures.excused(whole, case):
            repeat = f"--byoc-model={shlex.quote(model.given)}"
            self._failures.fail(whole, case, shrink=False, repeat=repeat)
        return whole

    def _rewritten(
        self, whole: Verdict, case: str, imported: Imported, inputs: Sequence[Arrays],
        outputs: Sequence[Sequence[Bounded]],
    ) -> None:
        """Examines graphs that compute the same as a model. Raises ConformanceFailure."""
        graph, constants = imported.graph, imported.constants
        for verdict in examined(self._examiner, graph, whole.evidence, inputs, constants, outputs):
            self._note(verdict, case)
            if verdict.failed and not self._failures.excused(verdict, case):
                self._failures.fail(verdict, case, shrink=False)

    def _parts(
        self, regions: Sequence[Graph], case: str, imported: Imported, known: Sequence[Mapping[str, Bounded]]
    ) -> None:
        """Examines parts of a model, until MOST of them fail. Raises ConformanceFailure."""
        failures: list[ConformanceFailure] = []
        for region in regions:
            try:
                self._part(region, case, imported, known)
            except ConformanceFailure as e:
                failures.append(e)
                if len(failures) == MOST:
                    break
        if failures:
            text = "\n\n".join(dict.fromkeys(map(str, failures)))
            raise ConformanceFailure(text, failures[0].verdict) from None

    def _part(
        self, region: Graph, case: str, imported: Imported, known: Sequence[Mapping[str, Bounded]]
    ) -> None:
        """Examines a part of a model with the numbers that it has there; and its pieces, if it is large
        and its result can't be judged. Raises ConformanceFailure."""
        given = [{s.name: culprit.array(v[s.name]) for s in region.inputs} for v in known]
        own = {s.name: imported.constants[s.name] for s in region.constants}
        verdict = self._alone(region, given, own)
        self._note(verdict, case)
        self._report(verdict, case, imported.graph, given, own)
        if verdict.outcome == INCONCLUSIVE and len(region.nodes) > FEW_NODES:
            self._parts([*pieces(region)], case, imported, known)

    def _expected(
        self, imported: Imported, inputs: Sequence[Arrays]
    ) -> tuple[list[list[Bounded]], list[dict[str, Bounded]], Imported]:
        """Returns the outputs for each set of inputs, all values, and the model with how it is judged."""
        if imported.reason:
            try:
                outputs = float64_models.expected(self._examiner.workers, imported, inputs)
                return outputs, [], replace(imported, by_float64=True)
            except float64_models.NotJudged as e:
                why = f"{imported.reason}, and LLVM in float64 judges nothing: {e}"
                return [_unknown(imported.graph) for _ in inputs], [], replace(imported, reason=why)
        lacking = model_memory.lacking(imported.graph)
        if lacking:
            return [_unknown(imported.graph) for _ in inputs], [], replace(imported, reason=lacking)
        precision, constants = self._examiner.workers.precision, imported.constants
        both = [sampling.expected(imported.graph, {**constants, **given}, precision) for given in inputs]
        return [outputs for outputs, _ in both], [known for _, known in both], imported

    def _report_opened(self, verdict: Verdict, case: str, arrays: Arrays) -> None:
        """Lists the failure of a model with open extents by a region that shows it with numbers of the same
        size, if there is one, and raises ConformanceFailure."""
        known = evaluation.values(verdict.graph, arrays, self._examiner.workers.precision)
        effort = plan.again(dynamic.CHECK.id)
        for region in distinct_regions(verdict.graph, verdict.placement):
            values = {s.name: arrays.get(s.name, known[s.name].value) for s in region.sources()}
            others = drawn(region, values)
            if self._examiner.examine(others, effort).failed:
                self._check(others, case, {plan.OPENED})

    def _opened(self, imported: Imported) -> OpenEvidence:
        """Returns empty evidence on a model with open extents, with what is expected for larger ones."""
        opening, constants = imported.opening, imported.larger_constants
        assert opening is not None
        inputs = data.inputs(opening.larger, 0)
        precision = self._examiner.workers.precision
        outputs, _ = sampling.expected(opening.larger, {**constants, **inputs}, precision)
        larger = Evidence(opening.larger, [inputs], constants, [outputs], JobReport(), JobReport())
        return OpenEvidence(opening.extents, opening.graph, larger)

    def _whole(self, subject: Subject) -> Verdict:
        effort = plan.every_graph(self._examiner.settings.measures)
        if subject.opened is not None:
            effort = replace(effort, checks=(*effort.checks, dynamic.CHECK.id))
        evidence, _ = self._examiner.gather(subject, effort)
        evidence = ModelEvidence(**vars(evidence))
        return replace(decide(evidence, judge(evidence)), regions=evidence.called())

    def _alone(self, graph: Graph, inputs: Sequence[Arrays], constants: Arrays) -> Verdict:
        """Returns the verdict on a part of a model, with the numbers that it has there."""
        precision = self._examiner.workers.precision
        outputs = None  # The derived bound of few operators is tight.
        if len(graph.nodes) > FEW_NODES:
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
        if verdict.findings[0].check == dynamic.CHECK.id:
            self._report_opened(verdict, case, {**constants, **inputs[0]})
        found: culprit.Culprit | None = None
        if len(graph.nodes) > 1:
            known = [evaluation.values(graph, {**constants, **given}, precision) for given in inputs]
            found = culprit.find(
                graph, inputs, constants, known,
                lambda few, given, own: self._alone(few, given, own).failed,
            )
        what = "wrong result" if verdict.outcome == WRONG_RESULT else "failure"
        where = _where(found.graph.nodes[-1:] if found else graph.nodes, model, what)
        if found is not None:
            graph, inputs, constants = found.graph, found.inputs, found.constants
        arrays = {**constants, **inputs[0]}
        # Other numbers of the same size show most failures, and make a graph that can be shrunk.
        others = drawn(graph, arrays)
        try:
            if self._examiner.examine(others).failed:
                self._check(others, case, plan.PLAIN)
            if graph.elements <= _HELD:
                self._check(held(graph, arrays), case, plan.PLAIN)
            self._failures.fail(verdict, case, shrink=False)
        except ConformanceFailure as e:
            raise ConformanceFailure(f"In {case}: {where}.\n\n{e}", e.verdict) from None


def _where(nodes: Sequence[Node], model: Graph, what: str) -> str:
    """Returns which nodes of a model fail, in words. what: how they fail."""
    positions = {node.outputs: number for number, node in enumerate(model.nodes, 1)}
    first, last, of = positions[nodes[0].outputs], positions[nodes[-1].outputs], len(model.nodes)
    if len(nodes) == of:
        return "it fails, and no smaller part of it does"
    if len(nodes) > 1:
        return f"the region of the operators {first} to {last} of {of} fails, and no smaller part of it does"
    (node,) = nodes
    return f"the first {what} is that of {node.op} (%{node.outputs[0]}), operator {last} of {of}"


def _unknown(graph: Graph) -> list[Bounded]:
    """Returns outputs of which nothing is known."""
    found = []
    for name in graph.outputs:
        type_ = graph.type_of(name)
        zeros = exact(np.zeros(type_.shape, data.numpy_dtype(type_.dtype)), type_.dtype)
        found.append(replace(zeros, ambiguous=np.ones(type_.shape, bool)))
    return found
