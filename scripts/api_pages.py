"""The pages of docs/reference/ that are made from docstrings: fixtures and hooks, the Python API."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator
from typing import Any

from markdown_pages import escaped, page, table

import pytest_byoc
from pytest_byoc.examination.outcome import Verdict
from pytest_byoc.plugin import entry, hookspecs


def _fixtures() -> Iterator[tuple[str, str]]:
    for name in ("byoc_check", "byoc_target", "byoc_suite", "byoc_share_of_time"):
        function = getattr(entry, name)
        yield name, inspect.getdoc(getattr(function, "_fixture_function", function)) or ""


def fixtures() -> str:
    parts = ["## Fixtures"]
    for name, doc in _fixtures():
        parts += [f"### `{name}`", doc]
    parts += [
        "`byoc_suite` and `byoc_share_of_time` serve the installed suite.",
        "## Hooks",
        "A `conftest.py` or a plugin implements these. They are called in the process that examines.",
    ]
    for name, function in inspect.getmembers(hookspecs, inspect.isfunction):
        if name.startswith("pytest_byoc_"):
            signature = ", ".join(inspect.signature(function).parameters)
            parts += [f"### `{name}({signature})`", inspect.getdoc(function) or ""]
    return page("Fixtures and hooks", *parts)


def api() -> str:
    parts = ["`import pytest_byoc as byoc` gives these names. Each is loaded when it is first used."]
    for name in sorted(pytest_byoc._API, key=str.lower):
        thing = getattr(pytest_byoc, name)
        shown = name
        is_raised = inspect.isclass(thing) and issubclass(thing, BaseException | Warning)
        if name not in ("Runner", "Target") and not is_raised:
            shown += _signature(thing)
        parts += [f"## `{name}`"]
        if shown != name:
            parts += [f"```python\n{shown}\n```"]
        parts += [_prose(inspect.getdoc(thing) or "")]
        if name == "Runner":
            parts += _methods(thing)
        if name == "Target":
            parts += ["Its attributes are the keys of [a target's table](target-table.md)."]
    parts += [
        "## The verdict",
        "`byoc_check` returns a `Verdict`; `ConformanceFailure.verdict` and the hook `pytest_byoc_verdict` "
        "have one. Its property `failed` says whether the outcome is a failure.",
        table(("field", "content"), ((f"`{name}`", text) for name, text in _fields_of_verdict())),
    ]
    return page("Python API", *parts)


def _methods(described: Any) -> Iterator[str]:
    """Yields the methods of a class that users write, in their order, with their descriptions."""
    for name, function in vars(described).items():
        if inspect.isfunction(function) and not name.startswith("_"):
            yield f"### `{described.__name__}.{name}`"
            yield f"```python\n{name}{_signature(function)}\n```"
            yield _prose(inspect.getdoc(function) or "")


def _fields_of_verdict() -> Iterator[tuple[str, str]]:
    """Yields the name and the description of each field of a verdict, from its docstring."""
    names = [field.name for field in dataclasses.fields(Verdict)]
    parts = re.split(rf"\b({'|'.join(names)}): ", " ".join((inspect.getdoc(Verdict) or "").split()))
    texts = dict(zip(parts[1::2], parts[2::2]))
    described = {
        "graph": "the graph", "outcome": "its [outcome](outcomes.md)", "regions": "the number of regions",
        **texts,
    }
    for name in names:
        yield name, escaped(described[name].strip().rstrip(".;"))


def _signature(thing: Any) -> str:
    signature = inspect.signature(thing)
    parameters = signature.parameters.values()
    # Annotations are strings: they are shown without their quotes.
    shown = [re.sub(r": '([^']*)'", r": \1", str(p)) for p in parameters if not p.name.startswith("_")]
    shown = [text for text in shown if not text.startswith("draw:")]
    text = "(" + ", ".join(shown) + ")"
    return text if len(text) < 80 else "(\n    " + ",\n    ".join(shown) + ",\n)"


def _prose(doc: str) -> str:
    """Returns a docstring as Markdown; its notes on parameters become a list."""
    parts = []
    for paragraph in doc.split("\n\n"):
        lines = paragraph.splitlines()
        listed = bool(re.match(r"\w+: ", lines[0])) if lines else False
        notes = [re.sub(r"^(\w+): ", r"- `\1`: ", line) for line in lines]
        parts.append("\n".join(f"  {x}" if listed and not x.startswith("- ") else x for x in notes))
    return "\n\n".join(parts)
