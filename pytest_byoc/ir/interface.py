"""The interface of an IR: the files `relay.py` and `relax.py` of this folder implement `IR`.

TVM's own objects have the type `Any`: an IRModule is called `module`, a compiled one is wrapped in
an `Executable`.
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
    from ..core.openings import OpenExtent
    from .calls import Calls
    from .dlpack import Placed
    from .given_patterns import GivenPatterns
    from .main_function import Type
else:
    # Only type checkers need `typing.Protocol`; at run time an ordinary base class is enough.
    Protocol = object


#: How TVM's time_evaluator measures: it repeats a run until it has taken so many milliseconds.
MEASURED = {"number": 1, "min_repeat_ms": 5}


class Form(NamedTuple):
    """A graph written in a different but equivalent way.

    what: a description for messages. inputs: sets of arguments of its main (a list stands for a
    tuple); the results for the n-th set are those of the graph for its n-th set of inputs.
    """

    what: str
    module: Any
    inputs: Sequence[Mapping[str, Any]]


class Code(NamedTuple):
    """The source of one runtime module of a codegen.

    kind: the module's kind, for example "c". symbols: functions that the module implements.
    """

    kind: str
    text: str
    symbols: Sequence[str]


class Executable:
    """A compiled module for one of its IR's executors."""

    #: Whether the executor reads inputs in place, without copying them first.
    takes_views = True
    #: Whether the module can also be saved as three files: library, graph and parameters.
    has_parts = False
    #: Whether each tensor is allocated separately, with exactly its size.
    exact = False
    #: Whether an exported library holds addresses of the process, so that each process writes another one.
    holds_addresses = False
    #: The function that is called with each new executor before its first run.
    _prepare: Callable[[Any], None] | None = None

    def prepare_by(self, function: Callable[[Any], None]) -> None:
        """Sets a function that is called with each new executor of this and `fresh` ones."""
        self._prepare = function

    def _prepared(self, executor: Any) -> Any:
        """Calls the preparation with a new executor, and returns the executor."""
        if self._prepare is not None:
            self._prepare(executor)
        return executor

    def _like(self, other: Executable) -> Executable:
        """Takes over the preparation of `other`, and returns self."""
        self._prepare = other._prepare
        return self

    def call(self, function: str, arguments: Sequence[Any]) -> None:
        """Calls a function of the module, or of one that it imports.

        Raises TVM's error where there is no such function.
        """
        self.root().get_function(function, True)(*arguments)

    def root(self) -> Any:
        """Returns TVM's runtime module that imports all others."""
        raise NotImplementedError

    def fresh(self) -> Executable:
        """Returns the same library with an executor of its own, created at its first run."""
        raise NotImplementedError

    def hold(
        self, inputs: Mapping[str, Any],
        place: Callable[[np.ndarray], Placed] | None = None,
        ready: Callable[[], Any] | None = None,
        placed: Collection[str] | None = None,
    ) -> tuple[list[Any], list[Any]]:
        """Runs the module, and returns TVM's tensors of the inputs and of the outputs.

        place: returns the memory for an input's values. placed: names of the inputs to which
        `place` applies (None: all). ready: called immediately before the run.
        """
        raise NotImplementedError

    def run(
        self, inputs: Mapping[str, Any], ready: Callable[[], Any] | None = None
    ) -> tuple[list[np.ndarray], list[str]]:
        """Runs the module, and returns the outputs and the names of inputs that the run modified.

        ready: as in `hold`.
        """
        raise NotImplementedError

    def seconds(self, inputs: Mapping[str, np.ndarray]) -> float:
        """Returns the mean seconds of a run, by TVM's time_evaluator, as MEASURED says."""
        raise NotImplementedError

    def arrays(self, tensors: Sequence[Any]) -> list[np.ndarray]:
        """Returns the contents of TVM's tensors."""
        raise NotImplementedError

    def needs_export(self) -> bool:
        """Returns whether the module holds C source or object files, so runs only once exported."""
        raise NotImplementedError

    def held_as_data(self) -> list[str]:
        """Returns the kinds of the codegen's modules that a library holds as data.

        Their functions have no symbols in the library. Only IRs with an AOT executor implement it.
        """
        raise NotImplementedError

    def is_tvms(self, symbols: Sequence[str]) -> bool:
        """Returns whether TVM itself compiled one of the functions, rather than the codegen."""
        raise NotImplementedError

    def sources(self, symbols: Sequence[str] = ()) -> list[Code]:
        """Returns the sources of the codegen's modules that have any.

        symbols: functions; each source lists those of them that its module implements.
        """
        raise NotImplementedError

    def export(self, path: str, options: Mapping[str, Any]) -> None:
        """Writes a shared library. options: keyword arguments of `export_library`."""
        raise NotImplementedError

    def export_code(self, path: str, options: Mapping[str, Any]) -> str:
        """Exports what is the same in each process that compiles the same module, for comparison.

        Returns the rest of the code as text. Only a module that `holds_addresses` exports less than `export`.
        """
        self.export(path, options)
        return ""

    def export_parts(self, path: str, options: Mapping[str, Any]) -> dict[str, str]:
        """Writes three files whose paths begin with `path`, and returns them for `IR.load_parts`.

        Only for modules that `has_parts`.
        """
        raise NotImplementedError


