"""Writes the bundle of a failure: a folder with all that a reader without pytest-byoc needs.

graph.json     the graph in the format of `graph.Graph.to_json`, and the case that it was found in
failure.txt    the failure in words, and why a file below is missing
data.npz       arrays, none of them pickled; `arrays` lists their names
graph.onnx     the graph as an ONNX model, if ONNX can express it; constants are initializers
reproduce.py   a script that stands alone: it builds the graph with plain TVM calls, imports the
               vendor's code, makes the same checks, and exits with 0 only if all of them hold
before_partitioning, after_partitioning, source/
               the module and the generated sources as text, as far as the target got
"""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any, cast

import ml_dtypes
import numpy as np

from ..checks import CHECKS, inline_back, selection
from ..core.graph import Graph, TensorType
from ..core.importing import package_name
from ..core.irs import IR_TITLES
from ..evidence.comparison import allowed_error, compare, unjudged_numbers
from ..evidence.evidence import Evidence
from ..examination.description import Description
from ..examination.outcome import Verdict
from ..record.source import SourceError, literal, source
from ..storage import corpus
from . import to_onnx

TEMPLATES = Path(__file__).with_name("templates")
#: The package that holds this module.
_PACKAGE = Path(__file__).resolve().parents[1]
#: Options of a target's table that reproduce.py repeats.
_OPTIONS = ("libraries", "runtime_libraries", "export_options", "pass_config", "build", "prepare")
#: A bound that any finite number is within, and no other value.
_ANY = 1e300
#: Names of the sets of inputs: A, B, and the mixed sets C to E.
_SETS = "ABCDE"
#: Lines of the failure's text that reproduce.py repeats, and characters of each.
_LINES, _WIDTH = 8, 100
#: A sentence for the heading of a reproduce.py with bfloat16.
_BFLOAT16 = "Arrays of bfloat16 hold its bits, as uint16."
#: Checks that reproduce.py makes; for the others it names the command that repeats them.
REPRODUCED = ("process", *(check.id for check in CHECKS if check.reproduced))


def write(
    folder: Path,
    verdict: Verdict,
    text: str,
    declaration: Mapping[str, Any],
    ir: str,
    executors: Sequence[str],
    opt_level: int,
    timeout: float,
    versions: Mapping[str, str],
    command: str = "",
    found_in: str = "",
    description: Description | None = None,
    attempt_script: Callable[[Path], str] = lambda script: "",
    on_device: str = "",
) -> list[str]:
    """Writes the bundle; names of the files written.

    declaration: {"name", "reference" (module:attribute, path/to/file.py:attribute, or None for a
    name TVM knows), "python", "libraries", "sys_path", "options"}, and of a name that TVM knows
    "partition_only" and "by_table", as in `Workers`. command: repeats the failure with
    pytest, for checks that reproduce.py does not make. found_in: the case. attempt_script: runs
    reproduce.py; what is to be said in it of that, "" for nothing. on_device: the loader's command,
    where artifacts can't run on this machine, so that there is no script. Why a file is missing is
    said in failure.txt; only a folder that can't be written to raises (OSError).
    """
    folder.mkdir(parents=True, exist_ok=True)
    graph = verdict.graph
    # The graph comes first: with it the failure can be repeated whatever happens next.
    corpus.save(folder, graph, found_in, verdict.findings[0].check if verdict.findings else "")
    _write_text(folder / "failure.txt", text)
    written = ["graph.json", "failure.txt"]
    notes: list[str] = []
    evidence: Evidence | None = verdict.evidence

    def attempt(name: str, make: Any) -> None:
        try:
            make(folder / name)
            written.append(name)
        except OSError:
            raise
        except Exception as e:  # A file that can't be made must not cost the user the others.
            (folder / name).unlink(missing_ok=True)
            said = isinstance(e, (to_onnx.NotExpressible, SourceError, _Missing))
            kind = "" if said else type(e).__name__ + ": "
            notes.append(f"There is no {name}: {kind}{e}")

    def save_arrays(path: Path) -> None:
        if evidence is None:
            raise _Missing("no evidence of the examination was kept.")
        np.savez_compressed(path, **cast(Any, arrays(evidence)))

    def save_onnx(path: Path) -> None:
        if evidence is None:
            raise _Missing("no evidence of the examination was kept.")
        to_onnx.save(graph, evidence.constants, path)

    if description is not None:
        written += write_texts(folder, description)
    if description is not None and description.missing:
        notes.append(f"There are no further texts of the compilation: {description.missing}.")

    def save_script(path: Path, tried: str = "") -> None:
        if on_device:
            raise _Missing(
                f"it would run the artifact on this machine, but only the loader's can ({on_device}): repeat "
                f"the failure with {command}"
            )
        if "data.npz" not in written:
            raise _Missing("it reads data.npz, which is missing.")
        assert evidence is not None
        script = reproduce(
            graph, text, declaration, ir, executors, opt_level, timeout, versions,
            evidence.deterministic, path, verdict.findings[0].check if verdict.findings else "", command,
            tried,
        )
        _write_text(path, script)

    attempt("data.npz", save_arrays)
    attempt("reproduce.py", save_script)
    attempt("graph.onnx", save_onnx)
    tried = attempt_script(folder / "reproduce.py") if "reproduce.py" in written else ""
    if tried:
        save_script(folder / "reproduce.py", tried)
        notes.append(tried)
    if notes:
        _write_text(folder / "failure.txt", text.rstrip("\n") + "\n\n" + "\n".join(notes))
    return written


