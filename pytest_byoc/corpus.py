"""Saved graphs: reading them back for a replay."""

from __future__ import annotations

from pathlib import Path

from .generation.data import array
from .graph import Graph, GraphFormatError
from .operators import OPERATORS
from .operators.record import TypeRuleError


def read_graph(path: Path) -> Graph:
    """A graph from a file. Raises GraphFormatError, naming the file and what was expected."""
    try:
        graph = Graph.from_json(path.read_text())
    except OSError as e:
        raise GraphFormatError(f"{path}: {e.strerror}") from None
    except UnicodeDecodeError:
        raise GraphFormatError(f"{path}: expected JSON, found bytes that are not text") from None
    except GraphFormatError as e:
        raise GraphFormatError(f"{path}: {e}") from None
    for source in graph.sources():
        try:
            array(source)
        except (ValueError, TypeError, OverflowError) as e:
            what = f"the elements of {source.name} are not a {source.type}: {e}"
            raise GraphFormatError(f"{path}: {what}") from None
    for node in graph.nodes:
        if node.op not in OPERATORS:
            raise GraphFormatError(f"{path}: this version has no operator {node.op!r}")
        known = {p.name for p in OPERATORS[node.op].parameters if p.attribute}
        if set(node.attrs) != known:
            odd = ", ".join(sorted(set(node.attrs) ^ known))
            raise GraphFormatError(f"{path}: {node.op} with an attribute too many or too few: {odd}")
        try:
            types = OPERATORS[node.op].infer([graph.type_of(i) for i in node.inputs], node.attrs)
        except (TypeRuleError, KeyError, TypeError, ValueError, IndexError) as e:
            raise GraphFormatError(f"{path}: {node.op} does not take these operands: {e}") from None
        if types != node.types:
            wanted, found = ", ".join(map(str, types)), ", ".join(map(str, node.types))
            raise GraphFormatError(f"{path}: {node.op} makes {wanted}; the file says {found}")
    return graph


def find_graphs(paths: list[Path]) -> list[Path]:
    """Graph files among the paths given; of a folder every graph.json and *.json in it.

    Raises GraphFormatError for a path that does not exist or a folder without graphs.
    """
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(p for p in path.rglob("*.json") if p.name != "report.json")
            if not inside:
                raise GraphFormatError(f"{path}: there is no graph (*.json) in this folder")
            found += inside
        elif path.exists():
            found.append(path)
        else:
            raise GraphFormatError(f"{path}: there is no such file")
    return found
