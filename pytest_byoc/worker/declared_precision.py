"""The declarations of a target whose arithmetic is less precise than the graph's dtypes.

The worker reads and checks them (`worker/resolve.py`); the host turns them into a
`reference_kernels.Precision`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..operators import OPERATORS

#: Dtypes of elements for which a dtype of their sums can be declared.
SUMMED = ("float16", "bfloat16", "float32")
#: Dtypes that can be declared for sums.
ACCUMULATE = ("float16", "bfloat16")
#: Formats to which float32 operands of contractions can be declared to be rounded.
CONTRACTION = ("tfloat32", "bfloat16", "float16")
#: Operators that hardware approximates; their accuracy can be declared.
FUNCTIONS = tuple(name for name, op in OPERATORS.items() if op.approximated)
#: Operators whose results are rounded to integers. Their declared error counts integer steps.
ROUNDED = tuple(name for name, op in OPERATORS.items() if op.rounded)


class PrecisionError(ValueError):
    """Raised for an invalid declaration; the message names the valid ones."""


def declared(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the precision settings among a target's options, checked, with defaults.

    Raises PrecisionError.
    """
    return {
        "accumulate_dtype": _accumulate(options.get("accumulate_dtype") or {}),
        "contraction_dtype": _contraction(options.get("contraction_dtype")),
        "flush_subnormals": _flush(options.get("flush_subnormals", False)),
        "function_ulps": _of_functions("function_ulps", "of ulps", FUNCTIONS, options),
        "function_errors": _of_functions("function_errors", "like 1e-4", FUNCTIONS + ROUNDED, options),
    }


def _listed(names: Any) -> str:
    return ", ".join(names)


def _accumulate(given: Any) -> dict[str, str]:
    """Returns the dtypes of sums by the dtype of their terms. A string means all of `SUMMED`."""
    table = dict.fromkeys(SUMMED, given) if isinstance(given, str) else given
    for elements, dtype in table.items() if isinstance(table, Mapping) else [(None, given)]:
        if elements not in SUMMED or dtype not in ACCUMULATE:
            raise PrecisionError(
                "accumulate_dtype must be %s, or a table of these by the dtype of what is summed (%s); "
                "found %r" % (" or ".join(ACCUMULATE), _listed(SUMMED), given)
            )
    return dict(table)


def _contraction(given: Any) -> Any:
    if given is not None and given not in CONTRACTION:
        raise PrecisionError(
            "contraction_dtype, to which float32 operands of contractions are rounded, must be one of %s; "
            "found %r" % (_listed(CONTRACTION), given)
        )
    return given


def _flush(given: Any) -> bool:
    if not isinstance(given, bool):
        raise PrecisionError("flush_subnormals must be true or false, found %r" % (given,))
    return given


def _of_functions(
    key: str, what: str, operators: Sequence[str], options: Mapping[str, Any]
) -> dict[str, float]:
    """Returns a checked table of numbers by operator. what: the kind of number, for messages."""
    given = options.get(key) or {}
    if not isinstance(given, Mapping):
        raise PrecisionError("%s must be a table of numbers by operator, found %r" % (key, given))
    for name, number in given.items():
        if name not in operators:
            raise PrecisionError(
                "%s: the accuracy of %r cannot be declared, only that of %s (in TOML a name with a dot is "
                "quoted)" % (key, name, _listed(operators))
            )
        if isinstance(number, bool) or not isinstance(number, (int, float)) or not 0 <= number < float("inf"):
            raise PrecisionError("%s: %s must be a number %s, found %r" % (key, name, what, number))
    return {name: float(number) for name, number in given.items()}


def in_words(precision: Mapping[str, Any]) -> str:
    """Returns the declarations in words, for reports; "" if there are none."""
    said = []
    tables = precision["accumulate_dtype"]
    if tables:
        said.append("accumulates " + ", ".join("%s in %s" % item for item in sorted(tables.items())))
    if precision["contraction_dtype"]:
        said.append("rounds float32 operands of contractions to " + precision["contraction_dtype"])
    if precision["flush_subnormals"]:
        said.append("flushes subnormals to zero")
    for name, ulps in sorted(precision["function_ulps"].items()):
        said.append("computes %s to %g ulp more" % (name, ulps))
    for name, error in sorted(precision["function_errors"].items()):
        said.append("computes %s to %g more, whatever its size" % (name, error))
    return "; ".join(said)
