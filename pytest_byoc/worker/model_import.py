"""Imports a whole model with TVM's frontends, and raises it to a graph where it can be.

It runs in a forked child of the reference worker. The module is written to a file, from which the
workers read it when the model is examined.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.errors import Failure
from ..core.importing import import_reference
from ..core.protocol import Decoder, encode
from ..ir.calls import NotReadable
from ..ir.interface import IR
from ..ir.shared import signature
from ..runs.reporter import Reporter
from .onnx_models import GivenModule, imported, reason, with_open_extents
from .raising import NotRaised, raised
from .stored_weights import Weights, large, with_weights

#: The extent that is given to the first open axis of an input, which usually is the batch, and to others;
#: and those of the second run of a module in which these axes are open.
FIRST, OTHERS = 1, 7
LARGER_FIRST, LARGER_OTHERS = 3, 12


def model_of(ir: IR, path: str) -> GivenModule:
    """Returns a stand-in for the IR of a run, whose `lower` returns the module in a file."""
    with open(path, "rb") as f:
        content = next(Decoder().feed(f.read()))
    return ImportedModule(ir, content)


class ImportedModule(GivenModule):
    """The stand-in for the IR of a run on an imported model, whose weights are in files.

    content: "module" and "weights", "signatures", and "opened" (None, or "module" and "weights" of the same
    model with open extents, which `lower` returns where it is asked for these).
    """

    def __init__(self, ir: IR, content: Mapping[str, Any]) -> None:
        super().__init__(
            ir, content["module"], content["signatures"],
            lambda module: with_weights(ir, module, content["weights"]),
        )
        opened = content["opened"]
        self._open = opened and GivenModule(
            ir, opened["module"], content["signatures"],
            lambda module: with_weights(ir, module, opened["weights"]),
        )

    def lower(self, graph: Any, constants: Any, opened: Any = ()) -> tuple[Any, list[str]]:
        if opened:
            return self._open.lower(graph, constants)
        return super().lower(graph, constants)


def _written(ir: IR, module: Any, weights: Weights) -> dict[str, Any]:
    """Returns a module as JSON without its large weights, and the paths of these."""
    import tvm

    module, paths = weights.without(ir, module)
    return {"module": str(tvm.ir.save_json(module)), "weights": paths}


class Imported(NamedTuple):
    """What was imported.

    chosen: the extents that open axes were given. model: the ONNX model, if that has open axes.
    """

    module: Any
    chosen: dict[str, int]
    model: Any = None


def import_model(ir: IR, job: Mapping[str, Any], reporter: Reporter) -> None:
    """Imports the model at job["path"] (with job["function"] of a Python file), and writes its module to
    job["into"].

    It sends the fact "model": the inputs, and "graph", "constants" and "stored" (the paths of the files with
    the large constants), or "reason" where it is no graph of records; "chosen", the extents that open axes
    were given; and "open" (see `_open`). An exception says what can't be imported.
    """
    reporter.stage("import")
    found = _module(ir, job)
    reporter.stage("lower")
    module = ir.folded(found.module)
    try:
        calls = ir.calls(module)
    except NotReadable as e:
        raise Failure("the module cannot be read: %s" % e) from None
    if not calls.calls:
        raise Failure("no operator is left of it once its constants are folded")
    value: dict[str, Any] = {"chosen": found.chosen, "reason": "", "open": None}
    opened: Any = None
    weights = Weights(job["into"] + "-weights")
    try:
        graph = raised(ir, calls)
        value.update(graph=graph.to_dict(), **_constants(calls.constants, weights))
    except NotRaised as e:
        value["reason"] = str(e)
    else:
        if found.model is not None:
            value["open"], opened = _open(ir, found.model, job["shapes"], calls.constants, weights)
    prefix = "relax." if ir.NAME == "relax" else ""
    signatures = [signature(prefix + c.op, c.types) if c.function is None else "" for c in calls.calls]
    content = {
        **_written(ir, module, weights), "signatures": [] if value["reason"] else signatures,
        "opened": opened,
    }
    with open(job["into"], "wb") as f:
        f.write(encode(content))
    types = calls.types()
    value["inputs"] = {name: str(type_) for name, type_ in calls.inputs.items()}
    value["outputs"] = [str(types[name]) for name in calls.outputs]
    value["functions"] = [n for n, c in enumerate(calls.calls) if c.function is not None]
    reporter.send({"fact": "model", "executor": None, "value": value})


def _constants(constants: Mapping[str, np.ndarray], weights: Weights) -> dict[str, Any]:
    """Returns constants as they are sent: "constants", and "stored", the paths of large ones."""
    return {
        "constants": {name: array for name, array in constants.items() if not large(array)},
        "stored": {name: weights.store(array) for name, array in constants.items() if large(array)},
    }


def _open(
    ir: IR, model: Any, given: Mapping[str, Sequence[int]], constants: Mapping[str, np.ndarray],
    weights: Weights,
) -> tuple[dict[str, Any], Any]:
    """Returns what is sent of the module with open extents, and what is written of it.

    Sent are "extents" (the fields of each `OpenExtent`), and of the same model with larger extents "graph",
    "constants" and "stored" (those that differ from `constants`); or "reason", why there is no such module.
    """
    if ir.NAME != "relax":
        return {"reason": "Relay's frontend is given fixed extents"}, None
    try:
        inputs = _inputs(model, given)
        fixed = {i.name: list(given[i.name]) for i in inputs if i.name in given}
        module = ir.folded(with_open_extents(model, fixed))
        shapes, chosen = _sizes(inputs, given, LARGER_FIRST, LARGER_OTHERS)
        calls = ir.calls(ir.folded(imported(ir, model, shapes)))
        graph = raised(ir, calls).to_dict()
    except Exception as e:
        return {"reason": "TVM does not import it with open extents: %s" % reason(e)}, None
    extents = [
        [i.name, axis, name, 0]
        for i in inputs if i.name not in given
        for axis, name in enumerate(_names(i)) if name in chosen
    ]
    differing = {
        name: array for name, array in calls.constants.items()
        if name not in constants or array.tobytes() != constants[name].tobytes()
    }
    sent = {"reason": "", "extents": extents, "graph": graph, **_constants(differing, weights)}
    return sent, _written(ir, module, weights)


def _module(ir: IR, job: Mapping[str, Any]) -> Imported:
    """Returns the module with its weights bound."""
    path, shapes = job["path"], job["shapes"]
    if job["function"]:
        made = import_reference("%s:%s" % (path, job["function"]), "model")()
        return _given(ir, made, job)
    if path.endswith(".json"):
        import tvm

        with open(path) as f:
            text = f.read()
        try:
            module = tvm.ir.load_json(text)
        except Exception as e:
            why = (path, tvm.__version__, reason(e))
            raise Failure("%s is no module that TVM %s can read: %s" % why) from None
        return _given(ir, module, job)
    try:
        import onnx
    except ImportError:
        raise Failure("the workers' interpreter has no package onnx: install it") from None
    try:
        model = onnx.load(path)
    except Exception as e:
        raise Failure("%s is no ONNX model that can be read: %s" % (path, reason(e))) from None
    return _of_onnx(ir, model, shapes)


def _given(ir: IR, made: Any, job: Mapping[str, Any]) -> Imported:
    """Returns the module of what a function has returned."""
    import tvm

    module, params = made if isinstance(made, tuple) and len(made) == 2 else (made, {})
    if hasattr(module, "graph") and hasattr(module, "opset_import"):
        return _of_onnx(ir, module, job["shapes"])
    if not isinstance(module, tvm.IRModule):
        raise Failure(
            "the model is a %s, expected an IRModule, an IRModule and its parameters, or an ONNX model"
            % type(module).__name__
        )
    weights = _weights_by_name(ir, module, params)
    if weights:
        module = ir.bound(module, weights)
    if job["inputs"]:
        types = ir.calls(module).inputs
        missing = [name for name in job["inputs"] if name not in types]
        if missing:
            raise Failure("the model has no input %s; it has %s" % (", ".join(missing), ", ".join(types)))
        left = {name: type_ for name, type_ in types.items() if name not in job["inputs"]}
        module = ir.bound(module, {name: _weights(name, type_) for name, type_ in left.items()})
    return Imported(module, {})


def _weights_by_name(ir: IR, module: Any, params: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Returns the weights that come with a module, by the names of main's parameters.

    Relax's frontends give them as a list, under main's name or as main's attribute `params`: they are the
    last parameters.
    """
    attrs = module["main"].attrs
    attached = attrs["params"] if attrs is not None and "params" in attrs else None
    last = params["main"] if set(params) == {"main"} else attached
    if last is not None and not hasattr(last, "numpy"):
        names = list(ir.calls(module).inputs)
        if len(last) > len(names):
            raise Failure("the model has %d weights for %d parameters" % (len(last), len(names)))
        params = dict(zip(names[len(names) - len(last) :], last))
    return {str(k): np.asarray(v.numpy() if hasattr(v, "numpy") else v) for k, v in params.items()}


