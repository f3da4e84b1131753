"""Finds the regions that hold the calls of a module, by what each call computes from what.

Two calls are the same if operator, attributes, types and operands are, down to the inputs and the
elements of constants. So equal layers of a network are told apart, as signatures do not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from .calls import Calls, Given, NotReadable
from .interface import IR


def places(ir: IR, module: Any, partitioned: Any) -> list[int | None] | None:
    """Returns for each call of a module's main the number of the region's call that holds it.

    None stands for a call outside of all regions, and for one that partitioning has changed. Returns
    None where a module can't be read.
    """
    try:
        before, after = ir.calls(module), ir.calls(partitioned)
    except NotReadable:
        return None
    having: dict[bytes, list[int | None]] = {}
    for call, identity in zip(after.calls, _identities(after)):
        having.setdefault(identity, []).append(call.region)
    found: list[int | None] = []
    for identity in _identities(before):
        regions = having.get(identity, [])
        # A call may be made again in each region that needs it.
        found.append(regions.pop(0) if len(regions) > 1 else regions[0] if regions else None)
    return found


def _identities(calls: Calls) -> Sequence[bytes]:
    """Returns a digest of what each call computes."""
    known = {name: b"input %d" % number for number, name in enumerate(calls.inputs)}
    for name, array in calls.constants.items():
        head = ("%s %s" % (array.dtype, array.shape)).encode()
        known[name] = hashlib.blake2b(head + array.tobytes(), digest_size=16).digest()

    def written(argument: Any) -> bytes:
        if isinstance(argument, Given):
            return repr(argument.value).encode()
        if isinstance(argument, tuple):
            return b"(" + b",".join(map(written, argument)) + b")"
        return known[argument]

    found = []
    for call in calls.calls:
        text = "%s %r %r" % (call.op, sorted(call.attrs.items()), call.types)
        whole = text.encode() + b" ".join(map(written, call.arguments))
        identity = hashlib.blake2b(whole, digest_size=16).digest()
        found.append(identity)
        for number, name in enumerate(call.outputs):
            known[name] = identity + b"%d" % number
    return found
