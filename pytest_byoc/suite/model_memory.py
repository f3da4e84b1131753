"""Estimates the memory that the host needs to compute the expected values of a model."""

from __future__ import annotations

from pathlib import Path

from ..core.graph import Graph

#: The bytes for an element: its value, its error and whether it is ambiguous, three times: as calculated,
#: moved at random, and on the way from one to the other.
BYTES = 3 * 17


def lacking(graph: Graph) -> str:
    """Returns why there is too little memory for a model's values, in words; "" if there is enough, or if
    the system does not tell."""
    needed, free = graph.elements * BYTES, free_bytes()
    if free is None or needed <= free:
        return ""
    return (
        f"its expected values need about {needed / (1 << 30):.0f} GiB of the host's memory, of which "
        f"{free / (1 << 30):.0f} GiB are free"
    )


def free_bytes() -> int | None:
    """Returns the memory that is free, in bytes; None where the system does not tell it."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    sizes = [int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")]
    return sizes[0] if sizes else None