def _weights(name: str, type_: Any) -> np.ndarray:
    """Returns random weights for a parameter without any: of a matrix or a kernel such that a layer keeps
    the variance of its operand, of a vector from 0.5 to 1.5, since it may be a variance."""
    random = np.random.default_rng([len(name), type_.size])
    if type_.rank < 2:
        return random.uniform(0.5, 1.5, type_.shape).astype(type_.dtype)
    terms = max(type_.size // type_.shape[0], 1)
    return (random.standard_normal(type_.shape) / np.sqrt(terms)).astype(type_.dtype)


def _inputs(model: Any, given: Mapping[str, Sequence[int]]) -> list[Any]:
    """Returns the inputs of an ONNX model. given: shapes by the names of inputs."""
    weights = {i.name for i in model.graph.initializer}
    inputs = [i for i in model.graph.input if i.name not in weights]
    unknown = set(given) - {i.name for i in inputs}
    if unknown:
        given_names = ", ".join(i.name for i in inputs)
        missing = ", ".join(sorted(unknown))
        raise Failure("shapes: the model has no input %s; it has %s" % (missing, given_names))
    for i in inputs:
        if i.type.WhichOneof("value") != "tensor_type":
            raise Failure("the input %s is not a tensor" % i.name)
    return inputs


def _names(given: Any) -> list[str]:
    """Returns the names of the axes of an input of an ONNX model."""
    dims = given.type.tensor_type.shape.dim
    return [d.dim_param or "%s axis %d" % (given.name, n) for n, d in enumerate(dims)]


def _sizes(
    inputs: Sequence[Any], given: Mapping[str, Sequence[int]], first: int, others: int
) -> tuple[dict[str, list[int]], dict[str, int]]:
    """Returns the shapes of inputs, and the extents of open axes by the names of these.

    An axis whose name is a sum, as in "past + 1", has the sum as its extent. first, others: the extent of
    an input's first axis where that is open, and of its other axes.
    """
    chosen: dict[str, int] = {}
    axes = [
        (name, others if n else first)
        for i in inputs if i.name not in given
        for n, (name, d) in enumerate(zip(_names(i), i.type.tensor_type.shape.dim)) if not d.dim_value
    ]
    for name, extent in sorted(axes, key=lambda axis: "+" in axis[0]):
        terms = [term.strip() for term in name.split("+")]
        chosen.setdefault(name, sum(int(t) if t.isdigit() else chosen.get(t, extent) for t in terms))
    shapes = {
        i.name: list(given[i.name]) if i.name in given else [
            d.dim_value or chosen[name] for name, d in zip(_names(i), i.type.tensor_type.shape.dim)
        ]
        for i in inputs
    }
    return shapes, chosen


def _of_onnx(ir: IR, model: Any, given: Mapping[str, Sequence[int]]) -> Imported:
    shapes, chosen = _sizes(_inputs(model, given), given, FIRST, OTHERS)
    try:
        return Imported(imported(ir, model, shapes), chosen, model if chosen else None)
    except Failure:
        raise
    except Exception as e:
        raise Failure("TVM's ONNX frontend does not import the model: %s" % reason(e)) from None
