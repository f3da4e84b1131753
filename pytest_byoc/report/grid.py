"""Draws the wrong elements of an output as a small SVG."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from markupsafe import Markup, escape

#: Least and greatest side of a cell, and the intended width of the picture, in pixels.
_LEAST, _MOST, _WIDTH = 4, 14, 320
#: Pixels between the matrices of a tensor with more than two axes.
_GAP = 4
#: Class of a cell, by its digit.
_CLASSES = {"1": "some", "2": "each"}


def svg(picture: Mapping[str, Any], outside: int, elements: int, words: str) -> Markup:
    """Returns the picture that `difference.picture` describes. outside: number of wrong elements.
    words: a description for readers who do not see the picture; may be empty."""
    rows = [row for row in picture["rows"] if isinstance(row, str) and row]
    if not rows:
        return Markup("")
    columns, group = max(map(len, rows)), int(picture.get("group") or len(rows))
    side = max(_LEAST, min(_MOST, _WIDTH // columns))
    tops = [side * i + _GAP * (i // group) for i in range(len(rows))]
    width, height = side * columns, tops[-1] + side
    title = f"{outside} of {elements} elements are wrong" + (f": {words}" if words else "")
    parts = [
        Markup('<svg class="grid" role="img" viewBox="0 0 %d %d" width="%d" height="%d"><title>%s</title>')
        % (width, height, width, height, escape(title))
    ]
    for begin in range(0, len(rows), group):
        shown = min(group, len(rows) - begin)
        parts.append(_rectangle("all", 0, tops[begin], width, side * shown))
    for row, top in zip(rows, tops):
        parts += [_rectangle(kind, side * at, top, side * n, side) for kind, at, n in _runs(row)]
    return Markup("").join([*parts, Markup("</svg>")])


def _runs(row: str) -> Iterator[tuple[str, int, int]]:
    """Yields (class, first column, number of cells) of each run of equal wrong cells in a row."""
    at = 0
    for digit, cells in groupby(row):
        count = len(list(cells))
        if digit in _CLASSES:
            yield _CLASSES[digit], at, count
        at += count


def _rectangle(kind: str, x: int, y: int, width: int, height: int) -> Markup:
    return Markup('<rect class="%s" x="%d" y="%d" width="%d" height="%d"/>') % (kind, x, y, width, height)
