"""What is known of one TVM operator, as data.

Everything else is read from these records: the systematic cases, the random graphs, the lowering to
Relay and Relax, the table of `--byoc-list-operators`. Workers import them too, so they need nothing
beyond the standard library and run on Python 3.8.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Callable, List, Mapping, Sequence

from ..core.graph import TensorType
from ..core.irs import IRS

Attrs = Mapping[str, Any]
#: Values of a parameter by their class. Coverage counts classes; the first value of the first
#: class is the default, and what shrinking tends to.
Classes = Mapping[str, Sequence[Any]]
#: Builds an operator's expression: (namespace, operand expressions, attributes, operand types).
#: The namespace is `tvm.relay` or `tvm.relax.op`. What it returns is a call, or ends in one.
Build = Callable[[Any, List[Any], Attrs, Sequence[TensorType]], Any]

#: Whether a value of a parameter is meant, where others are chosen: (value, the parameters before it).
Which = Callable[[Any, Attrs], bool]

#: Dtypes by kind. Which of them TVM's LLVM build runs for an operator is measured: see `measured`.
FLOATS = ("float32", "float64", "float16", "bfloat16")
SIGNED = ("int32", "int8", "int16", "int64")
INTEGERS = SIGNED + ("uint8",)
NUMBERS = FLOATS + INTEGERS
ANY = NUMBERS + ("bool",)

#: The attribute of a node that names those which are not written.
UNSET = "unset"


@dataclass(frozen=True)
class Lowering:
    """How an operator is written in one IR. op: the IR's own name of the operator (without Relax's
    `relax.`), or of the one it ends in where it takes several. only: by parameter, the values this IR
    takes, where the other IR takes more; lacks: which it does not take. unbuilt: by parameter, which values
    the IR takes and a target may claim, but TVM's LLVM build cannot compile: what a target makes of them is
    judged by the oracle alone. optional: attributes that TVM does without, where they have their defaults or
    can be told from the operands; a node whose attribute UNSET names them is written without."""

    op: str
    build: Build
    only: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    lacks: Mapping[str, Which] = field(default_factory=dict)
    unbuilt: Mapping[str, Which] = field(default_factory=dict)
    optional: tuple[str, ...] = ()

    def __call__(self, ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
        for name in (*self.only, *self.lacks):
            if name in attrs and not self.takes(name, attrs[name], attrs):
                raise TypeRuleError("%s does not take %s=%r in this IR" % (self.op, name, attrs[name]))
        left_out = (UNSET, *attrs.get(UNSET, ()))
        return self.build(ns, args, {k: v for k, v in attrs.items() if k not in left_out}, types)

    def takes(self, name: str, value: Any, chosen: Attrs) -> bool:
        """Whether a parameter of that name may have that value in this IR, with those chosen before it."""
        lacking = name in self.lacks and self.lacks[name](value, chosen)
        return value in self.only.get(name, (value,)) and not lacking

    def cannot_build(self, name: str, value: Any, chosen: Attrs) -> bool:
        """Whether TVM's LLVM build cannot compile that value, with the parameters chosen before it."""
        return name in self.unbuilt and self.unbuilt[name](value, chosen)

    def is_unbuilt(self, attrs: Attrs) -> bool:
        """Whether TVM's LLVM build cannot compile the operator with these attributes."""
        return any(self.cannot_build(name, attrs[name], attrs) for name in self.unbuilt if name in attrs)


def among(*values: Any) -> Which:
    """Which values: these, whatever else is chosen."""
    return lambda value, chosen: value in values


class TypeRuleError(ValueError):
    """Raised by a type rule for operands or attributes the operator does not take."""


@dataclass(frozen=True)
class Parameter:
    """Something to choose when the operator is applied: an attribute, or a property of an operand.

    `classes` gives the values by class; where they depend on the first operand's type or on the
    parameters before this one, it is a function of (type, chosen so far). A class without values is
    left out for that operand. With `attribute=False` the value shapes operands only and is not
    handed to TVM.
    """

    name: str
    classes: Classes | Callable[[TensorType, Attrs], Classes]
    attribute: bool = True

    def values(self, x: TensorType, chosen: Attrs) -> dict[str, Sequence[Any]]:
        classes = self.classes(x, chosen) if callable(self.classes) else self.classes
        return {k: v for k, v in classes.items() if len(v)}

    def narrowed(self, keep: Which) -> Parameter:
        """The same parameter with no values but those."""

        def classes(x: TensorType, chosen: Attrs) -> Classes:
            kept = {k: [v for v in vs if keep(v, chosen)] for k, vs in self.values(x, chosen).items()}
            return {k: vs for k, vs in kept.items() if vs}

        return replace(self, classes=classes)


