"""Open extents in Relax: how the types of a function tell them, and where its arguments hold them."""

from __future__ import annotations

import operator
from typing import Any, Callable, Dict, Optional, Sequence

from .extent import Extent, Length, greatest, least
from .subgraph import Argument, Subgraph

# The lengths of the variables of a function.
Lengths = Dict[Any, Length]

# TVM 0.27 moved these classes from tvm.tir to another module.
_CALCULATED: Dict[str, Callable[[Length, Length], Length]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "FloorDiv": operator.floordiv,
    "Min": least,
    "Max": greatest,
}


def length_of(expr: Any, lengths: Optional[Lengths] = None) -> Length:
    """Returns the length that an expression of TVM's stands for. Raises TypeError for other ones.

    ``lengths``: the lengths of the variables; by default each has one that equals no other's.
    """
    kind = type(expr).__name__
    if isinstance(getattr(expr, "value", expr), int):
        return int(getattr(expr, "value", expr))
    if kind == "Var":
        if lengths is None:
            return Extent(f"{expr.name}_{hash(expr)}")
        if expr in lengths:
            return lengths[expr]
    if kind in _CALCULATED:
        return _CALCULATED[kind](length_of(expr.a, lengths), length_of(expr.b, lengths))
    raise TypeError(f"an extent is {expr}")


def extents_in(type_: Any) -> Sequence[Any]:
    """Returns the extents of a tensor's type, or those that an argument of the type Shape holds."""
    values = getattr(type_, "values", None)
    return list(values if values is not None else getattr(type_, "shape", None) or ())


def is_shape(type_: Any) -> bool:
    """Returns whether an argument of the type holds extents, and no tensor."""
    return not hasattr(type_, "fields") and not hasattr(type_, "dtype")


def find(types: Sequence[Any], graph: Subgraph) -> None:
    """Adds the open extents of a function to its subgraph, with the length of each variable.

    TVM passes a variable that no tensor tells in an argument of its own. ``types``: those of the
    function's parameters, none of which is a tuple if an extent is open.
    """
    graph.shapes = [number for number, type_ in enumerate(types) if is_shape(type_)]
    for number, type_ in enumerate(types):
        for axis, expr in enumerate(extents_in(type_)):
            if type(expr).__name__ == "Var" and expr not in graph.lengths:
                graph.lengths[expr] = graph.extent(Argument(number, axis, is_shape(type_)))


def bind(type_: Any, value: Any, lengths: Lengths) -> None:
    """Adds the lengths of the variables in a parameter's type, given the value of its argument."""
    if hasattr(type_, "fields"):
        for field, part in zip(type_.fields, value):
            bind(field, part, lengths)
        return
    for expr, length in zip(extents_in(type_), getattr(value, "shape", value)):
        if type(expr).__name__ == "Var":
            lengths.setdefault(expr, length)


def entry_point(graph: Subgraph) -> str:
    """Returns the function by which Relax's runtime calls a subgraph with open extents.

    The pointers to the extents follow those to the data of inputs and outputs.
    """
    count = len(graph.inputs) + len(graph.outputs)
    total = count + len(graph.shapes)
    tensors = [number for number in range(total) if number not in graph.shapes]
    tensor, shape = f"{graph.symbol}_tensor", f"{graph.symbol}_shape"
    extents = [
        f"data[{count + position}] = (void*)"
        + (f"({shape}(&args[{a.number}])" if a.is_shape else f"({tensor}(&args[{a.number}])->shape")
        + f" + {a.axis});"
        for position, a in enumerate(graph.extents)
    ]
    checks = [f"args[{number}].type_index != kTVMFFIShape" for number in graph.shapes]
    return f"""
static const DLTensor* {tensor}(const TVMFFIAny* arg) {{
  if (arg->type_index == kTVMFFIDLTensorPtr) return (const DLTensor*)arg->v_ptr;
  if (arg->type_index != kTVMFFITensor) return NULL;
  return (const DLTensor*)((const char*)arg->v_obj + sizeof(TVMFFIObject));
}}
static const int64_t* {shape}(const TVMFFIAny* arg) {{
  return ((const TVMFFIShapeCell*)((const char*)arg->v_obj + sizeof(TVMFFIObject)))->data;
}}
#ifdef __cplusplus
extern "C"
#endif
TVM_FFI_DLL_EXPORT int __tvm_ffi_{graph.symbol}(void* self, const TVMFFIAny* args,
                                                int32_t num_args, TVMFFIAny* result) {{
  static const int tensors[{count}] = {{{", ".join(map(str, tensors))}}};
  void* data[{count + len(extents)}];
  const char* error;
  (void)self; (void)result; (void){shape};
  if (num_args != {total}) {{
    TVMFFIErrorSetRaisedFromCStr("TypeError", "{graph.symbol}: expected {total} arguments");
    return -1;
  }}
  if ({" || ".join(checks) or 0}) {{
    TVMFFIErrorSetRaisedFromCStr("TypeError", "{graph.symbol}: expected shapes");
    return -1;
  }}
  for (int i = 0; i < {count}; ++i) {{
    const DLTensor* const tensor = {tensor}(&args[tensors[i]]);
    if (tensor == NULL) {{
      TVMFFIErrorSetRaisedFromCStr("TypeError", "{graph.symbol}: expected tensors");
      return -1;
    }}
    data[i] = (char*)tensor->data + tensor->byte_offset;
  }}
  {" ".join(extents)}
  error = {graph.symbol}_run(data);
  if (error != NULL) {{
    TVMFFIErrorSetRaisedFromCStr("RuntimeError", error);
    return -1;
  }}
  return 0;
}}
"""