class Modules(Protocol):
    """The operations of checks on IRModules.

    They undo partitioning, add bystanders (functions and attributes that a partition function has
    to leave alone), and inspect regions.
    """

    def inline_back(self, module: Any) -> Any:
        """Returns a partitioned module with every region and composite inlined where it is called.

        Nothing of the vendor's is left: the result is the partitioned main in plain IR.
        """

    def with_bystanders(self, module: Any, again: Any) -> Any:
        """Returns the module with bystanders added, among them a region of another target.

        again: the same graph lowered a second time; it becomes that region.
        """

    def bystanders(self, module: Any) -> dict[str, str]:
        """Returns the bystanders found in a module as text by kind; lost ones are missing."""

    def ready_for_another(self, module: Any) -> Any:
        """Returns a partitioned module in a form that can be partitioned a second time."""

    def marked_by_hand(
        self, module: Any, partitioned: Any, regions: Sequence[Mapping[str, Any]], table: Any
    ) -> Any:
        """Returns the module with one region marked as a user would do it; None if none can be.

        regions: facts about the regions of `partitioned`. table: the target's patterns.
        """

    def marks(self, module: Any) -> str:
        """Returns a text on the marks of regions that are left in main; "" if there are none."""

    def with_non_op_nodes(
        self, lower: Callable[[], Any], facts: Mapping[str, Any], inputs: Sequence[Mapping[str, np.ndarray]]
    ) -> Form | None:
        """Returns the graph with nodes that call no operator; None where it has no such form.

        lower: returns the graph's module, a new one in each call. facts: `IR.partition_facts` of
        the partitioned module. inputs: two sets.
        """

    def read_by_regions(self, module: Any, symbols: Sequence[str]) -> list[int]:
        """Returns the positions of main's parameters that only regions with these symbols read.

        The regions have to read each as a separate argument, not as part of a tuple.
        """

    def ill_formed(self, module: Any) -> str:
        """Returns the name of an ill-formed part of the module; "" if it is well-formed.

        An example is a function that uses a variable before it is bound.
        """

    def outline(self, module: Any) -> list[str]:
        """Returns the functions as lines, sorted by name, without the elements of constants."""

    def text(self, module: Any) -> str:
        """Returns TVM's text of the module, without the elements of constants."""

    def hash_of(self, module: Any) -> str:
        """Returns TVM's structural hash of the module, to which the elements of constants belong."""

    def through_json(self, module: Any) -> tuple[Any, bool]:
        """Saves the module as JSON and reads it back.

        Returns the module that was read, and whether it is structurally equal to the first.
        """

    def merged(self, modules: Mapping[int, Any]) -> Any:
        """Returns one module with the functions and results of several partitioned ones.

        modules: by number; the names of their inputs differ. The names and symbols of a module's
        functions get the suffix `_g<number>`. None where the modules can't be merged.
        """

    def taken_apart(self, module: Any, counts: Sequence[int]) -> list[Any] | None:
        """Returns for each of several independent graphs in a module a module with its part of main.

        Each holds only the functions that its main calls, and serves to be inspected. counts: the
        numbers of the graphs' outputs, which main returns as one tuple. None where main has no such form.
        """


