"""ONNX's own node tests, imported by TVM's ONNX frontend."""

from __future__ import annotations
