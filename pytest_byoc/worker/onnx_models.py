"""Imports the node tests of this interpreter's `onnx` package with TVM's frontend.

It runs in a forked child of the reference worker. A job imports several tests and reports the name
of each one first, so that the host knows the culprit when the child dies. Each imported test is
written to a file (a frame of `core/protocol.py`), from which other jobs read it without `onnx`.
"""

from __future__ import annotations

import glob
import importlib
import os
import warnings
from functools import partial
from typing import Any, Callable, Iterator, List, Mapping, Sequence, Tuple

import numpy as np

from ..core.graph import Graph
from ..core.protocol import encode
from ..ir.interface import IR
from ..runs.reporter import Reporter

#: The prefix of the name of the stage in which a test is imported; the test's name follows.
STAGE = "import "
#: ONNX's names of the dtypes that NumPy and the protocol support.
_DTYPES = (
    ["FLOAT", "FLOAT16", "DOUBLE", "BOOL"]
    + ["INT%d" % n for n in (8, 16, 32, 64)]
    + ["UINT%d" % n for n in (8, 16, 32, 64)]
)

#: A test: its model, inputs and expected outputs, in the model's order.
Case = Tuple[Any, List[np.ndarray], List[np.ndarray]]


class NotImported(Exception):
    """Raised for a test that can't be run; the message is the reason."""


class GivenModule:
    """A stand-in for the IR of a run, whose `lower` returns an imported module.

    text: the module's JSON. signatures: of its calls, as far as the graph has a node for each. complete:
    makes the module complete whose JSON it was.
    """

    def __init__(
        self, ir: IR, text: str, signatures: Sequence[str] = (),
        complete: Callable[[Any], Any] = lambda module: module,
    ) -> None:
        self._ir = ir
        self._text = text
        self._signatures = list(signatures)
        self._complete = complete

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ir, name)

    def lower(self, graph: Any, constants: Any, opened: Any = ()) -> tuple[Any, list[str]]:
        import tvm

        return self._complete(tvm.ir.load_json(self._text)), self._signatures


def describe(ir: IR, job: Mapping[str, Any], reporter: Reporter) -> None:
    """Records the version of `onnx`, a stamp of this TVM, and the operators of graphs.

    The facts are "onnx" (None: not installed), "stamp" (a number that changes when TVM is
    replaced), and "records": by name of the job's `graphs` the IR operators that the graph is
    lowered to. Graphs that this TVM can't lower are left out.
    """
    try:
        version = importlib.import_module("onnx").__version__
    except ImportError:
        version = None
    reporter.send({"fact": "onnx", "executor": None, "value": version})
    reporter.send({"fact": "stamp", "executor": None, "value": _stamp(ir)})
    records = {}
    for name, entry in job["graphs"].items():
        try:
            module, _ = ir.lower(Graph.from_dict(entry["graph"]), entry["constants"])
            records[name] = operators(ir, module)
        except Exception:
            # This TVM's version lacks the operator, so none of the tests that it imports has it.
            continue
    reporter.send({"fact": "records", "executor": None, "value": records})


def _stamp(ir: IR) -> float:
    """Returns the time of the last change of TVM's libraries or ONNX frontend, in seconds.

    TVM's version may stay the same when they change.
    """
    import tvm

    root = os.path.dirname(tvm.__file__)
    patterns = ("*.so", "lib/*.so", ir.NAME + "/frontend/onnx*", ir.NAME + "/frontend/onnx/*.py")
    paths = [p for pattern in patterns for p in glob.glob(os.path.join(root, pattern))]
    return max([os.path.getmtime(p) for p in paths], default=0.0)


def import_tests(ir: IR, job: Mapping[str, Any], reporter: Reporter) -> None:
    """Imports every `of`-th test from the `part`-th on, without those in `skip` (all keys of job).

    First it records the number of the tests, including skipped ones ("tests"). For each test it
    records its ONNX and IR operators, or the reason why it can't be run ("test"). Tests that only
    have IR operators in `operators` are written to `folder`.
    """
    known = set(job["operators"])
    skip = set(job["skip"])
    part = sorted(_tests().items())[job["part"] :: job["of"]]
    reporter.send({"fact": "tests", "executor": None, "value": len(part)})
    for name, load in part:
        if name in skip:
            continue
        reporter.stage(STAGE + name)
        value: dict[str, Any] = {"name": name}
        try:
            plain, expanded, _ = name.partition("_expanded")
            if expanded:
                raise NotImported("the same test as %s, its operator written out as a graph" % plain)
            model, inputs, outputs = load()
            value["onnx"] = sorted({n.op_type for n in model.graph.node})
            module, named = _import(ir, model, inputs)
            value["operators"] = operators(ir, module)
            value["bound"] = len(inputs) - len(named)
            if not value["operators"]:
                raise NotImported("the import left no operator")
            if known.issuperset(value["operators"]):
                _write(os.path.join(job["folder"], name), module, named, outputs, model)
        except Exception as e:
            value["reason"] = reason(e)
        reporter.send({"fact": "test", "executor": None, "value": value})


