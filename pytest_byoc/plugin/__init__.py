"""The pytest plugin. The entry point `byoc` names this package."""

from .entry import (
    byoc_check,
    byoc_share_of_time,
    byoc_suite,
    byoc_target,
    pytest_addhooks,
    pytest_addoption,
    pytest_cmdline_main,
    pytest_configure,
    pytest_runtest_makereport,
)

__all__ = [
    "byoc_check",
    "byoc_share_of_time",
    "byoc_suite",
    "byoc_target",
    "pytest_addhooks",
    "pytest_addoption",
    "pytest_cmdline_main",
    "pytest_configure",
    "pytest_runtest_makereport",
]
