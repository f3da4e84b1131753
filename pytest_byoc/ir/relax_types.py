"""Infers the types in a Relax module anew, for calls whose operands or attributes have changed."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax


def inferred(module: Any) -> Any:
    """Returns the module with the types that its calls have. Raises TVM's error where there is none."""
    anew = _Anew(module)
    for variable, function in module.functions.items():
        if isinstance(function, relax.Function):
            anew.builder_.update_func(variable, anew.visit_expr(function))
    return anew.builder_.get()


@relax.expr_functor.mutator
class _Anew(relax.PyExprMutator):  # type: ignore[misc]
    """A mutator that makes each call of an operator again, without its type."""

    def visit_call_(self, call: Any) -> Any:
        call = self.visit_expr_post_order(call)
        if not isinstance(call.op, tvm.ir.Op):
            return call
        given = getattr(call, "sinfo_args", None)
        return relax.Call(call.op, call.args, call.attrs, call.ty_args if given is None else given)
