"""What tells one fault of a target from another: what is said of it, and what its graph needs to show it.

A failing verdict has a signature: check, outcome, stage, kind, and, of an exception, its message without what
changes from graph to graph. A graph has traits: what differs in it from the simplest case of its operators.
Both are plain strings, which stay the same from session to session and from process to process.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..core.finding import Finding
from ..core.graph import Graph
from ..generation.plain import alone, differences, extents
from ..operators import OPERATORS

#: Kinds of findings that are about one number in another's place.
NUMBERS = frozenset(("wrong-value", "inexact"))
#: Checks whose findings say that something is wrong, and nothing of what it is: which operator is at fault,
#: and with which attributes, has to tell that. What the other checks find tells it by itself.
GENERIC = frozenset(("numerics", "process", "roundtrip"))

#: Where a compiler finds an error: in a source that the target wrote, under a name of the moment.
_PLACE = re.compile(r"[^\s:]+:\d+(?::\d+)?: (?=(?:fatal )?error: )")
_PATH = re.compile(r"(?<![\w./])/(?:[\w.+@-]+/)*[\w.+@-]+")
_TEMPORARY = re.compile(r"/(?:tmp|byoc|pytest-byoc)[^/]*(?:/|$)")
_NAME = re.compile(r"%\w+|\b[cvx]\d+\b")
_DTYPE = re.compile(r"\b(?:b?float|u?int)\d+\b")
_NUMBER = re.compile(
    r"0x[0-9a-fA-F]+|(?:(?<![\w)\]])-)?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|(?<![\w-])-?(?:nan|inf)\b|\b(?:True|False)\b"
)
_LIST = re.compile(r"#(?:,\s*#)+,?|#,(?=\))")
#: Characters of a message that are kept: the rest tells nothing new.
_LONGEST = 300


def normalised(message: str, symbols: Iterable[str] = ()) -> str:
    """A message without what changes from graph to graph: numbers, names of values, dtypes, temporary paths,
    and the names of the graph's subgraphs (`symbols`)."""
    text = " ".join(message.split())
    for symbol in sorted(symbols, key=len, reverse=True):
        text = text.replace(symbol, "@")
    text = _PLACE.sub("", text)
    text = _PATH.sub(lambda m: "…" if _TEMPORARY.search(m[0] + "/") else m[0], text)
    text = _NUMBER.sub("#", _NAME.sub("%", _DTYPE.sub("dtype", text)))
    return _LIST.sub("#", text.replace("[]", "[#]"))[:_LONGEST]


#: What compilers' and linkers' errors are told by; that a linker has failed at all is told last.
_TELLING = ("undefined reference to", "multiple definition of", "cannot find -l", " error: ")


def telling_line(message: str) -> str:
    """Of what was raised the first line in which a compiler or a linker tells an error, or else the last."""
    lines = [line.strip() for line in message.strip().splitlines() if line.strip()]
    for telling in _TELLING:
        for line in lines:
            if telling in line:
                return line[:300]
    return lines[-1][:300] if lines else ""


def exception_text(message: str) -> str:
    """The end of a sentence about an exception: ": " and its telling line; "" where it has no text."""
    return f": {telling_line(message)}" if message.strip() else ""


@dataclass(frozen=True)
class Signature:
    """says: of an exception what it says, `normalised`; else empty: the kind tells findings apart."""

    check: str
    outcome: str
    stage: str
    kind: str
    says: str = ""

    @property
    def text(self) -> str:
        return "/".join((self.check, self.outcome, self.stage, self.kind, self.says))

    @property
    def group(self) -> tuple[str, str, str]:
        """Check, stage and kind, where kinds that may be one fault's are one: numbers that are
        wrong by however much, deaths of whatever signal (that hangs on what lies beside what was
        written to)."""
        kind = "number" if self.kind in NUMBERS else "crash" if self.outcome == "crash" else self.kind
        return self.check, self.stage, kind

    @property
    def is_generic(self) -> bool:
        return self.check in GENERIC and not self.says

    def without(self, operators: Sequence[str]) -> str:
        """What is said, without names of these operators."""
        names = set()
        for operator in operators:
            record = OPERATORS.get(operator)
            written = [i.op for i in (record.relay, record.relax) if i] if record else []
            for name in (operator, *written):
                names |= {name, name.rpartition(".")[2], name.replace(".", "_")}
        text = self.says
        for name in sorted(names, key=len, reverse=True):
            text = re.sub(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])", "op", text)
        return text


def signature(finding: Finding, symbols: Iterable[str] = ()) -> Signature:
    """symbols: names of the graph's subgraphs, which messages may hold."""
    exception = finding.details.get("exception")
    says = normalised(telling_line(str(exception["message"])), symbols) if exception else ""
    return Signature(finding.check, finding.outcome, finding.stage, finding.kind, says)


def message_key(finding: Finding, symbols: Iterable[str] = ()) -> str:
    """The finding's message, `normalised`: what a waiver names a cause by."""
    return normalised(finding.message.splitlines()[0] if finding.message else "", symbols)


def traits(graph: Graph, ir: str) -> frozenset[str]:
    """What of a graph differs from the simplest case of its operators: attributes; of an operator alone also
    its dtype, its rank, where its operands come from, and which axes have more than one element (counted from
    the last one)."""
    if not all(node.op in OPERATORS for node in graph.nodes):
        # A model of ONNX's.
        return frozenset()
    if len(graph.nodes) == 1:
        return frozenset((*suspects(graph, ir), *extents(graph)))
    return frozenset(
        f"{node.op}: {trait}" for node in graph.nodes for trait in _attributes(alone(graph, node), ir)
    )


def suspects(graph: Graph, ir: str) -> frozenset[str]:
    """The traits of an operator alone, without its extents."""
    found = differences(graph, ir)
    return frozenset((*_attributes(graph, ir), *found.others))


def _attributes(graph: Graph, ir: str) -> Iterable[str]:
    return (f"{name}={json.dumps(value)}" for name, value in differences(graph, ir).attributes.items())

