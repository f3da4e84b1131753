"""Draws a graph as SVG, in layers: values flow down; offloaded subgraphs have a colour and a
number.

The layout is a plain form of Sugiyama's method: longest-path layers, a few sweeps that order each
layer by the barycentre of its neighbours, then positions pulled toward those neighbours. """

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup, escape

#: Width of a character of the monospaced font, in em: that of DejaVu Sans Mono, which is wider than
#: most.
_ADVANCE = 0.605
_NAME, _TYPE = 12.0, 10.5
_LINE = 15.0
_GAP, _LAYER_GAP, _MARGIN = 18.0, 30.0, 8.0
_LONGEST = 34
_MOST_TYPES = 4
#: Number of colours for subgraphs; they repeat after that, and the numbers distinguish the
#: subgraphs.
COLOURS = 6


@dataclass
class Box:
    """A box of a drawing.

    kind: node, input, constant, output, several, or bend, a point of a long edge in a layer that it
    passes. types: the lines under the title. line_regions: the regions of some of these, by position.
    label: a mark in the corner; by default the number of the region.
    """

    kind: str
    layer: int
    title: str = ""
    types: list[str] = field(default_factory=list)
    region: int | None = None
    label: str = ""
    line_regions: Mapping[int, int] = field(default_factory=dict)
    x: float = 0.0

    @property
    def tag(self) -> str:
        return self.label or ("" if self.region is None else f"S{self.region + 1}")

    @property
    def width(self) -> float:
        if self.kind == "bend":
            return 6.0
        tag = len(self.tag) + 2 if self.tag else 0
        title = (len(self.title) + tag) * _NAME * _ADVANCE
        return max(title, *(len(t) * _TYPE * _ADVANCE for t in self.types), 30.0) + 18.0

    @property
    def height(self) -> float:
        return 0.0 if self.kind == "bend" else 12.0 + _LINE * (1 + len(self.types))


@dataclass
class Edge:
    """An edge between two boxes, given by their positions in the list. start, end: place along the
    side of each box, 0 to 1. about: a text that is shown where one points at it."""

    source: int
    target: int
    start: float = 0.5
    end: float = 0.5
    about: str = ""


@dataclass
class Layout:
    """The boxes and edges of a drawing. layers: positions of the boxes in each layer, from left to
    right."""

    boxes: list[Box]
    edges: list[Edge]
    layers: list[list[int]]

    def tops(self) -> list[float]:
        """Returns the y of each layer, and of the layer that would follow the last."""
        found = [_MARGIN]
        for layer in self.layers:
            found.append(found[-1] + max((self.boxes[i].height for i in layer), default=0) + _LAYER_GAP)
        return found


def layout(boxes: list[Box], edges: list[Edge]) -> Layout:
    """Places boxes, each in its layer."""
    boxes, edges = _with_bends(boxes, edges)
    layers: list[list[int]] = [[] for _ in range(max(b.layer for b in boxes) + 1)]
    for i, box in enumerate(boxes):
        layers[box.layer].append(i)
    result = Layout(boxes, edges, layers)
    _order(result)
    _place(result)
    return result


def svg(shown: Mapping[str, Any]) -> Markup:
    """Returns the drawing of a graph. shown: from `failure.shown`, with nodes."""
    boxes, edges = boxes_of(shown)
    return drawn(boxes, edges, "graph of " + ", ".join(str(n["op"]) for n in shown["nodes"]))


def drawn(boxes: list[Box], edges: list[Edge], title: str) -> Markup:
    """Returns a drawing; its colours are classes of the page's style sheet."""
    result = layout(boxes, edges)
    tops = result.tops()
    width = max(b.x + b.width for b in result.boxes) + _MARGIN
    height = tops[-1] - _LAYER_GAP + _MARGIN
    parts = [
        Markup('<svg class="graph" role="img" width="{0}" height="{1}" viewBox="0 0 {0} {1}">').format(
            round(width), round(height)
        ),
        Markup("<title>{}</title>").format(title),
    ]
    parts += [_edge(result, tops, e) for e in result.edges]
    parts += [_box(b, tops[b.layer]) for b in result.boxes if b.kind != "bend"]
    parts.append(Markup("</svg>"))
    return Markup("\n").join(parts)


# --- what is drawn -----------------------------------------------------------------------------


