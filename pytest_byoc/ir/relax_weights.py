"""Takes large constants out of a Relax module, as parameters of main."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator


@mutator
class _Lifting(PyExprMutator):  # type: ignore[misc]
    """Replaces constants by variables. wanted: whether a constant is replaced."""

    def __init__(self, wanted: Callable[[np.ndarray], bool], prefix: str) -> None:
        super().__init__()
        self.wanted = wanted
        self.prefix = prefix
        self.variables: list[Any] = []
        self.arrays: dict[str, np.ndarray] = {}

    def visit_generic_const_(self, op: Any) -> Any:
        """Returns the variable for a constant. TVM gives it the name of the class of constants, which is
        another one since 0.27, as is that of the attribute."""
        data = op.data if hasattr(op, "data") else op.value
        if not hasattr(data, "numpy"):
            return op
        array = data.numpy()
        if not self.wanted(array):
            return op
        name = "%s%d" % (self.prefix, len(self.arrays))
        type_ = op.ty if hasattr(op, "ty") else op.struct_info
        self.variables.append(relax.Var(name, type_))
        self.arrays[name] = array
        return self.variables[-1]

    visit_constant_ = visit_generic_const_


def unbound(
    module: Any, wanted: Callable[[np.ndarray], bool], prefix: str
) -> tuple[Any, dict[str, np.ndarray]]:
    """Returns the module with constants as further parameters of main, and these constants by name."""
    main = module["main"]
    lifting = _Lifting(wanted, prefix)
    body = lifting.visit_expr(main.body)
    if not lifting.arrays:
        return module, {}
    made = relax.Function(
        [*main.params, *lifting.variables], body,
        main.ret_ty if hasattr(main, "ret_ty") else main.ret_struct_info, main.is_pure, main.attrs,
    )
    functions = {gv: function for gv, function in module.functions.items() if gv.name_hint != "main"}
    changed = type(module)(functions, attrs=module.attrs)
    changed["main"] = made
    return changed, lifting.arrays
