"""What the target made of a failing graph, as text: files of the bundle, and what reports show of them."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..core.job_report import JobReport

#: Lines of a module that a failure's text shows, and characters of a line.
LINES, WIDTH = 12, 110
#: Characters of a text in report.json.
SHOWN = 20_000
#: Texts in report.json. All are in the bundle.
MOST = 6
_SUFFIXES = {"relay": ".relay", "relax": ".py"}
#: By the kind of a module of TVM's, how a file with its source is called.
_ENDINGS = {"c": ".c", "cc": ".cc", "cpp": ".cc", "cuda": ".cu", "opencl": ".cl", "metal": ".metal"}
#: Lines that TVM writes over a module in Relax, and that say nothing of it.
_BOILERPLATE = re.compile(
    r"\s*# from tvm|# Metadata omitted|@I\.ir_module|class Module|\s*I\.module_|#\[version|\s*$"
)
#: The types of expressions in Relay, which make three lines of one.
_TYPES = re.compile(r" /\* (?:ty|span)=.*? \*/")


@dataclass(frozen=True)
class Text:
    """what: in words. file: its name in the bundle."""

    what: str
    file: str
    text: str


@dataclass(frozen=True)
class Description:
    """texts: before and after partitioning, then the sources of regions. missing: why there are no more, in
    words; "" where nothing failed."""

    texts: tuple[Text, ...] = ()
    missing: str = ""

    def as_dicts(self) -> list[dict[str, str]]:
        """The first MOST texts for report.json, long ones cut."""
        return [{"what": t.what, "file": t.file, "text": _cut(t.text, t.file)} for t in self.texts[:MOST]]

    def lines(self) -> Iterator[str]:
        """What a failure's text says: the partitioned module, shortened, and which files hold the rest."""
        after = next((t for t in self.texts if t.file.startswith("after")), None)
        if after is not None:
            lines = (line for line in after.text.splitlines() if not _BOILERPLATE.match(line))
            found = textwrap.dedent("\n".join(_TYPES.sub("", line) for line in lines)).splitlines()
            shown = found if len(found) <= LINES + 1 else found[:LINES]
            yield "after partitioning:"
            yield from ("  " + (line if len(line) <= WIDTH else line[: WIDTH - 1] + "…") for line in shown)
            if shown is not found:
                yield f"  … {len(found) - LINES} more lines in {after.file}"
        sources = [t.file for t in self.texts if t.file.startswith("source/")]
        if sources:
            more = f" and {len(sources) - 3} more" if len(sources) > 3 else ""
            yield f"generated source: {', '.join(sources[:3])}{more}"


def read(report: JobReport, ir: str) -> Description:
    """What a job of the kind "describe" has sent."""
    found = []
    for fact in ("before", "after"):
        for _, value in report.facts(fact):
            found.append(Text(f"{fact} partitioning", f"{fact}_partitioning{_SUFFIXES[ir]}", _whole(value)))
    names: set[str] = set()
    # TVM itself adds a module without code, whose source is a semicolon.
    sources = [value for _, value in report.facts("source") if value["text"].strip(" ;\n")]
    for number, value in enumerate(sources):
        symbols = ", ".join(value["symbols"])
        what = f"source of {symbols or 'a module of kind ' + value['kind']}"
        name = _file_name(value["symbols"][0] if value["symbols"] else f"{number}")
        name = name if name not in names else f"{name}-{number}"
        names.add(name)
        found.append(Text(what, f"source/{name}{_ending(value)}", _whole(value)))
    return Description(tuple(found), _missing(report))


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
    """A text without its middle, where it is too long: constants stand before the code that reads them."""
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
