"""Adds bystanders to modules of Relay, which a partition function has to leave alone, and finds them
again."""

from __future__ import annotations

from typing import Any

import numpy as np

from .shared import BYSTANDER, OTHER, attribute


def with_bystanders(module: Any, again: Any) -> Any:
    """Returns the module with bystanders, which a partition function has to leave alone.

    They are: a function and a caller of it; a type definition; an attribute of the module and one
    of main; a region of another target and a function that calls it; and a second such region, with
    a constant in a composite, that main's first output passes through (if it is a numeric tensor).

    again: the same graph lowered a second time. It becomes the first region, so that the region
    holds everything that the target could offload.
    """
    import tvm
    from tvm import relay

    functions = dict(module.functions.items())
    x = relay.var("x", shape=(2, 3), dtype="uint8")
    callee = relay.GlobalVar(BYSTANDER)
    # No target offloads `reinterpret`. TVM needs the return type of a function that is called.
    returned = relay.TensorType((2, 3), "int8")
    functions[callee] = relay.Function([x], relay.reinterpret(x, "int8"), ret_type=returned)
    given = relay.var("given", shape=(2, 3), dtype="uint8")
    functions[relay.GlobalVar(BYSTANDER + "_caller")] = relay.Function([given], relay.Call(callee, [given]))

    def region(function: Any, symbol: str) -> Any:
        for key, value in (("Compiler", OTHER), ("global_symbol", symbol)):
            function = function.with_attr(key, value)
        for key in ("Primitive", "Inline"):
            function = function.with_attr(key, tvm.tir.IntImm("int32", 1))
        functions[relay.GlobalVar(symbol)] = function
        return next(var for var in functions if var.name_hint == symbol)

    var = region(again["main"], OTHER + "_0")
    params = [relay.var(p.name_hint, type_annotation=p.checked_type) for p in again["main"].params]
    functions[relay.GlobalVar(OTHER + "_caller")] = relay.Function(params, relay.Call(var, params))
    main = module["main"]
    output_type, outputs = main.checked_type.ret_type, [main.body]
    several = isinstance(output_type, relay.TupleType)
    if several:
        if isinstance(main.body, relay.Tuple):
            outputs = list(main.body.fields)
        else:
            outputs = [relay.TupleGetItem(main.body, i) for i in range(len(output_type.fields))]
        output_type = output_type.fields[0]
    # NumPy has no bfloat16.
    if isinstance(output_type, relay.TensorType) and output_type.dtype not in ("bool", "bfloat16"):
        x, y = (relay.var(name, type_annotation=output_type) for name in "xy")
        ones = relay.const(np.ones([int(extent) for extent in output_type.shape]), output_type.dtype)
        composite = relay.Function([x], relay.add(x, ones), ret_type=output_type)
        composite = composite.with_attr("Composite", tvm.runtime.String(OTHER + ".add"))
        more = relay.Function([y], relay.Call(composite, [y]), ret_type=output_type)
        outputs[0] = relay.Call(region(more, OTHER + "_1"), outputs[:1])
        main = relay.Function(main.params, relay.Tuple(outputs) if several else outputs[0])
    functions[module.get_global_var("main")] = main.with_attr(BYSTANDER, tvm.runtime.String(OTHER))
    whole = tvm.IRModule(functions)
    kind = relay.GlobalTypeVar(BYSTANDER)
    whole[kind] = relay.TypeData(kind, [], [relay.Constructor(OTHER, [], kind)])
    typed = relay.transform.InferType()(whole)
    return typed.with_attr(BYSTANDER, tvm.runtime.String(OTHER))


def bystanders(module: Any) -> dict[str, str]:
    """Returns the bystanders found in a module as text by kind; lost ones are missing."""
    import tvm
    from tvm import relay

    texts: dict[str, str] = {}
    regions: list[str] = []
    for var, function in module.functions.items():
        if not isinstance(function, relay.Function):
            continue
        # The text is that of the function without its name, as TVM's own passes rename regions.
        if attribute(function, "Compiler") == OTHER:
            alone = tvm.IRModule.from_expr(relay.Function(function.params, function.body)).astext()
            regions.append(alone)
        elif var.name_hint == BYSTANDER:
            texts["function"] = tvm.IRModule.from_expr(function).astext()
        elif var.name_hint == "main" and attribute(function, BYSTANDER):
            texts["main_attribute"] = attribute(function, BYSTANDER)
    if regions:
        texts["region"] = "\n".join(sorted(regions))
    if attribute(module, BYSTANDER):
        texts["attribute"] = attribute(module, BYSTANDER)
    if BYSTANDER in [var.name_hint for var in module.get_global_type_vars()]:
        texts["type"] = str(module.type_definitions[module.get_global_type_var(BYSTANDER)])
    return texts
