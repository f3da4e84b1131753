"""The partitioned module, built ahead of time, does what it does under the other executors."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Iterator

from ..core.finding import Finding
from .base import FEW, Check, Variant
from .evidence import Evidence

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
    # Raises again, and is told once, where another executor fails.
    run.first_run(run.executors[0])
    held = run.executable(run.executors[0]).held_as_data()
    if held:
        run.not_checked(
            "AOT calls regions by their symbols, of which a library has none for modules of kind %s"
            % ", ".join(held)
        )
        return
    with run.using(EXECUTOR):
        made = run.unless_tvm_fails(
            lambda module: _run(run, module), run.partitioned(), run.lowered_again, "by AOT"
        )
        if made is not None:
            run.hand(made["path"])
            for which, arrays in enumerate(made["outputs"]):
                run.record("aot", {"set": which, "arrays": arrays})


def _run(run: TargetRun, module: Any) -> dict[str, Any]:
    path = run.write(module, EXECUTOR)
    executable = run.loaded(path, EXECUTOR)
    run.stage("run")
    return {"path": path, "outputs": [executable.run(inputs)[0] for inputs in run.inputs]}


def reload(run: LoaderRun) -> None:
    path = run.handed(EXECUTOR)
    if path is None:
        return
    with run.using(EXECUTOR):
        run.record("aot", run.run_loaded(partial(run.ir.load, path, EXECUTOR)))


def judge(evidence: Evidence) -> Iterator[Finding]:
    first = None
    for _, value in evidence.target.facts("aot"):
        first = value["arrays"] if value["set"] == 0 else first
        yield from evidence.compare("aot", "wrong-value", value["set"], value["arrays"], "built by AOT")
    for _, arrays in evidence.loader.facts("aot"):
        if first is not None:
            what = "AOT's artifact, loaded in a fresh process"
            yield from evidence.same_bits("aot", "load", "differs", first, arrays, what)


def variant(evidence: Evidence) -> Variant:
    return Variant({"executor": EXECUTOR}, evidence.expected)


CHECK = Check(
    id="aot",
    rule="Built by the AOT executor (packed interface, TVM's C++ runtime, linked parameters), two sets of "
    "inputs are within their bound; loaded in a fresh process it repeats the first bit by bit.",
    why="What only one executor passes: shapes, type codes.",
    where="few graphs, Relay, of targets whose code has symbols (a library holds a JSON runtime's modules "
    "as data, which TVM's AOT executor cannot call)",
    observe=observe,
    reload=reload,
    judge=judge,
    made=FEW,
    owns=True,
    variant=variant,
    facts=("aot",),
)
