"""Finds the targets that TVM knows by name in Relay: codegens, partition functions, tables."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from .known_names import codegens, in_words, partition_functions

_CONTRIB = "tvm.relay.op.contrib"
_PREFIX = "relay.ext."


def _plain(name: str) -> str:
    """Returns a name without dashes, which names of Python modules can't have.

    For example, the target cmsis-nn is in cmsisnn.py.
    """
    return name.replace("-", "").replace("_", "")


@lru_cache(maxsize=None)
def _partition_functions() -> dict[str, Callable[..., Any]]:
    return partition_functions([_CONTRIB])


def _codegens() -> list[str]:
    from tvm._ffi.registry import list_global_func_names

    return codegens(list_global_func_names(), _PREFIX)


def _tables() -> list[str]:
    from tvm.relay.op.contrib import register

    return sorted(register._PATTERN_TABLES)


def known_targets() -> dict[str, str]:
    """Returns the names that TVM knows, each with the parts that TVM has of it, in words."""
    functions, with_codegen, tables = _partition_functions(), _codegens(), _tables()
    names = {_plain(n): n for n in functions}
    names.update((_plain(n), n) for n in (*tables, *with_codegen))
    targets = {}
    for name in sorted(names.values()):
        parts = [
            (_plain(name) in map(_plain, functions), "partition function"),
            (name in tables, "pattern table"),
            (name in with_codegen, "codegen"),
        ]
        targets[name] = in_words(parts, name in with_codegen)
    return targets


def known_partition(name: str, by_table: bool) -> tuple[Callable[[Any], Any], bool] | None:
    """Returns the partition function of a name, and whether TVM itself has it.

    Otherwise it is built from the name's pattern table; by_table requests that. None: TVM does not
    know the name.
    """
    if name not in known_targets():
        return None
    own = next((f for module, f in _partition_functions().items() if _plain(module) == _plain(name)), None)
    if own is not None and not by_table:
        return own, True
    return partition_by_table(name), False


def partition_by_table(name: str) -> Callable[[Any], Any]:
    """Returns a partition function of the usual passes, with the name's table if it has one."""
    import tvm
    from tvm import relay

    table = relay.op.contrib.get_pattern_table(name)

    def partition(mod: Any) -> Any:
        passes = [relay.transform.InferType()]
        if table is not None:
            passes.append(relay.transform.MergeComposite(table() if callable(table) else table))
        passes += [
            relay.transform.AnnotateTarget(name),
            relay.transform.MergeCompilerRegions(),
            relay.transform.PartitionGraph(),
        ]
        return tvm.transform.Sequential(passes)(mod)

    return partition
