"""Tests of where a target's patterns are found: by names, in its module, in calls of TVM's pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_byoc.generation.patterns import search
from pytest_byoc.storage.session_ended import SessionEnded
from pytest_byoc.worker.pattern_tables import _prefixes

from .conftest import partitions_of

#: example_c with another name for its regions than for its patterns.
RENAMED = """
import tvm
from pytest_byoc.examples.example_c import target

def renamed(function):
    for key in ("Codegen", "Compiler"):
        if function.attrs is not None and key in function.attrs.keys():
            return function.with_attr(key, "its_regions")
    return function

def partition(mod):
    mod = target.partition(mod)
    return tvm.IRModule({v: renamed(f) for v, f in mod.functions.items()}, attrs=mod.attrs)
"""


def test_a_table_named_like_its_composites_is_found(tmp_path: Path, ir: str) -> None:
    if ir == "relay":
        pytest.skip("example_c makes no composites of the common operators alone in Relay")
    path = tmp_path / "renamed.py"
    path.write_text(RENAMED)
    with partitions_of("renamed", f"{path}:partition", ir) as partitions:
        assert len(partitions.patterns()) >= 40 and partitions.without_table == []


OTHERWISE = {
    "relay": """
import tvm
from tvm import relay
from tvm.relay.dataflow_pattern import is_op, wildcard
from tvm.relay.op.contrib.register import register_pattern_table

def table(name, op):
    register_pattern_table(name, lambda: [("part.of." + name, is_op(op)(wildcard(), wildcard()))])

for name, op in (("one", "nn.bias_add"), ("two", "where")):
    table(name, op)

def partition(mod):
    return mod
""",
    "relax": """
from tvm.relax.backend.pattern_registry import register_patterns
from tvm.relax.dpl import is_op, wildcard

register_patterns([("one.a", is_op("relax.matmul")(wildcard(), wildcard()))])
register_patterns([("two.a", is_op("relax.minimum")(wildcard(), wildcard()))])

def partition(mod):
    return mod
""",
}


@pytest.mark.parametrize(
    ("declared", "tables"), [("", {"one", "two"}), ("two", {"two"}), ("tow", None)]
)
def test_tables_named_otherwise_than_target_and_regions(
    tmp_path: Path, ir: str, declared: str, tables: set[str] | None
) -> None:
    """Those that the target's module registers are taken; a declared one has to exist."""
    path = tmp_path / "otherwise.py"
    path.write_text(OTHERWISE[ir])
    options = {"patterns": declared} if declared else {}
    with partitions_of("mine", f"{path}:partition", ir, options) as partitions:
        if tables is None:
            with pytest.raises(SessionEnded, match=r"'tow', .*did you mean two.* Registered are .*one"):
                partitions.patterns()
        else:
            assert {p.table for p in partitions.patterns()} == tables


def test_prefixes_of_composites_are_candidate_names_of_the_table() -> None:
    assert list(_prefixes(["a.b.c", "d.e", "f"])) == ["a.b", "a", "d"]



GIVEN_TO_THE_PASS = {
    "relay": """
import tvm
from tvm import relay
from tvm.relay.dataflow_pattern import is_op, wildcard
from tvm.relay.transform import MergeComposite

def check(call):
    return call.args[0].checked_type.dtype == "float32"

def partition(mod):
    table = [("mine.tanh", is_op("tanh")(is_op("exp")(wildcard())), check),
             ("mine.relu", is_op("nn.relu")(wildcard()))]
    with tvm.transform.PassContext(opt_level=3):
        steps = [relay.transform.InferType(), MergeComposite(table), relay.transform.AnnotateTarget("mine"),
                 relay.transform.MergeCompilerRegions(), relay.transform.PartitionGraph()]
        return tvm.transform.Sequential(steps)(mod)
""",
    "relax": """
from tvm import relax
from tvm.relax.dpl import is_op, wildcard
from tvm.relax.transform import FuseOpsByPattern

EXP_TANH = is_op("relax.tanh")(is_op("relax.exp")(wildcard()))
BEFORE = FuseOpsByPattern([("mine.tanh", EXP_TANH)], annotate_codegen=True)

def partition(mod):
    mod = BEFORE(mod)
    return FuseOpsByPattern([("mine.relu", is_op("relax.nn.relu")(wildcard()))], annotate_codegen=True)(mod)
""",
}  # fmt: skip


def test_patterns_that_are_given_to_the_pass_are_found(tmp_path: Path, ir: str) -> None:
    """They are registered nowhere. One pass is made when the module is imported."""
    path = tmp_path / "given.py"
    path.write_text(GIVEN_TO_THE_PASS[ir])
    with partitions_of("mine", f"{path}:partition", ir) as partitions:
        patterns = partitions.patterns()
        assert [p.name for p in patterns] == ["mine.tanh", "mine.relu"]
        for pattern in patterns:
            result = search(pattern, ir, partitions.composites, partitions.alone)
            assert result.fragments, result.reason
