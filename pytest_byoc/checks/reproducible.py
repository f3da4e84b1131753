"""Checks that compiling a graph again, in another process, gives the same module and outputs."""

from __future__ import annotations

import hashlib
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Iterator

from ..core.finding import Finding
from .base import AGAIN, FEW, Check, of_death
from .evidence_interface import Evidence

if TYPE_CHECKING:
    from ..runs import TargetRun


#: The largest number of lines of a source that are sent to the host, and of characters of each.
_LINES, _CHARACTERS = 400, 160


def observe(run: TargetRun) -> None:
    run.partitioned()
    run.record("outline", run.outline)
    with run.using(run.executors[0]):
        # If it fails, this raises the same exception again, which is reported once.
        run.first_run(run.executors[0])
        text = "\n".join(source.text for source in run.executable(run.executors[0]).sources())
        lines = [line[:_CHARACTERS] for line in text.split("\n")[:_LINES]]
        run.record("source", {"digest": hashlib.sha256(text.encode()).hexdigest(), "lines": lines})


def judge(evidence: Evidence) -> Iterator[Finding]:
    again = evidence.again
    for message in again.raised():
        if not any(m["stage"] == message["stage"] for m in evidence.target.raised()):
            yield Finding(
                "reproducible", "error", message["stage"], message["raised"]["type"],
                "compiled once more in another process, %s raised %s, which it did not the first time: %s"
                % (message["stage"], message["raised"]["type"], message["raised"]["message"].strip()[-300:]),
                {"exception": message["raised"], "executor": message.get("executor")},
            )
    if not evidence.target.died:
        yield from of_death(
            "reproducible", again,
            "when the graph was compiled once more, the process died ({how}); the first time it did not.",
        )
    if evidence.deterministic and evidence.regions and again.nothing_offloaded:
        yield Finding(
            "reproducible", "error", "partition", "structure",
            "when the graph is partitioned once more in another process, with another PYTHONHASHSEED, "
            "nothing is offloaded.",
        )
    lines = [list(value) for _, value in evidence.target.facts("outline")]
    others = [list(value) for _, value in again.facts("outline")]
    if evidence.deterministic and lines and others and lines[0] != others[0]:
        yield _difference("partition", "structure", "the module", lines[0], others[0])
    elif evidence.deterministic:
        for (_, source), (_, other) in zip(evidence.target.facts("source"), again.facts("source")):
            if source["digest"] != other["digest"]:
                yield _difference("build", "source", "the generated source", source["lines"], other["lines"])
    yield from evidence.repeats(
        "reproducible", "run", "differs",
        ((executor, value["arrays"]) for executor, value in again.facts("outputs")),
        "the graph compiled once more in another process (%s executor)",
    )


def _difference(stage: str, kind: str, what: str, first: list[Any], second: list[Any]) -> Finding:
    pairs = enumerate(zip_longest(first, second, fillvalue=""), 1)
    at, (a, b) = next(((i, pair) for i, pair in pairs if pair[0] != pair[1]), (0, ("", "")))
    where = "The first difference is in line %d: first %r, then %r." % (at, str(a)[:200], str(b)[:200])
    shown = (_CHARACTERS, _LINES)
    return Finding(
        "reproducible", "error", stage, kind,
        "compiled once more in another process, with another PYTHONHASHSEED, %s differs. " % what
        + (where if at else "The first %d characters of each of its first %d lines are equal." % shown),
        {"line": at},
    )


CHECK = Check(
    id="reproducible",
    rule="Compiled in another process, with another `PYTHONHASHSEED`, the partitioned module has the same "
    "functions, calls and symbols, the generated source (where there is one) is the same, and the results "
    "are the same bit by bit.",
    why="Codegens that depend on the order of a set or on an address.",
    observe=observe,
    judge=judge,
    made_on=FEW,
    owns=True,
    repartitions=True,
    needs=(AGAIN,),
    by_machine=True,
)