def boxes_of(shown: Mapping[str, Any]) -> tuple[list[Box], list[Edge]]:
    """Returns the boxes and edges of a graph. shown: from `failure.shown`, with nodes."""
    nodes: Sequence[Mapping[str, Any]] = shown["nodes"]
    made = {o["name"]: (i, k) for i, n in enumerate(nodes) for k, o in enumerate(n["outputs"])}
    layers: list[int] = []
    for node in nodes:
        makers = (made[name][0] for name in node["inputs"] if name in made)
        layers.append(max((layers[i] for i in makers if i < len(layers)), default=0) + 1)
    boxes, edges = [], []
    for node, layer in zip(nodes, layers):
        types = [cut(f"%{o['name']}: {o['type']}") for o in node["outputs"]]
        if len(types) > _MOST_TYPES:
            types = [*types[: _MOST_TYPES - 1], f"… {len(types) - _MOST_TYPES + 1} more"]
        region = node.get("region")
        region = region if isinstance(region, int) else None
        boxes.append(Box("node", layer, cut(node["op"]), types, region))
    where: dict[str, tuple[int, float]] = {
        name: (i, (k + 1) / (len(nodes[i]["outputs"]) + 1)) for name, (i, k) in made.items()
    }
    for kind in ("input", "constant"):
        for value in shown[kind + "s"]:
            # It stands as near to its first reader as possible.
            readers = [layer for n, layer in zip(nodes, layers) if value["name"] in n["inputs"]]
            where[value["name"]] = (len(boxes), 0.5)
            title = cut(f"{kind} %{value['name']}")
            boxes.append(Box(kind, max(min(readers, default=1) - 1, 0), title, [cut(value["type"])]))
    for i, node in enumerate(nodes):
        for k, name in enumerate(node["inputs"]):
            if name in where:
                source, start = where[name]
                edges.append(Edge(source, i, start, (k + 1) / (len(node["inputs"]) + 1)))
    for k, name in enumerate(shown["outputs"]):
        if name in where:
            source, start = where[name]
            edges.append(Edge(source, len(boxes), start))
            boxes.append(Box("output", boxes[source].layer + 1, cut(f"output {k} %{name}")))
    return boxes, edges


def _with_bends(boxes: list[Box], edges: list[Edge]) -> tuple[list[Box], list[Edge]]:
    """Splits each edge at the layers that it passes, with a bend in each. Leaves out an edge that
    does not go down; only a graph written by hand has one."""
    found: list[Edge] = []
    for edge in edges:
        last, start = edge.source, edge.start
        if boxes[edge.source].layer >= boxes[edge.target].layer:
            continue
        for layer in range(boxes[edge.source].layer + 1, boxes[edge.target].layer):
            boxes.append(Box("bend", layer))
            found.append(Edge(last, len(boxes) - 1, start, about=edge.about))
            last, start = len(boxes) - 1, 0.5
        found.append(Edge(last, edge.target, start, edge.end, edge.about))
    return boxes, found


# --- where it goes -----------------------------------------------------------------------------


def _near(layout: Layout) -> tuple[list[list[Edge]], list[list[Edge]]]:
    """Returns for each box the edges that enter it, and for each box the edges that leave it."""
    above: list[list[Edge]] = [[] for _ in layout.boxes]
    below: list[list[Edge]] = [[] for _ in layout.boxes]
    for edge in layout.edges:
        above[edge.target].append(edge)
        below[edge.source].append(edge)
    return above, below


def _order(layout: Layout) -> None:
    """Orders each layer by the mean position of its neighbours, in sweeps downward and upward. The
    places of edges along the sides count too, so that the results of a split keep their order."""
    above, below = _near(layout)
    for sweep in range(8):
        at = {i: k for layer in layout.layers for k, i in enumerate(layer)}

        def centre(i: int, up: bool = bool(sweep % 2), at: dict[int, int] = at) -> float:
            if up:
                near = [at[e.target] + e.end * 0.9 for e in below[i]]
            else:
                near = [at[e.source] + e.start * 0.9 for e in above[i]]
            return sum(near) / len(near) if near else at[i]

        for layer in layout.layers[:: -1 if sweep % 2 else 1]:
            layer.sort(key=centre)
            at.update({i: k for k, i in enumerate(layer)})


