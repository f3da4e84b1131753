"""Makes the scoreboard of TVM's own targets: docs/reference/scoreboard.md.

    python scripts/scoreboard.py run --ir relax [--time-budget 300] [TARGET …]
    python scripts/scoreboard.py page

`run` tests each target (default: every name that `pytest --byoc-list-targets` prints for this interpreter) in
two sessions, one of the suite and one of the whole models in fixtures/models. Its results stand in
docs/reference/scoreboard/relax.json, where those of targets that are not tested again stay. `page` writes the
page from the results of both IRs.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import scoreboard_page
import scoreboard_sessions as sessions

from fixtures.models import MODELS
from pytest_byoc.config.levels import LEVELS
from pytest_byoc.core.files import replace
from pytest_byoc.core.irs import IR_TITLES

#: What is tested: the cases of the suite, whole models.
KINDS = ("suite", "models")


def read(results: Path, ir: str) -> dict[str, Any]:
    """Returns the results of an IR; without a target if there are none yet."""
    path = results / f"{ir}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {"ir": ir, "targets": {}}


def saved(names: Sequence[str], folder: Path) -> Path:
    """Writes whole models as ONNX files into a folder, and returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / f"{name}.onnx").write_bytes(MODELS[name]().SerializeToString())
    return folder


def run(args: argparse.Namespace, folder: Path) -> None:
    """Runs the sessions. The results are written after each, so that what was found is never lost."""
    known = sessions.listed(args.ir, folder / "list")
    unknown = set(args.targets) - set(known)
    if unknown:
        raise sessions.SessionError(f"unknown: {', '.join(sorted(unknown))}; known are {', '.join(known)}")
    results = read(args.results, args.ir)
    old = results["targets"]
    results["targets"] = {name: {**old.get(name, {}), "known_as": where} for name, where in known.items()}
    for kind in args.kinds:
        options = [f"--byoc-ir={args.ir}", f"--byoc-level={args.level}", *args.option]
        if args.time_budget:
            options.append(f"--byoc-time-budget={args.time_budget:g}")
        if kind == "models":
            options.append(f"--byoc-model={saved(args.models, folder / 'onnx')}")
        for name in args.targets or known:
            print(f"{args.ir} {name}: {kind}", flush=True)
            found = sessions.run([f"--byoc-target={name}", *options], folder / name / kind, args.limit)
            if kind == "models":
                found["models"] = list(args.models)
            results["targets"][name][kind] = found
            print(f"  exit code {found['exit']} after {found['seconds']:g} s", flush=True)
            replace(args.results / f"{args.ir}.json", (json.dumps(results, indent=1) + "\n").encode())


def page(args: argparse.Namespace) -> None:
    results = [read(args.results, ir) for ir in IR_TITLES]
    args.output.write_text(scoreboard_page.page(results), encoding="utf-8")


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="The scoreboard of TVM's own targets.")
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("run", help="test targets, in a session each")
    one.add_argument("targets", nargs="*", metavar="TARGET", help="default: all that this interpreter offers")
    one.add_argument("--ir", required=True, choices=list(IR_TITLES))
    one.add_argument("--level", default="smoke", choices=list(LEVELS))
    one.add_argument("--time-budget", type=float, metavar="S", help="seconds after which no test begins")
    one.add_argument("--limit", type=float, default=3600.0, metavar="S", help="seconds that end a session")
    one.add_argument("--kinds", type=_names(KINDS), default=list(KINDS), help="suite, models (default: both)")
    one.add_argument("--models", type=_names(MODELS), default=list(MODELS), help="names, comma-separated")
    one.add_argument("--option", action="append", default=[], help="of pytest, as in --option=-nauto")
    one.add_argument("--folder", type=Path, help="keep the reports of the sessions there")
    two = commands.add_parser("page", help="write the page")
    two.add_argument("-o", "--output", type=Path, default=scoreboard_page.PAGE)
    for command in (one, two):
        command.add_argument("--results", type=Path, default=scoreboard_page.RESULTS, metavar="DIR",
                             help="folder of relay.json and relax.json (default: that of the documentation)")
    return parser


def _names(known: Sequence[str] | dict[str, Any]) -> Any:
    """Returns what reads a list of known names, separated by commas."""
    def read(text: str) -> list[str]:
        names = text.split(",")
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name} is unknown; known are {', '.join(known)}")
        return names
    return read


def main(arguments: Sequence[str] | None = None) -> None:
    args = options().parse_args(arguments)
    if args.command == "page":
        page(args)
        return
    args.results.mkdir(parents=True, exist_ok=True)
    try:
        if args.folder:
            run(args, args.folder.resolve())
        else:
            with TemporaryDirectory(prefix="scoreboard-") as folder:
                run(args, Path(folder))
    except sessions.SessionError as e:
        sys.exit(str(e))
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    # SIGTERM ends the session that is running, as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    main()
