"""Examines whole models: each as it is, then each of its regions as a graph of its own (--byoc-model)."""

from __future__ import annotations

import pytest

from pytest_byoc.config.models import Model
from pytest_byoc.plugin.deselection import expect_pass
from pytest_byoc.suite.model_import import NotImported
from pytest_byoc.suite.session import TargetSession


def test_model(byoc_target: TargetSession, byoc_model: Model) -> None:
    reason = ""
    try:
        verdict = byoc_target.models.check(byoc_model)
    except NotImported as e:
        reason = str(e)
    if reason:
        pytest.fail(reason, pytrace=False)
    expect_pass(verdict)
