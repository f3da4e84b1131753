"""Imports the object of a reference: `module:attribute` or `path/to/file.py:attribute`."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from typing import Any

from .errors import Failure


def package_name(path: str) -> tuple[str, str]:
    """Returns the import name of a file, and the folder that contains its outermost package."""
    folder, base = os.path.split(os.path.abspath(path))
    parts = [] if base == "__init__.py" else [os.path.splitext(base)[0]]
    while os.path.exists(os.path.join(folder, "__init__.py")):
        folder, package = os.path.split(folder)
        parts.insert(0, package)
    return ".".join(parts), folder


def _load_file(path: str) -> str:
    """Loads a file as a top-level module under a name made for it, and returns that name."""
    name = "byoc_target_" + "".join(c if c.isalnum() else "_" for c in os.path.basename(path))
    if _is_loaded(name, path):
        return name
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return name


def _is_loaded(name: str, path: str) -> bool:
    """Returns whether a module of that name is loaded and comes from that file."""
    file = getattr(sys.modules.get(name), "__file__", None)
    return file is not None and os.path.realpath(file) == os.path.realpath(path)


def import_file(path: str) -> str:
    """Imports a file, as a module of its package if it is in one, and returns the module's name.

    A file that has been imported before is not imported again.
    """
    name, folder = package_name(path)
    if _is_loaded(name, path):
        return name
    sys.path.insert(0, folder)
    if "." not in name and (name in sys.modules or not name.isidentifier()):
        # The file's name is that of another loaded module, or is not an identifier.
        return _load_file(path)
    importlib.import_module(name)
    return name


def import_reference(reference: str, role: str = "target") -> Any:
    """Returns the object that `module:attribute` or `path/to/file.py:attribute` names.

    role: a word for the object in messages. Raises Failure for a reference of another form, and for
    a missing file, module or attribute. Exceptions of the vendor's code during import pass through.
    """
    where, _, attribute = reference.rpartition(":")
    if not where or not attribute:
        raise Failure("%r is not of the form module:attribute or path/to/file.py:attribute" % reference)
    if where.endswith(".py") or os.sep in where:
        path = os.path.join(where, "__init__.py") if os.path.isdir(where) else where
        if not os.path.isfile(path):
            what = "folder %s has no __init__.py" if os.path.isdir(where) else "there is no file %s"
            raise Failure((what + " (given as %s %s)") % (where, role, reference))
        name = import_file(path)
    else:
        name = where
        try:
            spec = importlib.util.find_spec(name)
        except ModuleNotFoundError:
            spec = None
        if spec is None:
            raise Failure(
                "there is no module %s (given as %s %s) on the worker's path" % (name, role, reference)
            )
    module = importlib.import_module(name)
    target = module
    for part in attribute.split("."):
        if not hasattr(target, part):
            public = [n for n in vars(module) if not n.startswith("_")]
            raise Failure(
                "module %s has no attribute %s; it has %s" % (name, attribute, ", ".join(sorted(public)))
            )
        target = getattr(target, part)
    return target
