"""Writes Markdown: a page with its note, a table, the text of a cell."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

NOTE = "*Generated from the code by `python scripts/write_docs.py`: do not edit.*"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a table in Markdown."""
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    for row in rows:
        lines.append("|" + "|".join(f" {cell} " if cell else " " for cell in row) + "|")
    return "\n".join(lines) + "\n"


def page(title: str, *parts: str) -> str:
    """Returns the text of a page: its title, the note that it is generated, and its parts."""
    return "\n\n".join([f"# {title}", NOTE, *(filled(part.strip("\n")) for part in parts)]) + "\n"


def filled(text: str) -> str:
    """Wraps paragraphs at 100 characters; code, tables and lists stay as they are."""
    paragraphs = text.split("\n\n")
    if text.startswith("```"):
        return text
    return "\n\n".join(
        p if p.startswith(("|", "#", "- ")) or all(len(line) <= 100 for line in p.splitlines())
        else textwrap.fill(p, 100, break_long_words=False, break_on_hyphens=False)
        for p in paragraphs
    )


def escaped(text: str) -> str:
    """Returns the text escaped for a cell of a table."""
    return text.replace("|", "\\|").replace("\n", " ")
