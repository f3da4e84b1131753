"""Starts a worker, or a program that is supervised like one.

The command is `python .../pytest_byoc/worker/__main__.py CONTROL LIFELINE SCRATCH`. CONTROL and
LIFELINE are file descriptors, SCRATCH is a folder. If `MEMORY PROGRAM [ARGUMENT …]` follow, that
program is run in place of a worker, with MEMORY bytes of address space (0: no limit).

The file is run by its path, by an interpreter that need not have pytest-byoc installed. It
registers the package itself, so that nothing else of the host's site-packages becomes importable.
"""

from __future__ import annotations

import importlib.util
import os
import resource
import sys


def _register_package() -> None:
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    spec = importlib.util.spec_from_file_location(
        "pytest_byoc", os.path.join(root, "__init__.py"), submodule_search_locations=[root]
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["pytest_byoc"] = module
    spec.loader.exec_module(module)


def _become(memory: int, command: list[str]) -> None:
    """Replaces this process by a program."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory:
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    os.execv(command[0], command)


if __name__ == "__main__":
    # Python has put this script's folder first; its modules must not be importable as top-level
    # ones.
    del sys.path[0]
    _register_package()
    from pytest_byoc.worker.keeper import keep

    # The fork in `keep` has to come before any import that starts threads.
    keep(lifeline=int(sys.argv[2]), control=int(sys.argv[1]), scratch=sys.argv[3])
    if len(sys.argv) > 4:
        _become(int(sys.argv[4]), sys.argv[5:])
    try:
        import numpy  # noqa: F401
    except ImportError as e:
        sys.exit(
            "%s: a worker needs NumPy and TVM in %s: install the extra pytest-byoc[relay] or "
            "pytest-byoc[relax] there, or point --byoc-python at another interpreter"
            % (e, sys.executable)
        )
    from pytest_byoc.worker.server import serve

    serve(int(sys.argv[1]))
