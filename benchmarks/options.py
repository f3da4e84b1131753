"""Options that the benchmarks' command lines share."""

from __future__ import annotations

import argparse
import os
import shutil
import sys


def interpreter(text: str) -> str:
    """Returns an interpreter's absolute path, since pytest runs in other folders. Symbolic links
    are not resolved, since Python finds its virtual environment by them. Raises
    ArgumentTypeError."""
    found = shutil.which(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text} is nothing that can be run")
    return os.path.abspath(found)


def add_python(parser: argparse.ArgumentParser) -> None:
    """Adds the option --python."""
    parser.add_argument(
        "--python", type=interpreter, default=sys.executable, help="interpreter that holds TVM (this one)"
    )
