"""Renders report.html, a page that stands alone, from the data of report.json and nothing else.

Names and messages in it come from the vendor's code. Jinja2 escapes all of them, characters that
can't be shown are replaced first, and the page's content security policy allows no script but the
page's own. """

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from ..core import files
from . import drawing, grid, model_picture, quantities, view

TEMPLATES = Path(__file__).with_name("templates")
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
#: Control characters other than tab and line feed, surrogates, and characters that change the
#: direction of writing.
_UNSHOWABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")


def path_beside(report: Path) -> Path:
    """Returns the path of the page that belongs to a report.json."""
    return report.with_suffix(".html")


def write(path: Path, report: Mapping[str, Any]) -> None:
    """Writes the page whole or not at all. Raises OSError."""
    files.replace(path, render(report).encode())


def render(report: Mapping[str, Any]) -> str:
    """Renders the page of a report (from `json_report.build`, with its `gate`)."""
    environment = _environment()
    script = _script()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    page = view.page(clean(report))
    return environment.get_template("report.html").render(page=page, script=script, script_hash=digest)


@cache
def _environment() -> jinja2.Environment:
    found = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, auto_reload=False,
    )
    found.globals["svg"] = drawing.svg
    found.globals["model_svg"] = model_picture.svg
    found.globals["grid"] = grid.svg
    found.globals["colours"] = drawing.COLOURS
    found.filters["count"] = quantities.count
    found.filters["bytes"] = quantities.in_bytes
    found.filters["code"] = _code
    return found


def _code(text: str) -> Markup:
    """Marks text in backticks as code."""
    return Markup(re.sub("`([^`]*)`", r"<code>\1</code>", str(escape(text))))


@cache
def _script() -> str:
    return (TEMPLATES / "report.js").read_text(encoding="utf-8").strip()


def clean(value: Any) -> Any:
    """Returns the same data without escape sequences, and with a replacement for characters that a
    page can't show or that would disguise its text."""
    if isinstance(value, str):
        return _UNSHOWABLE.sub("\ufffd", _ANSI.sub("", value.replace("\r\n", "\n")))
    if isinstance(value, Mapping):
        return {clean(k): clean(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [clean(v) for v in value]
    return value
