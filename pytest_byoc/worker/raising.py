"""Raises the main function of an IRModule to a graph, the opposite of lowering.

For each call a record and attributes are guessed: attributes by their names, those that TVM does not
have from the types of operands and results. A guess counts only if its type rule gives the types of the
call, and if the record lowers a graph of that one node to an equal call. So a graph that is raised
computes what the module computes, or is not raised at all.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..core.graph import Graph, Node, Source, TensorType
from ..ir.calls import Call, Calls
from ..ir.interface import IR
from ..operators import OPERATORS
from ..operators.record import Operator

#: The most guesses of one operator's attributes.
_GUESSES = 400


class NotRaised(Exception):
    """Raised for a module that is no graph of records; the message says what is in it."""


def raised(ir: IR, found: Calls) -> Graph:
    """Returns the graph of a module's main. found: its calls. Raises NotRaised."""
    types, seen = found.types(), {}
    nodes = []
    for call in found.calls:
        key = _key(call, types, found)
        if key not in seen:
            seen[key] = _recognised(ir, call, types, found)
        op, attrs = seen[key]
        nodes.append(Node(op, call.operands, attrs, call.outputs, call.types))
    inputs = tuple(Source(name, type_) for name, type_ in found.inputs.items())
    constants = tuple(_constant(name, array) for name, array in found.constants.items())
    return Graph(inputs, constants, tuple(nodes), found.outputs)


def _constant(name: str, array: np.ndarray) -> Source:
    """Returns a constant with the range of its elements, from which others may be drawn."""
    type_ = TensorType(tuple(array.shape), str(array.dtype))
    numbers = array.astype("float64")
    finite = numbers[np.isfinite(numbers)]
    if not finite.size:
        return Source(name, type_)
    return Source(name, type_, float(finite.min()), float(finite.max()))


def _key(call: Call, types: Mapping[str, TensorType], found: Calls) -> Any:
    """Returns what calls have in common that are recognised alike."""
    operands = [(types[n], n in found.constants and types[n].rank == 0) for n in call.operands]
    alike = [call.operands.index(n) for n in call.operands]
    attrs, function = repr(sorted(call.attrs.items())), id(call.function)
    return call.op, repr(call.given), attrs, function, tuple(operands), tuple(alike), call.types


def _recognised(
    ir: IR, call: Call, types: Mapping[str, TensorType], found: Calls
) -> tuple[str, dict[str, Any]]:
    """Returns the operator and the attributes of a call. Raises NotRaised."""
    candidates = _candidates(ir.NAME).get(call.op, ())
    if not candidates:
        raise NotRaised("operator %s has no record" % call.op)
    operands = [types[name] for name in call.operands]
    constants = {name: found.constants[name] for name in call.operands if name in found.constants}
    for name in candidates:
        for attrs in _guesses(OPERATORS[name], call, operands):
            if _fits(OPERATORS[name], attrs, operands, call.types) and _same(
                ir, call, name, attrs, operands, constants
            ):
                return name, attrs
    raise NotRaised(
        "the record of %s does not cover it with the operands %s and the attributes %s"
        % (call.op, ", ".join(map(str, operands)), dict(call.attrs))
    )


@lru_cache(maxsize=2)
def _candidates(ir: str) -> dict[str, list[str]]:
    """Returns the names of the records that lower to each operator of the IR, the likeliest first."""
    by_op: dict[str, list[str]] = {}
    for name, record in OPERATORS.items():
        lowering = getattr(record, ir)
        if lowering is not None:
            by_op.setdefault(lowering.op, []).append(name)
    for op, names in by_op.items():
        names.sort(key=lambda name: name != op)
    return by_op


# --- guesses -----------------------------------------------------------------------------------


def _guesses(
    record: Operator, call: Call, operands: Sequence[TensorType]
) -> Iterator[dict[str, Any]]:
    names = [p.name for p in record.parameters if p.attribute]
    values = [_values(record, name, call, operands) for name in names]
    for chosen in itertools.islice(itertools.product(*values), _GUESSES):
        yield dict(zip(names, chosen))


def _values(record: Operator, name: str, call: Call, operands: Sequence[TensorType]) -> list[Any]:
    """Returns the values that an attribute may have, the likeliest first, each once."""
    found: list[Any] = []
    if call.attrs.get(name) is not None:
        found += _forms(call.attrs[name])
    if name in _DERIVED:
        found += _DERIVED[name](call, operands)
    if name not in call.attrs:
        found += [form for value in call.given for form in _forms(value)]
    parameter = next(p for p in record.parameters if p.name == name)
    if not found:
        try:
            lead = operands[0] if operands else call.types[0]
            found += [v for vs in parameter.values(lead, {}).values() for v in vs]
        except Exception:  # its values depend on others
            pass
        found += [None]
    unique: dict[str, Any] = {}
    for value in found:
        unique.setdefault(repr(value), value)
    return list(unique.values())


def _forms(value: Any) -> list[Any]:
    """Returns a value in the forms that records use: a number alone or as a tuple, padding of one side
    as that of both."""
    if isinstance(value, tuple):
        return [value, *(value if len(value) == 1 else ()), value * 2]
    return [value, (value,)] if isinstance(value, int) and not isinstance(value, bool) else [value]


