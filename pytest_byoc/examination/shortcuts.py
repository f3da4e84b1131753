"""Which graphs are examined by shortcuts in the workers, and which the way that users go."""

from __future__ import annotations

from ..core.graph import Graph

#: One graph among so many goes the users' way where the others do not.
_ONE_AMONG = 4


def takes_shortcuts(graph: Graph) -> bool:
    """Returns whether shortcuts may be taken with a graph that is not examined in full.

    They are to compile the sources of its regions as one, and to partition one by one the graphs of
    which it is the first. Either would hide some faults, such as a helper that only the first source
    defines. So a share of all graphs takes none, the same graphs in every session.
    """
    return bool(graph.digest[0] % _ONE_AMONG)
