"""What the benchmarks' command lines have in common."""

from __future__ import annotations

import argparse
import os
import shutil
import sys


def interpreter(text: str) -> str:
    """An interpreter's absolute path, since pytest is run in folders of its own. Symbolic links stay: by
    them an environment is found. Raises ArgumentTypeError."""
    found = shutil.which(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text} is nothing that can be run")
    return os.path.abspath(found)


def add_python(parser: argparse.ArgumentParser) -> None:
    """Adds --python."""
    parser.add_argument(
        "--python", type=interpreter, default=sys.executable, help="interpreter that holds TVM (this one)"
    )
