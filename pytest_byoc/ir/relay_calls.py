"""Reads a Relay module's main function as calls of operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tvm
from tvm import relay

from .calls import FILLED, Calls, NotReadable, Reader
from .shared import has


def read(module: Any) -> Calls:
    """Returns the calls of a module's main. Raises NotReadable."""
    module = relay.transform.InferType()(module)
    return _Reader(module).read(module["main"])


class _Reader(Reader):
    def __init__(self, module: Any) -> None:
        super().__init__()
        self._module = module

    def read(self, main: Any) -> Calls:
        return self.result(self._of(main, [self.parameter(p, p.checked_type) for p in main.params]))

    def _of(self, function: Any, arguments: Sequence[Any]) -> Any:
        """Returns the result of a function of the IR."""
        values: dict[Any, Any] = dict(zip(function.params, arguments))
        visited: list[Any] = []
        relay.analysis.post_order_visit(function.body, visited.append)
        for e in visited:
            # The body of a function within comes along; it is read where that is called.
            if e not in values and all(part in values for part in _parts(e)):
                value = self._value(e, values)
                if value is not None:
                    values[e] = value
        if function.body not in values:
            raise NotReadable("it has an expression that is no call, tuple or constant")
        return values[function.body]

    def _value(self, e: Any, values: Mapping[Any, Any]) -> Any:
        if isinstance(e, relay.Constant):
            return self.constant(e.data)
        if isinstance(e, relay.Tuple):
            return tuple(values[f] for f in e.fields)
        if isinstance(e, relay.TupleGetItem):
            return values[e.tuple_value][int(e.index)]
        if not isinstance(e, relay.Call):
            return None
        arguments = [values[a] for a in e.args]
        if isinstance(e.op, tvm.ir.Op):
            if e.op.name in FILLED:
                return self.filled(FILLED[e.op.name], e.checked_type)
            return self.call(str(e.op.name), arguments, e.attrs, e.checked_type)
        called = self._module[e.op] if isinstance(e.op, tvm.ir.GlobalVar) else e.op
        if not isinstance(called, relay.Function):
            raise NotReadable("it calls %s, which is no function of Relay" % e.op)
        with self.within(has(called.attrs, "Compiler")):
            return self._of(called, arguments)


def _parts(e: Any) -> Sequence[Any]:
    """Returns the expressions whose values an expression needs."""
    if isinstance(e, relay.Call):
        return list(e.args)
    if isinstance(e, relay.Tuple):
        return list(e.fields)
    return [e.tuple_value] if isinstance(e, relay.TupleGetItem) else []
