"""Writes the page of the scoreboard from the results of its sessions (`scoreboard.py`)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from markdown_pages import filled

from fixtures.models import MODELS
from pytest_byoc.core.irs import IR_TITLES
from pytest_byoc.examination.stages import EXIT_PARTITION_ONLY
from pytest_byoc.report.markdown import escaped, table
from pytest_byoc.report.model_lines import size
from pytest_byoc.report.words import title

REFERENCE = Path(__file__).resolve().parent.parent / "docs" / "reference"
PAGE = REFERENCE / "scoreboard.md"
#: The results that the committed page is made of.
RESULTS = REFERENCE / "scoreboard"
#: Characters of a message that the page shows.
_SHOWN = 350
_ENDS = {
    0: "passed", EXIT_PARTITION_ONLY: "passed", 1: "failed", 2: "interrupted",
    3: "internal error", 4: "can't be tested", 5: "no test",
}
_SIGNS = {
    "pass": "✓", "inconclusive": "?", "reference-wrong": "?", "oracle-suspect": "?", "not-offloaded": "·"
}
#: In a report, of tests that did not begin.
_NO_TIME = "the time budget was used up"
#: In the message of a model that TVM's frontend refuses.
_IMPORT = "does not import the model: "
_NOT_RUN, _NO_REPORT = "not run", "no report"

_NOTE = "*Made by `python scripts/scoreboard.py page` from the results of sessions: do not edit.*"
_HEAD = """\
Every target that TVM knows by name in these wheels (`pytest --byoc-list-targets` prints them), and the
[example targets](../how-to/examples.md), each tested in sessions of its own.
[Faults of TVM's own](../explanation/tvm-faults.md) has reproducers of what was found to be TVM's fault. The
failures below are those that the sessions report, whoever's fault they are.
"""
_REMADE = """\
A nightly job tests the newest wheels and writes this page to the
[branch `scoreboard`](https://github.com/pytest-byoc/pytest-byoc/blob/scoreboard/docs/reference/scoreboard.md).
By hand, with an interpreter of each IR, for all targets or for some:
"""
_COMMANDS = """\
```console
$ python scripts/scoreboard.py run --ir relax
$ python scripts/scoreboard.py run --ir relay --time-budget 240 tensorrt csinn
$ python scripts/scoreboard.py page
```"""
_LEGEND = """\
## What the tables say

| column | says |
| --- | --- |
| stages | *partition*: the wheel has no codegen, or no runtime, for [more](../how-to/partition-only.md) |
| operators | those that are offloaded, of all that were tried |
| patterns | those that were matched; empty without patterns, and where the session did not come to them |
| cells | operators with a dtype of their result: those that pass, of those that are offloaded |
| failed | cells in which a graph failed |
| causes | likely causes of failures; each is a row in the table of failures, with its smallest graph |
| verdict | *cut short*: what the tests that did not begin would have found is not known |
| CPU s | CPU time in seconds, on one machine |

Whole models are the networks of `fixtures/models`, small and with known architectures, as ONNX. For each
target their table has a verdict, the number of operators that are offloaded, their share of the
multiply-adds, and the number of subgraphs.

| sign | of a model |
| --- | --- |
| ✓ | it passes |
| ✗ | it fails, or a part of it |
| ? | its results could not be judged |
| · | nothing of it is offloaded |
| not imported | TVM's frontend does not import it |
| no time | its test did not begin: the time budget was used up |
| no report | the session was ended before its test ended |
"""


def page(results: Sequence[Mapping[str, Any]]) -> str:
    """Returns the page in Markdown. results: of each IR, as `scoreboard.py run` wrote them."""
    parts = [
        "# Scoreboard of TVM's targets", _NOTE, _paragraph(_HEAD), _paragraph(_REMADE), _COMMANDS,
        filled(_LEGEND.strip()),
    ]
    for result in results:
        parts += _of_an_ir(result)
    return "\n\n".join(parts) + "\n"


def committed() -> str:
    """Returns the page of the results in the documentation's folder."""
    paths = [RESULTS / f"{ir}.json" for ir in IR_TITLES]
    return page([json.loads(path.read_text(encoding="utf-8")) for path in paths if path.is_file()])


def _of_an_ir(result: Mapping[str, Any]) -> Iterator[str]:
    name = IR_TITLES[result["ir"]]
    own = {n: target for n, target in result["targets"].items() if "this TVM" in target["known_as"]}
    targets = {**own, **result["targets"]}
    yield f"## {name}"
    if not any(_sessions(target) for target in targets.values()):
        yield "No session was run."
        return
    yield _paragraph(_facts(targets))
    yield f"### Targets of {name}"
    head = (
        "target", "stages", "operators:", "patterns:", "cells:", "failed:", "causes:", "verdict", "CPU s:",
        "remarks",
    )
    yield "\n".join(table(head, (_row(*item) for item in targets.items())))
    yield f"### Whole models in {name}"
    yield from _models(targets)
    yield f"### Failures in {name}"
    rows = [row for item in targets.items() for row in _failures(*item)]
    if rows:
        columns = ("target", "check", "outcome", "stage", "graph", "tests:", "first line of the message")
        yield "\n".join(table(columns, rows))
    else:
        yield "The sessions found none."


def _sessions(target: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [target[kind] for kind in ("suite", "models") if kind in target]


def _facts(targets: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns in words with which versions, and when, the sessions were run."""
    run = [session for target in targets.values() for session in _sessions(target)]
    reports = [session["report"] for session in run if session["report"]]

    def all_of(field: str) -> str:
        return " and ".join(sorted({str(report[field]) for report in reports if report[field]}))

    days = sorted({session["date"] for session in run})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    if not reports:
        return f"No session wrote a report; {when}."
    return f"TVM {all_of('tvm')}, Python {all_of('python')}; level {all_of('level')}; {when}."


# --- the table of targets ------------------------------------------------------------------------


def _row(name: str, target: Mapping[str, Any]) -> tuple[str, ...]:
    session = target.get("suite")
    if session is None:
        return (escaped(name), *[""] * 6, _NOT_RUN, "", "")
    report, time = session["report"], f"{session['cpu_seconds']:.0f}"
    if report is None:
        return (escaped(name), *[""] * 6, _verdict(session), time, _message(session["said"]))
    numbers = (
        f"{report['operators_offloaded']} of {report['operators']}",
        f"{report['patterns_matched']} of {report['patterns']}" if report["patterns"] else "",
        f"{report['cells_passed']} of {report['cells']}", str(report["cells_failed"]),
        str(len(report["failures"])),
    )
    stages = "partition" if report["partition_only"] else "whole"
    return (escaped(name), stages, *numbers, _verdict(session), time, _remarks(report))


def _verdict(session: Mapping[str, Any]) -> str:
    """Returns in words how a session ended."""
    if session["stopped_after"]:
        return f"ended after {session['stopped_after']:g} s"
    code = session["exit"]
    said = f"died of signal {-code}" if code < 0 else _ENDS.get(code, f"exit code {code}")
    return f"{said}, cut short" if session["report"] and session["report"]["unfinished"] else said


def _remarks(report: Mapping[str, Any]) -> str:
    budget = f"did not begin within {report['time_budget'] or 0:g} s"
    unfinished = [text.replace(f": {_NO_TIME}", f" {budget}") for text in report["unfinished"]]
    return _message("; ".join([*unfinished, *report["problems"]]))


# --- whole models --------------------------------------------------------------------------------


def _models(targets: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    tested = {name: target["models"] for name, target in targets.items() if "models" in target}
    if not tested:
        yield "No session was run."
        return
    shown = {name: session for name, session in tested.items() if session["report"]}
    asked = [model for model in MODELS if any(model in session["models"] for session in shown.values())]
    yield "\n".join(table(
        ("model", "operators:", "multiply-adds:", *map(escaped, shown)),
        (_model(model, list(shown.values())) for model in asked),
    ))
    why_failed = {model: why for session in shown.values() for model, why in session["failed"].items()}
    refused = {model: why.partition(_IMPORT)[2] for model, why in why_failed.items() if _IMPORT in why}
    if refused:
        rows = ((escaped(model), _message(why)) for model, why in sorted(refused.items()))
        yield "\n".join(table(("not imported", "message"), rows))
    without = [f"{escaped(name)} ({_verdict(s)})" for name, s in tested.items() if name not in shown]
    if without:
        yield _paragraph(f"No report: {', '.join(without)}.")
    others = [escaped(name) for name in targets if name not in tested]
    if others:
        yield _paragraph(f"Not run with models: {', '.join(others)}.")
    left = [escaped(model) for model in MODELS if model not in asked]
    if left:
        yield _paragraph(f"Models that were not run: {', '.join(left)}.")


def _model(model: str, shown: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Returns the row of a model. The frontend makes the same operators of it for each target."""
    found = next((s["report"]["models"][model] for s in shown if model in s["report"]["models"]), None)
    known = found is not None and not found["no_bound"]
    totals = (str(found["operators"]), size(found["multiply_adds"])) if found and known else ("", "")
    return (escaped(model), *totals, *(_cell(model, session) for session in shown))


def _cell(model: str, session: Mapping[str, Any]) -> str:
    if model not in session["models"]:
        return _NOT_RUN
    facts = session["report"]["models"].get(model)
    if facts is None:
        if model in session["failed"]:
            return "not imported" if _IMPORT in session["failed"][model] else "✗"
        return "no time" if "time budget" in session["skipped"].get(model, "") else _NO_REPORT
    # A part of a model can fail where the whole passes.
    sign = "✗" if model in session["failed"] else _SIGNS.get(facts["outcome"], "✗")
    if facts["no_bound"]:
        return f"{sign} no bound"
    of = facts["multiply_adds"]
    share = f"; {facts['multiply_adds_offloaded'] / of:.0%}" if of else ""
    return f"{sign} {facts['offloaded']}{share}; {facts['subgraphs']}"


# --- failures ------------------------------------------------------------------------------------


def _failures(name: str, target: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yields the rows of a target in the table of failures, those of its models after those of the suite."""
    known = set()
    for session in _sessions(target):
        for failure in (session["report"] or {"failures": []})["failures"]:
            key = (failure["check"], failure["outcome"], *failure["operators"])
            if key not in known:
                known.add(key)
                yield (
                    escaped(name), escaped(failure["check"]), failure["outcome"], escaped(failure["stage"]),
                    escaped(f"{title(failure['operators'])}, in {failure['case']}"), str(failure["tests"]),
                    _message(failure["message"]),
                )


def _message(text: str) -> str:
    """Returns a message as one line, escaped, and shortened if it is long."""
    return escaped(text if len(text) <= _SHOWN else text[: _SHOWN - 1].rstrip() + "…")


def _paragraph(text: str) -> str:
    return filled(re.sub(r"\s+", " ", text).strip())
