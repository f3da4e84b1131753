"""Checks main after partitioning: it has to exist, with the type that it had before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Tuple

from ..core.errors import MainLost

#: A type. For a tensor: (dtype, extents), where an extent of None is unknown, and None in place of
#: all extents is an unknown rank. For a tuple: the types of its fields.
Type = Tuple[Any, ...]


def main_of(module: Any, kind: Any) -> Any:
    """Returns main of a partitioned module. kind: the IR's class of functions.

    Raises MainLost where there is no main, or where it is not a function of the IR.
    """
    functions = {var.name_hint: function for var, function in module.functions.items()}
    if "main" not in functions:
        raise MainLost(
            "the partition function returned a module without the function main; it has %s"
            % (", ".join(sorted(functions)) or "no function at all")
        )
    if not isinstance(functions["main"], kind):
        raise MainLost(
            "the partition function returned a module whose main is a %s, expected a %s"
            % (type(functions["main"]).__name__, kind.__name__)
        )
    return functions["main"]


def tensor_type(dtype: Any, shape: Sequence[Any] | None, rank: int = -1) -> Type:
    """Returns the type of a tensor. shape: None where it is unknown. rank: -1 if unknown too."""
    if shape is None:
        return (str(dtype), (None,) * rank if rank >= 0 else None)
    return (str(dtype), tuple(_extent(d) for d in shape))


def _extent(dimension: Any) -> int | None:
    """Returns a dimension's extent; None for a variable or Relay's Any."""
    value = getattr(dimension, "value", dimension)
    return int(value) if isinstance(value, int) else None


def check_type(before: Sequence[Type], after: Sequence[Type]) -> None:
    """Raises MainLost where main has another type than before partitioning.

    An extent that was known may be unknown afterwards, since TVM's passes may lose it. before,
    after: the types of main's parameters and, last, of its result.
    """
    if len(before) != len(after) or not all(map(_fits, before, after)):
        raise MainLost(
            "the partition function changed the type of main: it was given %s, and returned %s"
            % (_arrow(before), _arrow(after))
        )


def _fits(before: Type, after: Type) -> bool:
    if _is_tensor(before) and _is_tensor(after):
        same_rank = after[1] is None or (before[1] is not None and len(before[1]) == len(after[1]))
        return before[0] == after[0] and same_rank and all(
            now in (None, then) for then, now in zip(before[1] or (), after[1] or ())
        )
    alike = _is_tensor(before) == _is_tensor(after) and len(before) == len(after)
    return alike and all(map(_fits, before, after))


def _is_tensor(type_: Type) -> bool:
    return len(type_) == 2 and isinstance(type_[0], str)


def _arrow(types: Sequence[Type]) -> str:
    return "(%s) -> %s" % (", ".join(map(_words, types[:-1])), _words(types[-1]))


def _words(type_: Type) -> str:
    if not _is_tensor(type_):
        return "(%s)" % ", ".join(map(_words, type_))
    extents = "..." if type_[1] is None else ",".join("?" if d is None else str(d) for d in type_[1])
    return "%s[%s]" % (type_[0], extents)
