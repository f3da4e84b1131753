"""Describes a failure as text, for the terminal and failure.txt."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from _pytest._code.code import ReprEntryNative, ReprExceptionInfo, ReprFileLocation, ReprTraceback

from ..core.irs import IR_TITLES
from ..examination.description import Description
from ..examination.outcome import Verdict
from ..record.findings import message_lines
from ..record.listed import Failure
from ..record.process_output import printed_lines, raising_frame, stack_lines, vendor_frame
from ..record.source import graph_text
from .words import counted, needed, title


def in_own_words(text: str, item: pytest.Item) -> ReprExceptionInfo:
    """Returns the text as a replacement for the traceback of a failing test. Its first line becomes
    the test's line in pytest's short summary and the message in JUnit XML."""
    path, line, _ = item.location
    entry = ReprEntryNative([line + "\n" for line in text.splitlines()])
    return ReprExceptionInfo(
        ReprTraceback([entry], None, "native"),
        ReprFileLocation(path, (line or 0) + 1, text.partition("\n")[0]),
    )


@dataclass(frozen=True)
class FailureText:
    """Builds the texts of the failures of one target. target: its name. python: the workers'
    interpreter. alone: whether reproduce.py can repeat them."""

    target: str
    ir: str
    python: str
    alone: bool = True

    def new(
        self, verdict: Verdict, original: Verdict, failure: Failure, case: str, described: Description
    ) -> str:
        """Returns the text of a new failure: what failed, the graph, where it is saved, how to
        repeat it. original: the verdict before shrinking. described: the texts that the target made
        of the graph."""
        finding = verdict.findings[0]
        lines = self._heading(verdict, message_lines(verdict.findings))
        if failure.besides:
            lines.append(f"the graph of the case fails other checks too: {', '.join(failure.besides)}")
        frame = raising_frame(finding.details.get("exception", {}).get("frames", []))
        if frame:
            lines += _frame("raised in", frame)
        last = vendor_frame(finding.details.get("frames", []))
        if last:
            lines += _frame("it was in", last)
        lines += [*printed_lines(finding.details), *stack_lines(finding.details)]
        n, before = len(verdict.graph.nodes), len(original.graph.nodes)
        shrunk = f", shrunk from {before}" if before != n else ""
        if not shrunk and verdict.graph != original.graph:
            shrunk = ", simpler than the one of the case"
        lines += ["", f"graph ({counted(n, 'operator')}{shrunk}{needed(failure.each_needed, n)}):"]
        lines += ["  " + line for line in graph_text(verdict.graph, self.ir).splitlines()]
        inside = [node.op for node, t in zip(verdict.graph.nodes, verdict.offloaded) if t]
        lines.append(f"offloaded: {', '.join(inside) or 'nothing'} ({counted(verdict.regions, 'subgraph')})")
        lines += [f"note: {note}" for note in verdict.notes]
        lines += described.lines()
        folder = Path(failure.graph).parent
        lines += ["", f"found in: {case}"]
        if failure.graph:
            lines += [f"saved in: {folder}", f"repeat:   {failure.command}"]
            if self.alone:
                script = shlex.quote(str(folder / "reproduce.py"))
                lines.append(f"or, without pytest-byoc: {shlex.quote(self.python)} {script}")
        return "\n".join(lines)

    def again(self, verdict: Verdict, case: str, failure: Failure) -> str:
        """Returns the text of a repeated failure: what is wrong here, and which failure it
        repeats."""
        lines = [line for line in self._heading(verdict, [verdict.findings[0].message]) if line]
        named = f"failure {failure.id} again"
        if failure.operators != list(verdict.graph.operators):
            named = f"probably failure {failure.id} ({title(failure.operators)}) again"
        lines.append(f"This is {named}, first met in {failure.case or 'a test'}.")
        return "\n".join([*lines, f"found in: {case}", f"repeat:   {failure.command}"])

    def _heading(self, verdict: Verdict, messages: Sequence[str]) -> list[str]:
        """Returns the first lines of a text. The error comes first, since pytest's short summary
        shows only the first line. messages: the lines on the error."""
        finding = verdict.findings[0]
        first, *rest = "\n".join(messages).splitlines() or [""]
        return [
            f"{title(verdict.graph.operators)}: {first}",
            *rest,
            "",
            f"{verdict.outcome} in stage {finding.stage}, check {finding.check} "
            f"(target {self.target}, {IR_TITLES[self.ir]})",
        ]


def _frame(how: str, frame: Mapping[str, Any]) -> list[str]:
    where = f"{how} {frame['file']}:{frame['line']}, in {frame['function']}"
    return [f"{where}:", f"  {frame['text']}"] if frame["text"] else [where]
