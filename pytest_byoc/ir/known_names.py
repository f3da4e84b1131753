"""The names by which TVM knows targets, as far as both IRs look for them alike."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Sequence
from typing import Any


def partition_functions(packages: Sequence[str]) -> dict[str, Callable[..., Any]]:
    """The partition functions in TVM's packages, by the name of their module. Importing a module registers
    its patterns."""
    found: dict[str, Callable[..., Any]] = {}
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
                found[entry.name] = function
    return found


def codegens(functions: Iterable[str], prefix: str) -> list[str]:
    """Names of the codegens among TVM's global functions. prefix: `relay.ext.` or `relax.ext.`."""
    found = {name[len(prefix) :] for name in functions if name.startswith(prefix)}
    # relay.ext.NAME.constant_updater and the like belong to NAME.
    return sorted(name for name in found if "." not in name)


def in_words(parts: Sequence[tuple[bool, str]], has_codegen: bool) -> str:
    """Lists the parts of a target that TVM holds. parts: whether each is there, and what it is called."""
    words = ", ".join(word for there, word in parts if there)
    return words if has_codegen else words + "; no codegen: partition stage only"
