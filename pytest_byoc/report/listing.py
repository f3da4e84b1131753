"""`--byoc-list-operators` and `--byoc-list-targets`."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..operators import OPERATORS
from ..settings import SettingsError, find_python, known_names, option
from ..worker.client import Worker, WorkerError


def run(config: pytest.Config) -> int:
    """Prints what was asked for; the exit code."""
    if config.option.byoc_list_operators:
        for line in operators():
            print(line)
    if config.option.byoc_list_targets:
        try:
            for line in targets(config):
                print(line)
        except SettingsError as e:
            raise pytest.UsageError(str(e)) from None
    return 0


def operators() -> list[str]:
    """One line an operator: IRs, dtypes, parameters, where its bound comes from."""
    width = max(map(len, OPERATORS))
    lines = [f"{'operator':{width}}  {'IR':12}  {'dtypes':36}  error bound"]
    for op in OPERATORS.values():
        lines.append(
            f"{op.name:{width}}  {' '.join(op.irs()):12}  {' '.join(op.dtypes):36}  {op.accuracy}"
        )
        if op.parameters:
            lines.append(f"{'':{width}}  parameters: {', '.join(p.name for p in op.parameters)}")
    return lines


def targets(config: pytest.Config) -> list[str]:
    """The names --byoc-target takes; those TVM knows are asked of the worker's interpreter."""
    root = config.rootpath
    lines = [f"{name}  ({where})" for name, where in known_names(root).items()]
    worker = Worker(find_python(option(config, "python"), Path(root)), {"role": "list"}, 30.0)
    try:
        worker.start()
        for ir, names in worker.ready()["targets"].items():
            lines += [f"{name}  (known to this TVM, {ir})" for name in names]
    except WorkerError as e:
        lines.append(f"targets TVM knows cannot be listed: {e}")
    finally:
        worker.stop()
    lines.append("module:attribute  or  path/to/file.py:attribute")
    return lines
