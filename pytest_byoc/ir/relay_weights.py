"""Takes large constants out of a Relay module, as parameters of main."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np
from tvm import relay
from tvm.relay.expr_functor import ExprMutator

from .lifted_weights import LiftedWeights


class _Lifting(ExprMutator):  # type: ignore[misc]
    """Replaces constants by variables."""

    def __init__(self, lifted: LiftedWeights) -> None:
        super().__init__()
        self.lifted = lifted

    def visit_constant(self, const: Any) -> Any:
        dtype = const.data.dtype
        if dtype == "bfloat16":
            return const
        array = const.data.numpy()
        variable = self.lifted.variable(array, lambda name: relay.var(name, shape=array.shape, dtype=dtype))
        return const if variable is None else variable


def unbound(
    module: Any, wanted: Callable[[np.ndarray], bool], prefix: str
) -> tuple[Any, dict[str, np.ndarray]]:
    """Returns the module with constants as further parameters of main, and these constants by name."""
    main = module["main"]
    lifted = LiftedWeights(wanted, prefix)
    body = _Lifting(lifted).visit(main.body)
    if not lifted.arrays:
        return module, {}
    made = relay.Function([*main.params, *lifted.variables], body, main.ret_type, attrs=main.attrs)
    functions = {gv: function for gv, function in module.functions.items() if gv.name_hint != "main"}
    changed = type(module)(functions, module.type_definitions)
    changed["main"] = made
    return relay.transform.InferType()(changed), lifted.arrays
