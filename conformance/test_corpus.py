"""Tests saved graphs: failures of earlier sessions, the vendor's own graphs, or the graphs
of --byoc-replay."""

from __future__ import annotations

import warnings

import pytest

from pytest_byoc.core.graph import GraphFormatError
from pytest_byoc.core.irs import IR_TITLES
from pytest_byoc.storage.corpus import CorpusWarning, Entry, read
from pytest_byoc.suite.session import TargetSession


def test_corpus(byoc_target: TargetSession, byoc_entry: Entry) -> None:
    try:
        graph, found_in = read(byoc_entry.path)
    except GraphFormatError as e:
        byoc_target.leave_out(byoc_entry, "unusable", str(e))
        warnings.warn(f"not checked: {e}", CorpusWarning, stacklevel=1)
        pytest.skip(f"not checked: {e}")
    absent = byoc_target.absent(graph)
    if absent:
        reason = f"{IR_TITLES[byoc_target.ir]} does not have {', '.join(absent)}"
        byoc_target.leave_out(byoc_entry, "left out", reason)
        pytest.skip(f"not checked: {reason}")
    verdict = byoc_target.check_entry(byoc_entry, graph, found_in)
    if verdict.outcome != "pass":
        pytest.skip(verdict.reason)
