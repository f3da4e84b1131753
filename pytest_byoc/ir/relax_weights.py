"""Takes large constants out of a Relax module, as parameters of main."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from .lifted_weights import LiftedWeights


@mutator
class _Lifting(PyExprMutator):  # type: ignore[misc]
    """Replaces constants by variables."""

    def __init__(self, lifted: LiftedWeights) -> None:
        super().__init__()
        self.lifted = lifted

    def visit_generic_const_(self, op: Any) -> Any:
        """Returns the variable for a constant. TVM gives it the name of the class of constants, which is
        another one since 0.27, as is that of the attribute."""
        data = op.data if hasattr(op, "data") else op.value
        if not hasattr(data, "numpy"):
            return op
        type_ = op.ty if hasattr(op, "ty") else op.struct_info
        variable = self.lifted.variable(data.numpy(), lambda name: relax.Var(name, type_))
        return op if variable is None else variable

    visit_constant_ = visit_generic_const_


def unbound(
    module: Any, wanted: Callable[[np.ndarray], bool], prefix: str
) -> tuple[Any, dict[str, np.ndarray]]:
    """Returns the module with constants as further parameters of main, and these constants by name."""
    main = module["main"]
    lifted = LiftedWeights(wanted, prefix)
    body = _Lifting(lifted).visit_expr(main.body)
    if not lifted.arrays:
        return module, {}
    made = relax.Function(
        [*main.params, *lifted.variables], body,
        main.ret_ty if hasattr(main, "ret_ty") else main.ret_struct_info, main.is_pure, main.attrs,
    )
    functions = {gv: function for gv, function in module.functions.items() if gv.name_hint != "main"}
    changed = type(module)(functions, attrs=module.attrs)
    changed["main"] = made
    return changed, lifted.arrays