def _place(layout: Layout) -> None:
    """Sets the x of each box so that its edges are as straight as possible. Boxes of a layer keep
    their order and do not overlap."""
    above, below = _near(layout)
    boxes = layout.boxes

    def wanted(i: int) -> float:
        """Returns the x at which a box would be centred among its neighbours. Bends of one edge
        weigh eight times as much, so that long edges are straight."""
        near = [(e.source, e.start) for e in above[i]] + [(e.target, e.end) for e in below[i]]
        total = weight = 0.0
        for n, at in near:
            both = boxes[i].kind == boxes[n].kind == "bend"
            at = at if boxes[i].kind == "bend" else 0.5
            total += (boxes[n].x + boxes[n].width * at - boxes[i].width / 2) * (8 if both else 1)
            weight += 8 if both else 1
        return total / weight if near else boxes[i].x

    for layer in layout.layers:
        _pack(layout, layer, lambda i: 0.0)
    for sweep in range(24):
        for layer in layout.layers[:: -1 if sweep % 2 else 1]:
            _pack(layout, layer, wanted)
    left = min(b.x for b in boxes) - _MARGIN
    for box in boxes:
        box.x -= left


def _pack(layout: Layout, layer: Sequence[int], wanted: Callable[[int], float]) -> None:
    """Places the boxes of a layer without overlap: at the mean of two packings, one that moves
    boxes to the right and one that moves them to the left."""
    goals = [wanted(i) for i in layer]
    right, edge = [], float("-inf")
    for i, goal in zip(layer, goals):
        right.append(max(goal, edge))
        edge = right[-1] + layout.boxes[i].width + _GAP
    left, edge = [0.0] * len(layer), float("inf")
    for k in reversed(range(len(layer))):
        left[k] = min(goals[k], edge - layout.boxes[layer[k]].width)
        edge = left[k] - _GAP
    for i, a, b in zip(layer, right, left):
        layout.boxes[i].x = (a + b) / 2


# --- SVG -----------------------------------------------------------------------------------------


def _edge(layout: Layout, tops: Sequence[float], edge: Edge) -> Markup:
    a, b = layout.boxes[edge.source], layout.boxes[edge.target]
    x1, y1 = a.x + a.width * edge.start, tops[a.layer] + a.height
    x2, y2 = b.x + b.width * edge.end, tops[b.layer]
    path = f"M{x1:.1f} {y1:.1f}"
    if a.kind == "bend":
        # It passes its layer between the boxes.
        y1 = tops[a.layer + 1] - _LAYER_GAP
        path += f"V{y1:.1f}"
    half = (y2 - y1) / 2
    path += f"C{x1:.1f} {y1 + half:.1f} {x2:.1f} {y2 - half:.1f} {x2:.1f} {y2:.1f}"
    if b.kind != "bend":
        path += "m-3.5 -6l3.5 6l3.5 -6"
    if not edge.about:
        return Markup('<path class="edge" d="{}"/>').format(path)
    return Markup('<path class="edge" d="{}"><title>{}</title></path>').format(path, edge.about)


def _box(box: Box, top: float) -> Markup:
    style = box.kind if box.region is None else f"{box.kind} r{box.region % COLOURS}"
    radius = 3 if box.kind in ("node", "several") else round(box.height / 2, 1)
    rect = Markup('<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" rx="{}"/>')
    parts = [Markup('<g class="{}">').format(style)]
    # Several lie on each other.
    for by in (4.0, 0.0) if box.kind == "several" else (0.0,):
        parts.append(rect.format(box.x + by, top + by, box.width, box.height, min(radius, 12)))
    middle, y = box.x + box.width / 2, top + 5.0 + _NAME
    centred = not box.tag and box.kind != "several"
    if centred:
        parts.append(_text("name", middle, y, box.title, "middle"))
    else:
        parts.append(_text("name", box.x + 9, y, box.title, "start"))
        parts.append(_text("tag", box.x + box.width - 9, y, box.tag, "end"))
    for number, line in enumerate(box.types):
        y += _LINE
        at, anchor = (middle, "middle") if centred else (box.x + 9, "start")
        region = box.line_regions.get(number)
        parts.append(_text("type" if region is None else f"type r{region % COLOURS}", at, y, line, anchor))
    parts.append(Markup("</g>"))
    return Markup("").join(parts)


def _text(style: str, x: float, y: float, text: str, anchor: str) -> Markup:
    return Markup('<text class="{}" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(
        style, x, y, anchor, escape(text)
    )


def cut(text: Any) -> str:
    """Returns a text, cut where it is too long for a box."""
    text = str(text)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
