"""Puts nodes that call no operator into Relay graphs: an if, or tuples passed on whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .interface import Form
from .shared import OTHER


def with_non_op_nodes(
    lower: Callable[[], Any], facts: Mapping[str, Any], inputs: Sequence[Mapping[str, np.ndarray]]
) -> Form:
    """Returns the graph with tuples as inputs if an operator reads a tuple of inputs, else an if.

    Both branches of the if hold the graph, each with inputs of its own. lower: returns the graph's
    module. facts: not used. inputs: two sets.
    """
    import tvm
    from tvm import relay

    main = lower()["main"]
    rewritten = _of_whole_tuples(main, inputs[0])
    if rewritten is not None:
        function, given = rewritten
        what, sets = "with inputs that are tuples", [given]
    else:
        what, other = "in the branches of an if", lower()["main"]
        params = [relay.var(p.name_hint + "_" + OTHER, type_annotation=p.checked_type) for p in other.params]
        condition = relay.var(OTHER, shape=(), dtype="bool")
        bound = relay.bind(other.body, dict(zip(other.params, params)))
        body = relay.If(condition, main.body, bound)
        function = relay.Function([*main.params, *params, condition], body)
        both = {**inputs[0], **{name + "_" + OTHER: value for name, value in inputs[1].items()}}
        sets = [{**both, OTHER: np.array(first)} for first in (True, False)]
    return Form(what, relay.transform.InferType()(tvm.IRModule.from_expr(function)), sets)


def _of_whole_tuples(main: Any, inputs: Mapping[str, np.ndarray]) -> tuple[Any, Any] | None:
    """Replaces each tuple of parameters that a call reads by one parameter that is a tuple.

    Returns the function and its arguments; None where no call reads such a tuple. A call that reads
    all fields of another call's result, in their order, then reads that result as it is.
    """
    from tvm import relay

    params = list(main.params)
    tuples: dict[Any, Any] = {}

    class Whole(relay.ExprMutator):  # type: ignore[misc]
        def visit_call(self, call: Any) -> Any:
            args = [tuples.get(a) or self.visit(_source(a)) for a in map(given, call.args)]
            return relay.Call(call.op, args, call.attrs, call.type_args, call.span)

    def given(e: Any) -> Any:
        if isinstance(e, relay.Tuple) and len(e.fields) > 0 and all(f in params for f in e.fields):
            name = "%s_%d" % (OTHER, len(tuples))
            tuples.setdefault(e, relay.var(name, type_annotation=e.checked_type))
        return e

    body = Whole().visit(main.body)
    if not tuples:
        return None
    free = relay.analysis.free_vars(body)
    left = [p for p in params if p in free]
    arguments: dict[str, Any] = {p.name_hint: inputs[p.name_hint] for p in left}
    arguments.update((v.name_hint, [inputs[f.name_hint] for f in e.fields]) for e, v in tuples.items())
    return relay.Function([*left, *tuples.values()], body), arguments


def _source(given: Any) -> Any:
    """Returns the value whose fields, all of them and in their order, make up a tuple.

    Returns the tuple if there is no such value.
    """
    from tvm import relay

    fields = given.fields if isinstance(given, relay.Tuple) else ()
    if not all(isinstance(f, relay.TupleGetItem) and f.index == n for n, f in enumerate(fields)):
        return given
    sources = {f.tuple_value for f in fields}
    source = next(iter(sources), given)
    return source if len(sources) == 1 and len(source.checked_type.fields) == len(fields) else given
