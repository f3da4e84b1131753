"""A failure as text, for the terminal and failure.txt."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from ..outcome import Verdict
from ..recorder import Failure
from .description import Description
from .findings import told
from .source import graph_text
from .words import IR_TITLES, counted, needed, printed_lines, vendor_frame


@dataclass(frozen=True)
class FailureText:
    """target: its name. python: the workers' interpreter."""

    target: str
    ir: str
    python: str

    def new(
        self, verdict: Verdict, original: Verdict, failure: Failure, case: str, described: Description
    ) -> str:
        """What failed, the graph, where it is saved, how to repeat it. original: before it was shrunk.
        described: what the target makes of the graph."""
        finding = verdict.findings[0]
        lines = [self._heading(verdict), "", *told(verdict.findings)]
        if failure.besides:
            lines.append(f"the graph of the case fails other checks too: {', '.join(failure.besides)}")
        frame = vendor_frame(finding.details.get("exception", {}).get("frames", []))
        if frame:
            lines.append(f"raised in {frame['file']}:{frame['line']}, in {frame['function']}:")
            lines.append(f"  {frame['text']}")
        lines += printed_lines(finding.details)
        n, before = len(verdict.graph.nodes), len(original.graph.nodes)
        shrunk = f", shrunk from {before}" if before != n else ""
        if not shrunk and verdict.graph != original.graph:
            shrunk = ", simpler than the one of the case"
        lines += ["", f"graph ({counted(n, 'operator')}{shrunk}{needed(failure.each_needed, n)}):"]
        lines += ["  " + line for line in graph_text(verdict.graph, self.ir).splitlines()]
        taken = [node.op for node, t in zip(verdict.graph.nodes, verdict.offloaded) if t]
        lines.append(f"offloaded: {', '.join(taken) or 'nothing'} ({counted(verdict.regions, 'subgraph')})")
        lines += [f"note: {note}" for note in verdict.notes]
        lines += described.lines()
        folder = Path(failure.graph).parent
        alone = f"{shlex.quote(self.python)} {shlex.quote(str(folder / 'reproduce.py'))}"
        lines += ["", f"case:     {case}", f"saved in: {folder}", f"repeat:   {failure.command}"]
        lines.append(f"or, without pytest-byoc: {alone}")
        return "\n".join(lines)

    def again(self, verdict: Verdict, case: str, failure: Failure) -> str:
        """Of a failure that another graph has shown before: which one, and what is wrong here."""
        lines = [self._heading(verdict), "", verdict.findings[0].message]
        lines += ["", f"This is failure {failure.id} again, first met in {failure.case or 'a test'}."]
        lines.append(f"case:     {case}")
        if failure.graph:
            lines.append(f"saved in: {Path(failure.graph).parent}")
        return "\n".join([*lines, f"repeat:   {failure.command}"])

    def _heading(self, verdict: Verdict) -> str:
        finding = verdict.findings[0]
        where = f"target {self.target}, {IR_TITLES[self.ir]}"
        return f"{verdict.outcome} in stage {finding.stage}, check {finding.check} ({where})"
