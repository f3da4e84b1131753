"""Prints, as JSON, the operators that TVM's own backends support. An interpreter with TVM runs it.

    python supported_operators.py relay|relax PATH_TO_REPOSITORY

The operators are read from the pattern tables (those inside composites count) and, in Relay, from
`target.NAME` attributes.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import sys
from collections.abc import Iterator
from typing import Any


def operators(pattern: Any) -> Iterator[str]:
    from pytest_byoc.worker.pattern_tables import describe

    for node in describe(pattern):
        yield from node.get("ops") or ()


def relay() -> dict[str, set[str]]:
    import tvm
    import tvm.relay.op.contrib as contrib
    from tvm.relay.op.contrib.register import get_pattern_table

    names = set()
    for module in pkgutil.iter_modules(contrib.__path__):
        names.add(module.name)
        try:
            importlib.import_module(contrib.__name__ + "." + module.name)
        except Exception:  # a backend whose SDK is missing adds nothing here
            continue
    # The names of these tables and attributes differ from the names of their modules.
    names |= {"cmsis-nn", "ethos-n", "ethos-u", "coremlcompiler"}
    # These are a vendor's, from that vendor's fork of TVM.
    names -= {"shl", "csinn", "register"}
    by_name: dict[str, set[str]] = {}
    for name in sorted(names):
        table = get_pattern_table(name)
        if callable(table):
            table = table()
        supported = {o for entry in table or () for o in operators(entry[1])}
        for op in tvm.ir.Op.list_op_names():
            try:
                attribute = tvm.ir.Op.get(op).get_attr("target." + name)
            except tvm.TVMError:  # no operator has such an attribute
                break
            if attribute is not None:
                supported.add(str(op))
        if supported:
            by_name[name] = supported
    return by_name


def relax() -> dict[str, set[str]]:
    import tvm.relax.backend as backend
    from tvm.relax.backend.pattern_registry import get_patterns_with_prefix

    for package in pkgutil.walk_packages(backend.__path__, backend.__name__ + "."):
        try:
            importlib.import_module(package.name)
        except Exception:
            continue
    by_name: dict[str, set[str]] = {}
    for entry in get_patterns_with_prefix(""):
        by_name.setdefault(str(entry.name).split(".")[0], set()).update(operators(entry.pattern))
    return by_name


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[2])
    by_backend = relay() if sys.argv[1] == "relay" else relax()
    plain: dict[str, list[str]] = {k: sorted(v) for k, v in by_backend.items()}
    print("SUPPORTED " + json.dumps(plain))
