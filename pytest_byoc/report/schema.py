"""Validates a report.json against `report.schema.json`."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..record.target_record import SCHEMA

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator

PATH = Path(__file__).with_name("report.schema.json")
#: Problems that are listed: a file that is no report may have one in every line.
_LISTED = 20
#: Characters of a value that a message quotes.
_QUOTED = 80
#: Integers from here on overflow the floats that the page calculates with; no report holds one.
_TOO_LARGE = 2**1000


def problems(report: Any) -> list[str]:
    """Returns what is wrong with a report, one line each, with the place and what was expected
    there.

    Unknown properties are accepted: a later release may have added them."""
    if not isinstance(report, dict):
        return [f"expected an object, found {_kind(report)}"]
    if report.get("schema") != SCHEMA:
        return [f"expected the schema {SCHEMA!r}, found {_quoted(report.get('schema'))}"]
    try:
        errors = (f"{_place(e.absolute_path)}: {_message(e)}" for e in _validator().iter_errors(report))
        # The first target of several stands at the top level too.
        found = list(islice(errors, _LISTED + 1))
    except RecursionError:
        return ["is nested too deeply"]
    if len(found) > _LISTED:
        found[_LISTED:] = [f"more problems follow; the first {_LISTED} are listed"]
    return found


@cache
def _validator() -> Validator:
    # Its import takes longer than that of all the rest, and most sessions validate nothing.
    from jsonschema import Draft202012Validator, FormatChecker, validators

    formats = FormatChecker(formats=())
    formats.checks("date-time", raises=ValueError)(_is_time)
    types = Draft202012Validator.TYPE_CHECKER.redefine_many({"integer": _is_integer, "number": _is_number})
    kind = validators.extend(Draft202012Validator, {"required": _required}, type_checker=types)
    return kind(json.loads(PATH.read_text(encoding="utf-8")), format_checker=formats)


def _is_integer(checker: object, value: object) -> bool:
    # JSON Schema counts 1.0 among the integers.
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < _TOO_LARGE


def _is_number(checker: object, value: object) -> bool:
    # Python's parser accepts NaN and Infinity, which JSON does not have.
    return math.isfinite(value) if isinstance(value, float) else _is_integer(checker, value)


def _is_time(value: object) -> bool:
    if not isinstance(value, str):
        return True
    return datetime.fromisoformat(value.replace("Z", "+00:00")).tzinfo is not None


def _required(
    validator: object, required: Iterable[str], instance: object, schema: object
) -> Iterator[ValidationError]:
    """Yields an error at the place of each missing property, where jsonschema names the object's
    place."""
    from jsonschema.exceptions import ValidationError

    if isinstance(instance, dict):
        for name in required:
            if name not in instance:
                yield ValidationError("is missing", path=(name,))


def _place(path: Iterable[str | int]) -> str:
    """Returns a path as text, as in `failures[0].details.kind` and `cases['add[float32]']`."""
    text = ""
    for step in path:
        if isinstance(step, str) and step.isidentifier() and step.isascii():
            text += f".{step}"
        else:
            text += f"[{_quoted(step)}]"
    return text.removeprefix(".")


def _message(error: ValidationError) -> str:
    expected: Any = error.validator_value
    found: Any = error.instance
    schema: Any = error.schema
    match error.validator:
        case "required":
            return error.message
        case "enum":
            known = ", ".join(map(str, expected))
            return f"there is no {schema['title']} {_quoted(found)}; known are {known}"
        case "type":
            wanted = [expected] if isinstance(expected, str) else expected
            return f"expected {' or '.join(wanted)}, found {_kind(found)}"
        case "minimum":
            return f"expected {expected} or more, found {_quoted(found)}"
        case "maximum":
            return f"expected {expected} or less, found {_quoted(found)}"
        case "minItems":
            return f"expected {expected} or more items, found {len(found)}"
        case "format":
            return f"expected a {expected} with its time zone, found {_quoted(found)}"
        case "pattern":
            return f"expected a text that matches {expected}, found {_quoted(found)}"
    return error.message[:_QUOTED]


def _quoted(value: object) -> str:
    text = repr(value[:_QUOTED] if isinstance(value, str) else value)
    return text if len(text) <= _QUOTED else text[:_QUOTED] + "…"


def _kind(value: object) -> str:
    """Returns the name that JSON has for a value's type; numbers outside JSON by their own."""
    if isinstance(value, (float, int)) and not isinstance(value, bool) and not _is_number(None, value):
        return _quoted(value)
    kinds: Mapping[type, str] = {
        dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number",
    }
    return kinds.get(type(value), "null")
