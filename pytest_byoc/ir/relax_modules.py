"""Implements `interface.Modules` for Relax: the operations of checks on IRModules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ..core.union import in_turn
from .relax_nodes import with_non_op_nodes as with_non_op_nodes
from .shared import BYSTANDER, OTHER, attribute, only_reached, reached_from_main, symbol_of


def reached(module: Any) -> set[str]:
    """Returns the names of the functions that are reachable from main, including main."""
    from tvm import relax

    return reached_from_main(module, relax.Function, relax.analysis.post_order_visit)


def places(module: Any, names: Collection[str]) -> Counter[str]:
    """Returns the number of call sites of each function within the functions `names`."""
    import tvm
    from tvm import relax

    counts: Counter[str] = Counter()

    def visit(e: Any) -> None:
        if isinstance(e, relax.Call) and isinstance(e.op, tvm.ir.GlobalVar):
            counts[e.op.name_hint] += 1

    for name in names:
        relax.analysis.post_order_visit(module[name], visit)
    return counts


def _name(var: Any) -> str:
    # TVM renamed the attribute between 0.25 and 0.27.
    return str(var.name if hasattr(var, "name") else var.name_hint)


def return_type(function: Any) -> Any:
    """Returns the type of a function's result."""
    return function.ret_struct_info if hasattr(function, "ret_struct_info") else function.ret_ty


def read_by_regions(module: Any, symbols: Sequence[str]) -> list[int]:
    """Returns the positions of main's parameters that only regions with these symbols read.

    The regions have to read each as a separate argument, not as part of a tuple.
    """
    import tvm
    from tvm import relax

    main = module["main"]
    read: set[str] = set()
    otherwise: set[str] = set()

    def note(values: Sequence[Any], where: set[str]) -> None:
        where.update(_name(v) for v in values if isinstance(v, relax.Var))

    def visit(e: Any) -> None:
        if isinstance(e, relax.Call):
            named = isinstance(e.op, tvm.ir.GlobalVar)
            named = named and symbol_of(e.op.name_hint, module[e.op]) in symbols
            note(e.args, read if named else otherwise)
        elif isinstance(e, relax.Tuple):
            note(e.fields, otherwise)
        elif isinstance(e, relax.TupleGetItem):
            note([e.tuple_value], otherwise)
        elif isinstance(e, relax.SeqExpr):
            # A binding to another variable is an alias, which counts as a different reader.
            note([e.body, *(b.value for block in e.blocks for b in block.bindings)], otherwise)
        elif isinstance(e, relax.If):
            note([e.cond], otherwise)

    relax.analysis.post_order_visit(main, visit)
    return [at for at, p in enumerate(main.params) if _name(p) in read - otherwise]


def inline_back(module: Any) -> Any:
    """Returns a partitioned module with every region and composite inlined where it is called.

    Nothing of the vendor's is left: the result is the partitioned main in plain Relax.
    """
    import tvm
    from tvm import relax

    def stripped(mod: Any) -> Any:
        functions = {}
        for var, function in mod.functions.items():
            if isinstance(function, relax.Function) and (
                attribute(function, "Codegen") or attribute(function, "Composite")
            ):
                for key in ("Codegen", "Composite", "Primitive", "global_symbol"):
                    function = function.without_attr(key) if attribute(function, key) else function
            functions[var] = function
        return tvm.IRModule(functions)

    # Composites are local functions of their region. Once lifted, they can be inlined like regions.
    lifted = relax.transform.LambdaLift()(stripped(module))
    return relax.transform.InlinePrivateFunctions()(stripped(lifted))


def with_bystanders(module: Any, again: Any) -> Any:
    """Returns the module with bystanders, which a partition function has to leave alone.

    They are: a function, a global info, an attribute of the module, an attribute of main, and
    regions of another target. again: the same graph lowered a second time. It is partitioned into
    these regions, so that they hold everything that the target could offload.
    """
    import tvm
    from tvm import relax

    builder = relax.BlockBuilder()
    tensor = getattr(relax, "TensorStructInfo", None) or relax.TensorType
    x, y = (relax.Var(name, tensor((2, 3), "int32")) for name in "xy")
    with builder.function("main", [x, y]):
        with builder.dataflow():
            result = builder.emit_output(relax.op.bitwise_xor(x, y))
        builder.emit_func_output(result)
    functions = dict(module.functions.items())
    functions[module.get_global_var("main")] = module["main"].with_attr(BYSTANDER, OTHER)
    # The function is a PrimFunc, because TVM's own MergeCompositeFunctions raises for a second
    # Relax function (0.27). For the same reason nothing calls the region.
    for function in relax.transform.LegalizeOps()(builder.get()).functions.values():
        if not isinstance(function, relax.Function):
            functions[tvm.ir.GlobalVar(BYSTANDER)] = function.with_attr("global_symbol", BYSTANDER)
    for var, function in _partitioned_for_another(again).functions.items():
        if attribute(function, "Codegen"):
            functions[var] = function
    whole = tvm.IRModule(functions).with_attr(BYSTANDER, OTHER)
    # TVM has moved the class between versions.
    info = getattr(tvm.ir, "DummyGlobalInfo", None) or relax.global_info.DummyGlobalInfo
    whole.update_global_info(BYSTANDER, [info()])
    return whole


