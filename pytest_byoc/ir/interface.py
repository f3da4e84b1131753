"""What the rest of the worker knows of an IR: a module, beside this one, that offers what `IR` lists.

TVM's own objects are `Any` throughout: an IRModule is a `module`, what TVM has compiled is an `Executable`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import (
    TYPE_CHECKING,
    Any,
    NamedTuple,
)

import numpy as np

if TYPE_CHECKING:
    from typing import Protocol

    from ..core.graph import Graph
    from .dlpack import Placed
    from .main_function import Type
else:
    # Python 3.8 has it; nothing asks for it at run time.
    Protocol = object


class Form(NamedTuple):
    """A graph written otherwise. what: how, for messages. inputs: what its main takes, a list for a tuple;
    with the first of them it computes what the graph does with the first set of inputs, and so on."""

    what: str
    module: Any
    inputs: Sequence[Mapping[str, Any]]


class Code(NamedTuple):
    """What one module of a codegen's gives as its source. kind: of the module ("c" say). symbols: functions
    that it has."""

    kind: str
    text: str
    symbols: Sequence[str]


class Executable:
    """A compiled module, under one of its IR's executors."""

    #: Whether it reads an input where it lies, and does not copy it first.
    takes_views = True
    #: Whether it can be saved as three files too: library, graph and parameters.
    has_parts = False
    #: Whether each tensor is allocated by itself, of exactly its size.
    exact = False
    #: Called with each executor that is made of it, before that is run.
    _prepare: Callable[[Any], None] | None = None

    def prepare_by(self, function: Callable[[Any], None]) -> None:
        """Has a function called with each executor of TVM's that is made of it, and of what is `fresh`."""
        self._prepare = function

    def _prepared(self, executor: Any) -> Any:
        """An executor that is new."""
        if self._prepare is not None:
            self._prepare(executor)
        return executor

    def _like(self, other: Executable) -> Executable:
        """Itself, with the other's preparation."""
        self._prepare = other._prepare
        return self

    def call(self, function: str, arguments: Sequence[Any]) -> None:
        """Calls a function of the module, or of one that it imports. Raises what TVM raises where there is
        none."""
        self.root().get_function(function, True)(*arguments)

    def root(self) -> Any:
        """TVM's module, which imports all others."""
        raise NotImplementedError

    def fresh(self) -> Executable:
        """Another executor of the same library."""
        raise NotImplementedError

    def hold(
        self, inputs: Mapping[str, Any],
        place: Callable[[np.ndarray], Placed] | None = None,
        ready: Callable[[], Any] | None = None,
        placed: Collection[str] | None = None,
    ) -> tuple[list[Any], list[Any]]:
        """Runs; TVM's tensors of the inputs and outputs. place: where an input's values are to lie; placed:
        names of the inputs that it is for (None: all). ready: called when nothing is left to do but to
        run."""
        raise NotImplementedError

    def run(
        self, inputs: Mapping[str, Any], ready: Callable[[], Any] | None = None
    ) -> tuple[list[np.ndarray], list[str]]:
        """Outputs, and the names of inputs that are no longer what they were. ready: as in `hold`."""
        raise NotImplementedError

    def seconds(self, inputs: Mapping[str, np.ndarray]) -> float:
        """How long a run takes, by TVM's time_evaluator: the mean of the runs of a millisecond or more."""
        raise NotImplementedError

    def arrays(self, tensors: Sequence[Any]) -> list[np.ndarray]:
        """What TVM's tensors hold."""
        raise NotImplementedError

    def needs_export(self) -> bool:
        """Whether it holds what runs only once it is in a library: C source, or object files."""
        raise NotImplementedError

    def held_as_data(self) -> list[str]:
        """Kinds of the codegen's modules whose functions a library has no symbols of. Asked where the IR has
        an AOT executor."""
        raise NotImplementedError

    def is_tvms(self, symbols: Sequence[str]) -> bool:
        """Whether one of the functions was compiled by TVM itself, and not by the target's codegen."""
        raise NotImplementedError

    def sources(self, symbols: Sequence[str] = ()) -> list[Code]:
        """What the codegen's modules give as their source, as far as they give any.

        symbols: functions of which each source is told which it has."""
        raise NotImplementedError

    def export(self, path: str, options: Mapping[str, Any]) -> None:
        """Writes a shared library, `options` being passed to `export_library`."""
        raise NotImplementedError

    def export_parts(self, path: str, options: Mapping[str, Any]) -> dict[str, str]:
        """Writes three files whose names begin with `path`; their paths, for `IR.load_parts`. Asked of what
        `has_parts`."""
        raise NotImplementedError


