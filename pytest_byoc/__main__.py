"""`python -m pytest_byoc`: drafts a target's table, rebuilds report.html, checks a bundle, merges the
reports of shards, compares two reports.

    python -m pytest_byoc init my_target.py:partition
    python -m pytest_byoc report out/report.json
    python -m pytest_byoc verify out.zip
    python -m pytest_byoc merge shard-1 shard-2 -o out
    python -m pytest_byoc diff old/report.json new/report.json
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .config.options import BY_NAME, FLAG, MERGE_OPTIONS
from .core import files
from .core.irs import IRS
from .core.names import printable
from .report import html, schema, session_zip


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the commands."""
    made = argparse.ArgumentParser(prog="python -m pytest_byoc", description="Tools of pytest-byoc.")
    commands = made.add_subparsers(dest="command", required=True, metavar="COMMAND")
    command = commands.add_parser("report", help="write the page of a report.json again")
    command.add_argument("path", type=Path, metavar="report.json")
    command.add_argument("-o", "--output", type=Path, help="the page (default: beside it, as .html)")
    command = commands.add_parser("verify", help="check hashes, schema and graphs of a bundle")
    command.add_argument("path", type=Path, metavar="bundle.zip", help="file that --byoc-bundle wrote")
    _merge_arguments(commands.add_parser("merge", help="join the reports of all shards, and judge them"))
    command = commands.add_parser("diff", help="compare two reports of a target")
    command.add_argument("path", type=Path, metavar="old.json", help="report.json, or its folder")
    command.add_argument("new", type=Path, metavar="new.json", help="report.json, or its folder")
    command.add_argument("-o", "--output", type=Path, help="file for the Markdown (default: print it)")
    _init_arguments(commands.add_parser("init", help="draft the table of a target for pyproject.toml"))
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code: 0; 1 for a report or bundle with problems, a target that
    offloads nothing, or a change for the worse; 2 if something cannot be read, written or started.
    `merge` returns the exit code of the session whose shards it merges."""
    options = parser().parse_args(arguments)
    try:
        if options.command == "init":
            return _init(options)
        if options.command == "merge":
            return _merge(options)
        if options.command == "diff":
            return _diff(options.path, options.new, options.output)
        if options.command == "verify":
            return _verify(options.path)
        return _report(options.path, options.output or html.path_beside(options.path))
    except (OSError, zipfile.BadZipFile) as e:
        reason = e.strerror if isinstance(e, OSError) and e.strerror else e
        print(f"{options.path}: {reason}", file=sys.stderr)
        return 2


def _init_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "target", nargs="?", metavar="TARGET",
        help="a known name, module:attribute or path/to/file.py:attribute (default: list the known targets)",
    )
    command.add_argument("--python", metavar="PATH", help="interpreter that holds TVM and the target's code")
    command.add_argument("--ir", choices=IRS, help="IR of the table (default: the interpreter's)")
    command.add_argument(
        "--operators", default="", metavar="NAMES", help="operators to try, comma-separated (default: all)"
    )
    command.add_argument("--name", help="name of the table (default: the target's own)")
    command.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="append the table to a file such as pyproject.toml"
    )


def _merge_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "paths", nargs="+", type=Path, metavar="DIR", help="folder that --byoc-report named for a shard"
    )
    command.add_argument(
        "-o", "--output", type=Path, required=True, metavar="DIR", help="folder of the merged report"
    )
    command.add_argument(
        "--matrix", action="store_true",
        help="write a scoreboard of operators, dtypes and targets, and a badge; DIR may be a whole session",
    )
    for name in MERGE_OPTIONS:
        option = BY_NAME[name]
        if option.form == FLAG:
            command.add_argument(option.flag, action="store_true", help=option.help)
        else:
            command.add_argument(option.flag, metavar=option.metavar, help=option.help)


def _merge(options: argparse.Namespace) -> int:
    merge = importlib.import_module("pytest_byoc.results.merge")
    given = []
    for name in MERGE_OPTIONS:
        value = getattr(options, BY_NAME[name].ini_name)
        if value is not None and value is not False:
            given.append(BY_NAME[name].flag if value is True else f"{BY_NAME[name].flag}={value}")
    code: int = merge.run(options.paths, options.output, given, options.matrix)
    return code


def _init(options: argparse.Namespace) -> int:
    # The other commands need none of the modules that drafting imports.
    drafting = importlib.import_module("pytest_byoc.drafting.table")
    arguments = (options.target, options.python, options.ir, options.operators, options.name, options.output)
    code: int = drafting.run(*arguments)
    return code


def _diff(old: Path, new: Path, output: Path | None) -> int:
    changes = importlib.import_module("pytest_byoc.report.changes")
    reports = []
    for path in (old, new):
        file = path / "report.json" if path.is_dir() else path
        report = _json(file)
        problems = [] if report is None else schema.problems(report)
        if report is not None and "shard" in report:
            problems.append("this is one shard; compare what `python -m pytest_byoc merge` wrote")
        for problem in problems:
            print(printable(f"{file}: {problem}"), file=sys.stderr)
        if report is None or problems:
            return 2
        reports.append(report)
    try:
        found = changes.compare(*reports)
    except ValueError as e:
        print(printable(f"{new}: {e}; name two reports of one target"), file=sys.stderr)
        return 2
    text = changes.markdown(str(old), str(new), found)
    if output is None:
        print(text, end="")
    else:
        files.replace(output, text.encode())
    return 1 if changes.is_worse(found) else 0


def _json(path: Path) -> Any:
    """Returns the content of a JSON file; None, after a message, if it has none."""
    try:
        return json.loads(files.read(path))
    except (ValueError, RecursionError) as e:
        print(f"{path}: it is not JSON: {e}; name a report.json that --byoc-report wrote", file=sys.stderr)
        return None


def _report(path: Path, page: Path) -> int:
    report = _json(path)
    if report is None:
        return 2
    problems = schema.problems(report)
    for problem in problems:
        print(f"{path}: {problem}", file=sys.stderr)
    if problems:
        return 1
    html.write(page, report)
    print(page)
    return 0


def _verify(path: Path) -> int:
    problems = session_zip.verify(path)
    for problem in problems:
        # Names of members come from an untrusted file, and could contain terminal control
        # sequences.
        print(printable(problem))
    if not problems:
        print(f"{path}: all hashes, the report and all graphs are valid")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
