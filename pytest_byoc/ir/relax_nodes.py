"""Puts nodes that call no operator into Relax graphs: call_tir, or tuples passed on whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .interface import Form


def with_non_op_nodes(
    lower: Callable[[], Any], facts: Mapping[str, Any], inputs: Sequence[Mapping[str, np.ndarray]]
) -> Form | None:
    """Returns the module with tuples passed on whole, or else with operators lowered to call_tir.

    The tuples are the results of one operator of a region that another reads. The operators that
    are lowered are those outside all regions. None where there is neither. lower: returns the
    graph's module. facts: `partition_facts` of the partitioned module. inputs: sets of inputs.
    """
    from tvm import relax

    module = lower()
    regions = [{call.split(" -> ")[0] for call in region["calls"]} for region in facts["regions"]]
    whole = _with_whole_tuples(module, regions)
    if whole is not None:
        return Form("with a tuple passed on whole", whole, [inputs[0]])
    # An if or a match_cast is not used: FuseOpsByPattern raises for a function that holds one.
    if not facts["host_calls"]:
        return None
    lowered = relax.transform.LegalizeOps(skip_ops=sorted(set().union(*regions)))(module)
    return Form("with what is left to TVM lowered to call_tir", lowered, [inputs[0]])


def _with_whole_tuples(module: Any, regions: Sequence[set[str]]) -> Any:
    """Makes calls read another call's tuple itself, in place of a new tuple of all its fields.

    Returns None where no call can. regions: the names of the operators of each region; both calls
    have to be in one region, because TVM calls compiled regions with tensors only.
    """
    from tvm import relax

    main = module["main"]
    bound = {b.var: b.value for block in main.body.blocks for b in block.bindings}
    uses = Counter(read for value in bound.values() for read in _read(value))
    passed = []

    def whole(call: Any, given: Any) -> Any:
        fields: list[Any] = [bound.get(f) for f in given.fields] if isinstance(given, relax.Tuple) else []
        if not fields or not all(isinstance(f, relax.TupleGetItem) for f in fields):
            return given
        source = fields[0].tuple_value
        in_order = all(f.tuple_value.same_as(source) and f.index == n for n, f in enumerate(fields))
        alone = uses[source] == len(fields) and all(uses[f] == 1 for f in given.fields)
        if not in_order or not alone or not any({call.op.name, bound[source].op.name} <= r for r in regions):
            return given
        passed.append(source)
        return source

    @relax.expr_functor.mutator
    class Whole(relax.PyExprMutator):  # type: ignore[misc]
        def visit_call_(self, call: Any) -> Any:
            args = [whole(call, a) for a in call.args]
            return super().visit_call_(relax.Call(call.op, args, call.attrs))

    rewritten = Whole(module).visit_expr(main)
    if not passed:
        return None
    module.update_func(module.get_global_var("main"), rewritten)
    return relax.transform.DeadCodeElimination()(module)


def _read(value: Any) -> list[Any]:
    """Returns the variables that a bound value reads, once for each time it reads them."""
    from tvm import relax

    if isinstance(value, relax.Var):
        return [value]
    read = [value.tuple_value] if isinstance(value, relax.TupleGetItem) else []
    read += [*getattr(value, "args", ()), *getattr(value, "fields", ())]
    return [variable for operand in read for variable in _read(operand)]
