"""The record of one TVM operator, as data, and helpers shared by the families of operators.

The systematic cases, the random graphs, the lowering to Relay and Relax, and the table of
`--byoc-list-operators` are all derived from these records. Workers import them too, so they need
only the standard library and run on Python 3.8.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Callable, Iterable, List, Mapping, Sequence

from ..core.graph import TensorType
from ..core.irs import IRS

Attrs = Mapping[str, Any]
#: The values of a parameter by class. Coverage counts classes. The first value of the first class
#: is the default, towards which shrinking moves.
Classes = Mapping[str, Sequence[Any]]
#: Builds an operator's expression from (namespace, operand expressions, attributes, operand types).
#: The namespace is `tvm.relay` or `tvm.relax.op`. The result is a call, possibly of other calls.
Build = Callable[[Any, List[Any], Attrs, Sequence[TensorType]], Any]

#: Selects values of a parameter: (value, values of the parameters before it) -> whether selected.
Which = Callable[[Any, Attrs], bool]

#: Dtypes by kind. `measured` knows which of them TVM's LLVM build runs for each operator.
FLOATS = ("float32", "float64", "float16", "bfloat16")
SIGNED = ("int32", "int8", "int16", "int64")
INTEGERS = SIGNED + ("uint8",)
NUMBERS = FLOATS + INTEGERS
ANY = NUMBERS + ("bool",)

#: The attribute of a node that lists the names of attributes that its lowering leaves out.
UNSET = "unset"


@dataclass(frozen=True)
class Lowering:
    """The expression of an operator in one IR.

    op: the IR's own name of the operator, without Relax's `relax.`; the last operator's name if the
        expression needs several.
    build: builds the expression.
    only: by parameter, the values that this IR supports, where the other IR supports more.
    lacks: by parameter, a predicate for the values that this IR does not support.
    unbuilt: by parameter, a predicate for the values that the IR supports and a target may offload,
        but that TVM's LLVM build cannot compile. For these only the oracle judges a target.
    optional: attributes that may be left out, since TVM has the same default or infers them from
        the operands. They are left out of a node whose attribute UNSET lists them.

    Calling the instance builds the expression; it raises TypeRuleError for a value that the IR does
    not support.
    """

    op: str
    build: Build
    only: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    lacks: Mapping[str, Which] = field(default_factory=dict)
    unbuilt: Mapping[str, Which] = field(default_factory=dict)
    optional: tuple[str, ...] = ()

    def __call__(self, ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
        for name in (*self.only, *self.lacks):
            if name in attrs and not self.takes(name, attrs[name], attrs):
                raise TypeRuleError("%s does not accept %s=%r in this IR" % (self.op, name, attrs[name]))
        left_out = (UNSET, *attrs.get(UNSET, ()))
        return self.build(ns, args, {k: v for k, v in attrs.items() if k not in left_out}, types)

    def takes(self, name: str, value: Any, chosen: Attrs) -> bool:
        """Returns whether this IR supports that value of a parameter.

        chosen: the values of the parameters before it.
        """
        lacking = name in self.lacks and self.lacks[name](value, chosen)
        return value in self.only.get(name, (value,)) and not lacking

    def cannot_build(self, name: str, value: Any, chosen: Attrs) -> bool:
        """Returns whether TVM's LLVM build cannot compile that value of a parameter.

        chosen: the values of the parameters before it.
        """
        return name in self.unbuilt and self.unbuilt[name](value, chosen)

    def is_unbuilt(self, attrs: Attrs) -> bool:
        """Returns whether TVM's LLVM build cannot compile the operator with these attributes."""
        return any(self.cannot_build(name, attrs[name], attrs) for name in self.unbuilt if name in attrs)


def among(*values: Any) -> Which:
    """Returns a predicate that selects these values, whatever the other parameters are."""
    return lambda value, chosen: value in values


class TypeRuleError(ValueError):
    """Raised by a type rule for operands or attributes that the operator does not accept."""


@dataclass(frozen=True)
class Parameter:
    """A choice to make when the operator is applied: an attribute, or a property of an operand.

    name: the name of the attribute or property.
    classes: the values by class; or a function of the lead operand's type and the values of the
        parameters before this one, where the values depend on these. A class without values does
        not exist for that operand.
    attribute: False if the value only determines operands and is not passed to TVM.
    """

    name: str
    classes: Classes | Callable[[TensorType, Attrs], Classes]
    attribute: bool = True

    def values(self, x: TensorType, chosen: Attrs) -> dict[str, Sequence[Any]]:
        classes = self.classes(x, chosen) if callable(self.classes) else self.classes
        return {k: v for k, v in classes.items() if len(v)}

    def narrowed(self, keep: Which) -> Parameter:
        """Returns the parameter with only the values for which `keep` is true."""

        def classes(x: TensorType, chosen: Attrs) -> Classes:
            kept = {k: [v for v in vs if keep(v, chosen)] for k, vs in self.values(x, chosen).items()}
            return {k: vs for k, vs in kept.items() if vs}

        return replace(self, classes=classes)

    def preferring(self, value: Any) -> Parameter:
        """Returns the parameter with that value as its default, wherever it exists."""

        def classes(x: TensorType, chosen: Attrs) -> Classes:
            known = self.values(x, chosen)
            first = {k: (value, *(v for v in vs if v != value)) for k, vs in known.items() if value in vs}
            return {**first, **{k: vs for k, vs in known.items() if k not in first}}

        return replace(self, classes=classes)