def write_texts(folder: Path, description: Description) -> list[str]:
    """Writes the texts that the target made of a graph. Returns the names of the files. Raises
    OSError."""
    for part in description.texts:
        (folder / part.file).parent.mkdir(exist_ok=True)
        _write_text(folder / part.file, part.text)
    return [part.file for part in description.texts]


class _Missing(ValueError):
    """Raised if the data for a file is missing; the message is a sentence."""


def _write_text(path: Path, text: str) -> None:
    path.write_text(text.rstrip("\n") + "\n", encoding="utf-8", errors="replace")


# --- data.npz ------------------------------------------------------------------------------------


def arrays(evidence: Evidence) -> dict[str, np.ndarray]:
    """Returns every array of an examined graph, by name. SET is A or B (two sets of inputs), or one
    of C to E (mixed sets: some inputs are those of B), N the position of an output in the graph,
    EXECUTOR an executor of the target.

    SET.INPUT                  an input
    constant.NAME              a constant
    expected.SET.N             the value: float64, int64 or bool
    bound.SET.N                the absolute error allowed; for a float64 output it is doubled already.
                               Where the bound judges nothing, at most 1e300, which any number is within
    ambiguous.SET.N            the elements for which a correct implementation may return another value
    judged.SET.N               the elements to compare: those that are not ambiguous, and with a
                               vacuous bound, or where an average may overflow, only if LLVM has a
                               number other than zero there
    target.EXECUTOR.SET.N      what the target returned in its first run (A) and second one (B)
    target.EXECUTOR.A_again.N  in its third run, with the first inputs
    loaded.EXECUTOR.A.N        after export and load in a fresh process
    llvm.SET.N                 what TVM's own LLVM build returned. An element outside the bound is not
                               held against the target if the target agrees with LLVM

    Arrays of bfloat16 hold its bits, as uint16.
    """
    found: dict[str, Any] = {"constant." + name: a for name, a in evidence.constants.items()}
    for which, label in enumerate(_SETS[: len(evidence.inputs)]):
        found.update({f"{label}.{name}": a for name, a in evidence.inputs[which].items()})
        reference = evidence.reference_outputs(which) or []
        for i, bounded in enumerate(evidence.expected[which]):
            if i < len(reference) and reference[i].shape == bounded.shape:
                found[f"llvm.{label}.{i}"] = reference[i]
            judged, bound = compare(bounded.value, bounded).judged, allowed_error(bounded)
            if f"llvm.{label}.{i}" in found and bounded.is_float:
                # Where the bound judges nothing, a number is asked for, if LLVM has one.
                vague = unjudged_numbers(bounded, reference[i]) & np.isfinite(bounded.value) & ~judged
                judged, bound = judged | vague, np.where(vague, np.minimum(bound, _ANY), bound)
            found[f"expected.{label}.{i}"] = bounded.value
            found[f"bound.{label}.{i}"] = bound
            found[f"ambiguous.{label}.{i}"] = bounded.ambiguous
            found[f"judged.{label}.{i}"] = judged
    for report, fact, prefix, label in (
        (evidence.target, "rerun_other", "target", "B"),
        (evidence.target, "rerun_first", "target", "A_again"),
        (evidence.loader, "reloaded", "loaded", "A"),
    ):
        for executor, outputs in report.facts(fact):
            found.update({f"{prefix}.{executor}.{label}.{i}": a for i, a in enumerate(outputs)})
    for executor, value in evidence.target.facts("outputs"):
        label = _SETS[value["set"]]
        found.update({f"target.{executor}.{label}.{i}": a for i, a in enumerate(value["arrays"])})
    # NumPy turns arrays of rank 0 into scalars.
    made = {k: storable(np.asarray(a)) for k, a in found.items()}
    return {k: a for k, a in made.items() if a.dtype.kind != "O"}


def storable(array: np.ndarray) -> np.ndarray:
    """Returns an array that NumPy alone can read: of bfloat16 its bits, any other as it is."""
    return array.view(np.uint16) if array.dtype == ml_dtypes.bfloat16 else array


