"""What a check's worker half is given: one graph on its way through the stages of a role."""

from .loader import LoaderRun
from .reference import ReferenceRun
from .target import TargetRun
from .union import UnionRun

__all__ = ["LoaderRun", "ReferenceRun", "TargetRun", "UnionRun"]
