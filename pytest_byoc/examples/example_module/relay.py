"""example_module for Relay: partitioning. Predicates, pass and codegen are C++."""

from __future__ import annotations

from typing import Any, Mapping

import tvm
from tvm import relay

from pytest_byoc.examples.merging import MergeRegions

NAME = "example_module"


def register(functions: Mapping[str, Any]) -> None:
    """Nothing: the library sets the attribute ``target.example_module`` of each operator."""


def partition(mod: tvm.IRModule, functions: Mapping[str, Any]) -> tvm.IRModule:
    """Cut out what example_module computes; ``relay.build`` then calls the codegen."""
    passes = [
        relay.transform.InferType(),
        functions["FoldTransposes"](),
        relay.transform.InferType(),
        # Without tuples: those alone would become regions that compute nothing.
        relay.transform.AnnotateTarget(NAME, include_non_call_ops=False),
        MergeRegions(),
        relay.transform.PartitionGraph(),
        relay.transform.InferType(),
    ]
    return tvm.transform.Sequential(passes)(mod)
