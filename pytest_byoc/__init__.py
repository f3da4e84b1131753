"""Conformance tests for codegens brought to Apache TVM (BYOC).

The public API is small and loaded on demand, because worker processes, whose interpreter may have
only NumPy and TVM, import this package too.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_API = {
    "graphs": "pytest_byoc.generation.strategies",
    "Graph": "pytest_byoc.core.graph",
    "GraphError": "pytest_byoc.core.graph",
    "Node": "pytest_byoc.core.graph",
    "Source": "pytest_byoc.core.graph",
    "TensorType": "pytest_byoc.core.graph",
    "Target": "pytest_byoc.core.target",
    "Runner": "pytest_byoc.core.runner",
    "RunnerCrashed": "pytest_byoc.core.runner",
    "RunnerError": "pytest_byoc.core.runner",
    "RunnerHung": "pytest_byoc.core.runner",
    "RunnerLost": "pytest_byoc.core.runner",
    "ConformanceFailure": "pytest_byoc.examination.outcome",
    "CorpusWarning": "pytest_byoc.storage.corpus",
}

__all__ = [
    "ConformanceFailure", "CorpusWarning", "Graph", "GraphError", "Node", "Runner", "RunnerCrashed",
    "RunnerError", "RunnerHung", "RunnerLost", "Source", "Target", "TensorType", "__version__", "graphs",
]


def __getattr__(name: str) -> Any:
    if name in _API:
        return getattr(importlib.import_module(_API[name]), name)
    raise AttributeError("module 'pytest_byoc' has no attribute " + repr(name))
