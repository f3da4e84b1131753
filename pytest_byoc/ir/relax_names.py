"""Finds the targets that TVM knows by name in Relax: codegens, partition functions and patterns."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from .known_names import codegens, in_words, partition_functions

_PACKAGES = ("tvm.relax.backend.contrib", "tvm.relax.backend.cuda")
_PREFIX = "relax.ext."


@lru_cache(maxsize=None)
def _partition_functions() -> dict[str, Callable[..., Any]]:
    return partition_functions(_PACKAGES)


def _codegens() -> list[str]:
    from tvm_ffi.registry import list_global_func_names

    return codegens(list_global_func_names(), _PREFIX)


def _prefixes() -> list[str]:
    """Returns the first components of the dotted names of all registered patterns."""
    from tvm.relax.backend.pattern_registry import get_patterns_with_prefix

    return sorted({str(p.name).partition(".")[0] for p in get_patterns_with_prefix("")})


def known_targets() -> dict[str, str]:
    """Returns the names that TVM knows, each with the parts that TVM has of it, in words."""
    functions, with_codegen = _partition_functions(), _codegens()
    patterns = _prefixes()
    targets = {}
    for name in sorted({*functions, *with_codegen, *patterns}):
        parts = [
            (name in functions, "partition function"),
            (name in patterns, "patterns"),
            (name in with_codegen, "codegen"),
        ]
        targets[name] = in_words(parts, name in with_codegen)
    return targets


def known_partition(name: str, by_table: bool) -> tuple[Callable[[Any], Any], bool] | None:
    """Returns the partition function of a name, and whether TVM itself has it.

    Otherwise it is built from the patterns registered under the name; by_table requests that.
    None: TVM does not know the name.
    """
    functions = _partition_functions()
    if name in functions and not by_table:
        return functions[name], True
    return (partition_by_patterns(name), False) if name in known_targets() else None


def partition_by_patterns(name: str) -> Callable[[Any], Any]:
    """Returns a partition function that runs the usual passes with the patterns of a name.

    The function raises RuntimeError where no pattern is registered.
    """
    from tvm import relax
    from tvm.relax.backend.pattern_registry import get_patterns_with_prefix

    def partition(mod: Any) -> Any:
        patterns = get_patterns_with_prefix(name)
        if not patterns:
            raise RuntimeError(
                "relax.ext.%s is registered, but no pattern with the prefix %r is" % (name, name)
            )
        mod = relax.transform.FuseOpsByPattern(patterns, bind_constants=True, annotate_codegen=False)(mod)
        return relax.transform.MergeCompositeFunctions()(mod)

    return partition
