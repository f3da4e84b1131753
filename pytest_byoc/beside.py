"""The packages that are installed beside this one, found by where they lie: of the same name there may be a
folder of the user's, which `python -m pytest` finds first."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent.parent
_PACKAGES = ("reference_kernels", "conformance")


def load() -> None:
    """Imports them, if that has not been done. Nothing else imports a package of those names in this process:
    what is the user's belongs to workers, and with the installed suite no test of theirs is collected."""
    for name in _PACKAGES:
        path = _HERE / name / "__init__.py"
        there = sys.modules.get(name)
        if there is not None and Path(there.__file__ or "").resolve() == path:
            continue
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
