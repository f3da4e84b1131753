"""ONNX's node tests in one target's session: selects those that can run, and reports failures."""

from __future__ import annotations

import shlex
from pathlib import Path

from ..config.settings import Settings
from ..core import files
from ..examination.description import Description
from ..examination.examiner import Examiner
from ..examination.outcome import PASS, ConformanceFailure, Verdict
from ..record.target_record import TargetRecord
from ..report import bundle
from ..storage import corpus
from ..storage.cache import cache_folder
from . import onnx_nodes
from .failures import Failures
from .observer import Observer


class OnnxTests:
    """The ONNX node tests of one target's session."""

    def __init__(
        self, settings: Settings, examiner: Examiner, record: TargetRecord, failures: Failures,
        observer: Observer,
    ) -> None:
        self._settings = settings
        self._examiner = examiner
        self._record = record
        self._failures = failures
        self._observer = observer
        self._survey: onnx_nodes.Survey | None = None
        self._failed: dict[str, Path] | None = None

    def candidates(self) -> list[str]:
        """Returns the names of the ONNX node tests that can run; records the others with a
        reason."""
        if self._survey is None:
            folder = cache_folder("onnx")
            try:
                self._survey = onnx_nodes.survey(self._examiner.workers, folder, self._examiner.activity)
            except (RuntimeError, OSError) as e:
                # An error with another version of TVM or onnx must not keep the other tests from
                # running.
                self._survey = onnx_nodes.Survey({}, None, folder, f"ONNX's node tests: {e}")
            if self._survey.not_checked:
                self._record.not_checked.append(self._survey.not_checked)
            for name, reason in self._survey.left_out.items():
                self._record.onnx[name] = f"left out: {reason}"
        return self._survey.candidates

    def failed(self) -> dict[str, Path]:
        """Returns the node tests that failed in earlier sessions and have not passed since, each
        with the `graph.json` of its bundle."""
        if self._failed is None:
            settings, ir = self._settings, self._examiner.workers.ir
            if settings.remembers:
                self._failed = corpus.failed_onnx(settings.failures, self._record.target, ir)
            else:
                self._failed = {}
        return self._failed

    def check(self, name: str) -> Verdict:
        """Returns the verdict on one ONNX node test. Raises ConformanceFailure if the target fails
        it and neither a waiver nor the baseline excuses it."""
        assert self._survey is not None
        verdict = onnx_nodes.examine(self._examiner, self._survey, name)
        self._record.add(verdict, name)
        self._record.onnx[name] = ": ".join([verdict.outcome, *verdict.notes[:1]])
        self._observer.examined(verdict)
        if verdict.outcome == PASS and name in self.failed():
            corpus.remove(self.failed()[name])
        if verdict.failed and not self._failures.excused(verdict, name):
            verdict = self._failures.not_excused(verdict, name)
            failure, new = self._record.fail(verdict, name)
            self._failures.saw(verdict, name, failure=failure)
            if new:
                folder = self._failures.folder(failure.id + corpus.ONNX)
                failure.command = self._failures.command("-k", shlex.quote(f"test_onnx[{name}]"))
            made = onnx_nodes.described(self._examiner, self._survey, name, verdict) if new else Description()
            text = onnx_nodes.describe(verdict, self._record.target, failure.command, made)
            if new:
                failure.texts = made.as_dicts()
                failure.graph, failure.bundle = str(folder / "graph.json"), self._failures.bundle(folder)
                try:
                    files.replace(folder / "graph.json", verdict.graph.to_json(indent=1).encode())
                    files.replace(folder / "failure.txt", text.encode(errors="replace"))
                    bundle.write_texts(folder, made)
                except OSError as e:
                    text += self._failures.unsaved(failure, e)
            raise ConformanceFailure(text, verdict)
        return verdict
