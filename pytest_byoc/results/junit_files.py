"""Joins the JUnit XML files that pytest wrote beside the reports of shards (--junitxml=DIR/NAME.xml)."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from pathlib import Path

from ..core import files

_COUNTS = ("tests", "failures", "errors", "skipped")


def joined(folders: Sequence[Path], to: Path) -> list[str]:
    """Writes each JUnit XML file that all folders have into the folder `to`, with the tests of all.
    Returns notes on files that only some folders have, or that cannot be read. Raises OSError."""
    notes = []
    names = sorted({path.name for folder in folders for path in folder.glob("*.xml")})
    for name in names:
        suites = [_suite(folder / name) for folder in folders]
        found = [suite for suite in suites if suite is not None]
        if len(found) < len(folders):
            without = next(folder for folder, suite in zip(folders, suites) if suite is None)
            notes.append(f"{name} was not joined: {without} has no such file of JUnit XML")
            continue
        root = ElementTree.Element("testsuites")
        root.append(_join(found))
        files.replace(to / name, ElementTree.tostring(root, "utf-8", xml_declaration=True))
    return notes


def _suite(path: Path) -> ElementTree.Element | None:
    """Returns the test suite of a file; None if it is no such file."""
    try:
        root = ElementTree.fromstring(files.read(path))
    except (OSError, ElementTree.ParseError):
        return None
    return root if root.tag == "testsuite" else root.find("testsuite")


def _join(suites: Sequence[ElementTree.Element]) -> ElementTree.Element:
    first = min(suites, key=lambda suite: suite.get("timestamp", ""))
    whole = ElementTree.Element("testsuite", first.attrib)
    for count in _COUNTS:
        whole.set(count, str(sum(_number(suite.get(count, "0")) for suite in suites)))
    whole.set("time", f"{sum(_number(suite.get('time', '0')) for suite in suites):.3f}")
    for suite in suites:
        whole.extend(suite)
    return whole


def _number(text: str) -> float | int:
    try:
        return int(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            return 0