def _write(
    path: str, module: Any, inputs: Mapping[str, np.ndarray], outputs: Sequence[np.ndarray], model: Any
) -> None:
    import tvm

    content = {
        "module": str(tvm.ir.save_json(module)),
        "inputs": dict(inputs),
        "outputs": {o.name: a for o, a in zip(model.graph.output, outputs)},
    }
    with open(path, "wb") as f:
        f.write(encode(content))


def reason(error: BaseException) -> str:
    """Returns one line of an exception: TVM's last line after a traceback, else the first."""
    if isinstance(error, NotImported):
        return str(error)
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or ["no message"]
    line = lines[-1] if lines[0].startswith("Traceback") else lines[0]
    return "%s: %s" % (type(error).__name__, line[:200])


# --- ONNX's test data --------------------------------------------------------------------------


def _tests() -> dict[str, Callable[[], Case]]:
    """Returns functions that return the tests, by name.

    `onnx` up to about 1.18 contains the tests as files; newer versions generate them.
    """
    import onnx

    root = os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data", "node")
    if os.path.isdir(root):
        return {n: partial(_from_files, os.path.join(root, n)) for n in os.listdir(root)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.loader import load_model_tests

        cases = load_model_tests(kind="node")
    return {c.name: partial(_from_case, c) for c in cases}


def _from_files(folder: str) -> Case:
    import onnx
    from onnx import numpy_helper

    def tensors(kind: str) -> Iterator[np.ndarray]:
        paths = glob.glob(os.path.join(folder, "test_data_set_0", kind + "_*.pb"))
        for path in sorted(paths, key=lambda p: int(p.rsplit("_", 1)[1][:-3])):
            tensor = onnx.TensorProto()
            try:
                with open(path, "rb") as f:
                    tensor.ParseFromString(f.read())
                yield numpy_helper.to_array(tensor)
            except Exception as e:
                raise NotImported("its %s cannot be read: %s" % (kind, e)) from None

    model = onnx.load(os.path.join(folder, "model.onnx"))
    _check_types(model)
    return model, list(tensors("input")), list(tensors("output"))


def _from_case(case: Any) -> Case:
    import onnx
    from onnx import numpy_helper

    def array(value: Any) -> np.ndarray:
        is_proto = isinstance(value, onnx.TensorProto)
        return np.asarray(numpy_helper.to_array(value) if is_proto else value)

    _check_types(case.model)
    inputs, outputs = case.data_sets[0]
    return case.model, [array(a) for a in inputs], [array(a) for a in outputs]


def _check_types(model: Any) -> None:
    """Raises NotImported where an input or output is not a tensor of a dtype that NumPy has."""
    import onnx

    for value in list(model.graph.input) + list(model.graph.output):
        if value.type.WhichOneof("value") != "tensor_type":
            raise NotImported("%s is not a tensor" % value.name)
        dtype = onnx.TensorProto.DataType.Name(value.type.tensor_type.elem_type)
        if dtype not in _DTYPES:
            raise NotImported("it has a tensor of %s" % dtype.lower())


# --- TVM's importer ----------------------------------------------------------------------------


def _import(ir: IR, model: Any, inputs: Sequence[np.ndarray]) -> tuple[Any, dict[str, np.ndarray]]:
    """Returns the imported module, and its inputs by the names of its parameters.

    The importer needs the values of some inputs (axes, a shape …), which ordinary models have as
    initializers. If the import of the unchanged model fails, such inputs are made initializers.
    """
    feeds = dict(zip([i.name for i in model.graph.input], inputs))
    try:
        return _import_with(ir, model, feeds)
    except Exception as first:
        bound = _parameters_bound(model, feeds)
        if bound is None:
            raise
        try:
            return _import_with(ir, *bound)
        except Exception:
            raise first from None


def _parameters_bound(model: Any, feeds: Mapping[str, np.ndarray]) -> Any:
    """Returns model and inputs with int64 vectors and scalars turned into initializers.

    The first input stays an input. Returns None if no other is such a vector or scalar.
    """
    from onnx import numpy_helper

    names = [n for n in list(feeds)[1:] if feeds[n].dtype == np.int64 and feeds[n].ndim <= 1]
    if not names:
        return None
    changed = type(model)()
    changed.CopyFrom(model)
    kept = [i for i in changed.graph.input if i.name not in names]
    del changed.graph.input[:]
    changed.graph.input.extend(kept)
    changed.graph.initializer.extend(numpy_helper.from_array(feeds[n], n) for n in names)
    return changed, {n: a for n, a in feeds.items() if n not in names}


def _import_with(ir: IR, model: Any, feeds: Mapping[str, np.ndarray]) -> tuple[Any, dict[str, np.ndarray]]:
    shapes = {n: list(a.shape) for n, a in feeds.items()}
    module = imported(ir, model, shapes)
    parameters = list(module["main"].params)
    if len(parameters) != len(feeds):
        raise NotImported("%d parameters are left of %d inputs" % (len(parameters), len(feeds)))
    names = [str(getattr(p, "name_hint", None) or p.name) for p in parameters]
    if set(names) != set(feeds):  # the importer has renamed the parameters, but kept their order
        return module, dict(zip(names, feeds.values()))
    return module, {n: feeds[n] for n in names}


def imported(ir: IR, model: Any, shapes: Mapping[str, list[int]]) -> Any:
    """Returns the module that TVM's frontend makes of a model. shapes: those of its inputs.

    Raises NotImported where extents depend on values, and what the frontend raises.
    """
    module = _relay(model, shapes) if ir.NAME == "relay" else _relax(model, shapes)
    if ir.NAME == "relay" and _is_dynamic(ir, module):
        module = _language(ir).transform.DynamicToStatic()(module)
    if _is_dynamic(ir, module):
        raise NotImported("shapes in the imported module depend on values")
    return module


def _relay(model: Any, shapes: Mapping[str, list[int]]) -> Any:
    from tvm import relay

    module, _ = relay.frontend.from_onnx(model, shape=shapes, freeze_params=True)
    return relay.transform.InferType()(module)


def _relax(model: Any, shapes: Mapping[str, list[int]]) -> Any:
    from tvm.relax.frontend.onnx import from_onnx

    return from_onnx(model, shape_dict=dict(shapes), keep_params_in_input=False)


def with_open_extents(model: Any, shapes: Mapping[str, list[int]]) -> Any:
    """Returns the module that Relax's frontend makes of a model whose open axes stay open.

    shapes: those of some inputs. Raises what the frontend raises.
    """
    return _relax(model, shapes)


def _is_dynamic(ir: IR, module: Any) -> bool:
    """Returns whether the type of any value has a dimension that is not a number."""
    dynamic = []
    language = _language(ir)

    def visit(e: Any) -> None:
        pending = [_type_of(e)] if isinstance(e, (language.Call, language.Var)) else []
        while pending:
            t = pending.pop()
            pending += list(getattr(t, "fields", ()))
            if hasattr(t, "dtype") and hasattr(t, "shape"):  # a tensor
                # In Relax an unknown shape is None or a variable.
                known = ir.NAME == "relay" or hasattr(t.shape, "values")
                dynamic.append(not known or any(not hasattr(d, "value") for d in t.shape))

    language.analysis.post_order_visit(module["main"], visit)
    return any(dynamic)


def _type_of(e: Any) -> Any:
    """Returns the type of an expression of either IR; None if it has none, such as an operator."""
    for attribute in ("checked_type", "struct_info", "ty"):
        try:
            return getattr(e, attribute)
        except (AttributeError, ValueError, RuntimeError):
            continue
    return None


def _language(ir: IR) -> Any:
    return importlib.import_module("tvm." + ir.NAME)


def operators(ir: IR, module: Any) -> list[str]:
    """Returns the sorted names of the operators that a module calls, each once."""
    import tvm

    names = set()
    language = _language(ir)

    def visit(e: Any) -> None:
        if isinstance(e, language.Call) and isinstance(e.op, tvm.ir.Op):
            names.add(str(e.op.name))

    for function in module.functions.values():
        if isinstance(function, language.Function):
            language.analysis.post_order_visit(function, visit)
    return sorted(names)


JOBS = {"onnx-describe": describe, "onnx-import": import_tests}
