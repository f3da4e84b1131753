"""Makes the findings on one output: values outside their bounds, and bits that do not repeat."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from ..core.finding import Finding
from ..core.graph import Graph
from ..reference_kernels import Bounded
from . import difference
from .self_comparison import Distance

#: The attributes that name the axes of a result.
_LAYOUTS = ("dst_layout", "data_layout", "layout")


def outside_bound(
    graph: Graph,
    check: str,
    kind: str,
    i: int,
    actual: np.ndarray,
    bounded: Bounded,
    outside: np.ndarray,
    reference: np.ndarray | None,
    how: str,
) -> Finding:
    """Returns a finding on the elements of an output outside their bounds; it shows the furthest.

    i: the output's position. outside: a mask of these elements. reference: LLVM's output, if there
    is one. how: the circumstances of the run, for the message.
    """
    at = _furthest(actual, bounded.value, outside)
    details = _details(graph, i, actual, bounded, outside, at, how)
    text = (
        f"output {i} (%{graph.outputs[i]}) is outside its error bound {how}: at {details['index']} expected "
        f"{details['expected']!r} within {details['bound']:.3g}, got {details['actual']!r}"
    )
    if reference is not None and reference.shape == actual.shape:
        details["llvm"] = _scalar(reference[at])
        text += f" (LLVM: {details['llvm']!r})"
    text += f"; {details['outside']} of {details['elements']} elements are outside."
    return Finding(check, "wrong-result", "compare", kind, text, details)


def _furthest(one: np.ndarray, other: np.ndarray, mask: np.ndarray) -> tuple[Any, ...]:
    """Returns the index of the element, of those that a mask selects, at which two outputs are furthest
    apart; NaN is infinitely far."""
    with np.errstate(all="ignore"):
        distance = np.abs(one.astype(np.float64) - other)
    distance = np.where(np.isnan(distance), np.inf, distance)
    return np.unravel_index(int(np.argmax(np.where(mask, distance, -1.0))), mask.shape)


def _details(
    graph: Graph, i: int, actual: np.ndarray, bounded: Bounded, mask: np.ndarray, at: tuple[Any, ...],
    how: str,
) -> dict[str, Any]:
    """Returns the details of a finding on the elements of an output that a mask selects.

    at: the index of the element that is shown.
    """
    return {
        "output": i, "name": graph.outputs[i], "index": [int(v) for v in at],
        "expected": _scalar(bounded.value[at]), "bound": _scalar(bounded.error[at]),
        "actual": _scalar(actual[at]), "how": how, **where(graph, i, mask),
    }  # fmt: skip


def lost_values(
    graph: Graph, check: str, i: int, actual: np.ndarray, bounded: Bounded, gone: np.ndarray, how: str
) -> Finding:
    """Returns a finding on elements that are no number, or zero, where the value and LLVM's are not.

    gone: a mask of these elements. The other arguments are those of `outside_bound`.
    """
    at = np.unravel_index(int(np.argmax(gone)), gone.shape)
    details = _details(graph, i, actual, bounded, gone, at, how)
    text = (
        f"output {i} (%{graph.outputs[i]}) is {details['actual']!r} {how} at {details['index']}, where the "
        f"value is {details['expected']!r} and LLVM's is a number: it overflows on the way, or is lost. "
        f"(The bound, {details['bound']:.3g}, can't judge it.) {details['outside']} of "
        f"{details['elements']} elements are like that."
    )
    return Finding(check, "wrong-result", "compare", "not-finite", text, details)


def different_bits(
    graph: Graph, check: str, stage: str, kind: str, i: int, a: np.ndarray, b: np.ndarray, what: str
) -> Finding | None:
    """Returns a finding if an output differs from that of the first run, or else None.

    i: the output's position. a, b: the output of the first run and of the other. what: the other
    run in words.
    """
    if a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes():
        return None
    if a.shape != b.shape or a.dtype != b.dtype:
        text = f"is {b.dtype}{list(b.shape)}, in the first run {a.dtype}{list(a.shape)}"
        details: dict[str, Any] = {"output": i}
    else:
        raw_a = np.ascontiguousarray(a).view(np.uint8).reshape(a.shape + (a.itemsize,))
        raw_b = np.ascontiguousarray(b).view(np.uint8).reshape(a.shape + (a.itemsize,))
        differs = (raw_a != raw_b).any(axis=-1)
        # NaNs with different bits count as equal.
        if a.dtype.kind == "f" or a.dtype == ml_dtypes.bfloat16:
            differs &= ~(np.isnan(a) & np.isnan(b))
        if not differs.any():
            return None
        at = tuple(int(v) for v in np.argwhere(differs)[0])
        details = {
            "output": i, "name": graph.outputs[i], "index": list(at),
            "expected": _scalar(a[at]), "actual": _scalar(b[at]), "bound": 0.0,
            "how": what, **where(graph, i, differs),
        }
        text = f"differs at {list(at)}: {details['actual']!r}, first {details['expected']!r}"
    return Finding(
        check, "wrong-result", stage, kind,
        f"output {i} (%{graph.outputs[i]}) of {what} {text}.", details,
    )


def differs_from_itself(
    graph: Graph, check: str, i: int, a: np.ndarray, b: np.ndarray, far: Distance, how: str
) -> Finding:
    """Returns a finding on elements that are too far from those of a graph that computes the same.

    i: the output's position. a, b: the output of the graph, and of the other one. how: the change of the
    graph.
    """
    at = _furthest(a, b.astype(np.float64), far.mask)
    details = {
        "output": i, "name": graph.outputs[i], "index": [int(v) for v in at],
        "expected": _scalar(a[at]), "bound": far.allowed, "actual": _scalar(b[at]), "how": how,
        **where(graph, i, far.mask),
    }  # fmt: skip
    text = (
        f"output {i} (%{graph.outputs[i]}) is not the same {how}: at {details['index']} it is "
        f"{details['actual']!r}, in the graph itself {details['expected']!r}. No bound can judge the "
        f"element, but both graphs compute the same, and by LLVM's own errors they may differ by "
        f"{far.allowed:.3g}. {details['outside']} of {details['elements']} elements are like that."
    )
    return Finding(check, "wrong-result", "compare", "differs", text, details)


def where(graph: Graph, output: int, mask: np.ndarray) -> dict[str, Any]:
    """Returns details for a finding on the elements of an output that a mask selects."""
    return {
        "outside": int(mask.sum()), "elements": int(mask.size), "mask": difference.pack(mask),
        "layout": _layout(graph, graph.outputs[output]),
    }


def array_type(array: np.ndarray) -> str:
    """Returns an array's type as text, as in "float32[2,3]"."""
    return f"{array.dtype}[{','.join(map(str, array.shape))}]"


def _layout(graph: Graph, name: str) -> str:
    """Returns the layout of a value, or "" if it is unknown.

    It is an attribute of the node that computes the value, or of a node before it whose result has
    the same shape.
    """
    producers = {output: node for node in graph.nodes for output in node.outputs}
    shape, node = graph.type_of(name).shape, producers.get(name)
    while node is not None:
        layouts = [node.attrs[key] for key in _LAYOUTS if node.attrs.get(key)]
        if layouts:
            return str(layouts[0])
        same_shape = (i for i in node.inputs if i in producers and graph.type_of(i).shape == shape)
        node = next((producers[i] for i in same_shape), None)
    return ""


def element(array: np.ndarray, mask: np.ndarray) -> Any:
    """Returns the first element that a mask selects."""
    return _scalar(array[tuple(np.argwhere(mask)[0])])


def _scalar(value: Any) -> Any:
    return value.item()
