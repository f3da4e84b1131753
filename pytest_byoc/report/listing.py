"""The lists of `--byoc-list-operators` and `--byoc-list-targets`."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ..config.declarations import find_python, known_names
from ..config.errors import SettingsError
from ..config.options import BY_NAME
from ..config.values import given as text_of
from ..config.values import interpreter, select_operators
from ..core.irs import IRS
from ..examination.client import Worker, WorkerError
from ..operators import FAMILIES, OPERATORS, measured
from ..operators.record import Operator
from .words import counted


def run(config: pytest.Config) -> int:
    """Prints the lists that the options name, and returns the exit code."""
    try:
        if config.option.byoc_list_operators:
            given = text_of(config, BY_NAME["operators"])
            ir = text_of(config, BY_NAME["ir"])
            if ir is not None and ir not in IRS:
                raise SettingsError(f"unknown IR {ir!r}; known are: {', '.join(IRS)}")
            width = shutil.get_terminal_size().columns
            for line in operators(select_operators([given or ""]), [ir] if ir else IRS, width, bool(given)):
                print(line)
        if config.option.byoc_list_targets:
            for line in targets(config):
                print(line)
    except SettingsError as e:
        raise pytest.UsageError(str(e)) from None
    return 0


# --- operators -----------------------------------------------------------------------------------

#: Columns of a terminal from which an operator is one row; with fewer the bound has a line of its
#: own.
_WIDE = 130
#: Columns that the longest list of dtypes needs.
_DTYPES = 47
_NOTE = (
    "bound: the largest distance of a result's element from the exact value that is due to the rounding of "
    "this operator; the effect of errors in its operands is added. An ulp is a unit in the last place of "
    "the dtype; a rounding is half of it, u relative to the result. gamma(n) = n u / (1 - n u), relative "
    "to the sum of the terms' magnitudes."
)


def operators(names: Sequence[str], irs: Sequence[str], width: int, detail: bool = False) -> Iterator[str]:
    """Yields lines on each operator, by family: its IRs, the dtypes that TVM's LLVM build runs, its
    bound, and with `detail` its parameters. Lines have at most `width` columns if the words allow
    it."""
    chosen = [OPERATORS[n] for n in names if set(irs) & set(OPERATORS[n].irs())]
    longest = max((len(op.name) for op in chosen), default=0)
    yield f"{counted(len(chosen), 'operator')} in {' and '.join(irs)}"
    for family in FAMILIES:
        members = [op for op in family.OPERATORS if op in chosen]
        if members:
            yield ""
            title = (family.__doc__ or "").strip().partition("\n")[0].partition(":")[0]
            yield from textwrap.wrap(title.rstrip("."), width)
        for op in members:
            yield from _row(op, irs, longest, width, detail)
    yield ""
    yield from textwrap.wrap(_NOTE, width)


def _row(op: Operator, irs: Sequence[str], longest: int, width: int, detail: bool) -> Iterator[str]:
    """Yields a line for each set of dtypes, then the lines below."""
    said = {ir: _dtypes(measured.dtypes(op, ir)) for ir in irs if ir in op.irs()}
    rows = [(" ".join(i for i in said if said[i] == d), d) for d in dict.fromkeys(said.values())]
    left = longest + 4 + len("relay relax")
    lines: list[str] = []
    for where, dtypes in rows:
        wrapped = textwrap.wrap(dtypes, max(20, min(width - left - 2, _DTYPES)))
        lines += [f"{where if i == 0 else '':11}  {part}" for i, part in enumerate(wrapped)]
    lines = [f"  {op.name if i == 0 else '':{longest}}  {line}" for i, line in enumerate(lines)]
    if width >= _WIDE:
        column = left + 2 + _DTYPES
        bound = textwrap.wrap(op.accuracy, width - column - 2)
        lines += [""] * (len(bound) - len(lines))
        lines = [f"{a:{column}}  {b}".rstrip() for a, b in zip(lines, bound + [""] * len(lines))]
    else:
        lines += _below(f"bound: {op.accuracy}", width)
    if detail and op.parameters:
        lines += _below(f"varied: {', '.join(p.name for p in op.parameters)}", width)
    yield from lines


def _below(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, initial_indent=" " * 6, subsequent_indent=" " * 8)


def _dtypes(dtypes: Sequence[str]) -> str:
    """Returns dtypes in short, as in `float32/64 int8`."""
    kinds: dict[str, list[str]] = {}
    for name in sorted(dtypes, key=lambda d: (_ORDER.index(d.rstrip("0123456789")), len(d), d)):
        kind = name.rstrip("0123456789")
        kinds.setdefault(kind, []).append(name[len(kind) :])
    return " ".join(kind + "/".join(bits) for kind, bits in kinds.items())


#: Kinds of dtypes in the order of the list.
_ORDER = ("float", "bfloat", "int", "uint", "bool")


# --- targets -------------------------------------------------------------------------------------


def targets(config: pytest.Config) -> list[str]:
    """Returns `target_lines` for a session."""
    return target_lines(config.rootpath, interpreter(config))


def target_lines(root: Path, python: str | None) -> list[str]:
    """Returns the names that --byoc-target accepts. A worker in the given interpreter lists those
    that TVM knows."""
    lines = [f"{name}  ({where})" for name, where in known_names(root).items()]
    worker = Worker(find_python(python, root), {"role": "list"}, 30.0)
    try:
        worker.start()
        for ir, names in worker.ready()["targets"].items():
            lines += [f"{name}  (known to this TVM, {ir}: {what})" for name, what in names.items()]
    except WorkerError as e:
        lines.append(f"targets TVM knows cannot be listed: {e}")
    finally:
        worker.stop()
    lines.append("module:attribute  or  path/to/file.py:attribute")
    return lines
