"""Takes large constants out of a Relay module, as parameters of main."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np
from tvm import relay
from tvm.relay.expr_functor import ExprMutator


class _Lifting(ExprMutator):  # type: ignore[misc]
    """Replaces constants by variables. wanted: whether a constant is replaced."""

    def __init__(self, wanted: Callable[[np.ndarray], bool], prefix: str) -> None:
        super().__init__()
        self.wanted = wanted
        self.prefix = prefix
        self.variables: list[Any] = []
        self.arrays: dict[str, np.ndarray] = {}

    def visit_constant(self, const: Any) -> Any:
        array = const.data.numpy()
        if const.data.dtype == "bfloat16" or not self.wanted(array):
            return const
        name = "%s%d" % (self.prefix, len(self.arrays))
        self.variables.append(relay.var(name, shape=array.shape, dtype=const.data.dtype))
        self.arrays[name] = array
        return self.variables[-1]


def unbound(
    module: Any, wanted: Callable[[np.ndarray], bool], prefix: str
) -> tuple[Any, dict[str, np.ndarray]]:
    """Returns the module with constants as further parameters of main, and these constants by name."""
    main = module["main"]
    lifting = _Lifting(wanted, prefix)
    body = lifting.visit(main.body)
    if not lifting.arrays:
        return module, {}
    made = relay.Function([*main.params, *lifting.variables], body, main.ret_type, attrs=main.attrs)
    functions = {gv: function for gv, function in module.functions.items() if gv.name_hint != "main"}
    changed = type(module)(functions, module.type_definitions)
    changed["main"] = made
    return relay.transform.InferType()(changed), lifting.arrays
