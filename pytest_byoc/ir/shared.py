"""Helpers that the files of both IRs need."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..core.errors import Failure, NotAModule
from .interface import Code

#: Names of bystanders: of a function that no target compiles, and of a target that does not exist.
BYSTANDER, OTHER = "byoc_bystander", "byoc_other"


class Tensors:
    """The TVM tensors that hold the inputs of successive runs.

    Every second run gets the tensors of the run before it, filled with new values, as from a caller
    who reuses tensors. The others get new tensors, at other addresses, since the old ones are
    alive.
    """

    def __init__(self, tensor: Callable[[np.ndarray], Any]) -> None:
        self._tensor = tensor
        self._held: list[Any] = []
        self._refilled = True

    def of(self, inputs: Mapping[str, Any]) -> list[Any]:
        """Returns a tensor for each array, and a list of new tensors for each list of arrays."""
        if any(isinstance(given, list) for given in inputs.values()):
            return [list(map(self._tensor, g)) if isinstance(g, list) else self._tensor(g)
                    for g in inputs.values()]
        new = [self._tensor(array) for array in inputs.values()]
        alike = [(t.shape, t.dtype) for t in new] == [(t.shape, t.dtype) for t in self._held]
        self._refilled = alike and not self._refilled
        if self._refilled:
            for held, other in zip(self._held, new):
                held.copyfrom(other)
        else:
            self._held = new
        return self._held


def signature(op_name: str, types: Sequence[Any]) -> str:
    """Returns the signature of an operator's call: its name and the types of its results.

    Nodes of a graph are found in a partitioned module by their signatures.
    """
    return "%s -> %s" % (op_name, ", ".join(str(t) for t in types))


def has(attrs: Any, key: str) -> bool:
    # Iteration over DictAttrs yields nothing, so `in` would not find the key.
    return attrs is not None and key in list(attrs.keys())


def options_of_one_export(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments of one `export_library`, which appends to the lists that it is given."""
    return {key: list(value) if isinstance(value, list) else value for key, value in options.items()}


def attribute(function: Any, key: str) -> str:
    """Returns an attribute of a function as text; "" where it has none of that name."""
    attrs: Any = getattr(function, "attrs", None)
    return str(attrs[key]) if has(attrs, key) else ""


def symbol_of(name: str, function: Any) -> str:
    """Returns the symbol of a function's generated code, which may differ from its name."""
    return attribute(function, "global_symbol") or name


def reached_from_main(module: Any, kind: Any, visit: Callable[[Any, Callable[..., Any]], Any]) -> set[str]:
    """Returns the names of the functions that are reachable from main, including main.

    kind: the IR's class of functions. visit: the IR's visitor, which calls its second argument with
    each expression of its first.
    """
    import tvm

    there = {var.name_hint: function for var, function in module.functions.items()}
    names: set[str] = set()
    new = ["main"]
    while new:
        name = new.pop()
        if name in names or not isinstance(there.get(name), kind):
            continue
        names.add(name)
        expressions: list[Any] = []
        visit(there[name], expressions.append)
        new += [e.name_hint for e in expressions if isinstance(e, tvm.ir.GlobalVar)]
    return names


def only_reached(module: Any, reached: Callable[[Any], set[str]]) -> Any:
    """Returns a module without the functions that are not among the names that `reached` returns for it."""
    import tvm

    names = reached(module)
    return tvm.IRModule({var: f for var, f in module.functions.items() if var.name_hint in names})


def sources(
    imported: Sequence[Any], below: str, source_of: Callable[[Any], tuple[str, str]], symbols: Sequence[str]
) -> list[Code]:
    """Returns the sources of runtime modules and of all modules that they import.

    below: the attribute that holds a module's imports. source_of: returns a module's kind and
    source ("" for one of TVM's own); it may raise for a module without a source.
    """
    codes: list[Code] = []
    for module in imported:
        try:
            kind, text = source_of(module)
            if text:
                codes.append(Code(kind, text, [s for s in symbols if module.implements_function(s)]))
        except Exception:  # a vendor's module may raise anything
            pass
        codes += sources(getattr(module, below), below, source_of, symbols)
    return codes


def check_module(result: Any) -> Any:
    """Returns the result of a partition function. Raises NotAModule if it is not an IRModule."""
    import tvm

    if not isinstance(result, tvm.IRModule):
        raise NotAModule(
            "the partition function returned %s, expected a tvm.IRModule: it has to return the "
            "partitioned module" % type(result).__name__
        )
    return result


def scopes() -> dict[str, str]:
    """Returns a text each on TVM's current target and current PassContext in this thread."""
    import tvm

    context = tvm.transform.PassContext.current()
    config = sorted(str(key) for key in context.config)
    passes = [sorted(map(str, names)) for names in (context.required_pass, context.disabled_pass)]
    return {
        "target": str(tvm.target.Target.current(True)),
        "pass_context": "opt_level %d, required %s, disabled %s, config %s"
        % (context.opt_level, *passes, config),
    }


@contextmanager
def configured(config: Mapping[str, Any], opt_level: int | None = None) -> Iterator[None]:
    """Enters a PassContext with these values; without a config and an opt_level it does nothing."""
    import tvm

    if not config and opt_level is None:
        yield
        return
    level = tvm.transform.PassContext.current().opt_level if opt_level is None else opt_level
    with tvm.transform.PassContext(opt_level=level, config=dict(config)):
        yield


def pass_options() -> list[str]:
    """Returns the keys that the `config` of a PassContext may have in this process."""
    import tvm

    return sorted(map(str, tvm.transform.PassContext.list_configs()))


def known_here(config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the entries that are options in this process; a target's library may add more."""
    known = pass_options() if config else []
    return {key: value for key, value in config.items() if key in known}


def plain(config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the entries that can be sent to another process, which TVM's objects can't."""
    return {key: value for key, value in config.items() if _is_plain(value)}


def _is_plain(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _is_plain(v) for key, v in value.items())
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    return isinstance(value, (bool, int, float, str))


def check_pass_config(config: Any, target: str) -> None:
    """Raises Failure for values that this TVM rejects as the `config` of a PassContext."""
    where = "target %s: pass_config " % target
    if not isinstance(config, Mapping):
        raise Failure(where + "must map names of options to values, found %r" % (config,))
    known = pass_options()
    for key in config:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, 3)
            meant = " (%s?)" % " or ".join(near) if near else "; known are %s" % ", ".join(known)
            raise Failure(where + "contains %r, which is not an option of this TVM%s" % (key, meant))
    try:
        with configured(config):
            pass
    except Exception as e:
        raise Failure(where + "is refused by TVM: %s" % (str(e).strip().splitlines() or [""])[-1]) from None


@contextmanager
def headers_in(folders: Sequence[str]) -> Iterator[None]:
    """Adds folders to CPATH, since load_module compiles C source without include paths."""
    before = os.environ.get("CPATH")
    os.environ["CPATH"] = os.pathsep.join([*folders, *filter(None, [before])])
    try:
        yield
    finally:
        if before is None:
            del os.environ["CPATH"]
        else:
            os.environ["CPATH"] = before
