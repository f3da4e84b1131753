"""Imports a whole model with TVM's frontends, and raises it to a graph where it can be.

It runs in a forked child of the reference worker. The module is written to a file, from which the
workers read it when the model is examined.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..core.errors import Failure
from ..core.importing import import_reference
from ..core.protocol import Decoder, encode
from ..ir.calls import NotReadable
from ..ir.interface import IR
from ..ir.shared import signature
from ..runs.reporter import Reporter
from .onnx_models import GivenModule, imported, reason
from .raising import NotRaised, raised

#: The extent that is given to the first open axis of an input, which usually is the batch, and to others.
FIRST, OTHERS = 1, 7


def model_of(ir: IR, path: str) -> GivenModule:
    """Returns a stand-in for the IR of a run, whose `lower` returns the module in a file."""
    with open(path, "rb") as f:
        content = next(Decoder().feed(f.read()))
    return GivenModule(ir, content["module"], content["signatures"])


def import_model(ir: IR, job: Mapping[str, Any], reporter: Reporter) -> None:
    """Imports the model at job["path"] (with job["function"] of a Python file), and writes its module to
    job["into"].

    It sends the fact "model": the inputs, and "graph" and "constants", or "reason" where it is no graph of
    records; and "chosen", the extents that open axes were given. An exception says what can't be imported.
    """
    import tvm

    reporter.stage("import")
    module, chosen = _module(ir, job)
    reporter.stage("lower")
    module = ir.folded(module)
    try:
        calls = ir.calls(module)
    except NotReadable as e:
        raise Failure("the module cannot be read: %s" % e) from None
    if not calls.calls:
        raise Failure("no operator is left of it once its constants are folded")
    value: dict[str, Any] = {"chosen": chosen, "reason": ""}
    try:
        value.update(graph=raised(ir, calls).to_dict(), constants=calls.constants)
    except NotRaised as e:
        value["reason"] = str(e)
    prefix = "relax." if ir.NAME == "relax" else ""
    signatures = [signature(prefix + c.op, c.types) if c.function is None else "" for c in calls.calls]
    content = {"module": str(tvm.ir.save_json(module)), "signatures": [] if value["reason"] else signatures}
    with open(job["into"], "wb") as f:
        f.write(encode(content))
    types = calls.types()
    value["inputs"] = {name: str(type_) for name, type_ in calls.inputs.items()}
    value["outputs"] = [str(types[name]) for name in calls.outputs]
    value["functions"] = [n for n, c in enumerate(calls.calls) if c.function is not None]
    reporter.send({"fact": "model", "executor": None, "value": value})


def _module(ir: IR, job: Mapping[str, Any]) -> tuple[Any, dict[str, int]]:
    """Returns the module with its weights bound, and the extents that were chosen."""
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


def _given(ir: IR, made: Any, job: Mapping[str, Any]) -> tuple[Any, dict[str, int]]:
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
    if params:
        module = ir.bound(module, {str(k): np.asarray(v.numpy() if hasattr(v, "numpy") else v)
                                   for k, v in params.items()})
    if job["inputs"]:
        types = ir.calls(module).inputs
        missing = [name for name in job["inputs"] if name not in types]
        if missing:
            raise Failure("the model has no input %s; it has %s" % (", ".join(missing), ", ".join(types)))
        left = {name: type_ for name, type_ in types.items() if name not in job["inputs"]}
        module = ir.bound(module, {name: _weights(name, type_) for name, type_ in left.items()})
    return module, {}


def _weights(name: str, type_: Any) -> np.ndarray:
    """Returns random weights for a parameter without any: of a matrix or a kernel such that a layer keeps
    the variance of its operand, of a vector from 0.5 to 1.5, since it may be a variance."""
    random = np.random.default_rng([len(name), type_.size])
    if type_.rank < 2:
        return random.uniform(0.5, 1.5, type_.shape).astype(type_.dtype)
    terms = max(type_.size // type_.shape[0], 1)
    return (random.standard_normal(type_.shape) / np.sqrt(terms)).astype(type_.dtype)


def _of_onnx(ir: IR, model: Any, given: Mapping[str, Sequence[int]]) -> tuple[Any, dict[str, int]]:
    weights = {i.name for i in model.graph.initializer}
    inputs = [i for i in model.graph.input if i.name not in weights]
    unknown = set(given) - {i.name for i in inputs}
    if unknown:
        given_names = ", ".join(i.name for i in inputs)
        missing = ", ".join(sorted(unknown))
        raise Failure("shapes: the model has no input %s; it has %s" % (missing, given_names))
    chosen: dict[str, int] = {}
    shapes: dict[str, list[int]] = {}
    for i in inputs:
        if i.type.WhichOneof("value") != "tensor_type":
            raise Failure("the input %s is not a tensor" % i.name)
        dims = i.type.tensor_type.shape.dim
        if i.name in given:
            shapes[i.name] = list(given[i.name])
            continue
        names: list[str] = [d.dim_param or "%s axis %d" % (i.name, n) for n, d in enumerate(dims)]
        shapes[i.name] = [
            d.dim_value or chosen.setdefault(name, OTHERS if n else FIRST)
            for n, (name, d) in enumerate(zip(names, dims))
        ]
    try:
        return imported(ir, model, shapes), chosen
    except Failure:
        raise
    except Exception as e:
        raise Failure("TVM's ONNX frontend does not import the model: %s" % reason(e)) from None
