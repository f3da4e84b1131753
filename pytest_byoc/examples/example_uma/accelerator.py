"""The vendor's part: what the accelerator computes, and the code that its regions need."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Sequence

import tvm

from .backend import Backend, PassPhase, Predicate, Tensor
from .multiply_add import FUNCTIONS, to_the_accelerator

_C_CODE = Path(__file__).with_name("accelerator.c")
#: The layouts of data and weights that TVM's loops for convolutions are linear in.
_LAYOUTS = {"nn.conv1d": ("NCW", "OIW"), "nn.conv2d": ("NCHW", "OIHW"), "nn.conv3d": ("NCDHW", "OIDHW")}
_PRODUCTS = {"relay": ("nn.dense", "nn.matmul", "nn.batch_matmul"), "relax": ("matmul",)}
#: Written in C by TVM, so that they can be in a region with a convolution or a product. Not subtract: within
#: a function TVM makes 0 of x - x, also of infinities.
_ELEMENTWISE = {
    "relay": ("add", "multiply", "nn.bias_add", "nn.relu"),
    "relax": ("add", "multiply", "nn.relu"),
}


class Accelerator(Backend):
    """Convolutions and products of matrices by the accelerator, with what is simple around them."""

    target_name = "example_uma"

    def __init__(self, ir: str) -> None:
        super().__init__(ir)
        for operator, layouts in _LAYOUTS.items():
            self._register_pattern(operator, _convolution(*layouts))
        for operator in _PRODUCTS[ir]:
            # TVM 0.16 ignores out_dtype where it lowers batch_matmul for C.
            int8 = operator != "nn.batch_matmul"
            self._register_pattern(operator, _product if int8 else _product_of_float32)
        for operator in _ELEMENTWISE[ir]:
            self._register_pattern(operator, _elementwise)
        self._register_pass(PassPhase.PRE_PARTITIONING, dead_code_elimination(ir))
        self._register_pass(PassPhase.TIR, accelerate)
        untyped = "#define EXAMPLE_UMA_UNTYPED\n" if ir == "relax" else ""
        self._register_codegen(includes=lambda: untyped + _C_CODE.read_text())


def dead_code_elimination(ir: str) -> Any:
    """A region that nothing uses would lose its call, but stay in the module."""
    return getattr(tvm, ir).transform.DeadCodeElimination()


@tvm.transform.module_pass(opt_level=0, name="example_uma.Accelerate")
def accelerate(mod: tvm.IRModule, context: Any) -> tvm.IRModule:
    """Gives sums of products to the accelerator."""
    return tvm.IRModule({var: to_the_accelerator(function) for var, function in mod.functions.items()})


def _convolution(data: str, kernel: str) -> Predicate:
    def check(attrs: Any, operands: Sequence[Tensor], result: Tensor) -> bool:
        layouts = [str(attrs.data_layout), str(attrs.kernel_layout), str(attrs.out_layout) or data]
        fits = layouts == [data, kernel, data] and int(attrs.groups) == 1
        return fits and _product(attrs, operands, result)

    return check


def _product(attrs: Any, operands: Sequence[Tensor], result: Tensor) -> bool:
    dtypes = {operand.dtype for operand in operands}
    return len(dtypes) == 1 and (*dtypes, result.dtype) in FUNCTIONS and _has_elements(*operands, result)


def _product_of_float32(attrs: Any, operands: Sequence[Tensor], result: Tensor) -> bool:
    return result.dtype == "float32" and _product(attrs, operands, result)


def _elementwise(attrs: Any, operands: Sequence[Tensor], result: Tensor) -> bool:
    return result.dtype in ("float32", "int32") and _has_elements(*operands, result)


def _has_elements(*tensors: Tensor) -> bool:
    return all(0 not in tensor.shape for tensor in tensors)