class Modules(Protocol):
    """What checks do to IRModules: undo a partition, put bystanders into a module, look at regions."""

    def inline_back(self, module: Any) -> Any:
        """The partitioned module with every composite and region put back where it is called from, and
        nothing of the vendor's left: what the partition function has made of main, in plain IR."""

    def with_bystanders(self, module: Any, again: Any) -> Any:
        """The module with what is no business of the target's beside main, and a region of another target.

        again: the same graph lowered once more; it becomes that region."""

    def bystanders(self, module: Any) -> dict[str, str]:
        """The bystanders of a module as text, each under its kind; what is lost is missing."""

    def ready_for_another(self, module: Any) -> Any:
        """A partitioned module as it can be partitioned once more."""

    def marked_by_hand(
        self, module: Any, partitioned: Any, regions: Sequence[Mapping[str, Any]], table: Any
    ) -> Any:
        """The module with a region of the target's marked as a user would; None where it can't be.

        regions: facts on those of the partitioned one. table: the target's patterns."""

    def marks(self, module: Any) -> str:
        """What marks of regions are left in main; "" if there are none."""

    def with_non_op_nodes(
        self, lower: Callable[[], Any], facts: Mapping[str, Any], inputs: Sequence[Mapping[str, np.ndarray]]
    ) -> Form | None:
        """The graph with nodes that call no operator; None where it has no such form.

        lower: makes the graph's module. facts: of the partitioned one. inputs: two sets."""

    def read_by_regions(self, module: Any, symbols: Sequence[str]) -> list[int]:
        """Positions of those parameters of a partitioned module's main that nothing reads but regions
        of these symbols, each as an argument of its own."""

    def ill_formed(self, module: Any) -> str:
        """What is ill-formed in a module, a variable used before it is bound say; "" if nothing is."""

    def outline(self, module: Any) -> list[str]:
        """The module as text, function by function in the order of their names, without the elements of
        constants."""

    def text(self, module: Any) -> str:
        """The module as TVM writes it, without the elements of constants."""

    def through_json(self, module: Any) -> tuple[Any, bool]:
        """The module saved as JSON and read back, and whether it is structurally the same."""

    def merged(self, modules: Mapping[int, Any]) -> Any:
        """One module that computes what several partitioned ones do, by number, each with inputs of its own
        names: `g<number>` stands behind the names of its functions and their symbols. None where it can't
        be had."""


class IR(Protocol):
    """One IR of TVM. `check_available` is called before anything else."""

    @property
    def NAME(self) -> str:
        """As in `pytest_byoc.core.irs` and in the operator records."""

    @property
    def CONSTANTS_KEPT(self) -> int:
        """Copies of a region's constants that TVM puts into the artifact whatever the codegen does with
        them."""

    @property
    def modules(self) -> Modules: ...

    # --- the TVM of this interpreter ---

    def check_available(self) -> None:
        """Raises Failure, with the remedy, where this interpreter has no such IR."""

    def versions(self) -> dict[str, str]:
        """Of TVM, Python and NumPy."""

    def executors(self) -> tuple[list[str], list[str]]:
        """Executors this TVM has, and what is left unchecked, in words."""

    def import_runtime(self) -> None:
        """Imports what runs artifacts, once for all children."""

    def import_compiler(self) -> None:
        """Has done, once for all children, what TVM does the first time it builds and exports."""

    def lacks_aot(self) -> str | None:
        """Why this TVM has no AOT executor, in words; "" where it has one; None where the IR knows none."""

    def scopes(self) -> dict[str, str]:
        """What TVM has as current in this thread: a target and a PassContext."""

    # --- targets by name ---

    def known_targets(self) -> dict[str, str]:
        """Names that this TVM knows, each with what TVM holds of it, in words."""

    def known_partition(self, name: str, by_table: bool) -> tuple[Callable[[Any], Any], bool] | None:
        """The partition function of a name that TVM knows, and whether it is TVM's own: otherwise it is made
        from the patterns. by_table: it is to be made so. None: TVM does not know the name."""

    def pattern_table(self, name: str) -> list[tuple[str, Any, Any]]:
        """The patterns registered under a name, in the order they are tried in: (name, pattern, entry)."""

    def match_alone(self, module: Any, entry: Any, watch: Callable[[Any], Any] | None) -> bool:
        """Whether the module holds what one entry of a pattern table matches, were it the only one.

        watch: called with the entry's check, gives what is called in its place. None: structure alone
        counts."""

    # --- modules ---

    def lower(
        self, graph: Graph, constants: Mapping[str, np.ndarray], batched: Collection[str] = ()
    ) -> tuple[Any, list[str]]:
        """The graph as an IRModule, and for each node the signature its call can be found by.

        batched: names of inputs whose first dimension, the batch, is left open."""

    def output_types(self, module: Any) -> list[str]:
        """Types of main's outputs as TVM infers them, written like TensorType."""

    def arguments(self, module: Any) -> dict[str, list[int]]:
        """How many arguments the calls of main have, by the name of their operator."""

    def check_partitioned(self, module: Any) -> Any:
        """The IRModule in what a partition function returned. Raises NotAModule for anything else."""

    def main_type(self, module: Any) -> list[Type]:
        """Types of main's parameters and, last, of its result. Raises MainLost where there is no main, or
        where it is no function of the IR."""

    def same_function(self, before: Any, after: Any) -> bool:
        """Whether two functions are structurally equal: then they compute the same."""

    def partition_facts(self, module: Any) -> dict[str, Any]:
        """"regions", those that main comes to: symbol, compiler, composites, calls (as signatures), "odd",
        "codegen" (whether one is registered), numbers of inputs and outputs, and "passed", the types of all
        tensors that go in and out. And
        "host_calls", how many calls are left to TVM."""

    # --- building and running ---

    def build(
        self, module: Any, executor: str, opt_level: int, quick: bool = False,
        config: Mapping[str, Any] | None = None,
    ) -> Executable:
        """Compiles for this machine's CPU and an executor of `executors()`. quick: what TVM computes itself
        may be slow. config: of the PassContext."""

    def built(self, found: Any, executor: str) -> Executable:
        """What a build function of the target's own returned for an executor. Raises NotAModule for anything
        else than TVM's functions return."""

    def load(self, path: str, executor: str) -> Executable:
        """What `Executable.export` wrote."""

    def load_archive(self, path: str, executor: str) -> Executable:
        """What `Executable.export` wrote to a path that ends in .tar: TVM compiles what is in it."""

    def load_parts(self, parts: Mapping[str, str]) -> Executable:
        """What `Executable.export_parts` wrote."""
