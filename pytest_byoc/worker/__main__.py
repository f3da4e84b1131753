"""Starts a worker: `python .../pytest_byoc/worker/__main__.py CONTROL LIFELINE SCRATCH`, of which the first
two are file descriptors and the last is a folder. With `MEMORY PROGRAM [ARGUMENT …]` behind them it is that
program that is kept as a worker is, with so many bytes of address space (0: no limit).

Run by path, by an interpreter that need not have pytest-byoc installed. The package is registered
by hand, so that nothing else of the host's site-packages becomes importable here.
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
    """Runs a program in this process."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory:
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    os.execv(command[0], command)


if __name__ == "__main__":
    # Python put this script's folder first; its modules are not meant as top-level ones.
    del sys.path[0]
    _register_package()
    from pytest_byoc.worker.keeper import keep

    # Before anything is imported that starts threads.
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
