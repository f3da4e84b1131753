"""Implements `interface.Modules` for Relay: the operations of checks on IRModules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..core.union import in_turn
from .relay_bystanders import bystanders as bystanders
from .relay_bystanders import with_bystanders as with_bystanders
from .relay_nodes import with_non_op_nodes as with_non_op_nodes
from .shared import attribute, only_reached, reached_from_main, symbol_of


def reached(module: Any) -> set[str]:
    """Returns the names of the functions that are reachable from main, including main."""
    from tvm import relay

    return reached_from_main(module, relay.Function, relay.analysis.post_order_visit)


def read_by_regions(module: Any, symbols: Sequence[str]) -> list[int]:
    """Returns the positions of main's parameters that only regions with these symbols read.

    The regions have to read each as a separate argument, not as part of a tuple.
    """
    from tvm import relay

    read: set[str] = set()
    otherwise: set[str] = set()

    def visit(e: Any) -> None:
        if isinstance(e, relay.Call):
            named = isinstance(e.op, relay.GlobalVar) and symbol_of(e.op.name_hint, module[e.op]) in symbols
            note(e.args, read if named else otherwise)
        elif isinstance(e, relay.Tuple):
            note(e.fields, otherwise)
        elif isinstance(e, relay.TupleGetItem):
            note([e.tuple_value], otherwise)
        elif isinstance(e, relay.Let):
            note([e.value, e.body], otherwise)
        elif isinstance(e, relay.If):
            note([e.cond, e.true_branch, e.false_branch], otherwise)
        elif isinstance(e, relay.Function):
            note([e.body], otherwise)

    def note(arguments: Sequence[Any], where: set[str]) -> None:
        where.update(a.name_hint for a in arguments if isinstance(a, relay.Var))

    main = module["main"]
    relay.analysis.post_order_visit(main.body, visit)
    note([main.body], otherwise)
    return [at for at, p in enumerate(main.params) if p.name_hint in read - otherwise]


def inline_back(module: Any) -> Any:
    """Returns a partitioned module with every region and composite inlined where it is called.

    Nothing of the vendor's is left: the result is the partitioned main in plain Relay.
    """
    import tvm
    from tvm import relay

    class Inliner(relay.ExprMutator):  # type: ignore[misc]
        def visit_call(self, call: Any) -> Any:
            args = [self.visit(a) for a in call.args]
            op = call.op
            if isinstance(op, relay.GlobalVar) and attribute(module[op], "Compiler"):
                op = module[op]
            if isinstance(op, relay.Function):
                # The body is visited too, since a composite may hold another.
                return relay.bind(self.visit(op.body), dict(zip(op.params, args)))
            return relay.Call(op, args, call.attrs, call.type_args, call.span)

    main = module["main"]
    body = Inliner().visit(main.body)
    return relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function(main.params, body)))


def ready_for_another(module: Any) -> Any:
    """Returns a partitioned module with its regions renamed, for a second partitioning.

    PartitionGraph refuses names of functions that it has generated before.
    """
    import tvm
    from tvm import relay

    names: dict[str, Any] = {}
    for var, function in module.functions.items():
        if isinstance(function, relay.Function) and attribute(function, "Compiler"):
            names[var.name_hint] = relay.GlobalVar("byoc_again_%d" % len(names))
    renamed, functions = _renaming(names), {}
    for var, function in module.functions.items():
        changed = renamed.visit(function) if isinstance(function, relay.Function) else function
        new = names.get(var.name_hint, var)
        if new is not var:
            changed = changed.with_attr("global_symbol", new.name_hint)
        functions[new] = changed
    return relay.transform.InferType()(tvm.IRModule(functions))


def marked_by_hand(
    module: Any, partitioned: Any, regions: Sequence[Mapping[str, Any]], table: Any
) -> Any:
    """Returns the module with one call of main between compiler_begin and compiler_end.

    A region of the partitioned module has to hold a call of the same operator with equal attributes
    and type. None where no call is suitable; calls that read or return tuples are not.
    """
    import tvm
    from tvm import relay
    from tvm.relay.op.annotation import compiler_begin, compiler_end

    module = relay.transform.InferType()(module)

    def calls(function: Any) -> list[Any]:
        operator_calls: list[Any] = []

        def visit(e: Any) -> None:
            if isinstance(e, relay.Call) and isinstance(e.op, tvm.ir.Op):
                operator_calls.append(e)

        relay.analysis.post_order_visit(function.body, visit)
        return operator_calls

    def tensors_alone(call: Any) -> bool:
        types = [call.checked_type, *(a.checked_type for a in call.args)]
        return all(isinstance(t, relay.TensorType) for t in types)

    def same(a: Any, b: Any) -> bool:
        # The target may refuse calls of the operator with other types or attributes.
        alike = a.op.name == b.op.name and a.checked_type == b.checked_type
        return alike and bool(tvm.ir.structural_equal(a.attrs, b.attrs))

    functions = relay.transform.InferType()(partitioned).functions.values()
    compilers = [(f, attribute(f, "Compiler")) for f in functions if isinstance(f, relay.Function)]
    offloaded = [(call, compiler) for f, compiler in compilers if compiler for call in calls(f)]
    candidates = filter(tensors_alone, reversed(calls(module["main"])))
    matches = ((call, compiler) for call in candidates for t, compiler in offloaded if same(t, call))
    marked, compiler = next(matches, (None, ""))
    if marked is None:
        return None

    class Marker(relay.ExprMutator):  # type: ignore[misc]
        def visit_call(self, call: Any) -> Any:
            args = [self.visit(a) for a in call.args]
            if not call.same_as(marked):
                return relay.Call(call.op, args, call.attrs, call.type_args, call.span)
            begun = [compiler_begin(a, compiler) for a in args]
            return compiler_end(relay.Call(call.op, begun, call.attrs, call.type_args, call.span), compiler)

    main = module["main"]
    body = Marker().visit(main.body)
    return relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function(main.params, body)))


def marks(module: Any) -> str:
    """Returns the operators in main that have a compiler_end after them; "" if there are none."""
    from tvm import relay

    operators: list[str] = []

    def visit(e: Any) -> None:
        if isinstance(e, relay.Call) and getattr(e.op, "name", "") == "annotation.compiler_end":
            operators.append(getattr(getattr(e.args[0], "op", None), "name", "a call"))

    relay.analysis.post_order_visit(module["main"].body, visit)
    return ", ".join(operators)


def oddities(function: Any) -> list[str]:
    """Returns the ways in which a region is trivial, see `Target.trivial_regions`.

    They are "empty" (it calls no operator), "identity" (it returns an input unchanged) and
    "duplicate" (it returns a value twice).
    """
    import tvm
    from tvm import relay

    kinds = []
    called: list[Any] = []
    relay.analysis.post_order_visit(
        function.body,
        lambda e: called.append(e) if isinstance(e, relay.Call) and isinstance(e.op, tvm.ir.Op) else None,
    )
    if not called:
        kinds.append("empty")
    outputs: list[Any] = []
    _flatten(function.body, outputs)
    if any(isinstance(e, relay.Var) for e in outputs):
        kinds.append("identity")
    if len(set(outputs)) < len(outputs):
        kinds.append("duplicate")
    return kinds


def _flatten(expr: Any, into: list[Any]) -> None:
    from tvm import relay

    if isinstance(expr, relay.Tuple):
        for field in expr.fields:
            _flatten(field, into)
    elif isinstance(expr, relay.TupleGetItem) and isinstance(expr.tuple_value, relay.Tuple):
        _flatten(expr.tuple_value.fields[expr.index], into)
    else:
        into.append(expr)


def ill_formed(module: Any) -> str:
    """Returns the name of a function that uses a variable before it is bound, or binds one twice.

    Returns "" if there is none.
    """
    from tvm import relay

    for var, function in module.functions.items():
        if isinstance(function, relay.Function) and not relay.analysis.well_formed(function):
            return str(var.name_hint)
    return ""


def outline(module: Any) -> list[str]:
    """Returns the functions as lines of text, sorted by name, without the elements of constants."""
    import tvm
    from tvm import relay

    lines: list[str] = []
    for var, function in sorted(module.functions.items(), key=lambda item: str(item[0].name_hint)):
        lines.append(str(var.name_hint))
        if isinstance(function, relay.Function):
            text = tvm.IRModule.from_expr(relay.Function(function.params, function.body)).astext(False)
            lines += text.splitlines()
            attrs = function.attrs or {}
            lines += ["%s = %s" % (k, attrs[k]) for k in sorted(attrs.keys())]
    return lines


def text(module: Any) -> str:
    """Returns TVM's text of the module, without the elements of constants."""
    return str(module.astext(show_meta_data=False))


