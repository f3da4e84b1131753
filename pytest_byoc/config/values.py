"""Reads the values of options from the command line or the ini file, and checks them by their
kind."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from ..core.irs import IRS
from ..generation.validation import perhaps
from ..operators import OPERATORS
from . import shard
from .errors import SettingsError
from .levels import LEVELS, Level
from .options import BY_NAME, Option

#: The stages that --byoc-stages may name.
STAGES = ("all", "partition")


def given(config: pytest.Config, option: Option) -> str | None:
    """Returns the text of an option from the command line, or else from the ini file, or else its
    default; None if there is none."""
    value = config.getoption(option.flag)
    if value is None and option.ini:
        value = config.getini(option.ini_name)
    return str(value) if value not in (None, "") else option.default or None


def value_of(config: pytest.Config, name: str) -> Any:
    """Returns the value of an option of the form VALUE; None if it has none. Raises
    SettingsError."""
    option = BY_NAME[name]
    if option.kind == "path":
        return path(config, option)
    if option.kind == "interpreter":
        return interpreter(config)
    text = given(config, option)
    return None if text is None else _KINDS[option.kind](option.flag, text)


def path(config: pytest.Config, option: Option) -> Path | None:
    """Returns a path from the command line, relative to the folder where pytest was started, or
    else from the ini file, relative to the project's root; None if there is none."""
    text, root = config.getoption(option.flag), config.invocation_params.dir
    if text is None:
        text, root = config.getini(option.ini_name), config.rootpath
    return root / Path(text).expanduser() if text else None


def interpreter(config: pytest.Config) -> str | None:
    """Returns the interpreter of --byoc-python or the ini file: the name of a command, or an
    absolute path."""
    option = BY_NAME["python"]
    text, found = given(config, option), path(config, option)
    return str(found) if text and found and os.sep in text else text


def paths(config: pytest.Config, option: Option) -> tuple[Path, ...]:
    """Returns the paths of a repeatable option from the command line, or else from the ini file.
    Raises SettingsError for an empty one."""
    texts, root = config.getoption(option.flag), config.invocation_params.dir
    if texts is None and option.ini:
        texts, root = config.getini(option.ini_name), config.rootpath
    if not all(texts or ()):
        raise SettingsError(f"{option.flag} is empty: name a folder or a file of graphs")
    return tuple(root / Path(text).expanduser() for text in texts or ())


def seed(text: str | None, of_hypothesis: str | None = None) -> int | None:
    """Returns the seed of --byoc-explore: the given number; that of --hypothesis-seed if the option
    has no value, or a drawn one without that; None without the option. Raises SettingsError for a
    seed that is no number."""
    if text is None:
        return None
    option = "--byoc-explore" if text or of_hypothesis is None else "--hypothesis-seed"
    text = text or of_hypothesis
    if text is None:
        return random.SystemRandom().randrange(2**32)
    try:
        return int(text)
    except ValueError:
        message = f"{option}: the seed must be a whole number, or left out; found {text!r}"
        raise SettingsError(message) from None


def select_operators(texts: Iterable[str]) -> tuple[str, ...]:
    """Returns the operator names of one or several comma-separated lists; all operators if there
    are none. Raises SettingsError for unknown names."""
    names = [n.strip() for item in texts for n in item.split(",") if n.strip()]
    unknown = [n for n in names if n not in OPERATORS]
    if unknown:
        listed = ", ".join(n + perhaps(n) for n in unknown)
        raise SettingsError(f"unknown operator {listed}; known are: {', '.join(sorted(OPERATORS))}")
    return tuple(dict.fromkeys(names)) or tuple(OPERATORS)


# --- one function per kind of value, called with (flag, text); may raise SettingsError -----------


def _positive(flag: str, text: str, kind: type) -> Any:
    try:
        number = kind(text)
    except (ValueError, OverflowError):
        number = 0
    if not 0 < number < math.inf:
        wanted = "whole number" if kind is int else "number"
        raise SettingsError(f"{flag} must be a positive {wanted}, found {text!r}")
    return number


def _count(flag: str, text: str) -> int:
    return int(_positive(flag, text, int))


def _number(flag: str, text: str) -> float:
    return float(_positive(flag, text, float))


def _mebibytes(flag: str, text: str) -> int:
    if not text.strip().isdecimal():
        raise SettingsError(f"{flag} must be a number of MiB, or 0 for no limit, found {text!r}")
    return int(text)


def _percent(flag: str, text: str) -> float:
    percent = _percentage(text)
    if not 0 < percent <= 100:
        raise SettingsError(f"{flag} must be a percentage above 0 and up to 100, found {text!r}")
    return percent


def _growth(flag: str, text: str) -> float:
    percent = _percentage(text)
    if not 0 <= percent < math.inf:
        raise SettingsError(f"{flag} must be a percentage of at least 0, found {text!r}")
    return percent


def _percentage(text: str) -> float:
    try:
        return float(text.removesuffix("%"))
    except ValueError:
        return math.nan


def _duration(flag: str, text: str) -> float:
    """Returns a duration in seconds. The text may have a unit: 90, 90s, 10m, 1.5h."""
    unit = {"s": 1, "m": 60, "h": 3600}.get(text[-1:], 0)
    try:
        seconds = float(text[:-1]) * unit if unit else float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise SettingsError(f"{flag} must be a time like 90, 10m or 2h, found {text!r}")
    return seconds


def _one_of(what: str, known: Iterable[str], text: str) -> str:
    if text not in known:
        raise SettingsError(f"unknown {what} {text!r}; known are: {', '.join(known)}")
    return text


def _ir(flag: str, text: str) -> str:
    return _one_of("IR", IRS, text)


def _stages(flag: str, text: str) -> str:
    return _one_of("stages", STAGES, text)


def _level(flag: str, text: str) -> Level:
    return LEVELS[_one_of("level", LEVELS, text)]


def _operators(flag: str, text: str) -> tuple[str, ...]:
    return select_operators([text])


_KINDS: dict[str, Callable[[str, str], Any]] = {
    "count": _count,
    "number": _number,
    "mebibytes": _mebibytes,
    "percent": _percent,
    "growth": _growth,
    "duration": _duration,
    "ir": _ir,
    "stages": _stages,
    "level": _level,
    "operators": _operators,
    "shard": shard.read,
}
