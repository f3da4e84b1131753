"""Runs ONNX's node tests, imported by TVM's ONNX frontend and compared with ONNX's tolerance."""

from __future__ import annotations

from pytest_byoc.plugin.deselection import expect_pass
from pytest_byoc.suite.session import TargetSession


def test_onnx(byoc_target: TargetSession, byoc_onnx: str) -> None:
    verdict = byoc_target.onnx.check(byoc_onnx)
    expect_pass(verdict)
