"""Checks that the artifacts of two models do not affect each other in one process."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Iterator

from ..core.finding import Finding
from .base import FEW, TWIN, Check, Variant, of_death, of_other, of_raised
from .evidence_interface import Evidence

if TYPE_CHECKING:
    from ..runs import LoaderRun, TargetRun

_OTHER = "the same graph with other constants, or for another batch"
_SUPERSEDING = ", at the path from which the graph's own artifact has been loaded before"


def observe(run: TargetRun) -> None:
    """Compiles the graph with other constants, in the process that has compiled it with its own."""
    if run.twin is None:
        return
    graph, constants = run.twin.graph, run.twin.constants
    other = run.partitioned_other(graph, constants)
    if not run.ir.partition_facts(other)["regions"]:
        run.not_checked("with other constants the target offloads nothing of the graph")
        return
    for executor in run.executors:
        with run.using(executor):
            run.first_run(executor)
            path = run.unless_tvm_fails(
                partial(run.write, executor=executor), other,
                partial(run.lowered_other, graph, constants), "with other constants, %s executor" % executor,
            )
            if path is not None:
                run.pass_on(path)


def reload(run: LoaderRun) -> None:
    for executor in run.loadable:
        other = run.passed_on(executor)
        if other is None:
            continue
        with run.using(executor):
            run.stage("load")
            first, second = run.load(executor), run.load_from(other["path"], executor)
            run.stage("run")
            for _ in range(2):
                run.record("together_other", second.run(other["inputs"])[0])
                run.record("together_first", first.run(run.inputs[0])[0])
            if other["behind"] is not None:
                run.stage("load")
                behind = run.load_from(other["behind"], executor)
                run.stage("run")
                run.record("together_behind", behind.run(other["inputs"])[0])


def judge(evidence: Evidence) -> Iterator[Finding]:
    if evidence.twin is None:
        return
    for how, report in ((_OTHER, evidence.twin.target), (_OTHER + _SUPERSEDING, evidence.twin.loader)):
        yield from of_raised("together", report, how + ":")
        yield from of_death("together", report, how + ": the process died ({how}).")
    for executor, arrays in evidence.loader.facts("together_other"):
        yield from evidence.twin.compare(
            "together", "other-model", 0, arrays,
            "when the artifact of another model with the same names and types is loaded too (%s executor)"
            % executor,
        )
    for executor, arrays in evidence.loader.facts("together_behind"):
        yield from evidence.twin.compare(
            "together", "other-constants", 0, arrays,
            "with other constants, compiled in the same process after the graph with its own constants "
            "(%s executor)" % executor,
        )
    for executor, arrays in evidence.loader.facts("together_superseded"):
        yield from evidence.twin.compare(
            "together", "superseded-model", 0, arrays,
            "for %s%s (%s executor)" % (_OTHER, _SUPERSEDING, executor),
        )
    yield from evidence.repeats(
        "together", "run", "differs", evidence.loader.facts("together_first"),
        "a run that alternates with runs of another model's artifact (%s executor)",
    )


def variants(evidence: Evidence) -> Iterator[Variant]:
    return of_other(evidence.twin)


CHECK = Check(
    id="together",
    rule="The artifact and that of the same graph with other constants (for another batch, if it has none), "
    "which another process has compiled, are loaded in one process and run alternately: the results are as "
    "if each were alone. So are the results of the graph with other constants if the same process has "
    "compiled it too, and if its artifact is loaded from the path from which the first was loaded before.",
    why="Symbols and registrations that clash between models; engines cached in files under a name that does "
    "not depend on the model.",
    observe=observe,
    reload=reload,
    judge=judge,
    made_on=FEW,
    owns=True,
    repartitions=True,
    needs=(TWIN,),
    variants=variants,
    facts=("together_other", "together_behind", "together_superseded"),
)
