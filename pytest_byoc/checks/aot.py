"""Checks that the partitioned module is right under TVM's aot executor too."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Iterator

from ..core.finding import Finding
from .base import FEW, Check, Variant
from .evidence_interface import Evidence

if TYPE_CHECKING:
    from ..runs import LoaderRun, TargetRun

EXECUTOR = "aot"


def observe(run: TargetRun) -> None:
    lacks = run.ir.lacks_aot()
    if lacks is None:
        return
    if not run.target.takes_executor(EXECUTOR):
        run.not_checked("AOT is not among the target's executors")
        return
    if run.target.build is not None and EXECUTOR not in run.target.executors:
        run.not_checked("the target builds by a function of its own, and does not name aot as an executor")
        return
    if lacks:
        run.not_checked(lacks)
        return
    # If another executor fails, this raises the same exception again, which is reported once.
    run.first_run(run.executors[0])
    held = run.executable(run.executors[0]).held_as_data()
    if held:
        run.not_checked(
            "the aot executor calls regions by their symbols, and a library has no symbols for modules of "
            "kind %s" % ", ".join(held)
        )
        return
    with run.using(EXECUTOR):
        result = run.unless_tvm_fails(
            lambda module: _run(run, module), run.partitioned(), run.lowered_again, "with the aot executor"
        )
        if result is not None:
            run.pass_on(result["path"])
            for which, arrays in enumerate(result["outputs"]):
                run.record("aot", {"set": which, "arrays": arrays})


def _run(run: TargetRun, module: Any) -> dict[str, Any]:
    path = run.write(module, EXECUTOR)
    executable = run.loaded(path, EXECUTOR)
    run.stage("run")
    return {"path": path, "outputs": [executable.run(inputs)[0] for inputs in run.inputs]}


def reload(run: LoaderRun) -> None:
    path = run.passed_on(EXECUTOR)
    if path is None:
        return
    with run.using(EXECUTOR):
        run.record("aot", run.run_loaded(partial(run.ir.load, path, EXECUTOR)))


def judge(evidence: Evidence) -> Iterator[Finding]:
    first = None
    for _, value in evidence.target.facts("aot"):
        first = value["arrays"] if value["set"] == 0 else first
        yield from evidence.compare(
            "aot", "wrong-value", value["set"], value["arrays"], "with the aot executor"
        )
    for _, arrays in evidence.loader.facts("aot"):
        what = "the artifact for the aot executor, loaded in a fresh process"
        if evidence.apart:
            yield from evidence.compare("aot", "differs", 0, arrays, "from " + what)
        elif first is not None:
            yield from evidence.same_bits("aot", "load", "differs", first, arrays, what)


def variants(evidence: Evidence) -> Iterator[Variant]:
    yield Variant({"executor": EXECUTOR}, evidence.expected)


CHECK = Check(
    id="aot",
    rule="Built for the aot executor (packed interface, TVM's C++ runtime, linked parameters), the outputs "
    "for two sets of inputs are within their bound; the artifact, loaded in a fresh process, repeats the "
    "first run bit by bit.",
    why="Code that relies on arguments which only the other executors pass: shapes, type codes.",
    where=f"{FEW}, Relay, of targets whose code has symbols (a library holds the modules of a JSON runtime "
    "as data, which TVM's aot executor cannot call)",
    observe=observe,
    reload=reload,
    judge=judge,
    made_on=FEW,
    owns=True,
    variants=variants,
    facts=("aot",),
)
