"""The job of examining one graph, as the host sends it to its workers. It is never changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Mapping, TypedDict

if TYPE_CHECKING:
    import numpy as np

    from .graph import Graph

    Arrays = Dict[str, np.ndarray]


class OtherGraph(TypedDict):
    """Another graph, with one set of inputs."""

    graph: dict[str, Any]
    inputs: Arrays
    constants: Arrays


class OpenGraph(TypedDict):
    """A graph with open extents (`core/openings.py`), and the same graph with larger extents.

    extents: the fields of each `OpenExtent`.
    """

    extents: list[list[Any]]
    graph: dict[str, Any]
    larger: OtherGraph


class EquivalentGraph(OtherGraph):
    """A graph that computes the same as another one.

    change: what was changed, in words. cuts: whether it is meant to make several regions of one.
    """

    change: str
    cuts: bool


class _Required(TypedDict):
    kind: str
    #: `Graph.to_dict`.
    graph: dict[str, Any]
    #: The sets of inputs.
    inputs: list[Arrays]
    constants: Arrays
    #: Ids of the checks that are made.
    checks: list[str]
    #: Names of the executors that the graph is built for.
    executors: list[str]
    #: Whether TVM's own part of the graph may be compiled without optimisation.
    fast_build: bool
    #: Whether the graph is a union whose graphs are partitioned one by one.
    merged: bool
    #: Whether the sources of the regions may be compiled as one.
    one_source: bool
    #: Whether LLVM builds the regions in the target's place.
    partition_only: bool
    #: The folder for artifacts, and for what else a process leaves for others.
    folder: str


class Job(_Required, total=False):
    """The message by which the host asks a worker to examine one graph."""

    #: TVM's JSON of the module; without it, the worker lowers the graph.
    module: str
    #: The file of the imported module of a whole model (`worker/model_import.py`).
    model: str
    #: For the checks that need them: the graph for a larger batch (`larger`), with other constants
    #: (`twin`) and with open extents (`openings`).
    larger: OtherGraph
    twin: OtherGraph
    openings: list[OpenGraph]
    #: How many of the openings are tried.
    tried_openings: int
    #: Graphs that compute the same, and how many changes of the graph are tried.
    equivalents: list[EquivalentGraph]
    tried_equivalents: int
    #: Whether digests of the exported code and the files that go into it are told.
    tells_code: bool
    #: The digests of an earlier session, by executor: if they are the same, nothing more is examined.
    known_code: Mapping[str, str]


def narrowed(job: Job, graph: Graph) -> Job:
    """Returns the job of a union reduced to `graph`, a part of it, with its inputs and constants."""
    found = job.copy()
    found["graph"] = graph.to_dict()
    found["inputs"] = [{s.name: given[s.name] for s in graph.inputs} for given in job["inputs"]]
    found["constants"] = {s.name: job["constants"][s.name] for s in graph.constants}
    return found


def changed(job: Job, **changes: Any) -> Mapping[str, Any]:
    """Returns a copy of the job with other entries, for another worker or another purpose."""
    return {**job, **changes}
