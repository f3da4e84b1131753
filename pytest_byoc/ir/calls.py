"""Reads the main function of an IRModule as a list of calls, in the order of computation.

It is the opposite of `assembly.py`: the values of a module get names, and what is no operator (tuples,
their fields, other names of a variable) is resolved.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Iterator, Mapping, NamedTuple, Sequence, Tuple, Union

import numpy as np

from ..core.graph import DTYPES, TensorType


class NotReadable(Exception):
    """Raised for a module that cannot be read as calls of operators; the message says what is in it."""


#: A tensor by its name, or a tuple of such values.
Value = Union[str, Tuple["Value", ...]]


class Given(NamedTuple):
    """An argument that is no tensor: an extent, a number, a dtype …, as Python's own."""

    value: Any


class Call(NamedTuple):
    """A call of an operator.

    op: the operator's name, without `relax.`. arguments: names of tensors, tuples of them, or `Given`.
    attrs: the attributes as Python's own values. outputs, types: names and types of the results.
    function: the TIR function that is called in the operator's place, as frontends do where the IR lacks
    one; then op is the function's name. region: the number of the call of a compiled region that holds
    it; None outside of regions.
    """

    op: str
    arguments: Sequence[Any]
    attrs: Mapping[str, Any]
    outputs: tuple[str, ...]
    types: tuple[TensorType, ...]
    function: Any = None
    region: int | None = None

    @property
    def operands(self) -> tuple[str, ...]:
        """Returns the names of the tensors that the call reads, in their order."""
        return tuple(name for a in self.arguments if not isinstance(a, Given) for name in _names(a))

    @property
    def given(self) -> tuple[Any, ...]:
        """Returns the values of the other arguments."""
        return tuple(a.value for a in self.arguments if isinstance(a, Given))


class Calls(NamedTuple):
    """A main function as calls.

    inputs, constants: the types of parameters by name, and constants by name. outputs: names of the
    results.
    """

    inputs: dict[str, TensorType]
    constants: dict[str, np.ndarray]
    calls: list[Call]
    outputs: tuple[str, ...]

    def types(self) -> dict[str, TensorType]:
        """Returns the type of each tensor by name."""
        constants = {n: TensorType(a.shape, str(a.dtype)) for n, a in self.constants.items()}
        results = {n: t for c in self.calls for n, t in zip(c.outputs, c.types)}
        return {**self.inputs, **constants, **results}


def attributes(attrs: Any) -> dict[str, Any]:
    """Returns a call's attributes as Python's own values."""
    if attrs is None:
        return {}
    if hasattr(attrs, "keys"):
        return {str(k): plain(attrs[k]) for k in attrs.keys()}  # noqa: SIM118 (TVM's, not a dict)
    names = [k for k in dir(attrs) if not k.startswith("_") and k not in ("id_", "same_as")]
    values = {k: getattr(attrs, k) for k in names}
    return {k: plain(v) for k, v in values.items() if not callable(v)}


def plain(value: Any) -> Any:
    """Returns a value of TVM's as Python's own."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return str(value)
    if hasattr(value, "value") and not hasattr(value, "data"):
        # A number or a text of TVM's, or one that wraps another.
        inner = plain(value.value)
        return bool(inner) if str(getattr(value, "dtype", "")) == "bool" and isinstance(inner, int) else inner
    if hasattr(value, "values"):
        return tuple(plain(v) for v in value.values)
    if hasattr(value, "fields"):
        return tuple(plain(v) for v in value.fields)
    try:
        return tuple(plain(v) for v in value)
    except TypeError:
        return str(value)


def _names(value: Value) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(n for v in value for n in _names(v))


#: Operators whose results are constants of equal elements, without an operand: the elements.
FILLED = {"zeros": 0, "ones": 1}


class Reader:
    """A reader of a main function; subclasses know the IR's expressions."""

    def __init__(self) -> None:
        self.inputs: dict[str, TensorType] = {}
        self.constants: dict[str, np.ndarray] = {}
        self.calls: list[Call] = []
        self._taken: set[str] = set()
        self._region: int | None = None
        self._regions = 0

    def name(self, wanted: str) -> str:
        """Returns a name that no other value has."""
        name, number = wanted, 1
        while name in self._taken:
            name, number = "%s_%d" % (wanted, number), number + 1
        self._taken.add(name)
        return name

    def constant(self, tensor: Any) -> str:
        """Notes the tensor of a constant, and returns its name."""
        name = self.name("c%d" % len(self.constants))
        self.constants[name] = np.asarray(tensor.numpy())
        return name

    def filled(self, element: float, type_: Any) -> str:
        """Notes a constant of equal elements, and returns its name."""
        found = self.type(type_, "a constant")
        name = self.name("c%d" % len(self.constants))
        self.constants[name] = np.full(found.shape, element, found.dtype)
        return name

    def parameter(self, variable: Any, type_: Any) -> str:
        """Notes a parameter of main, and returns its name."""
        name = self.name(str(getattr(variable, "name_hint", None) or variable.name))
        self.inputs[name] = self.type(type_, "the parameter " + name)
        return name

    @contextmanager
    def within(self, is_region: bool) -> Iterator[None]:
        """Notes that the calls that follow are in a function that is called, which may be a region."""
        before = self._region
        if is_region and before is None:
            self._region, self._regions = self._regions, self._regions + 1
        yield
        self._region = before

    def result(self, value: Value) -> Calls:
        """Returns what was read. value: main's result."""
        return Calls(self.inputs, self.constants, self.calls, _names(value))

    def call(
        self, op: str, arguments: Sequence[Any], attrs: Any, type_: Any, function: Any = None
    ) -> Value:
        """Notes a call, and returns its results. attrs, type_: TVM's."""
        is_tuple = hasattr(type_, "fields")
        types = list(type_.fields) if is_tuple else [type_]
        number = len(self.calls)
        names = ["v%d" % number] if len(types) == 1 else ["v%d_%d" % (number, i) for i in range(len(types))]
        outputs = tuple(map(self.name, names))
        found = tuple(self.type(t, op) for t in types)
        self.calls.append(Call(op, arguments, attributes(attrs), outputs, found, function, self._region))
        return outputs if is_tuple else outputs[0]

    @staticmethod
    def type(t: Any, where: str) -> TensorType:
        shape = getattr(t, "shape", None)
        shape = getattr(shape, "values", shape)
        if shape is None or not hasattr(t, "dtype"):
            raise NotReadable("%s has the type %s, expected a tensor of known extents" % (where, t))
        extents = tuple(getattr(d, "value", None) for d in shape)
        if not all(isinstance(d, int) for d in extents):
            raise NotReadable("%s has an extent that is not a number: %s" % (where, t))
        dtype = str(t.dtype)
        if dtype not in DTYPES:
            raise NotReadable("%s has the dtype %s" % (where, dtype))
        return TensorType(tuple(int(d) for d in extents), dtype)  # type: ignore[arg-type]
