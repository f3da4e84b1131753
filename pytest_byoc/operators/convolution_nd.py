"""Convolutions in one and three dimensions."""

from __future__ import annotations

from ..core.graph import TensorType
from .convolution import DOT, conv_infer, conv_operands, groups, is_image, parameters, relax, relay
from .record import NUMBERS, Attrs, Classes, Operator


def _groups_3d(x: TensorType, chosen: Attrs) -> Classes:
    # TVM does not compile Relay's grouped convolutions with channels last.
    return groups(x, chosen) if chosen["data_layout"] == "NCDHW" else {"one": (1,)}


OPERATORS: tuple[Operator, ...] = (
    Operator(
        name="nn.conv1d",
        contraction=True,
        infer=conv_infer,
        shapes=((1, 4, 9), (2, 4, 7), (1, 3, 67), (3, 1, 5), (1, 6, 1)),
        large=(1, 257, 21),
        accuracy=DOT,
        accepts=is_image(1),
        operands=conv_operands,
        dtypes=NUMBERS,
        parameters=parameters(),
        relay=relay("conv1d"),
        relax=relax("conv1d"),
    ),
    Operator(
        name="nn.conv3d",
        contraction=True,
        infer=conv_infer,
        shapes=((1, 4, 5, 7, 6), (2, 4, 4, 3, 5), (1, 3, 3, 5, 7), (3, 1, 5, 4, 3), (1, 6, 1, 2, 5)),
        large=(1, 67, 5, 7, 6),
        accuracy=DOT,
        accepts=is_image(3),
        operands=conv_operands,
        dtypes=NUMBERS,
        parameters=parameters(in_groups=_groups_3d),
        relay=relay("conv3d"),
        relax=relax("conv3d"),
    ),
)
