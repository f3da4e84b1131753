"""Reads a Relax module's main function as calls of operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm import relax

from .calls import FILLED, Calls, Given, NotReadable, Reader, plain
from .shared import has


def read(module: Any) -> Calls:
    """Returns the calls of a module's main. Raises NotReadable."""
    return _Reader(module).read(module["main"])


def calls_function(module: Any, function: Any) -> bool:
    """Returns whether TVM compiles the one operator of a module's main to this TIR function."""
    legal = relax.transform.LegalizeOps()(module)
    found = [f for f in legal.functions.values() if not isinstance(f, relax.Function)]
    return len(found) == 1 and bool(tvm_ffi.structural_equal(_unnamed(found[0]), _unnamed(function), True))


def _unnamed(function: Any) -> Any:
    for attribute in ("global_symbol", "tir.noalias", "tirx.noalias"):
        function = function.without_attr(attribute)
    return function


class _Reader(Reader):
    def __init__(self, module: Any) -> None:
        super().__init__()
        self._module = module

    def read(self, main: Any) -> Calls:
        self._values: dict[Any, Any] = {}
        return self.result(self._of(main, [self.parameter(p, _type(p)) for p in main.params]))

    def _of(self, function: Any, arguments: Sequence[Any]) -> Any:
        """Returns the result of a function of the IR."""
        self._values.update(zip(function.params, arguments))
        if not isinstance(function.body, relax.SeqExpr):
            raise NotReadable("a function is no sequence of bindings")
        for block in function.body.blocks:
            for binding in block.bindings:
                if not isinstance(binding, relax.VarBinding):
                    raise NotReadable("it has a %s" % type(binding).__name__)
                self._values[binding.var] = self._value(binding.value)
        return self._value(function.body.body)

    def _value(self, e: Any) -> Any:
        if isinstance(e, relax.Var):
            return self._values[e]
        if isinstance(e, _CONSTANT):
            return self.constant(e.data if hasattr(e, "data") else e.value)
        if isinstance(e, relax.Tuple):
            fields = [self._value(f) for f in e.fields]
            given = [f.value for f in fields if isinstance(f, Given)]
            return Given(tuple(given)) if given else tuple(fields)
        if isinstance(e, relax.TupleGetItem):
            return self._value(e.tuple_value)[int(e.index)]
        if isinstance(e, _GIVEN):
            return Given(plain(e))
        if isinstance(e, relax.Call):
            return self._call(e)
        if isinstance(e, relax.Function):
            return e
        raise NotReadable("it has a %s" % type(e).__name__)

    def _call(self, e: Any) -> Any:
        if not isinstance(e.op, tvm.ir.Op):
            called = self._module[e.op] if isinstance(e.op, tvm.ir.GlobalVar) else self._values.get(e.op)
            if not isinstance(called, relax.Function):
                raise NotReadable("it calls %s, which is no function of Relax" % e.op)
            with self.within(has(called.attrs, "Codegen")):
                return self._of(called, [self._value(a) for a in e.args])
        op = str(e.op.name)
        if op == "relax.call_tir":
            callee, arguments = e.args[0], e.args[1]
            if len(e.args) > 2:
                raise NotReadable("it calls the TIR function %s with extents" % callee.name_hint)
            name = str(callee.name_hint).rstrip("0123456789")
            return self.call(name, self._value(arguments), None, _type(e), self._module[callee])
        op = op[6:] if op.startswith("relax.") else op
        if op in FILLED:
            return self.filled(FILLED[op], _type(e))
        return self.call(op, [self._value(a) for a in e.args], e.attrs, _type(e))


def _type(e: Any) -> Any:
    return e.struct_info if hasattr(e, "struct_info") else e.ty


#: The class of constants has another name, and its attribute too, since TVM 0.27.
_CONSTANT = relax.Constant if hasattr(relax, "Constant") else tvm.ir.GenericConst
#: The classes of arguments that are no tensors. Since TVM 0.27 numbers are those of TIR, not wrapped.
_GIVEN = tuple(
    getattr(language, name)
    for language in (relax, getattr(tvm, "tirx", None))
    for name in ("ShapeExpr", "PrimValue", "StringImm", "DataTypeImm", "IntImm", "FloatImm")
    if hasattr(language, name)
)
