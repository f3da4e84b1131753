"""Tests of the package's layout: which folder imports which, and which run on Python 3.8."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import pytest_byoc

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

pytestmark = pytest.mark.once
ROOT = Path(pytest_byoc.__file__).parent
#: The folders of the package, from top to bottom: each imports only from folders below it. The wall
#: is in front of `worker`: modules behind it run on Python 3.8 and import only NumPy and TVM.
LAYERS = (
    "conformance", "__main__", "plugin", "results", "drafting", "suite", "report", "gate", "record",
    "examination", "storage", "config", "evidence", "generation", "oracle", "reference_kernels",
    "worker", "runners", "checks", "runs", "ir", "operators", "examples", "core",
)  # fmt: skip
WALL = LAYERS[LAYERS.index("worker") :]


def modules() -> dict[str, Path]:
    """Returns the paths of the package's modules by dotted name, without the prefix pytest_byoc."""
    paths = {}
    # Two of the folders are links in a checkout.
    files = (Path(folder, name) for folder, _, names in os.walk(ROOT, followlinks=True) for name in names)
    for path in sorted(path for path in files if path.suffix == ".py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        paths[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return {name: path for name, path in paths.items() if name}


MODULES = modules()


def imported(name: str) -> Iterator[str]:
    """Yields the package's modules that a module imports, including imports in functions and for
    types only."""
    path = MODULES[name]
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            base = [*base, *(node.module.split(".") if node.module else [])]
            if not node.level and base[0] != "pytest_byoc":
                continue
            base = base if node.level else base[1:]
            for alias in node.names:
                full = ".".join([*base, alias.name])
                if full in MODULES or ".".join(base) in MODULES:
                    yield full if full in MODULES else ".".join(base)


IMPORTS = {name: set(imported(name)) for name in MODULES}


def test_every_folder_is_in_one_layer() -> None:
    assert {name.split(".")[0] for name in MODULES} == set(LAYERS)


@pytest.mark.parametrize("name", MODULES)
def test_modules_import_only_from_lower_layers(name: str) -> None:
    own = LAYERS.index(name.split(".")[0])
    above = [other for other in IMPORTS[name] if LAYERS.index(other.split(".")[0]) < own]
    assert not above, f"{name} imports {', '.join(above)}, which stand above it"


def ends_of(imports: dict[str, set[str]]) -> set[str]:
    """Returns the modules that import none of the others, or that none of the others imports."""
    used = {other for names in imports.values() for other in names}
    return {name for name, names in imports.items() if not names or name not in used}


def test_imports_have_no_cycle() -> None:
    left = dict(IMPORTS)
    while ends := ends_of(left):
        left = {name: names - ends for name, names in left.items() if name not in ends}
    assert not left, f"these import each other: {', '.join(sorted(left))}"


def behind_the_wall() -> set[str]:
    """Returns the modules that a worker imports, directly or indirectly, from its program and its
    roles."""
    reached, left = set(), {"worker.__main__", "worker.server", "worker.roles", "ir.relay", "ir.relax"}
    while left:
        reached |= (new := left - reached)
        left = {other for name in new for other in IMPORTS[name]} - reached
    return reached


def test_workers_import_only_modules_behind_the_wall() -> None:
    assert {name.split(".")[0] for name in behind_the_wall()} <= set(WALL)


@pytest.mark.parametrize("name", [name for name in MODULES if name.split(".")[0] in WALL])
def test_modules_behind_the_wall_are_python_3_8(name: str) -> None:
    tree = ast.parse(MODULES[name].read_text(), feature_version=(3, 8))
    assert not list(subscripted(tree)), f"{name}: Python 3.8 evaluates these, and has no such generics"


def subscripted(tree: ast.Module) -> Iterator[str]:
    """Yields generics of builtins and of collections.abc outside annotations, which are not
    evaluated."""
    generic = {"dict", "frozenset", "list", "set", "tuple", "type"}
    annotations: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "collections.abc":
            generic.update(alias.asname or alias.name for alias in node.names)
        for field in ("annotation", "returns"):
            if isinstance(annotation := getattr(node, field, None), ast.AST):
                annotations.update(ast.walk(annotation))
    for node in ast.walk(tree):
        if not isinstance(node, ast.Subscript) or node in annotations:
            continue
        if isinstance(node.value, ast.Name) and node.value.id in generic:
            yield f"line {node.lineno}: {ast.unparse(node)}"


def test_ruff_has_one_python_3_8_pattern_per_folder_behind_the_wall() -> None:
    """Ruff checks these files for Python 3.8."""
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
    patterns = project["tool"]["ruff"]["per-file-target-version"]
    assert patterns == {"pytest_byoc/__init__.py": "py38"} | {f"pytest_byoc/{f}/**": "py38" for f in WALL}