@dataclass(frozen=True)
class Operand:
    """One operand of an operator whose parameters have values.

    role: one of
        "lead": the operand from whose type the parameters' values and all other operands were
            derived; exactly one, not always the first;
        "data": any value of the graph that has the type;
        "weight", "bias": usually a constant;
        "fresh": an input or constant of its own, since other values of the type may lie outside of
            its range (indices, for example);
        "own": like "fresh", but usually a constant (a variance, for example);
        "constant": always a constant (scales and zero points, for example).
    low, high: the range from which its elements are drawn, both ends included; by default the range
        of its role and dtype.
    data: its elements as nested lists, if they are fixed.
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
    """Returns the range from which elements are drawn by default, both ends included.

    It is so small that a few products in a row overflow no dtype.
    """
    if dtype == "bool":
        return 0.0, 1.0
    high = 2.0 if dtype in FLOATS else 4.0 if dtype.endswith("int8") else 8.0
    if role == WEIGHT:
        high /= 2
    return (0.0 if dtype.startswith("uint") else -high), high


def some(x: TensorType) -> bool:
    """Returns whether a tensor has at least one axis and one element."""
    return x.rank > 0 and x.size > 0


def only_lead(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
    """Returns the operands of a unary operator."""
    return (Operand(LEAD, x),)


@dataclass(frozen=True, eq=False)  # It is a key of caches, by identity.
class Operator:
    """The record of one operator.

    name: TVM's name of the operator; Relay's, where the two IRs differ.
    infer: the type rule, from operand types and attributes to output types; raises TypeRuleError.
    shapes: the shapes of the lead operand in the systematic cases; the first is the default.
        `accepts` must accept their ranks.
    accuracy: the error bound and its source, for the docs.
    accepts: returns whether a tensor of that type can be the lead operand.
    operands: returns all operands in order, from the lead's type and the parameters' values.
    parameters: the parameters; each may depend on those before it.
    dtypes: the dtypes of the lead operand.
    domain: the range of values for which the operator is meant (None: any value).
    ranges: by dtype, the range from which a lead operand generated for the operator is drawn, if
        it is not the dtype's default; other values of the graph may lie outside of it.
    relay, relax: the lowering to that IR, None if the IR lacks the operator.
    tuple_result: True if TVM returns a tuple, even of one tensor.
    steep: True if results grow so fast that a graph contains at most one such operator.
    type_only: positions of operands whose elements are not read, only their types. If all other
        operands are constant, the result is constant.
    large: the shape of the lead operand in the case of a large tensor (None: the default shape
        with a long last dimension).
    calls: names of the runtime functions that TVM's own build of the operator calls; some builds of
        TVM's runtime lack them.
    used: the number of leading results that models use (None: all).
    averages: True if it divides a sum by the number of terms, so that the sum may overflow where the
        result does not.
    contraction: True if the result sums products of two operands' elements. Compilers fold constants
        that follow into it, and codegens add them in its accumulator.
    addends: positions of the operands that are added to the others; compilers fold constants at
        these positions into each other.
    factors: the same of operands that the others are multiplied by.
    commutative: True if its two operands may be swapped.
    associative: dtypes for which (a, b), c may be combined as a, (b, c) too, with equal bits.
    interesting: values of the first operand around which an elementwise function behaves otherwise
        (operators/interesting.py).
    homogeneous: True if f(s * x) = s * f(x) for every s > 0, so that a scale may be moved through it.
    approximated: True if hardware computes the function approximately; a target may declare how well.
    rounded: True if results are rounded to integers; a target may declare an error in integer steps.
    quantized_product: True if it sums products of quantised operands, with their scales as operands 4
        and 5.
    scale_parameters: the parameters that give the scale and the zero point of the first operand.
    epilogue: True if it may stand between a quantised product and its requantisation.
    follows_axis: True if its attribute `axis` can follow an axis of its operands to a new position.
    matrices: True if it multiplies two matrices, or batches of matrices.
    following: yields attributes, the likeliest first, with which the result follows operands whose
        extents have changed (operand types before and after the change, attributes); None if no
        attribute holds an extent that could follow. Their values are right for further extents too.
    followed_by: operators that often follow in real models, and therefore in patterns.
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
    averages: bool = False
    contraction: bool = False
    addends: tuple[int, ...] = ()
    factors: tuple[int, ...] = ()
    commutative: bool = False
    associative: tuple[str, ...] = ()
    interesting: tuple[float, ...] = ()
    homogeneous: bool = False
    approximated: bool = False
    rounded: bool = False
    quantized_product: bool = False
    scale_parameters: tuple[str, str] | None = None
    epilogue: bool = False
    follows_axis: bool = False
    matrices: bool = False
    following: Callable[[Sequence[TensorType], Sequence[TensorType], Attrs], Iterable[Attrs]] | None = None
    followed_by: tuple[str, ...] = ()

    def irs(self) -> tuple[str, ...]:
        return tuple(ir for ir in IRS if getattr(self, ir) is not None)

    def within(self, ir: str | None) -> Operator:
        """Returns the operator with the values that the IR supports and TVM's LLVM build compiles.

        If the operator is not in that IR, or `ir` is None, only the values are left out that TVM
        does not compile in the operator's first IR.
        """
        lowering = getattr(self, ir if ir in self.irs() else self.irs()[0])
        return self._narrowed(lowering, supported=ir in self.irs(), built=True)

    def preferring(self, values: Attrs) -> Operator:
        """Returns the operator with these values, by parameter, as the defaults of its parameters."""
        preferred = (p.preferring(values[p.name]) if p.name in values else p for p in self.parameters)
        return replace(self, parameters=tuple(preferred))

    def supported(self, ir: str) -> Operator:
        """Returns the operator with all values that the IR supports, compiled by TVM or not."""
        return self._narrowed(getattr(self, ir), supported=True, built=False)

    def _narrowed(self, lowering: Lowering, supported: bool, built: bool) -> Operator:
        """Returns the operator with fewer values of its parameters.

        supported: leave out values that the IR does not support. built: leave out values that TVM's
        LLVM build does not compile there.
        """
        unsupported = (*lowering.only, *lowering.lacks) if supported else ()
        names = {*unsupported, *(lowering.unbuilt if built else ())}
        if not names:
            return self

        def narrowed(p: Parameter) -> Parameter:
            def keep(value: Any, chosen: Attrs) -> bool:
                if supported and not lowering.takes(p.name, value, chosen):
                    return False
                return not (built and lowering.cannot_build(p.name, value, chosen))

            return p.narrowed(keep) if p.name in names else p

        return replace(self, parameters=tuple(narrowed(p) for p in self.parameters))

    def attrs(self, chosen: Attrs) -> dict[str, Any]:
        """Returns the values of the parameters that are attributes."""
        return {p.name: chosen[p.name] for p in self.parameters if p.attribute}

    def range(self, dtype: str) -> tuple[float, float]:
        """Returns the range from which a lead operand generated for the operator is drawn."""
        return self.domain or self.ranges.get(dtype) or default_range(dtype)

    def takes(self, x: TensorType) -> bool:
        return x.dtype in self.dtypes and self.accepts(x)


