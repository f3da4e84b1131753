"""The runs of graphs through the stages of a role, which the worker halves of checks get."""

from .loader import LoaderRun
from .on_device import DeviceRun
from .reference import ReferenceRun
from .target import TargetRun
from .union import UnionRun

__all__ = ["DeviceRun", "LoaderRun", "ReferenceRun", "TargetRun", "UnionRun"]
