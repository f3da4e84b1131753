"""Markdown in which texts from the vendor's code are nothing but text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def escaped(text: str) -> str:
    """Escapes a text for Markdown and its tables: the result is one line of plain text."""
    text = " ".join(text.split())
    for old, new in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(old, new)
    return "".join("\\" + c if c in "\\`*_[]|~#" else c for c in text)


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """Yields the lines of a table. A column whose heading ends in a colon is aligned to the right.
    Cells are Markdown."""
    titles = list(head)
    yield f"| {' | '.join(title.removesuffix(':') for title in titles)} |"
    yield f"| {' | '.join('---:' if title.endswith(':') else '---' for title in titles)} |"
    for row in rows:
        yield f"| {' | '.join(row)} |"