class IR(Protocol):
    """One IR of TVM. `check_available` has to be called before anything else."""

    @property
    def NAME(self) -> str:
        """Returns the IR's name, as in `pytest_byoc.core.irs` and in the operator records."""

    def constants_kept(self, module: Any) -> int:
        """Returns how many copies of a partitioned module's constants TVM adds to the artifact.

        They are copies beside the one that the target, or main, needs.
        """

    @property
    def modules(self) -> Modules: ...

    # --- the TVM of this interpreter ---

    def check_available(self) -> None:
        """Raises Failure with a remedy where this interpreter's TVM lacks the IR."""

    def versions(self) -> dict[str, str]:
        """Returns the versions of TVM, Python and NumPy."""

    def executors(self) -> tuple[list[str], list[str]]:
        """Returns the executors that this TVM has, and sentences on what is left unchecked."""

    def import_runtime(self) -> None:
        """Imports the modules that run artifacts, once for all forked children."""

    def import_compiler(self) -> None:
        """Does the work of TVM's first build in advance, once for all forked children."""

    def lacks_aot(self) -> str | None:
        """Returns why this TVM lacks the AOT executor; "" if it has it, None if the IR has none."""

    def scopes(self) -> dict[str, str]:
        """Returns a text each on TVM's current target and current PassContext in this thread."""

    # --- targets by name ---

    def known_targets(self) -> dict[str, str]:
        """Returns the targets that this TVM knows by name, each with the parts that TVM has of it.

        The parts are a list in words: partition function, patterns, codegen.
        """

    def known_partition(self, name: str, by_table: bool) -> tuple[Callable[[Any], Any], bool] | None:
        """Returns the partition function of a name, and whether TVM itself has it.

        Otherwise it is built from the patterns registered under the name; by_table requests that.
        None: TVM does not know the name.
        """

    def pattern_table(self, name: str) -> list[tuple[str, Any, Any]]:
        """Returns (name, pattern, entry) for the patterns of a name, in TVM's order.

        name: that of a table, or GIVEN for the patterns that `given` has noted.
        """

    #: The patterns that targets give to TVM's pass themselves.
    given: GivenPatterns

    def note_given_patterns(self) -> None:
        """Lets `given` note the patterns with which TVM's pass is called from now on."""

    def pattern_tables(self) -> list[str]:
        """Returns the names of all tables of patterns that are registered with TVM."""

    def match_alone(self, module: Any, entry: Any, wrap: Callable[[Any], Any] | None) -> bool:
        """Returns whether one entry of a pattern table, used alone, matches in the module.

        wrap: wraps the entry's check; the result is called in its place. None: the check is
        skipped, and only the structure counts.
        """

    # --- modules ---

    def lower(
        self, graph: Graph, constants: Mapping[str, np.ndarray], opened: Sequence[OpenExtent] = ()
    ) -> tuple[Any, list[str]]:
        """Lowers the graph to an IRModule; also returns, for each node, the signature of its call.

        opened: the extents of inputs that have no fixed size: variables in Relax, `Any` in Relay.
        """

    def calls(self, module: Any) -> Calls:
        """Returns main as calls of operators, with names for its values. Raises NotReadable."""

    def folded(self, module: Any) -> Any:
        """Returns a module in which what depends on constants alone is a constant."""

    def bound(self, module: Any, arrays: Mapping[str, np.ndarray]) -> Any:
        """Returns a module in which parameters of main, by name, are constants."""

    def unbound(
        self, module: Any, wanted: Callable[[np.ndarray], bool], prefix: str
    ) -> tuple[Any, dict[str, np.ndarray]]:
        """Returns a module in which constants of main are further parameters, and these constants by name.

        wanted: whether a constant becomes a parameter. prefix: the beginning of their names.
        """

    def in_float64(self, module: Any) -> Any:
        """Returns a module that computes in float64 where this one does in smaller floats, in its TIR too.

        Its types are inferred anew; raises TVM's error where they can't be.
        """

    def calls_function(self, module: Any, function: Any) -> bool:
        """Returns whether TVM compiles the one operator of a module's main to this TIR function."""

    def output_types(self, module: Any) -> list[str]:
        """Returns the types that TVM infers for main's outputs, written like TensorType."""

    def arguments(self, module: Any) -> dict[str, list[int]]:
        """Returns the numbers of arguments of main's calls by operator name."""

    def check_partitioned(self, module: Any) -> Any:
        """Returns the IRModule in the result of a partition function. Raises NotAModule."""

    def main_type(self, module: Any) -> list[Type]:
        """Returns the types of main's parameters and, last, of its result.

        Raises MainLost where there is no main, or where main is not a function of the IR.
        """

    def same_function(self, before: Any, after: Any) -> bool:
        """Returns whether two functions are structurally equal, so that they compute the same."""

    def partition_facts(self, module: Any) -> dict[str, Any]:
        """Returns the facts of a partitioned module: "regions" and "host_calls".

        "regions" has an entry for each region that is reachable from main: "symbol", "compiler",
        "composites", "calls" (as signatures), "odd" (see `Target.trivial_regions`), "codegen"
        (whether one is registered), "inputs" and "outputs" (their numbers), and "passed" (the types
        of all tensors that go in and out). "host_calls" is the number of operator calls outside
        regions.
        """

    # --- building and running ---

    def build(
        self, module: Any, executor: str, opt_level: int, fast_build: bool = False,
        config: Mapping[str, Any] | None = None,
    ) -> Executable:
        """Compiles a module for this machine's CPU and an executor of `executors()`.

        fast_build: saves compile time; the code that TVM generates may be slow. config: the
        PassContext's.
        """

    def build_tuned(
        self, module: Any, executor: str, opt_level: int, config: Mapping[str, Any], log: Mapping[str, str]
    ) -> tuple[Executable, int]:
        """Compiles a module as `build` does, with the schedules of a tuning log.

        log: "kind" (see `core.tuning`) and "path". Also returns for how many parts of the module the log
        has a schedule. Raises TVM's error for a log that it can't read.
        """

    def built(self, result: Any, executor: str) -> Executable:
        """Wraps the result of the target's own build function for an executor.

        Raises NotAModule for an object of another kind than TVM's functions return.
        """

    def load(self, path: str, executor: str) -> Executable:
        """Loads a file that `Executable.export` wrote."""

    def load_archive(self, path: str, executor: str) -> Executable:
        """Loads an archive (.tar) that `Executable.export` wrote; TVM compiles its sources."""

    def load_parts(self, parts: Mapping[str, str]) -> Executable:
        """Loads the three files that `Executable.export_parts` wrote."""
