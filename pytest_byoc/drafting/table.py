"""`python -m pytest_byoc init`: drafts a target's table by partitioning and running graphs."""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..config import plan
from ..config.declarations import TargetDeclaration, declare
from ..config.errors import SettingsError
from ..config.levels import LEVELS
from ..config.settings import MEMORY, NODES, TIMEOUT, Settings
from ..config.values import select_operators
from ..core.graph import Graph
from ..examination.client import WorkerError
from ..examination.examiner import Examiner
from ..examination.outcome import Verdict
from ..generation.builder import Builder
from ..generation.structures import STRUCTURES, Unavailable, Vocabulary
from ..generation.systematic import default_case
from ..operators import OPERATORS
from ..operators.measured import dtypes as runnable
from ..report.listing import target_lines
from . import precision_probes
from .precision_probes import PRODUCTS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: Exit codes: a table was drafted; the target offloads no operator's simplest case; the target
#: cannot be used.
DRAFTED, NOTHING, UNUSABLE = 0, 1, 2
#: Operators that are run first, and the number of operators that are run.
_COMMON = (
    *PRODUCTS, "nn.relu", "add", "multiply", "tanh", "exp", "nn.softmax", "nn.max_pool2d", "concatenate",
)
_RUN = 6
#: Number of graphs that one process partitions.
_AT_ONCE = 50
#: Keys whose values only the vendor knows.
_UNKNOWN = (
    "libraries and runtime-libraries: the libraries to load before the target, and with its artifacts",
    "export-options: the options for the compiler of the exported library",
    "pass-config, build and prepare: further steps of a deployment, besides the partition function",
    "function-ulps, function-errors, flush-subnormals: a session shows which results need them",
)


def run(
    target: str | None, python: str | None = None, ir: str | None = None, operators: str = "",
    name: str | None = None, output: Path | None = None,
) -> int:
    """Prints the table of a target, or appends it to a file; without a target, lists the known
    targets. Returns the exit code, and prints errors to stderr.

    operators: the operators to try, separated by commas; "" for all. name: the name of the table,
    if it is not the target's own."""
    root = Path.cwd()
    try:
        if target is None:
            for line in target_lines(root, python):
                print(line)
            return DRAFTED
        declaration = declare(target, root, ir, python, root)
        name = name or (None if ":" in target else target)
        if output is not None and name is not None:
            # The file is checked before anything that takes long.
            _check_new(output, name)
        with Draft(declaration, select_operators([operators])) as draft:
            name = name or _plain_name(draft.name)
            if output is not None:
                _check_new(output, name)
            text = draft.table(name)
            if output is None:
                print(text, end="")
            else:
                _append(output, text)
                print(f"{output}: appended [tool.pytest-byoc.targets.{_key(name)}]")
            return DRAFTED if draft.offloaded else NOTHING
    except (SettingsError, WorkerError) as e:
        print(e, file=sys.stderr)
        return UNUSABLE


def _plain_name(resolved: str) -> str:
    """Returns a name for the table: the target's own name, or for a target given by
    module:attribute or by a file the last part of the module's or file's name."""
    return Path(resolved.partition(":")[0]).stem.rpartition(".")[2] if ":" in resolved else resolved


def _check_new(path: Path, name: str) -> None:
    """Raises SettingsError if the file cannot be appended to, or has such a table already."""
    if not path.exists():
        return
    try:
        text = path.read_text(encoding="utf-8")
        tables: Any = tomllib.loads(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as e:
        raise SettingsError(
            f"the table cannot be appended to {path}: {e}; repair the file, or leave out --output"
        ) from None
    for key in ("tool", "pytest-byoc", "targets"):
        tables = tables.get(key, {}) if isinstance(tables, dict) else {}
    if name in tables:
        table = f"[tool.pytest-byoc.targets.{_key(name)}]"
        raise SettingsError(f"{path} has a table {table} already: give this one another name (--name)")


def _append(path: Path, text: str) -> None:
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    if before:
        before = before.rstrip("\n") + "\n\n"
    try:
        tomllib.loads(before + text)
    except tomllib.TOMLDecodeError as e:
        raise SettingsError(
            f"{path} would not be valid TOML with the table appended: {e}; leave out --output"
        ) from None
    try:
        path.write_text(before + text, encoding="utf-8")
    except OSError as e:
        raise SettingsError(
            f"{path} cannot be written: {e.strerror}; name another file with --output"
        ) from None


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)


def _value(value: Any) -> str:
    """Returns a value of the table as TOML. Strings are written as in JSON, which TOML reads in the
    same way."""
    if isinstance(value, Mapping):
        return "{ %s }" % ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return "[%s]" % ", ".join(map(_value, value))
    return json.dumps(value)


