"""The whole models that a session examines: from --byoc-model and [tool.pytest-byoc.models.NAME]."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .errors import SettingsError
from .tables import read_table

#: The suffixes of files that hold a model.
SUFFIXES = (".onnx", ".json")
_KEYS = ("path", "inputs", "shapes", "ranges")


@dataclass(frozen=True)
class Model:
    """A model as the host knows it; the reference worker imports it.

    name: in reports, and in the id of its test. path: a file of ONNX or TVM's JSON, or of Python. function:
    the function of the Python file that returns the model; "" for other files. inputs: the names of its
    inputs, where its parameters are not all inputs: the others get random values. shapes: the shapes of
    inputs whose extents are open, or to be others. ranges: the least and the largest element of inputs.
    """

    name: str
    path: Path
    function: str = ""
    inputs: tuple[str, ...] = ()
    shapes: dict[str, list[int]] = field(default_factory=dict)
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name

    @property
    def given(self) -> str:
        """Returns a value of --byoc-model that names it."""
        if self.name != (self.function or self.path.stem):
            return self.name  # that of a table with a path
        return f"{self.path}:{self.function}" if self.function else str(self.path)


def models(given: Sequence[str], invocation: Path, root: Path) -> tuple[Model, ...]:
    """Returns the models that the values of --byoc-model name. Raises SettingsError.

    invocation: the folder to which paths are relative. root: the project's, whose pyproject.toml may
    have a table for a model's name, and to which the paths in it are relative.
    """
    tables = read_table(root, "models") if given else {}
    for name, table in tables.items():
        _check(name, table)
    found: dict[str, Model] = {}
    for value in given:
        for model in _named(value, tables, invocation, root):
            if model.name in found:
                raise SettingsError(
                    f"--byoc-model: two models have the name {model.name}: {found[model.name].path} and "
                    f"{model.path}; rename one of the files"
                )
            found[model.name] = model
    return tuple(found.values())


def _named(
    value: str, tables: Mapping[str, Mapping[str, Any]], invocation: Path, root: Path
) -> Iterator[Model]:
    if value in tables and "path" in tables[value]:
        yield _model(str(tables[value]["path"]), value, tables[value], root)
        return
    path = invocation / value
    if path.is_dir():
        files = sorted(p for p in path.iterdir() if p.suffix in SUFFIXES)
        if not files:
            raise SettingsError(f"--byoc-model={value}: the folder has no file *.onnx or *.json")
        for file in files:
            yield _model(str(file), file.stem, tables.get(file.stem, {}), invocation)
        return
    file_name, _, function = value.rpartition(":")
    stem = function if file_name.endswith(".py") else path.stem
    yield _model(value, stem, tables.get(stem, {}), invocation)


def _model(value: str, name: str, table: Mapping[str, Any], folder: Path) -> Model:
    file, _, function = value.rpartition(":")
    if not file.endswith(".py"):
        file, function = value, ""
    path = (folder / Path(file).expanduser()).resolve()
    if not path.is_file():
        raise SettingsError(f"--byoc-model={value}: there is no file {path}")
    if not function and path.suffix not in SUFFIXES:
        raise SettingsError(
            f"--byoc-model={value}: expected a file *.onnx or *.json, a folder of such, file.py:function, or "
            "the name of a table [tool.pytest-byoc.models.NAME] with a path"
        )
    ranges = {key: (float(low), float(high)) for key, (low, high) in table.get("ranges", {}).items()}
    return Model(
        name, path, function, tuple(table.get("inputs", ())), dict(table.get("shapes", {})), ranges
    )


def _check(name: str, table: Mapping[str, Any]) -> None:
    """Raises SettingsError for an unknown key or a value of the wrong kind."""
    where = f"[tool.pytest-byoc.models.{name}]"
    for key, value in table.items():
        if key not in _KEYS:
            raise SettingsError(f"{where}: unknown setting {key}; known are {', '.join(_KEYS)}")
        fits, words = {
            "path": (isinstance(value, str), "a string"),
            "inputs": (_is_list(value, str), "a list of names"),
            "shapes": (_is_table(value, lambda v: _is_list(v, int)), "a table of lists of integers"),
            "ranges": (_is_table(value, _is_range), "a table of [least, largest]"),
        }[key]
        if not fits:
            raise SettingsError(f"{where}: {key} must be {words}, found {value!r}")


def _is_list(value: Any, kind: type) -> bool:
    return isinstance(value, list) and all(isinstance(v, kind) and not isinstance(v, bool) for v in value)


def _is_table(value: Any, fits: Any) -> bool:
    return isinstance(value, dict) and all(map(fits, value.values()))


def _is_range(value: Any) -> bool:
    numbers = isinstance(value, list) and all(isinstance(v, (int, float)) for v in value)
    return bool(numbers and len(value) == 2 and value[0] <= value[1])
