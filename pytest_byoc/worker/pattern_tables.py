"""Finds a target's tables of patterns, and converts TVM's dataflow patterns to JSON-able data.

Relay's and Relax's patterns are read by the same code, by the names of their classes. A pattern
becomes a list of nodes that refer to earlier nodes by number; the last node is the root. A part
that is used twice is one node. The forms of a node are:

    {"is": "wildcard"}     {"is": "variable"}
    {"is": "constant"}, for a given value with "dtype", "shape" and "data" (its elements, row-major)
    {"is": "call", "ops": [names] or None, "args": [numbers] or None, "more": bool}
    {"is": "tuple", "of": [numbers] or None}      {"is": "item", "of": [number], "index": int or None}
    {"is": "or", "of": [two numbers]}             {"is": "and", "of": [two numbers]}
    {"is": "with", "of": [number], "attrs": {…} or "dtype": name or "shape": [ints]}
    {"is": "other", "class": name}, for a class that no graph can be generated for
"""

from __future__ import annotations

from typing import Any, Collection, Dict, Iterable, Iterator, Sequence

from ..ir.given_patterns import GIVEN
from ..ir.interface import IR

Node = Dict[str, Any]


def describe(pattern: Any) -> list[Node]:
    """Returns the nodes of a pattern, with the root last."""
    nodes: list[Node] = []
    met: list[Any] = []

    def visit(p: Any) -> int:
        for number, other in enumerate(met):
            if other.same_as(p):
                return number
        node = _node(p, visit)
        nodes.append(node)
        met.append(p)
        # The parts were added to both lists before, so positions in `met` and `nodes` agree.
        return len(nodes) - 1

    visit(pattern)
    return nodes


def _node(p: Any, visit: Any) -> Node:
    kind = type(p).__name__
    if kind == "CallPattern":
        args = None if p.args is None else [visit(a) for a in p.args]
        more = bool(_get(p, "varg_default_wildcard"))
        return {"is": "call", "ops": _callees(p.op), "args": args, "more": more}
    if kind in ("AltPattern", "OrPattern", "AndPattern"):
        return {"is": "and" if kind == "AndPattern" else "or", "of": [visit(p.left), visit(p.right)]}
    if kind in ("TuplePattern", "UnorderedTuplePattern"):
        return {"is": "tuple", "of": None if p.fields is None else [visit(f) for f in p.fields]}
    if kind == "TupleGetItemPattern":
        index = int(p.index) if p.index is not None else -1
        return {"is": "item", "of": [visit(p.tuple)], "index": None if index < 0 else index}
    if kind == "AttrPattern":
        # Iteration over DictAttrs yields nothing.
        names = list(p.attrs.keys())
        attrs = {str(k): _plain(p.attrs[k]) for k in names}
        return {"is": "with", "of": [visit(p.pattern)], "attrs": attrs}
    if kind == "DataTypePattern":
        return {"is": "with", "of": [visit(p.pattern)], "dtype": str(p.dtype)}
    if kind == "ShapePattern":
        return {"is": "with", "of": [visit(p.pattern)], "shape": [_plain(d) for d in p.shape]}
    if kind in ("ConstantPattern", "WildcardPattern"):
        return {"is": "constant" if kind == "ConstantPattern" else "wildcard"}
    if kind in ("VarPattern", "DataflowVarPattern"):
        return {"is": "variable"}
    if kind == "ExprPattern" and type(p.expr).__name__ == "Constant":
        value = p.expr.data.numpy()
        given = {"dtype": str(value.dtype), "shape": list(value.shape), "data": value.ravel().tolist()}
        return {"is": "constant", **given}
    return {"is": "other", "class": kind}


def _get(p: Any, name: str) -> Any:
    try:
        return getattr(p, name)
    except AttributeError:
        return None


def _callees(op: Any) -> Any:
    """Returns the names of the operators that a call may have; None where any is allowed."""
    kind = type(op).__name__
    if kind == "ExprPattern":
        name = _get(op.expr, "name")
        if name is None:
            return None
        return [name[6:] if name.startswith("relax.") else name]
    if kind in ("AltPattern", "OrPattern"):
        left, right = _callees(op.left), _callees(op.right)
        return None if left is None or right is None else left + right
    return None


def _plain(value: Any) -> Any:
    """Returns an attribute's value as JSON data, or as text where that is not possible."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    inner = _get(value, "value")
    if isinstance(inner, (bool, int, float, str)):
        return inner
    try:
        return [_plain(v) for v in value]
    except TypeError:
        return str(value)


def find(ir: IR, names: Iterable[str], composites: Sequence[str], of_tvm: Collection[str]) -> list[str]:
    """Returns the names of a target's tables of patterns: usually one; none if TVM has none for it.

    names: of the target and of the codegens of its regions. composites: the names of composites in
    its regions, whose prefixes are tried too; else a table that holds them is taken, else those that
    TVM itself does not have, and in the end the patterns that the target gives to the pass. of_tvm:
    the tables that TVM has without the target's module.
    """
    for name in dict.fromkeys((*names, *_prefixes(composites))):
        if ir.pattern_table(name):
            return [name]
    tables = {name: {entry[0] for entry in ir.pattern_table(name)} for name in ir.pattern_tables()}
    own = [name for name in tables if name not in of_tvm and tables[name]]
    holding = [name for name in tables if not tables[name].isdisjoint(composites)]
    tables_found = [name for name in holding if name in own] or holding or own
    return tables_found or [GIVEN] * bool(ir.pattern_table(GIVEN))


def _prefixes(names: Sequence[str]) -> Iterator[str]:
    """Yields the prefixes of dotted names, the longest first: `a.b` and `a` for `a.b.c`."""
    for name in names:
        while "." in name:
            name = name.rpartition(".")[0]
            yield name


def described(ir: IR, table: str) -> list[dict[str, Any]]:
    """Returns the patterns of a table: the name, table, position and nodes of each."""
    entries = enumerate(ir.pattern_table(table))
    return [{"name": n, "table": table, "position": k, "nodes": _nodes(p)} for k, (n, p, _) in entries]


def _nodes(pattern: Any) -> list[Node]:
    """Returns the nodes of a pattern; for one that can't be read, a single node with the reason."""
    try:
        return describe(pattern)
    except Exception as e:
        why = "%s that can't be read (%s: %s)" % (type(pattern).__name__, type(e).__name__, e)
        return [{"is": "other", "class": why}]
