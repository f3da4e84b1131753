"""Examines graphs that compute the same as a whole model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..checks import equivalent
from ..config import plan
from ..core.finding import WRONG_RESULT
from ..core.graph import Graph
from ..evidence.evidence import Evidence
from ..evidence.judging import Judgement
from ..examination.decision import decide
from ..examination.examiner import Examiner
from ..examination.outcome import Verdict
from ..examination.subject import Subject
from ..generation import data
from ..generation.equivalents import Equivalent, equivalents
from ..reference_kernels import Bounded

#: The most changes of a model that are tried.
MOST = 3


def examined(
    examiner: Examiner, graph: Graph, whole: Evidence, inputs: Sequence[Mapping[str, np.ndarray]],
    constants: Mapping[str, np.ndarray], outputs: Sequence[Sequence[Bounded]],
) -> Iterator[Verdict]:
    """Yields the verdicts on graphs that compute the same as a model.

    whole: the evidence on the model. outputs: its expected outputs for each set of inputs.
    """
    regions, tried = len(whole.regions), set[str]()
    for same in equivalents(graph, examiner.workers.ir):
        if same.change in tried:
            continue
        if len(tried) == MOST:
            return
        given = {s.name: data.array(s) for s in same.graph.constants if s.name not in constants}
        subject = Subject(same.graph, [dict(i) for i in inputs], {**constants, **given}, None, outputs)
        evidence, judgement = examiner.gather(subject, plan.every_graph())
        if same.cuts and len(evidence.regions) <= regions:
            continue
        tried.add(same.change)
        yield _judged(whole, evidence, judgement, same)


def _judged(whole: Evidence, evidence: Evidence, judgement: Judgement, same: Equivalent) -> Verdict:
    """Returns the verdict on a graph that computes the same, which fails too if its results are not near
    those of the model where no bound judges them."""
    verdict = decide(evidence, judgement)
    if verdict.failed:
        return verdict
    first = {executor: v["arrays"] for executor, v in whole.target.facts("outputs") if v["set"] == 0}
    for executor, value in evidence.target.facts("outputs"):
        if value["set"] == 0 and executor in first:
            how = f"when {same.change} ({executor} executor)"
            found = tuple(
                whole.near_itself(equivalent.CHECK.id, evidence, first[executor], value["arrays"], how)
            )
            if found:
                return replace(verdict, outcome=WRONG_RESULT, findings=found)
    return verdict
