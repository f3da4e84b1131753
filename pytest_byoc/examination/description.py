"""Describes modules and generated sources of a failing graph as texts for bundle and reports."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..core.job_report import JobReport

#: The largest number of lines of a module in a failure's text, and of characters of a line.
LINES, WIDTH = 12, 110
#: The largest number of characters of a text in report.json.
SHOWN = 20_000
#: The largest number of texts in report.json. The bundle has all texts.
MOST = 6
_SUFFIXES = {"relay": ".relay", "relax": ".py"}
#: The ending of a file with the source of a TVM module, by the module's kind.
_ENDINGS = {"c": ".c", "cc": ".cc", "cpp": ".cc", "cuda": ".cu", "opencl": ".cl", "metal": ".metal"}
#: The lines that TVM writes around any Relax module.
_BOILERPLATE = re.compile(
    r"\s*# from tvm|# Metadata omitted|@I\.ir_module|class Module|\s*I\.module_|#\[version|\s*$"
)
#: The comments with types and spans in Relay texts, which would make the lines too long.
_TYPES = re.compile(r" /\* (?:ty|span)=.*? \*/")


@dataclass(frozen=True)
class Text:
    """A text about a failing graph. what: what it is, in words. file: its name in the bundle."""

    what: str
    file: str
    text: str


@dataclass(frozen=True)
class Description:
    """The texts about a failing graph.

    texts: the module before and after partitioning, then the sources of regions. missing: the
    reason why further texts are missing, in words; "" where nothing failed.
    """

    texts: tuple[Text, ...] = ()
    missing: str = ""

    def as_dicts(self) -> list[dict[str, str]]:
        """Returns the first MOST texts for report.json, with long ones cut."""
        return [{"what": t.what, "file": t.file, "text": _cut(t.text, t.file)} for t in self.texts[:MOST]]

    def lines(self) -> Iterator[str]:
        """Yields lines for a failure's text: the partitioned module, shortened, and file names."""
        after = next((t for t in self.texts if t.file.startswith("after")), None)
        if after is not None:
            lines = (line for line in after.text.splitlines() if not _BOILERPLATE.match(line))
            whole = textwrap.dedent("\n".join(_TYPES.sub("", line) for line in lines)).splitlines()
            shown = whole if len(whole) <= LINES + 1 else whole[:LINES]
            yield "after partitioning:"
            yield from ("  " + (line if len(line) <= WIDTH else line[: WIDTH - 1] + "…") for line in shown)
            if shown is not whole:
                yield f"  … {len(whole) - LINES} more lines in {after.file}"
        sources = [t.file for t in self.texts if t.file.startswith("source/")]
        if sources:
            more = f" and {len(sources) - 3} more" if len(sources) > 3 else ""
            yield f"generated source: {', '.join(sources[:3])}{more}"


def read(report: JobReport, ir: str) -> Description:
    """Reads a description from the report on a job of the kind "describe"."""
    texts = []
    for fact in ("before", "after"):
        for _, value in report.facts(fact):
            texts.append(Text(f"{fact} partitioning", f"{fact}_partitioning{_SUFFIXES[ir]}", _whole(value)))
    names: set[str] = set()
    # TVM adds a module without code, whose source is a semicolon.
    sources = [value for _, value in report.facts("source") if value["text"].strip(" ;\n")]
    for number, value in enumerate(sources):
        symbols = ", ".join(value["symbols"])
        what = f"source of {symbols or 'a module of kind ' + value['kind']}"
        name = _file_name(value["symbols"][0] if value["symbols"] else f"{number}")
        name = name if name not in names else f"{name}-{number}"
        names.add(name)
        texts.append(Text(what, f"source/{name}{_ending(value)}", _whole(value)))
    return Description(tuple(texts), _missing(report))


def _file_name(symbol: str) -> str:
    return re.sub(r"[^\w.-]", "_", symbol, flags=re.ASCII).lstrip(".")[:80] or "source"


def _ending(value: dict[str, Any]) -> str:
    return _ENDINGS.get(value["kind"]) or (".json" if value["text"].lstrip()[:1] in ("{", "[") else ".txt")


def _whole(value: dict[str, Any]) -> str:
    text = str(value["text"])
    if value["characters"] > len(text):
        text += f"\n… cut here: the text has {value['characters']} characters.\n"
    return text


def _cut(text: str, file: str) -> str:
    """Returns a text without its middle if it is too long.

    Both ends are kept, because constants are written before the code that reads them.
    """
    if len(text) <= SHOWN:
        return text
    half = SHOWN // 2
    return f"{text[:half]}\n… cut here: all of it is in {file} of the bundle …\n{text[-half:]}"


def _missing(report: JobReport) -> str:
    for message in report.raised():
        return f"{message['stage']} raised {message['raised']['type']}"
    if report.died is not None and report.end is not None:
        return f"the process {report.ended} in the stage {report.end['stage']}"
    return ""
