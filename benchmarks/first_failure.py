"""A plugin of pytest that ends the session at the first failing verdict, for `curve.py`."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from pytest_byoc.examination.outcome import Verdict
from pytest_byoc.suite.session import TargetSession

#: The environment variable with the path of the file that tells when, where and by which check.
PATH = "BYOC_FIRST_FAILURE"


def pytest_byoc_verdict(session: TargetSession, verdict: Verdict) -> None:
    if not verdict.failed:
        return
    checks = [finding.check for finding in verdict.findings]
    Path(os.environ[PATH]).write_text(json.dumps({"at": time.time(), "test": session.test, "checks": checks}))
    # Shrinking is not measured. The workers' keepers end with this process.
    os._exit(1)
