"""Finds the targets that TVM knows by name: the part of the search that both IRs share."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Sequence
from typing import Any


def partition_functions(packages: Sequence[str]) -> dict[str, Callable[..., Any]]:
    """Returns the partition functions in TVM's packages by the name of their module.

    It imports all modules, which also registers their patterns.
    """
    functions: dict[str, Callable[..., Any]] = {}
    for package in packages:
        try:
            root = importlib.import_module(package)
        except ImportError:
            continue
        for entry in pkgutil.iter_modules(root.__path__):
            try:
                module = importlib.import_module("%s.%s" % (package, entry.name))
            except Exception:  # a backend whose package or SDK is missing registers nothing
                continue
            function = getattr(module, "partition_for_" + entry.name, None)
            if function is not None:
                functions[entry.name] = function
    return functions


def codegens(functions: Iterable[str], prefix: str) -> list[str]:
    """Returns the names of the codegens registered as global functions of TVM.

    prefix: `relay.ext.` or `relax.ext.`.
    """
    names = {name[len(prefix) :] for name in functions if name.startswith(prefix)}
    # Names with a further dot, such as relay.ext.NAME.constant_updater, belong to codegen NAME.
    return sorted(name for name in names if "." not in name)


def in_words(parts: Sequence[tuple[bool, str]], has_codegen: bool) -> str:
    """Returns a list in words of the parts that TVM has for a target.

    parts: whether each part exists, and its name.
    """
    words = ", ".join(word for there, word in parts if there)
    return words if has_codegen else words + "; no codegen: partition stage only"
