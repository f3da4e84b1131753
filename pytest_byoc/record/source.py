"""Writes a graph as plain TVM code, for readers without pytest-byoc.

The workers' own code assembles the graph (`ir/assembly.py`). It calls the operator records'
lowering functions with a namespace that records the calls, in place of `tvm.relay` or
`tvm.relax.op`. So there is no second table of operators. """

from __future__ import annotations

import keyword
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..core.graph import Graph, Node, Source, TensorType, show
from ..core.irs import IR_TITLES
from ..ir.assembly import NotLowered, assemble, is_tuple

#: Names that the generated code uses itself.
_TAKEN = {"tvm", "relay", "relax", "np", "data", "builder", "Tensor", "tensor", "module", "body", "getattr"}


class SourceError(ValueError):
    """Raised if a graph can't be written as TVM code; the message says why."""


class _Line:
    """A recorded call. name: the variable that holds its result; empty until that is known."""

    def __init__(self, path: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self.path, self.args, self.kwargs = path, tuple(args), dict(kwargs)
        self.name = ""

    def text(self) -> str:
        parts = [literal(a) for a in self.args]
        parts += ["%s=%s" % (k, literal(v)) for k, v in self.kwargs.items()]
        return "%s(%s)" % (self.path, ", ".join(parts))


class _Value:
    """An expression: a named value, the result of a line, or a field of such a result."""

    def __init__(self, text: Callable[[], str], line: _Line | None = None) -> None:
        self._text, self._line = text, line

    def __getitem__(self, index: int) -> _Value:
        return _Value(lambda: "%s[%d]" % (self._text(), index))

    def __iter__(self) -> Iterator[_Value]:
        raise TypeError("the number of results of a recorded call is not known")

    def astuple(self) -> _Value:
        return _Value(lambda: self._text() + ".astuple()", self._line)


class _Namespace:
    """A module of TVM, as far as lowering functions see it: attribute access extends a dotted path,
    and a call appends a line and returns its result."""

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
    """Returns the Python source of an argument. Raises SourceError for a type without one."""
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
    """The Python variables for the values of a graph, each with a name of its own."""

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


class _Written:
    """Writes the lines of one graph (see `assembly.Maker`). Each IR has a subclass."""

    def __init__(self, path: str, indent: str = "") -> None:
        self.names = _Names()
        self.lines: list[str] = []
        self._calls: list[_Line] = []
        self._indent = indent
        self.ops = _Namespace(path, self._calls)

    def write(self, name: str, text: str) -> _Value:
        """Writes a line that assigns an expression to a name; returns the name's value."""
        self.lines.append("%s%s = %s" % (self._indent, name, text))
        return _Value(lambda: name)

    def calls(self, node: Node, lowered: Any) -> str:
        """Writes all calls of a lowered node but the last. Returns the text of the last, the node's
        result."""
        last = self._calls[-1] if self._calls else None
        if last is None or not isinstance(lowered, _Value) or lowered._line is not last:
            raise SourceError("the lowering of %s does not end in a call" % node.op)
        for line in self._calls[:-1]:
            line.name = self.names.new("t0")
            self.write(line.name, line.text())
        self._calls.clear()
        return last.text()

    def type_of(self, value: _Value, declared: TensorType) -> TensorType:
        return declared


class _Relay(_Written):
    def __init__(self) -> None:
        super().__init__("relay")

    def input(self, source: Source) -> _Value:
        parts = (source.name, source.type.shape, source.type.dtype)
        return self.write(self.names.define(source.name), "relay.var(%r, shape=%r, dtype=%r)" % parts)

    def constant(self, source: Source) -> _Value:
        made = "tensor(data[%r], 'bfloat16')" if source.type.dtype == "bfloat16" else "tvm.nd.array(data[%r])"
        key = "constant." + source.name
        return self.write(self.names.define(source.name), "relay.const(%s)" % (made % key))

    def result(self, node: Node, lowered: Any) -> _Value:
        text = self.calls(node, lowered)
        if is_tuple(node):
            return self.write(self.names.new("t0"), text + ".astuple()")
        return self.write(self.names.define(node.outputs[0]), text)

    def field(self, name: str, whole: _Value, index: int) -> _Value:
        item = "relay.TupleGetItem(%s, %d)" % (literal(whole), index)
        return self.write(self.names.define(name), item)


class _Relax(_Written):
    def __init__(self) -> None:
        super().__init__("relax.op", indent=" " * 8)
        #: Lines that define inputs and constants; they come before the function.
        self.head: list[str] = []

    def _before(self, source: Source, text: str) -> _Value:
        name = self.names.define(source.name)
        self.head.append("%s = %s" % (name, text))
        return _Value(lambda: name)

    def input(self, source: Source) -> _Value:
        parts = (source.name, source.type.shape, source.type.dtype)
        return self._before(source, "relax.Var(%r, Tensor(%r, %r))" % parts)

    def constant(self, source: Source) -> _Value:
        key, dtype = "constant." + source.name, source.type.dtype
        made = "tensor(data[%r], 'bfloat16')" if dtype == "bfloat16" else "data[%r]"
        return self._before(source, "relax.const(%s, %r)" % (made % key, dtype))

    def result(self, node: Node, lowered: Any) -> _Value:
        text = "builder.emit(%s)" % self.calls(node, lowered)
        name = self.names.new("t0") if is_tuple(node) else self.names.define(node.outputs[0])
        return self.write(name, text)

    def field(self, name: str, whole: _Value, index: int) -> _Value:
        item = "builder.emit(relax.TupleGetItem(%s, %d))" % (literal(whole), index)
        return self.write(self.names.define(name), item)


def _assembled(graph: Graph, ir: str, written: _Relay | _Relax) -> str:
    """Writes the lines of a graph. Returns the expression for its results."""
    try:
        outputs = [literal(value) for value in assemble(graph, ir, written)]
    except NotLowered as e:
        raise SourceError(str(e)) from None
    return outputs[0] if len(outputs) == 1 else "%s.Tuple([%s])" % (ir, ", ".join(outputs))


def relay_source(graph: Graph) -> list[str]:
    """Returns lines that build `module` from `data`, a mapping that holds `constant.NAME` for each
    constant.

    They use the names tvm, relay and np, and `tensor(bits, dtype)` for bfloat16 (`data` holds its
    bits). """
    written = _Relay()
    body = _assembled(graph, "relay", written)
    params = ", ".join(written.names[s.name] for s in graph.inputs)
    return [
        *written.lines,
        "body = " + body,
        "module = tvm.IRModule.from_expr(relay.Function([%s], body))" % params,
        "module = relay.transform.InferType()(module)",
    ]


def relax_source(graph: Graph) -> list[str]:
    """Does for Relax what `relay_source` does; the lines use the names tvm, relax and np, and
    `tensor`."""
    written = _Relax()
    result = _assembled(graph, "relax", written)
    params = ", ".join(written.names[s.name] for s in graph.inputs)
    return [
        # TVM renamed it between 0.25 and 0.27.
        'Tensor = getattr(relax, "TensorStructInfo", None) or relax.TensorType',
        *written.head,
        "builder = relax.BlockBuilder()",
        'with builder.function("main", [%s]):' % params,
        "    with builder.dataflow():",
        *written.lines,
        "        body = builder.emit_output(%s)" % result,
        "    builder.emit_func_output(body)",
        "module = builder.get()",
    ]


class _Called:
    """Records the TVM operators that each node is lowered to (see `assembly.Maker`)."""

    def __init__(self, path: str) -> None:
        self._calls: list[_Line] = []
        self._prefix = path + "."
        self.ops = _Namespace(path, self._calls)
        self.nodes: list[list[str]] = []

    def _value(self, *_: object) -> _Value:
        return _Value(lambda: "")

    input = constant = field = _value

    def type_of(self, value: _Value, declared: TensorType) -> TensorType:
        return declared

    def result(self, node: Node, lowered: Any) -> _Value:
        self.nodes.append([line.path.removeprefix(self._prefix) for line in self._calls])
        self._calls.clear()
        return self._value()


def graph_text(graph: Graph, ir: str) -> str:
    """Returns `graph.show` with the names of the IR's operators where they differ from ours."""
    called = _Called({"relay": "relay", "relax": "relax.op"}[ir])
    try:
        assemble(graph, ir, called)
    except Exception:  # The IR cannot express the graph.
        return show(graph)
    remarks = [
        f"{IR_TITLES[ir]}: {', '.join(calls)}" if calls != [node.op] else ""
        for node, calls in zip(graph.nodes, called.nodes)
    ]
    return show(graph, remarks)


def source(graph: Graph, ir: str) -> list[str]:
    """Returns lines of Python that build the graph as `module`, from the same expressions as in the
    workers. Raises SourceError."""
    return relay_source(graph) if ir == "relay" else relax_source(graph)
