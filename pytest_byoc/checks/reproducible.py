"""Compiling a graph once more, in another process, gives the same."""

from __future__ import annotations

import hashlib
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Iterator

from ..core.finding import Finding
from .base import AGAIN, FEW, Check, of_death
from .evidence import Evidence

if TYPE_CHECKING:
    from ..runs import TargetRun


#: Of a source so many lines, and of each so many characters, are told.
_LINES, _CHARACTERS = 400, 160


def observe(run: TargetRun) -> None:
    run.partitioned()
    run.record("outline", run.outline)
    with run.using(run.executors[0]):
        # Raises again, and is told once, where it fails.
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
                "compiled once more in another process: %s raised %s, the first time it did not: %s"
                % (message["stage"], message["raised"]["type"], message["raised"]["message"].strip()[-300:]),
                {"exception": message["raised"], "executor": message.get("executor")},
            )
    if not evidence.target.died:
        yield from of_death(
            "reproducible", again, "compiled once more, the process died ({how}); the first time it did not."
        )
    if evidence.deterministic and evidence.regions and again.nothing_offloaded:
        yield Finding(
            "reproducible", "error", "partition", "structure",
            "partitioned once more in another process, with another PYTHONHASHSEED, nothing is offloaded.",
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
    where = "The first difference is in line %d: %r, and then %r." % (at, str(a)[:200], str(b)[:200])
    return Finding(
        "reproducible", "error", stage, kind,
        "compiled once more in another process, with another PYTHONHASHSEED, %s is another one. " % what
        + (where if at else "The first lines are the same."),
        {"line": at},
    )


CHECK = Check(
    id="reproducible",
    rule="Compiled in another process, with another `PYTHONHASHSEED`: the same functions, calls and symbols "
    "in the partitioned module, the same generated source where there is one, the same results bit by bit.",
    why="What depends on the order of a set, on an address.",
    observe=observe,
    judge=judge,
    made=FEW,
    owns=True,
    repartitions=True,
    needs=(AGAIN,),
    by_machine=True,
)
