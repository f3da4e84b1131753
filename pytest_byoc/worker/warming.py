"""Has a worker import at its start what each of its children would import by itself.

Many partition functions import their codegen when they are called first, and parts of TVM are imported
when they are used first: tens of milliseconds in every child. So a first child partitions and builds the
simplest graph, and reports the modules that it has imported; a second child tries what importing them
leaves, and the worker imports them too if that is nothing. What the children did does not reach it.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, Callable

from ..core.graph import Graph, Node, Source, TensorType
from ..core.protocol import Decoder
from ..runs.reporter import Reporter
from .libraries import running_threads

#: Seconds for each stage of the first child. A target that takes longer, hangs or dies is not warmed up.
LIMIT = 5.0


class Listener:
    """A stand-in for the connection to the host, which hears the messages of the first child."""

    def __init__(self) -> None:
        self._decoder = Decoder()
        self.messages: list[Any] = []

    def sendall(self, data: bytes) -> None:
        self.messages.extend(self._decoder.feed(data))

    def close(self) -> None:
        pass


def simplest() -> Graph:
    """Returns a graph of one operator that most targets offload."""
    kind = TensorType((1, 4, 6, 5), "float32")
    return Graph(
        inputs=(Source("x", kind),), constants=(), outputs=("y",),
        nodes=(Node("nn.relu", ("x",), {}, ("y",), (kind,)),),
    )


def report_imports(
    known: frozenset[str], steps: Callable[[Reporter], Iterator[None]], reporter: Reporter
) -> None:
    """Sends the names of the modules that are imported by then after each step.

    A job of the first child. known: names of modules that were imported before.
    """
    for _ in steps(reporter):
        names = [
            name for name, module in sys.modules.items()
            if name not in known and getattr(getattr(module, "__spec__", None), "name", None) == name
        ]
        value = {"names": names, "threads": running_threads()}
        reporter.send({"fact": "imported", "executor": None, "value": value})


def reported(messages: Iterable[Any]) -> list[str]:
    """Returns the names that were reported last; none if a thread was running then, which one of the
    modules might have started: children that are forked beside threads can hang."""
    reports = [m["value"] for m in messages if m.get("fact") == "imported"]
    return reports[-1]["names"] if reports and not reports[-1]["threads"] else []


def import_all(names: Iterable[str]) -> None:
    for name in names:
        # A module may be importable only as the first child imported it.
        with suppress(Exception):
            importlib.import_module(name)


def report_traces(names: Iterable[str], reporter: Reporter) -> None:
    """Imports modules, and sends whether that leaves anything.

    A job of a second child. Temporary files of a module that the worker imports would outlive the jobs,
    and hide that artifacts depend on them.
    """
    import_all(names)
    traces = bool(os.listdir(tempfile.gettempdir())) or running_threads() > 0
    reporter.send({"fact": "traces", "executor": None, "value": traces})


def leaves_no_traces(messages: Iterable[Any]) -> bool:
    """Returns whether a child has reported that importing leaves nothing."""
    return [m["value"] for m in messages if m.get("fact") == "traces"] == [False]