@dataclass(frozen=True)
class Operand:
    """One operand the operator takes once its parameters are chosen.

    role: "lead" (the operand the choice started from; exactly one), "data" (any value of that
    type), "weight" or "bias" (usually constant), "fresh" (an input or constant of its own: other
    values of that type need not lie in its range, as indices must), "own" (the same, but usually
    constant, as a variance is) or "constant" (never anything but a constant, as scales and zero
    points must be). low, high: the range its elements are drawn from, both included; by default that
    of its role and dtype. data: its elements, for a constant whose values matter: nested lists.
    """

    role: str
    type: TensorType
    low: float | None = None
    high: float | None = None
    data: Any | None = None

    def range(self) -> tuple[float, float]:
        low, high = default_range(self.type.dtype, self.role)
        return low if self.low is None else self.low, high if self.high is None else self.high


LEAD = "lead"
DATA = "data"
WEIGHT = "weight"
BIAS = "bias"
FRESH = "fresh"
OWN = "own"
CONSTANT = "constant"
ROLES = (LEAD, DATA, WEIGHT, BIAS, FRESH, OWN, CONSTANT)


def default_range(dtype: str, role: str = DATA) -> tuple[float, float]:
    """Where elements are drawn from when nothing is said: small enough that a few products in a
    row overflow no dtype."""
    if dtype == "bool":
        return 0.0, 1.0
    high = 2.0 if dtype in FLOATS else 4.0 if dtype.endswith("int8") else 8.0
    if role == WEIGHT:
        high /= 2
    return (0.0 if dtype.startswith("uint") else -high), high


def some(x: TensorType) -> bool:
    """Accepts tensors of at least one axis and one element."""
    return x.rank > 0 and x.size > 0


