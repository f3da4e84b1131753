"""A graph as plain TVM code, for somebody who has no pytest-byoc.

The operator records' lowering functions are called with a namespace that writes down what is asked
of it, in place of `tvm.relay` or `tvm.relax.op`: no second table of operators, and what is written
is what the workers do.
"""

from __future__ import annotations

import keyword
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..graph import Graph, Node
from ..operators import OPERATORS

#: Names the generated code uses for itself.
_TAKEN = {"tvm", "relay", "relax", "np", "data", "builder", "Tensor", "tensor", "module", "body", "getattr"}


class SourceError(ValueError):
    """Raised where a graph can't be written as TVM code; the message says why."""


class _Line:
    """One call written down. name: of the variable it is assigned to, known later."""

    def __init__(self, path: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self.path, self.args, self.kwargs = path, tuple(args), dict(kwargs)
        self.name = ""

    def text(self) -> str:
        parts = [literal(a) for a in self.args]
        parts += ["%s=%s" % (k, literal(v)) for k, v in self.kwargs.items()]
        return "%s(%s)" % (self.path, ", ".join(parts))


class _Value:
    """Stands for an expression: a named value, the result of a line, or a part of one."""

    def __init__(self, text: Callable[[], str], line: _Line | None = None) -> None:
        self._text, self._line = text, line

    def __getitem__(self, index: int) -> _Value:
        return _Value(lambda: "%s[%d]" % (self._text(), index))

    def __iter__(self) -> Iterator[_Value]:
        raise TypeError("how many results a recorded call has is not known")

    def astuple(self) -> _Value:
        return _Value(lambda: self._text() + ".astuple()", self._line)


class _Namespace:
    """Attribute access extends a dotted path; a call writes a line and returns its result."""

    def __init__(self, path: str, lines: list[_Line]) -> None:
        self._path, self._lines = path, lines

    def __getattr__(self, name: str) -> _Namespace:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Namespace("%s.%s" % (self._path, name), self._lines)

    def __call__(self, *args: Any, **kwargs: Any) -> _Value:
        line = _Line(self._path, args, kwargs)
        self._lines.append(line)
        return _Value(lambda: line.name, line)


def literal(value: Any) -> str:
    """Python source for an argument. Raises SourceError for what has none."""
    if isinstance(value, _Value):
        return value._text()
    if isinstance(value, np.ndarray):
        return "np.array(%s, %r)" % (literal(value.tolist()), str(value.dtype))
    if isinstance(value, np.generic):
        return literal(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return "float(%r)" % str(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return repr(value)
    if isinstance(value, (list, range)):
        return "[%s]" % ", ".join(literal(v) for v in value)
    if isinstance(value, tuple):
        return "(%s%s)" % (", ".join(literal(v) for v in value), "," if len(value) == 1 else "")
    if isinstance(value, dict):
        return "{%s}" % ", ".join("%s: %s" % (literal(k), literal(v)) for k, v in value.items())
    raise SourceError("a %s has no literal" % type(value).__name__)


class _Names:
    """Python variables for the names of a graph's values."""

    def __init__(self) -> None:
        self._of: dict[str, str] = {}
        self._used = set(_TAKEN)

    def new(self, wanted: str) -> str:
        base = "".join(c if c.isascii() and c.isalnum() else "_" for c in wanted) or "v"
        if base[0].isdigit() or keyword.iskeyword(base):
            base = "v_" + base
        name, n = base, 1
        while name in self._used:
            name, n = "%s_%d" % (base, n), n + 1
        self._used.add(name)
        return name

    def define(self, value: str) -> str:
        self._of[value] = self.new(value)
        return self._of[value]

    def __getitem__(self, value: str) -> str:
        return self._of[value]

    def proxy(self, value: str) -> _Value:
        name = self._of[value]
        return _Value(lambda: name)


def _record(graph: Graph, node: Node, ir: str, path: str, names: _Names) -> list[_Line]:
    """The calls the node becomes, the last of which is its result; the others have names."""
    record = OPERATORS.get(node.op)
    lowering = getattr(record, ir) if record is not None else None
    if lowering is None:
        raise SourceError("operator %s has no lowering to %s" % (node.op, ir))
    lines: list[_Line] = []
    types = [graph.type_of(i) for i in node.inputs]
    args = [names.proxy(i) for i in node.inputs]
    result = lowering(_Namespace(path, lines), args, node.attrs, types)
    if not isinstance(result, _Value) or result._line is None or result._line is not lines[-1]:
        raise SourceError("the lowering of %s does not end in a call" % node.op)
    for line in lines[:-1]:
        line.name = names.new("t0")
    return lines


def _is_tuple(node: Node) -> bool:
    return len(node.outputs) > 1 or OPERATORS[node.op].tuple_result


def relay_source(graph: Graph) -> list[str]:
    """Lines that make `module` of `data`, a mapping that holds `constant.NAME` for each constant.

    They use the names tvm, relay and np; of bfloat16, whose bits `data` holds, `tensor(bits, dtype)` too.
    """
    names, out = _Names(), []
    for s in graph.inputs:
        name = names.define(s.name)
        parts = (name, s.name, s.type.shape, s.type.dtype)
        out.append("%s = relay.var(%r, shape=%r, dtype=%r)" % parts)
    for s in graph.constants:
        name = names.define(s.name)
        key = "constant." + s.name
        made = "tensor(data[%r], 'bfloat16')" if s.type.dtype == "bfloat16" else "tvm.nd.array(data[%r])"
        out.append("%s = relay.const(%s)" % (name, made % key))
    for node in graph.nodes:
        lines = _record(graph, node, "relay", "relay", names)
        out += ["%s = %s" % (line.name, line.text()) for line in lines[:-1]]
        if _is_tuple(node):
            whole = names.new("t0")
            out.append("%s = %s.astuple()" % (whole, lines[-1].text()))
            for i, value in enumerate(node.outputs):
                out.append("%s = relay.TupleGetItem(%s, %d)" % (names.define(value), whole, i))
        else:
            text = lines[-1].text()
            out.append("%s = %s" % (names.define(node.outputs[0]), text))
    results = ", ".join(names[o] for o in graph.outputs)
    out.append("body = " + (results if len(graph.outputs) == 1 else "relay.Tuple([%s])" % results))
    params = ", ".join(names[s.name] for s in graph.inputs)
    out.append("module = tvm.IRModule.from_expr(relay.Function([%s], body))" % params)
    out.append("module = relay.transform.InferType()(module)")
    return out


def relax_source(graph: Graph) -> list[str]:
    """As `relay_source`; the lines use the names relax and np, and `tensor` of bfloat16."""
    names = _Names()
    # Renamed between 0.25 and 0.27.
    out = ['Tensor = getattr(relax, "TensorStructInfo", None) or relax.TensorType']
    for s in graph.inputs:
        name = names.define(s.name)
        parts = (name, s.name, s.type.shape, s.type.dtype)
        out.append("%s = relax.Var(%r, Tensor(%r, %r))" % parts)
    for s in graph.constants:
        name = names.define(s.name)
        key, dtype = "constant." + s.name, s.type.dtype
        made = "tensor(data[%r], 'bfloat16')" if dtype == "bfloat16" else "data[%r]"
        out.append("%s = relax.const(%s, %r)" % (name, made % key, dtype))
    params = ", ".join(names[s.name] for s in graph.inputs)
    out.append("builder = relax.BlockBuilder()")
    out.append('with builder.function("main", [%s]):' % params)
    out.append("    with builder.dataflow():")
    for node in graph.nodes:
        lines = _record(graph, node, "relax", "relax.op", names)
        body = ["%s = %s" % (line.name, line.text()) for line in lines[:-1]]
        text = lines[-1].text()
        if _is_tuple(node):
            whole = names.new("t0")
            body.append("%s = builder.emit(%s)" % (whole, text))
            for i, value in enumerate(node.outputs):
                item = "builder.emit(relax.TupleGetItem(%s, %d))" % (whole, i)
                body.append("%s = %s" % (names.define(value), item))
        else:
            body.append("%s = builder.emit(%s)" % (names.define(node.outputs[0]), text))
        out += ["        " + line for line in body]
    results = ", ".join(names[o] for o in graph.outputs)
    result = results if len(graph.outputs) == 1 else "relax.Tuple([%s])" % results
    out.append("        body = builder.emit_output(%s)" % result)
    out.append("    builder.emit_func_output(body)")
    out.append("module = builder.get()")
    return out


def source(graph: Graph, ir: str) -> list[str]:
    """Lines of Python that build the graph as `module`. Raises SourceError."""
    return relay_source(graph) if ir == "relay" else relax_source(graph)