def _partitioned_for_another(module: Any) -> Any:
    """Returns the module partitioned by TVM for a target that offloads every operator in it."""
    import tvm
    from tvm import relax
    from tvm.relax.dpl import is_op, wildcard

    calls: dict[tuple[str, int], None] = {}

    def visit(e: Any) -> None:
        if isinstance(e, relax.Call) and isinstance(e.op, tvm.ir.Op):
            calls[e.op.name, len(e.args)] = None

    relax.analysis.post_order_visit(module["main"], visit)
    # varg_default_wildcard is not used: to bind constants, TVM would look for operands that the
    # pattern does not have.
    patterns = [("%s.%s" % (OTHER, n), is_op(n)(*[wildcard() for _ in range(k)])) for n, k in calls]
    fused = relax.transform.FuseOpsByPattern(patterns, bind_constants=True, annotate_codegen=False)(module)
    return relax.transform.MergeCompositeFunctions()(fused)


def operators_called(function: Any) -> list[Any]:
    """Returns the operator calls that a run of a function makes.

    The calls in a local function appear once for each call of it, since TVM merges equal composites
    into one function.
    """
    import tvm
    from tvm import relax

    calls: list[Any] = []
    local: dict[Any, Any] = {}

    def walk(body: Any) -> None:
        if not isinstance(body, relax.SeqExpr):
            look(body)
            return
        for binding in (b for block in body.blocks for b in block.bindings):
            if isinstance(binding.value, relax.Function):
                local[binding.var] = binding.value
            else:
                look(binding.value)
        look(body.body)

    def look(e: Any) -> None:
        if isinstance(e, relax.If):
            walk(e.true_branch)
            walk(e.false_branch)
        elif isinstance(e, relax.Call):
            for argument in e.args:
                look(argument)
            if isinstance(e.op, tvm.ir.Op):
                calls.append(e)
            elif e.op in local:
                walk(local[e.op].body)
            elif isinstance(e.op, relax.Function):
                walk(e.op.body)
        elif isinstance(e, relax.Tuple):
            for field in e.fields:
                look(field)
        elif isinstance(e, relax.TupleGetItem):
            look(e.tuple_value)

    walk(function.body)
    return calls


def bystanders(module: Any) -> dict[str, str]:
    """Returns the bystanders found in a module as text by kind; lost ones are missing."""
    from tvm import relax

    texts = {}
    regions = []
    for var, function in module.functions.items():
        if isinstance(function, relax.Function) and attribute(function, "Codegen") == OTHER:
            regions.append(_text(function))
        elif var.name_hint == BYSTANDER:
            texts["function"] = _text(function)
        elif var.name_hint == "main" and attribute(function, BYSTANDER):
            texts["main_attribute"] = attribute(function, BYSTANDER)
    if regions:
        # Their order in the module may change.
        texts["region"] = "\n".join(sorted(regions))
    if attribute(module, BYSTANDER):
        texts["attribute"] = attribute(module, BYSTANDER)
    if BYSTANDER in module.global_infos:
        texts["global_info"] = str(len(module.global_infos[BYSTANDER]))
    return texts


def _text(function: Any) -> str:
    import tvm

    for key in ("Codegen", "global_symbol"):
        function = function.without_attr(key) if attribute(function, key) else function
    return str(tvm.IRModule({tvm.ir.GlobalVar("f"): function}).script())


def ready_for_another(module: Any) -> Any:
    """Returns the module itself, which can be partitioned a second time as it is."""
    return module


def marked_by_hand(
    module: Any, partitioned: Any, regions: Sequence[Mapping[str, Any]], table: Any
) -> Any:
    """Returns the module with the matches of one pattern turned into regions.

    The pattern is the first of the table that has a composite in the target's regions. None where
    there is none.
    """
    from tvm import relax

    composites = {name for region in regions for name in region["composites"]}
    entries = [entry for name, _, entry in table if name in composites]
    if not entries:
        return None
    fuse = relax.transform.FuseOpsByPattern(entries[:1], bind_constants=True, annotate_codegen=True)
    return fuse(module)


def marks(module: Any) -> str:
    """Returns "": in Relax a mark is an attribute of a region's function, so none can be left in
    main."""
    return ""