def hash_of(module: Any) -> str:
    """Returns TVM's structural hash of the module, to which the elements of constants belong."""
    import tvm

    return str(tvm.ir.structural_hash(module))


def through_json(module: Any) -> tuple[Any, bool]:
    """Saves the module as JSON and reads it back.

    Returns the module that was read, and whether it is structurally equal to the first.
    """
    import tvm

    back = tvm.ir.load_json(tvm.ir.save_json(module))
    # A module has no free variables, but older TVMs treat references to functions as such.
    return back, bool(tvm.ir.structural_equal(module, back, map_free_vars=True))


def merged(modules: Mapping[int, Any]) -> Any:
    """Returns one module with the functions and results of several partitioned ones.

    modules: by number; the names of their inputs differ. The names and symbols of a module's
    functions get the suffix `_g<number>`. None where merging could lose something: attributes of
    the module or of main, functions that are not Relay's, a main in A-normal form.
    """
    import tvm
    from tvm import relay

    functions: dict[Any, Any] = {}
    params: list[Any] = []
    outputs: list[Any] = []
    for number, module in modules.items():
        if module["main"].ret_type is None:
            module = relay.transform.InferType()(module)
        main = module["main"]
        others = {v.name_hint: f for v, f in module.functions.items() if v.name_hint != "main"}
        if _has_attributes(module) or _has_attributes(main) or isinstance(main.body, relay.Let):
            return None
        if not all(isinstance(function, relay.Function) for function in others.values()):
            return None
        names = {name: relay.GlobalVar("%s_g%d" % (name, number)) for name in others}
        renamed = _renaming(names)
        for name, function in others.items():
            body = renamed.visit(function.body) if _global_vars(function) else function.body
            new = relay.Function(
                function.params, body, function.ret_type, function.type_params, function.attrs
            )
            symbol = attribute(function, "global_symbol")
            if symbol:
                new = new.with_attr("global_symbol", "%s_g%d" % (symbol, number))
            functions[names[name]] = new
        params += main.params
        body = renamed.visit(main.body)
        if isinstance(body, relay.Tuple):
            outputs += body.fields
        elif isinstance(main.ret_type, tvm.ir.TupleType):
            outputs += [relay.TupleGetItem(body, i) for i in range(len(main.ret_type.fields))]
        else:
            outputs.append(body)
    returned = outputs[0] if len(outputs) == 1 else relay.Tuple(outputs)
    functions[relay.GlobalVar("main")] = relay.Function(params, returned)
    return relay.transform.InferType()(tvm.IRModule(functions))


