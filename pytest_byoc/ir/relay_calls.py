"""Reads a Relay module's main function as calls of operators."""

from __future__ import annotations

from typing import Any, Dict

import tvm
from tvm import relay

from .calls import Calls, NotReadable, Reader


#: Operators without operands, whose results are constants: the elements by name.
_FILLED = {"zeros": 0, "ones": 1}


def read(module: Any) -> Calls:
    """Returns the calls of a module's main. Raises NotReadable."""
    return _Reader().read(relay.transform.InferType()(module)["main"])


class _Reader(Reader):
    def read(self, main: Any) -> Calls:
        self._values: Dict[Any, Any] = {p: self.parameter(p, p.checked_type) for p in main.params}
        relay.analysis.post_order_visit(main.body, self._visit)
        return self.result(self._values[main.body])

    def _visit(self, e: Any) -> None:
        values = self._values
        if e in values or isinstance(e, tvm.ir.Op):
            return
        if isinstance(e, relay.Constant):
            values[e] = self.constant(e.data)
        elif isinstance(e, relay.Tuple):
            values[e] = tuple(values[f] for f in e.fields)
        elif isinstance(e, relay.TupleGetItem):
            values[e] = values[e.tuple_value][int(e.index)]
        elif isinstance(e, relay.Call) and isinstance(e.op, tvm.ir.Op) and e.op.name in _FILLED:
            values[e] = self.filled(_FILLED[e.op.name], e.checked_type)
        elif isinstance(e, relay.Call) and isinstance(e.op, tvm.ir.Op):
            values[e] = self.call(str(e.op.name), [values[a] for a in e.args], e.attrs, e.checked_type)
        else:
            raise NotReadable("it has a %s" % type(e).__name__)