def oddities(function: Any) -> list[str]:
    """Returns the ways in which a region is trivial, see `Target.trivial_regions`.

    They are "empty" (it calls no operator), "identity" (it returns an input unchanged) and
    "duplicate" (it returns a value twice).
    """
    import tvm
    from tvm import relax

    kinds = []
    called: list[Any] = []
    relax.analysis.post_order_visit(
        function,
        # A region may call composites that are functions of the module, so those calls count too.
        lambda e: called.append(e)
        if isinstance(e, relax.Call) and isinstance(e.op, (tvm.ir.Op, tvm.ir.GlobalVar, relax.ExternFunc))
        else None,
    )
    if not called:
        kinds.append("empty")
    bound: dict[Any, Any] = {}
    body = function.body
    for block in getattr(body, "blocks", ()):
        for binding in block.bindings:
            if hasattr(binding, "value"):
                bound[binding.var] = binding.value
    outputs: list[Any] = []
    _flatten(getattr(body, "body", body), bound, outputs)
    params = list(function.params)
    if any(any(e.same_as(p) for p in params) for e in outputs):
        kinds.append("identity")
    if any(a.same_as(b) for i, a in enumerate(outputs) for b in outputs[:i]):
        kinds.append("duplicate")
    return kinds


def _flatten(expr: Any, bound: dict[Any, Any], into: list[Any]) -> None:
    from tvm import relax

    value = bound.get(expr) if isinstance(expr, relax.Var) else expr
    if isinstance(value, (relax.Var, relax.Tuple)) and value is not expr:
        _flatten(value, bound, into)
    elif isinstance(expr, relax.Tuple):
        for field in expr.fields:
            _flatten(field, bound, into)
    else:
        into.append(expr)


def ill_formed(module: Any) -> str:
    """Returns "the module" if it is ill-formed, for example uses an unbound variable; otherwise
    ""."""
    from tvm import relax

    # check_well_formed returns a bool. Older versions lack it; their well_formed does not raise.
    check = getattr(relax.analysis, "check_well_formed", None) or relax.analysis.well_formed
    return "" if check(module) else "the module"


def outline(module: Any) -> list[str]:
    """Returns the functions as lines of text, sorted by name, without the elements of constants."""
    from tvm import relax

    lines: list[str] = []
    for var, function in sorted(module.functions.items(), key=lambda item: str(item[0].name_hint)):
        lines.append(str(var.name_hint))
        if isinstance(function, relax.Function):
            lines += _text(function).splitlines()
            if function.attrs is not None:
                lines += ["%s = %s" % (k, function.attrs[k]) for k in sorted(function.attrs.keys())]
    return lines


def text(module: Any) -> str:
    """Returns TVM's text of the module, without the elements of constants."""
    return str(module.script())


def hash_of(module: Any) -> str:
    """Returns TVM's structural hash of the module, to which the elements of constants belong."""
    import tvm_ffi

    return str(tvm_ffi.structural_hash(module))


def through_json(module: Any) -> tuple[Any, bool]:
    """Saves the module as JSON and reads it back.

    Returns the module that was read, and whether it is structurally equal to the first.
    """
    import tvm

    back = tvm.ir.load_json(tvm.ir.save_json(module))
    try:
        tvm.ir.assert_structural_equal(module, back)
    except ValueError:
        return back, False
    return back, True


def merged(modules: Mapping[int, Any]) -> Any:
    """Returns None: Relax infers types while a module is built, so merging would save no time."""
    return None


def taken_apart(module: Any, counts: Sequence[int]) -> list[Any] | None:
    """Returns a module for each of several graphs in one, see `interface.Modules.taken_apart`."""
    import tvm
    from tvm import relax

    main = module["main"]
    blocks = main.body.blocks if isinstance(main.body, relax.SeqExpr) else []
    bindings = [b for block in blocks for b in block.bindings]
    values = {b.var: b.value for b in bindings if isinstance(b, relax.VarBinding)}
    returned: Any = getattr(main.body, "body", None)
    while returned in values:
        returned = values[returned]
    is_whole = isinstance(returned, relax.Tuple) and len(returned.fields) == sum(counts)
    if len(values) < len(bindings) or not is_whole:
        return None
    read = {var: list(relax.analysis.free_vars(value)) for var, value in values.items()}
    others = {v: f for v, f in module.functions.items() if _name(v) != "main"}
    types = return_type(main)
    modules = []
    for own, their in zip(in_turn(returned.fields, counts), in_turn(types.fields, counts)):
        needed: set[Any] = set()
        left: list[Any] = [var for expr in own for var in relax.analysis.free_vars(expr)]
        while left:
            var = left.pop()
            if var not in needed:
                needed.add(var)
                left += read.get(var, [])
        for var in values:
            # What nothing reads belongs to the graph whose values it is made of.
            if not needed.isdisjoint(read[var]):
                needed.add(var)
        block = relax.DataflowBlock([b for b in bindings if b.var in needed])
        result, kind = (own[0], their[0]) if len(own) == 1 else (relax.Tuple(own), type(types)(their))
        params = [p for p in main.params if p in needed]
        part = relax.Function(params, relax.SeqExpr([block], result), kind, main.is_pure)
        whole = tvm.IRModule({**others, tvm.ir.GlobalVar("main"): part})
        modules.append(only_reached(whole, reached))
    return modules