def _of_layout(layout: str, shape: Sequence[int], axes: str) -> tuple[int, ...]:
    return tuple(shape[layout.index(a)] for a in axes if a in layout)


def _kernel_layout(call: Call, operands: Sequence[TensorType]) -> str:
    given = str(call.attrs.get("kernel_layout") or "")
    return given or {3: "OIW", 4: "OIHW", 5: "OIDHW"}.get(operands[1].rank, "")


def _channels(call: Call, operands: Sequence[TensorType]) -> list[Any]:
    if len(operands) < 2 or operands[1].rank < 3:
        return []
    layout = _kernel_layout(call, operands)
    (o,), (i,) = (_of_layout(layout, operands[1].shape, a) for a in "OI")
    groups = int(call.attrs.get("groups") or 1)
    return [o, o * groups, i * groups, o * i]


def _kernel_size(call: Call, operands: Sequence[TensorType]) -> list[Any]:
    if len(operands) < 2 or operands[1].rank < 3:
        return []
    return [_of_layout(_kernel_layout(call, operands), operands[1].shape, "DHW")]


def _shape(call: Call, operands: Sequence[TensorType]) -> list[Any]:
    return [call.types[0].shape]


def _dtype(call: Call, operands: Sequence[TensorType]) -> list[Any]:
    return [call.types[-1].dtype, call.types[0].dtype]


def _flag(call: Call, operands: Sequence[TensorType]) -> list[Any]:
    return [False, True]


def _permutation(call: Call, operands: Sequence[TensorType]) -> list[Any]:
    return [tuple(reversed(range(operands[0].rank)))] if call.attrs.get("axes") is None else []


def _repetitions(call: Call, operands: Sequence[TensorType]) -> list[Any]:
    made, given = call.types[0].shape, operands[0].shape
    return [tuple(m // g for m, g in zip(made, given))] if len(made) == len(given) and all(given) else []


#: Attributes that TVM leaves out, or writes otherwise, by name: their values from the types of a call.
_DERIVED = {
    "channels": _channels,
    "kernel_size": _kernel_size,
    "units": lambda call, operands: [operands[1].shape[0]] if len(operands) > 1 and operands[1].rank else [],
    "newshape": _shape,
    "shape": _shape,
    "output_size": lambda call, operands: [call.types[0].shape[2:], call.types[0].shape[1:-1]],
    "dtype": _dtype,
    "out_dtype": _dtype,
    "exclude": _flag,
    "transpose_a": _flag,
    "transpose_b": _flag,
    "training": _flag,
    "axes": _permutation,
    "reps": _repetitions,
}


# --- verification ------------------------------------------------------------------------------


def _fits(
    record: Operator, attrs: Mapping[str, Any], operands: Sequence[TensorType], types: Sequence[TensorType]
) -> bool:
    """Returns whether the type rule gives these types."""
    try:
        return tuple(record.infer(operands, attrs)) == tuple(types)
    except Exception:  # attributes of another kind than the rule expects
        return False


def _same(
    ir: IR, call: Call, name: str, attrs: Mapping[str, Any], operands: Sequence[TensorType],
    constants: Mapping[str, np.ndarray],
) -> bool:
    """Returns whether the record lowers to the same call."""
    if call.function is not None:
        constants = {}  # They are arguments of the function.
    types = dict(zip(call.operands, operands))
    sources = {n: Source(n, t) for n, t in types.items()}
    graph = Graph(
        tuple(s for n, s in sources.items() if n not in constants),
        tuple(s for n, s in sources.items() if n in constants),
        (Node(name, call.operands, attrs, call.outputs, call.types),),
        call.outputs,
    )
    try:
        module, _ = ir.lower(graph, constants)
        if call.function is not None:
            return ir.calls_function(module, call.function)
        lowered = ir.calls(module)
    except Exception:  # attributes that TVM refuses
        return False
    if len(lowered.calls) != 1:
        return False
    (made,) = lowered.calls

    def alike(theirs: Any, ours: Any) -> bool:
        if isinstance(theirs, tuple):
            return isinstance(ours, tuple) and len(ours) == len(theirs) and all(map(alike, theirs, ours))
        if isinstance(theirs, str) and theirs in constants:
            array = lowered.constants.get(ours)
            return array is not None and array.tobytes() == constants[theirs].tobytes()
        return bool(theirs == ours)

    return (
        made.op == call.op and _of_effect(made, name) == _of_effect(call, name) and made.types == call.types
        and len(made.arguments) == len(call.arguments) and all(map(alike, call.arguments, made.arguments))
    )


#: Attributes that change nothing of an inference, by the record's name.
_WITHOUT_EFFECT = {"nn.batch_norm": ("momentum",), "nn.dense": ("units",)}


def _of_effect(call: Call, record: str) -> dict[str, Any]:
    """Returns the attributes but those that have no effect, or that the types of the results tell."""
    without = ("out_dtype", *_WITHOUT_EFFECT.get(record, ()))
    return {k: v for k, v in call.attrs.items() if k not in without}
