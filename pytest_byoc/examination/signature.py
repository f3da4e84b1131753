"""Distinguishes the faults of a target by the signature of a verdict and the traits of its graph.

The signature of a failing verdict consists of check, outcome, stage, kind, and an exception's
message without the parts that change from graph to graph. The traits of a graph are its differences
from the simplest cases of its operators. Both are plain strings, the same in all sessions and
processes.
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

#: The kinds of findings on wrong numbers.
NUMBERS = frozenset(("wrong-value", "inexact"))
#: The checks whose findings do not describe the fault: only the operator and its attributes
#: distinguish their faults. The findings of other checks describe the fault themselves.
GENERIC = frozenset(("numerics", "process", "roundtrip"))

#: The place that a compiler names in an error: a source of the target under a temporary name.
_PLACE = re.compile(r"[^\s:]+:\d+(?::\d+)?: (?=(?:fatal )?error: )")
_PATH = re.compile(r"(?<![\w./])/(?:[\w.+@-]+/)*[\w.+@-]+")
_TEMPORARY = re.compile(r"/(?:tmp|byoc|pytest-byoc)[^/]*(?:/|$)")
_NAME = re.compile(r"%\w+|\b[cvx]\d+\b")
_DTYPE = re.compile(r"\b(?:b?float|u?int)\d+\b")
_NUMBER = re.compile(
    r"0x[0-9a-fA-F]+|(?:(?<![\w)\]])-)?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|(?<![\w-])-?(?:nan|inf)\b|\b(?:True|False)\b"
)
_LIST = re.compile(r"#(?:,\s*#)+,?|#,(?=\))")
#: The largest number of characters of a message that are kept.
_LONGEST = 300


def normalised(message: str, symbols: Iterable[str] = ()) -> str:
    """Returns a message without the parts that change from graph to graph.

    These are numbers, names of values, dtypes, temporary paths, and symbols of regions (`symbols`).
    """
    text = " ".join(message.split())
    for symbol in sorted(symbols, key=len, reverse=True):
        text = text.replace(symbol, "@")
    text = _PLACE.sub("", text)
    text = _PATH.sub(lambda m: "…" if _TEMPORARY.search(m[0] + "/") else m[0], text)
    text = _NUMBER.sub("#", _NAME.sub("%", _DTYPE.sub("dtype", text)))
    return _LIST.sub("#", text.replace("[]", "[#]"))[:_LONGEST]


#: The texts by which errors of compilers and linkers are recognised, the most specific first.
_TELLING = ("undefined reference to", "multiple definition of", "cannot find -l", " error: ")


def telling_line(message: str) -> str:
    """Returns the first line with an error of a compiler or linker, or else the last line."""
    lines = [line.strip() for line in message.strip().splitlines() if line.strip()]
    for telling in _TELLING:
        for line in lines:
            if telling in line:
                return line[:300]
    return lines[-1][:300] if lines else ""


def exception_text(message: str) -> str:
    """Returns ": " and the telling line, to end a sentence; "" if the exception has no text."""
    return f": {telling_line(message)}" if message.strip() else ""


@dataclass(frozen=True)
class Signature:
    """The key by which failing verdicts are compared.

    says: the message of an exception, `normalised`; "" for other findings, which `kind`
    distinguishes.
    """

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
        """Returns check, stage and kind, with one kind for those that one fault may have.

        All wrong numbers are one kind, and so are all deaths: the signal depends on the memory next
        to the one written to.
        """
        kind = "number" if self.kind in NUMBERS else "crash" if self.outcome == "crash" else self.kind
        return self.check, self.stage, kind

    @property
    def is_generic(self) -> bool:
        return self.check in GENERIC and not self.says

    def without(self, operators: Sequence[str]) -> str:
        """Returns `says` with "op" in place of the names of these operators."""
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
    """Returns the signature of a finding. symbols: of the regions, which messages may name."""
    exception = finding.details.get("exception")
    says = normalised(telling_line(str(exception["message"])), symbols) if exception else ""
    return Signature(finding.check, finding.outcome, finding.stage, finding.kind, says)


def message_key(finding: Finding, symbols: Iterable[str] = ()) -> str:
    """Returns the first line of a finding's message, `normalised`; waivers name causes by it."""
    return normalised(finding.message.splitlines()[0] if finding.message else "", symbols)


def traits(graph: Graph, ir: str) -> frozenset[str]:
    """Returns the differences of a graph from the simplest cases of its operators.

    These are attributes. For a graph of one operator they are also its dtype, its rank, the sources
    of its operands, and the axes with more than one element (counted from the last one).
    """
    if not all(node.op in OPERATORS for node in graph.nodes):
        # The node stands for a model of ONNX's tests.
        return frozenset()
    if len(graph.nodes) == 1:
        return frozenset((*suspects(graph, ir), *extents(graph)))
    return frozenset(
        f"{node.op}: {trait}" for node in graph.nodes for trait in _attributes(alone(graph, node), ir)
    )


def suspects(graph: Graph, ir: str) -> frozenset[str]:
    """Returns the traits of a graph of one operator, without its extents."""
    others = differences(graph, ir).others
    return frozenset((*_attributes(graph, ir), *others))


def _attributes(graph: Graph, ir: str) -> Iterable[str]:
    return (f"{name}={json.dumps(value)}" for name, value in differences(graph, ir).attributes.items())