def only_lead(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
    """Operands of a unary operator."""
    return (Operand(LEAD, x),)


@dataclass(frozen=True)
class Operator:
    """One operator.

    name: TVM's (Relay's, where the two differ). infer: the type rule, from operand types and
    attributes to output types; raises TypeRuleError. shapes: of the first operand in the systematic
    cases, the first being the default; their ranks must be among those `accepts` takes. accepts:
    whether a tensor of that type can be the first operand. operands: all operands, from the first
    one's type and the chosen parameters. domain: the range of values the operator is made for
    (None: any). ranges: by dtype, what a first operand made for it is drawn from, where the dtype's
    default would not do; other values need not keep to it. relay, relax: the lowering, None where that
    IR lacks the operator. tuple_result: TVM returns a tuple, be it of one tensor. steep: results grow
    so quickly that one such operator in a graph is enough. type_only: positions of operands that give a type
    and no elements: where all others are constants, the result is one. large: the shape of the first operand
    in the case of a large tensor (None: the default shape with a long last dimension). calls: functions by
    whose name TVM's own build calls them: some of TVM's runtime libraries lack them. used: how many of its
    results, the first ones, models have a use for (None: all). accuracy: the error bound and where it comes
    from, for the docs.
    """

    name: str
    infer: Callable[[Sequence[TensorType], Attrs], tuple[TensorType, ...]]
    shapes: tuple[tuple[int, ...], ...]
    accuracy: str
    accepts: Callable[[TensorType], bool] = lambda x: True
    operands: Callable[[TensorType, Attrs], tuple[Operand, ...]] = only_lead
    parameters: tuple[Parameter, ...] = ()
    dtypes: tuple[str, ...] = FLOATS
    domain: tuple[float, float] | None = None
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    relay: Lowering | None = None
    relax: Lowering | None = None
    tuple_result: bool = False
    steep: bool = False
    type_only: tuple[int, ...] = ()
    large: tuple[int, ...] | None = None
    calls: tuple[str, ...] = ()
    used: int | None = None

    def irs(self) -> tuple[str, ...]:
        return tuple(ir for ir in IRS if getattr(self, ir) is not None)

    def within(self, ir: str | None) -> Operator:
        """The operator with the parameters' values that the IR takes and TVM builds there (None: that any
        IR takes)."""
        lowering = getattr(self, ir if ir in self.irs() else self.irs()[0])
        return self._narrowed(lowering, taken=ir in self.irs(), built=True)

    def taken(self, ir: str) -> Operator:
        """The operator with the parameters' values that the IR takes, be it that TVM builds them or not."""
        return self._narrowed(getattr(self, ir), taken=True, built=False)

    def _narrowed(self, lowering: Lowering, taken: bool, built: bool) -> Operator:
        """taken, built: without values that the IR does not take, that TVM does not build there."""
        names = {*((*lowering.only, *lowering.lacks) if taken else ()), *(lowering.unbuilt if built else ())}
        if not names:
            return self

        def narrowed(p: Parameter) -> Parameter:
            def keep(value: Any, chosen: Attrs) -> bool:
                if taken and not lowering.takes(p.name, value, chosen):
                    return False
                return not (built and lowering.cannot_build(p.name, value, chosen))

            return p.narrowed(keep) if p.name in names else p

        return replace(self, parameters=tuple(narrowed(p) for p in self.parameters))

    def attrs(self, chosen: Attrs) -> dict[str, Any]:
        """The attributes among the chosen parameters."""
        return {p.name: chosen[p.name] for p in self.parameters if p.attribute}

    def range(self, dtype: str) -> tuple[float, float]:
        """What a first operand made for the operator is drawn from."""
        return self.domain or self.ranges.get(dtype) or default_range(dtype)

    def takes(self, x: TensorType) -> bool:
        return x.dtype in self.dtypes and self.accepts(x)


def call(path: str, **only: Sequence[Any]) -> Lowering:
    """The lowering that passes operands by position and attributes by name: `call("nn.relu")`.

    only: by parameter, the values the IR takes.
    """

    def lower(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
        f = ns
        for part in path.split("."):
            f = getattr(f, part)
        return f(*args, **attrs)

    return Lowering(path, lower, only)


def _out_dtypes(x: TensorType, chosen: Attrs) -> Classes:
    """Sums of 8-bit products are made in int32: in their own dtype hardly one would fit."""
    if x.dtype in ("int8", "uint8"):
        return {"int32": ("int32",), "same": (x.dtype,)}
    return {"same": (x.dtype,), **({"float32": ("float32",)} if x.dtype == "float16" else {})}


#: The dtype in which a contraction sums up and returns.
OUT_DTYPE = Parameter("out_dtype", _out_dtypes)


def out_dtype(attrs: Attrs, types: Sequence[TensorType]) -> dict[str, str]:
    """The attribute as a keyword where it is not the operands' dtype (nor absent, as in old graphs)."""
    dtype = attrs.get("out_dtype", types[0].dtype)
    return {} if dtype == types[0].dtype else {"out_dtype": dtype}


def same_type(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    """Type rule: one output, of the type of the first operand."""
    return (types[0],)


def same_type_along(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    """Type rule: as `same_type`, of an operator whose attribute axis must be one of the operand's."""
    normalize_axis(attrs["axis"], types[0].rank)
    return same_type(types, attrs)


def broadcast(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
    """NumPy's broadcasting rule. Raises TypeRuleError."""
    out: list[int] = []
    for i in range(1, max(len(a), len(b)) + 1):
        p = a[-i] if i <= len(a) else 1
        q = b[-i] if i <= len(b) else 1
        if p != q and 1 not in (p, q):
            raise TypeRuleError("shapes %s and %s do not broadcast" % (tuple(a), tuple(b)))
        out.append(q if p == 1 else p)
    return tuple(reversed(out))


def normalize_axis(axis: int, rank: int) -> int:
    """A non-negative axis. Raises TypeRuleError when it is out of range."""
    if not -rank <= axis < rank:
        raise TypeRuleError("axis %d is out of range for rank %d" % (axis, rank))
    return axis + rank if axis < 0 else axis
