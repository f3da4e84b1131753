"""NNSmith's own fuzzing loop on TVM, counted as benchmarks/throughput.py counts ours; run by its interpreter:

    python benchmarks/nnsmith_loop.py OPERATORS CPU_SECONDS SEED

Prints a line of JSON: graphs (made and compared with the oracle), CPU seconds, how many it flagged, and how
many it could not make. What it does once (imports, the search for operators its backend has) is left out.
benchmarks/others.py says what has to be installed.
"""

from __future__ import annotations

import json
import os
import platform
import random
import resource
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any
from unittest.mock import patch

os.environ.update(TVM_NUM_THREADS="1", OMP_NUM_THREADS="1")

#: Of address space: it has asked for more than machines have.
LIMIT = 8 << 30


def make_loop(operators: int, root: str) -> Any:
    """Its loop as `nnsmith.fuzz` sets it up: ONNX models, TVM's graph executor, its default comparison."""
    import hydra
    import nnsmith
    import tvm
    from nnsmith.backends.tvm import TVMFactory
    from nnsmith.cli.fuzz import FuzzingLoop

    class Factory(TVMFactory):  # type: ignore[misc]
        """For this machine: this TVM's default is another one."""

        def __init__(self, *given: Any, **more: Any) -> None:
            super().__init__(*given, **more)
            self.tvm_target = tvm.target.Target(f"llvm -mtriple={platform.machine()}-linux-gnu")

    folder = Path(nnsmith.__file__).parent / "config"
    with hydra.initialize_config_dir(str(folder), version_base=None):
        config = hydra.compose(
            "main",
            [
                "model.type=onnx", "backend.type=tvm", f"mgen.max_nodes={operators}",
                f"fuzz.root={root}/found", "fuzz.time=1h", "fuzz.seed=1",
            ],
        )
    with patch("nnsmith.backends.tvm.TVMFactory", Factory):
        return FuzzingLoop(config)


def measure(operators: int, seconds: float, seed: int) -> dict[str, Any]:
    """Graphs of up to so many operators for so many seconds of CPU."""
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="nnsmith-") as root:
        loop = make_loop(operators, root)
        resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))
        graphs = flagged = unmade = 0
        start = time.process_time()
        while time.process_time() - start < seconds:
            try:
                case = loop.make_testcase(draw.getrandbits(32))
            except Exception:
                unmade += 1
                continue
            graphs += 1
            flagged += not loop.validate_and_report(case)
        cpu = time.process_time() - start
    return {"operators": operators, "graphs": graphs, "cpu": cpu, "flagged": flagged, "unmade": unmade}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps(measure(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]))))