def call(path: str, **only: Sequence[Any]) -> Lowering:
    """Returns a lowering that passes operands by position and attributes by name.

    path: the function's name in the namespace, as in `call("nn.relu")`. only: by parameter, the
    values that the IR supports.
    """

    def lower(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
        f = ns
        for part in path.split("."):
            f = getattr(f, part)
        return f(*args, **attrs)

    return Lowering(path, lower, only)


def _out_dtypes(x: TensorType, chosen: Attrs) -> Classes:
    # Products of 8-bit integers are summed in int32: in their own dtype nearly every sum overflows.
    if x.dtype in ("int8", "uint8"):
        return {"int32": ("int32",), "same": (x.dtype,)}
    return {"same": (x.dtype,), **({"float32": ("float32",)} if x.dtype == "float16" else {})}


#: The dtype in which a contraction sums its products, and of its result.
OUT_DTYPE = Parameter("out_dtype", _out_dtypes)


def out_dtype(attrs: Attrs, types: Sequence[TensorType]) -> dict[str, str]:
    """Returns the attribute out_dtype as a keyword argument, if it is not the operands' dtype.

    It may be absent in graphs saved by earlier versions.
    """
    dtype = attrs.get("out_dtype", types[0].dtype)
    return {} if dtype == types[0].dtype else {"out_dtype": dtype}


def same_type(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    """Returns the type of the first operand as the one output type: a type rule."""
    return (types[0],)


def same_type_along(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    """Returns the same as `same_type`; raises TypeRuleError if `axis` is out of range."""
    normalize_axis(attrs["axis"], types[0].rank)
    return same_type(types, attrs)


def broadcast(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
    """Returns the shape to which two shapes broadcast by NumPy's rule; raises TypeRuleError."""
    out: list[int] = []
    for i in range(1, max(len(a), len(b)) + 1):
        p = a[-i] if i <= len(a) else 1
        q = b[-i] if i <= len(b) else 1
        if p != q and 1 not in (p, q):
            raise TypeRuleError(
                "the shapes %s and %s cannot be broadcast to one shape" % (tuple(a), tuple(b))
            )
        out.append(q if p == 1 else p)
    return tuple(reversed(out))


def normalize_axis(axis: int, rank: int) -> int:
    """Returns the axis as a non-negative number; raises TypeRuleError if it is out of range."""
    if not -rank <= axis < rank:
        raise TypeRuleError("axis %d is out of range for rank %d" % (axis, rank))
    return axis + rank if axis < 0 else axis