# --- reproduce.py --------------------------------------------------------------------------------


def reproduce(
    graph: Graph,
    text: str,
    declaration: Mapping[str, Any],
    ir: str,
    executors: Sequence[str],
    opt_level: int,
    timeout: float,
    versions: Mapping[str, str],
    deterministic: bool,
    path: Path,
    check: str = "",
    command: str = "",
    tried: str = "",
) -> str:
    """Returns the text of the script. Raises source.SourceError for a graph that the IR cannot
    express."""
    options = declaration.get("options") or {}
    inlined = check == selection.INLINE_BACK or bool(declaration.get("partition_only"))
    made = [c for c in REPRODUCED if inlined or c != selection.INLINE_BACK]
    outputs = []
    for name in graph.outputs:
        type_ = graph.type_of(name)
        outputs.append((name, type_.dtype, type_.shape))
    said = ", ".join("%s %s" % item for item in versions.items())
    head = [line for line in text.splitlines() if line.strip()]
    shown = [line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…" for line in head[:_LINES]]
    if shown != head:
        shown.append("(failure.txt has the whole text.)")
    values = {
        "heading": _docstring(
            f"Reproduces a failure of {declaration['name']} ({IR_TITLES[ir]}) without pytest-byoc."
        ),
        "failure": _docstring("\n".join(shown)),
        "tried": _docstring(textwrap.fill(tried, _WIDTH, break_long_words=False, break_on_hyphens=False)),
        "versions": _docstring(f"Seen with {said}.") if said else "",
        "command": _docstring(f"{declaration.get('python') or 'python'} {path.name}"),
        "executors": literal(list(executors[:1] if inlined else executors)),
        "opt_level": literal(inline_back.OPT_LEVEL if inlined else opt_level),
        "inlined": literal(inlined),
        "inline": (TEMPLATES / f"inlined_{ir}.py.txt").read_text(encoding="utf-8") if inlined else "",
        "timeout": literal(timeout),
        "deterministic": literal(deterministic),
        "check": literal(check),
        "repeat": literal(command),
        "checks": literal(["", *made]),
        "outputs": literal(outputs),
        "inputs": literal({s.name: s.type.dtype for s in graph.inputs}),
        "bfloat16": _BFLOAT16 if any(t.dtype == "bfloat16" for t in _types(graph)) else "",
        "sys_path": literal(list(declaration.get("sys_path") or [])),
        "libraries": literal(list(declaration.get("libraries") or [])),
        "options": literal({k: options[k] for k in _OPTIONS if k in options}),
        "ir": ir,
        "graph": _indented(source(graph, ir)),
        "target": _target_source(declaration, ir),
        "tvm": (TEMPLATES / f"{ir}.py.txt").read_text(encoding="utf-8"),
    }
    template = (TEMPLATES / "reproduce.py.txt").read_text(encoding="utf-8")
    return re.sub(r"\n{3,}", "\n\n", Template(template).substitute(values))


def _types(graph: Graph) -> list[TensorType]:
    return [s.type for s in graph.sources()] + [t for node in graph.nodes for t in node.types]


def _docstring(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"""', "'''")


def _indented(lines: Sequence[str]) -> str:
    return "\n".join("    " + line if line else "" for line in lines)


def _target_source(declaration: Mapping[str, Any], ir: str) -> str:
    """Returns the lines of a function that returns the vendor's partition function, or an object
    with one."""
    reference = declaration.get("reference")
    if not reference:
        template = (TEMPLATES / f"target_{ir}.py.txt").read_text(encoding="utf-8")
        by_table = literal(bool(declaration.get("by_table")))
        name = literal(declaration["name"])
        return Template(template).substitute(name=name, by_table=by_table).rstrip("\n")
    where, _, attribute = str(reference).rpartition(":")
    lines = []
    if where.endswith(".py") or os.sep in where:
        file = os.path.join(where, "__init__.py") if os.path.isdir(where) else where
        where, folder = package_name(file)
        lines.append("sys.path.insert(0, %r)" % folder)
    if where.split(".")[0] == _PACKAGE.name:
        lines += ["# The target is a part of pytest-byoc; the script imports nothing else of it."]
        lines += ["sys.path.append(%r)" % str(_PACKAGE.parent)]
    else:
        own = _PACKAGE.name
        names = (own, own + ".target", own)
        lines += [
            "# The target may derive from pytest_byoc.Target, which contains only defaults.",
            "if importlib.util.find_spec(%r) is None:" % own,
            "    sys.modules[%r] = sys.modules[%r] = stand_in = type(sys)(%r)" % names,
            '    stand_in.Target, stand_in.__path__ = type("Target", (), {}), []',
        ]
    lines.append("return importlib.import_module(%r).%s" % (where, attribute))
    return _indented(lines)