class Draft:
    """The draft of a target's table. It is used in a `with` block, for which its workers run;
    entering the block raises WorkerError if they cannot be started."""

    def __init__(self, declaration: TargetDeclaration, operators: Sequence[str]) -> None:
        settings = Settings(
            targets=(declaration,), operators=tuple(operators), level=LEVELS["smoke"], max_examples=1,
            max_nodes=NODES, timeout=TIMEOUT, memory_bytes=MEMORY << 20, report=None, replay=(),
            failures=Path(),
        )
        self.declaration = declaration
        self._operators = operators
        self._examiner = Examiner(settings, declaration)
        #: Dtypes in which the target offloads an operator's simplest case, by operator.
        self.offloaded: dict[str, list[str]] = {}
        self._unpartitioned: Counter[str] = Counter()
        self._unsettled: list[str] = []

    def __enter__(self) -> Draft:
        try:
            self._examiner.open()
        except WorkerError:
            self._examiner.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._examiner.close()

    @property
    def name(self) -> str:
        return self._examiner.workers.name

    @property
    def ir(self) -> str:
        return self._examiner.workers.ir

    def table(self, name: str) -> str:
        """Returns the table with comments, as TOML."""
        self._survey()
        versions = ", ".join(f"{k} {v}" for k, v in self._examiner.workers.versions.items())
        given = _one_line(self.declaration.given)
        lines = [
            f"# Drafted by `python -m pytest_byoc init {given}`, {versions}: read it before you rely on it.",
            f"[tool.pytest-byoc.targets.{_key(name)}]",
        ]
        if self.declaration.reference is not None:
            lines.append(f"partition = {_value(self._reference())}")
        lines += ["# The IR of this interpreter's TVM.", f"ir = {_value(self.ir)}"]
        if self.declaration.python_given:
            lines.append(f"python = {_value(self.declaration.python_given)}")
        self._settle_patterns()
        lines += [*self._odd(), *self._runs()]
        lines += ["", *self._summary()]
        return "\n".join(map(_wrapped, lines)) + "\n"

    def _reference(self) -> str:
        """Returns the reference of the partition function; its file is relative to the current
        folder."""
        where, _, attribute = str(self.declaration.reference).rpartition(":")
        path = Path(where)
        if path.is_absolute() and path.is_relative_to(Path.cwd()):
            where = path.relative_to(Path.cwd()).as_posix()
        return f"{where}:{attribute}"

    # --- by partitioning -----------------------------------------------------------------------

    def _survey(self) -> None:
        """Partitions the simplest case of each operator in each of its dtypes."""
        cases = [
            (name, dtype, default_case(name, dtype, self.ir).graph)
            for name in self._operators if self.ir in OPERATORS[name].irs()
            for dtype in runnable(OPERATORS[name], self.ir)
        ]
        partitions = self._examiner.partitions.survey(graph for _, _, graph in cases)
        for (name, dtype, _), partition in zip(cases, partitions):
            if partition is None:
                self._unpartitioned[name] += 1
            elif any(partition.offloaded):
                self.offloaded.setdefault(name, []).append(dtype)

    def _simple(self, *names: str) -> list[Graph]:
        return [default_case(n, self.offloaded[n][0], self.ir).graph for n in names or self.offloaded]

    def _regions(self, graphs: Sequence[Graph]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yields each region that the target makes of the graphs, with the position of its
        graph."""
        for begin in range(0, len(graphs), _AT_ONCE):
            report = self._examiner.partitions.report(list(graphs[begin : begin + _AT_ONCE]))
            for _, value in report.facts("regions"):
                for region in value["regions"]:
                    yield begin + value["number"], region

    def _settle_patterns(self) -> None:
        """Notes that the key `patterns` remains to be settled, if the suite finds no patterns."""
        if not self._examiner.partitions.patterns():
            regions_made = [region for _, region in self._regions(self._simple())]
            prefixes = {c.partition(".")[0] for r in regions_made for c in r["composites"]}
            names = sorted(prefixes | {str(region["compiler"]) for region in regions_made})
            self._unsettled.append(
                f"patterns: TVM has none registered under {', '.join(names or [self.name])}; if they are "
                'registered under another name, set patterns = "…", so that graphs are made from them'
            )

    def _odd(self) -> Iterator[str]:
        """Yields the key `trivial-regions`, if the target makes regions that compute nothing."""
        floats = frozenset(name for name, dtypes in self.offloaded.items() if "float32" in dtypes)
        graphs: dict[str, Graph] = {}
        for name, structure in STRUCTURES.items():
            with suppress(Unavailable):
                graphs[name] = structure(Builder(seed=1), Vocabulary(floats))
        names = list(graphs)
        seen: dict[str, str] = {}
        for position, region in self._regions(list(graphs.values())):
            for odd in region["odd"]:
                seen.setdefault(odd, names[position])
        if seen:
            examples = ", ".join(f"{odd} in the structure {where}" for odd, where in sorted(seen.items()))
            yield f"# Regions that compute nothing ({examples}): keep the kinds that the codegen intends."
            yield f"trivial-regions = {_value(sorted(seen))}"

    # --- by running ------------------------------------------------------------------------------

    def _runs(self) -> Iterator[str]:
        """Yields the keys that running a few graphs determines: executors, precision,
        deterministic."""
        names = [n for n in _COMMON if n in self.offloaded] + [n for n in self.offloaded if n not in _COMMON]
        graphs = self._simple(*names)[:_RUN]
        verdicts = {n: self._examiner.examine(g, plan.every_graph()) for n, g in zip(names, graphs)}
        partition_only = self._examiner.workers.partition_only
        if partition_only:
            self._unsettled.append(f"executors and precision: nothing is run ({_one_line(partition_only)})")
            return
        yield from self._executors(verdicts)
        try:
            found = precision_probes.find(self._examiner, self.offloaded)
        except WorkerError as e:
            found = precision_probes.DraftedPrecision({}, str(e).splitlines()[0])
        if found.keys:
            yield f"# {_one_line(found.why)}: declare it only if the hardware computes so."
        elif found.why:
            self._unsettled.append("precision: " + _one_line(found.why))
        yield from (f"{key} = {_value(value)}" for key, value in found.keys.items())
        if any(f.kind == "not-repeatable" for v in verdicts.values() for f in v.findings):
            yield "# Two runs with the same inputs gave different bits: keep this only if that is intended."
            yield "deterministic = false"
        for name, verdict in verdicts.items():
            if verdict.failed and not (found.keys and verdict.findings[0].check == "numerics"):
                self._unsettled.append(f"{name} fails: {_one_line(verdict.findings[0].message)}")

    def _executors(self, verdicts: Mapping[str, Verdict]) -> Iterator[str]:
        """Yields the key `executors`, if no graph runs under some executor while some run under
        another."""
        executors = self._examiner.workers.executors
        ran: Counter[str] = Counter()
        errors: dict[str, str] = {}
        for verdict in verdicts.values():
            if verdict.evidence is None:
                continue
            ran.update({executor for executor, _ in verdict.evidence.target.facts("outputs")})
            for message in verdict.evidence.target.raised():
                lines = message["raised"]["message"].strip().splitlines() or [message["raised"]["type"]]
                errors.setdefault(str(message["executor"]), f"{message['stage']} raised {lines[-1]}")
        without = [e for e in executors if not ran[e]]
        if without and len(without) < len(executors):
            for executor in without:
                why = errors.get(executor, "no graph reached its first run")
                yield f"# None of {len(verdicts)} graphs runs under {executor}: {_one_line(why)}"
            yield f"executors = {_value([e for e in executors if e not in without])}"

    # --- in words --------------------------------------------------------------------------------

    def _summary(self) -> Iterator[str]:
        yield f"# Operators whose simplest case it offloads: {len(self.offloaded)}"
        by_dtypes: dict[tuple[str, ...], list[str]] = {}
        for name, dtypes in self.offloaded.items():
            by_dtypes.setdefault(tuple(dtypes), []).append(name)
        for kinds, names in by_dtypes.items():
            yield f"#   in {', '.join(kinds)}: {', '.join(names)}"
        if not self.offloaded:
            self._unsettled.append(
                "offloaded operators: the target offloads the simplest case of no operator; it may offload "
                "only patterns, other layouts or batches of one, or need one of the keys below"
            )
        if self._unpartitioned:
            self._unsettled.append("the partition function fails for " + ", ".join(self._unpartitioned))
        yield "# Not determined:"
        yield from (f"#   {text}" for text in (*self._unsettled, *_UNKNOWN))


def _wrapped(line: str) -> str:
    """Returns a line of the table; wraps a comment to 100 characters."""
    if not line.startswith("#"):
        return line
    indent = "#   " if line.startswith("#   ") else "# "
    return textwrap.fill(line[len(indent):], 100, initial_indent=indent, subsequent_indent=indent + "  ")


def _one_line(text: str) -> str:
    """Returns text for a comment: one printable line of at most 300 characters."""
    line = " ".join(text.split())
    return "".join(c if c.isprintable() else "?" for c in line)[:300]
