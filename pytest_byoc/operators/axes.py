"""The values of attributes that name an axis."""

from __future__ import annotations

from .record import Classes


def one_axis(rank: int) -> Classes:
    """Returns the values of an attribute that names one of `rank` axes.

    -1 is a class of its own: code that takes each negative axis for the last one is right there.
    """
    return {
        "first": (0,),
        "last": (rank - 1,) if rank > 1 else (),
        "inner": tuple(range(1, rank - 1)),
        "minus_one": (-1,) if rank else (),
        "negative": tuple(-i for i in range(2, rank + 1)),
    }
