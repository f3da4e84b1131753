"""Properties of tests in JUnit XML, which pytest's own --junitxml writes."""

from __future__ import annotations

from collections.abc import Sequence

from ..examination.outcome import Verdict, worst
from ..record.listed import Excused


def properties(verdicts: Sequence[Verdict], excused: Sequence[Excused]) -> list[tuple[str, str]]:
    """Returns the properties of a test that examined these graphs: outcome, operators and dtypes of
    the graph with the worst outcome, and the check that it failed. byoc_excused: "waived" or
    "known", and the reason."""
    outcome = worst(*(v.outcome for v in verdicts))
    verdict = next(v for v in verdicts if v.outcome == outcome)
    nodes = verdict.graph.nodes
    found = [
        ("byoc_outcome", outcome),
        ("byoc_operator", ",".join(verdict.graph.operators)),
        ("byoc_dtype", ",".join(dict.fromkeys(n.types[0].dtype for n in nodes))),
    ]
    if verdict.findings:
        found.append(("byoc_check", verdict.findings[0].check))
    found += [("byoc_excused", ": ".join(filter(None, (e.kind, e.reason)))) for e in excused[:1]]
    return found