def taken_apart(module: Any, counts: Sequence[int]) -> list[Any] | None:
    """Returns a module for each of several graphs in one, see `interface.Modules.taken_apart`."""
    import tvm
    from tvm import relay

    body = module["main"].body
    if not isinstance(body, relay.Tuple) or len(body.fields) != sum(counts):
        return None
    others = {v: f for v, f in module.functions.items() if v.name_hint != "main"}
    modules = []
    for own in in_turn(body.fields, counts):
        returned = own[0] if len(own) == 1 else relay.Tuple(own)
        main = relay.Function(relay.analysis.free_vars(returned), returned)
        modules.append(only_reached(tvm.IRModule({**others, relay.GlobalVar("main"): main}), reached))
    return modules


def _has_attributes(what: Any) -> bool:
    attrs = getattr(what, "attrs", None)
    return attrs is not None and len(attrs.keys()) > 0


def _global_vars(function: Any) -> list[Any]:
    from tvm import relay

    variables: list[Any] = []
    relay.analysis.post_order_visit(
        function.body, lambda e: variables.append(e) if isinstance(e, relay.GlobalVar) else None
    )
    return variables


def _renaming(names: Mapping[str, Any]) -> Any:
    """Returns a mutator that replaces GlobalVars. names: the new ones by the old names."""
    from tvm import relay

    class Renaming(relay.ExprMutator):  # type: ignore[misc]
        def visit_global_var(self, var: Any) -> Any:
            return names.get(var.name_hint, var)

    return Renaming()
