"""Tests that whatever a target does to its process is one failed example, reported with its
stage."""

from __future__ import annotations

import linecache
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_byoc.core.errors import frame
from pytest_byoc.examination.examiner import Examiner
from pytest_byoc.record.process_output import printed_lines, raising_frame, vendor_frame

from .test_worker import HOSTILE, chain, examiner


@pytest.fixture
def opened(tmp_path: Path, ir: str, request: pytest.FixtureRequest) -> Iterator[Examiner]:
    e = examiner(tmp_path, f"{HOSTILE}:{request.param}", ir, timeout=5.0)
    e.open()
    yield e
    e.close()


@pytest.mark.parametrize(
    ("opened", "outcome", "words"),
    [
        ("segfault", "crash", ("SIGSEGV", "stage partition")),
        ("abort", "crash", ("SIGABRT", "stage partition")),
        ("hang", "hang", ("hung in the stage partition",)),
        ("exits", "crash", ("called exit(0)",)),
        ("exits_hard", "crash", ("exited with status 0", "stage partition")),
        ("eats_memory", "error", ("partition raised MemoryError", "ran out of the 1024 MiB of address")),
        ("leaks", "crash", ("SIGSEGV", "stage partition", "ran out of the 1024 MiB", "(--byoc-memory)")),
        ("raises", "error", ("partition raised ValueError", "exp is not to my liking")),
        ("closes_files", "crash", ("stage partition",)),
    ],
    indirect=["opened"],
)
def test_hostile_targets_fail_one_example(opened: Examiner, outcome: str, words: tuple[str, ...]) -> None:
    verdict = opened.examine(chain("nn.relu", "exp"))
    assert verdict.outcome == outcome
    assert verdict.failed
    for word in words:
        assert word in verdict.findings[0].message
    # The next example is not affected.
    assert opened.examine(chain("nn.relu", "tanh")).outcome == "pass"


@pytest.mark.parametrize("opened", ["speechless"], indirect=True)
def test_an_exception_without_text_is_reported_by_its_type(opened: Examiner) -> None:
    """It is raised for every graph, including those at the start of the session."""
    (finding, *_) = opened.examine(chain("nn.relu")).findings
    assert finding.message == "partition raised NotImplementedError"


def test_a_busy_machine_does_not_cause_a_hang(tmp_path: Path, ir: str) -> None:
    """The limit of a stage is two seconds; on a CPU shared with four other processes, 0.8 seconds
    of work take longer."""
    everywhere = os.sched_getaffinity(0)
    burners: list[subprocess.Popen[bytes]] = []
    e = examiner(tmp_path, f"{HOSTILE}:computes", ir, timeout=2.0)
    try:
        os.sched_setaffinity(0, {min(everywhere)})
        e.open()
        burn = [sys.executable, "-c", "while True: pass"]
        # The kernel may share a CPU out among sessions.
        burners += [subprocess.Popen(burn, start_new_session=True) for _ in range(4)]
        began = time.monotonic()
        report = e.partitions.report([chain("exp")])
        assert time.monotonic() - began > 2.0
        assert report.died is None and not list(report.raised())
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()
        os.sched_setaffinity(0, everywhere)
        e.close()


@pytest.mark.parametrize("opened", ["prints"], indirect=True)
def test_output_on_stdout_does_no_harm(opened: Examiner) -> None:
    verdict = opened.examine(chain("nn.relu", "exp"))
    assert verdict.outcome == "pass", verdict.findings
    assert "garbage" in verdict.evidence.target.end["printed"]


@pytest.mark.parametrize("opened", ["chatters"], indirect=True)
def test_a_process_left_running_that_prints_does_not_block(opened: Examiner) -> None:
    verdict = opened.examine(chain("nn.relu", "exp"))
    assert [f.kind for f in verdict.findings] == ["left-running"]
    assert "noise" in verdict.evidence.target.end["printed"]


@pytest.mark.parametrize(
    ("opened", "function"), [("segfault", "_segfault"), ("abort", "partition"), ("hang", "<lambda>")],
    indirect=["opened"],
)
def test_a_crash_or_hang_is_located_by_the_vendors_frame(opened: Examiner, function: str) -> None:
    (finding, *_) = opened.examine(chain("exp")).findings
    frame = vendor_frame(finding.details["frames"])
    assert frame is not None and (frame["file"], frame["function"]) == (str(HOSTILE), function)
    assert linecache.getline(frame["file"], frame["line"]).strip() == frame["text"] != ""
    assert "most recent call first" in finding.details["stack"]
    # The innermost native frame is in strlen, raise, or the system call that waits.
    assert "(libc" in finding.details["native"][0]


@pytest.mark.parametrize("opened", ["segfault"], indirect=True)
def test_output_of_a_process_is_separate_from_pythons_stack(opened: Examiner, ir: str) -> None:
    details = opened.examine(chain("exp")).findings[0].details
    assert "string_at" in details["stack"] and "Fatal Python error" not in details["printed"]
    # In Relax, TVM's own handler prints the native stack; if our handler has recorded one, that is
    # shown instead.
    assert not any("strlen" in line or "ffi_call" in line for line in printed_lines(details))
    alone = printed_lines({**details, "native": []})
    assert any("strlen" in line or "ffi_call" in line for line in alone) == (ir == "relax")


@pytest.mark.once
@pytest.mark.parametrize("opened", ["hang"], indirect=True)
def test_a_hang_names_the_limit_and_the_option_that_sets_it(opened: Examiner) -> None:
    first = opened.examine(chain("exp")).findings[0].message
    assert "hung in the stage partition" in first and "5 s (--byoc-timeout)" in first
    again = opened.examine(chain("nn.relu", "exp")).findings[0].message
    assert "the limit of a stage is" in again and "shorter than --byoc-timeout" in again


@pytest.mark.parametrize("opened", ["raises_in_tvm"], indirect=True)
def test_an_exception_in_tvm_is_located_by_the_vendors_call(opened: Examiner) -> None:
    (finding, *_) = opened.examine(chain("exp")).findings
    frame = vendor_frame(finding.details["exception"]["frames"])
    assert frame is not None and frame["function"] == "_raise_in_tvm"


def test_frames_of_vendor_tvm_and_standard_library_are_distinguished() -> None:
    """A frame of the standard library is used only if there is no vendor's frame; C++ functions in
    TVM's exceptions have no file."""
    mine = frame("/vendor/codegen.py", 7, "emit", "")
    library = frame(str(Path(os.__file__).parent / "subprocess.py"), 3, "run", "")
    unknown = frame("<unknown>", 0, "tvm::runtime::Call", "")
    assert vendor_frame([mine, library, unknown]) is mine
    assert vendor_frame([library, unknown]) is library
    assert vendor_frame([unknown]) is None
    of_tvm = frame("/site-packages/tvm/relax/backend/cuda/cudnn.py", 9, "partition_for_cudnn", "")
    ffi = frame("/site-packages/tvm/_ffi/base.py", 9, "raise_last_ffi_error", "")
    assert raising_frame([mine, of_tvm, unknown, ffi]) is mine and raising_frame([of_tvm, ffi]) is of_tvm
    assert raising_frame([unknown, ffi]) is None
    deeper = frame("/site-packages/tvm/tir/expr.py", 9, "__bool__", "")
    assert raising_frame([of_tvm, deeper]) is of_tvm and raising_frame([deeper]) is deeper
    packages = Path(os.__file__).parent / "site-packages" / "vendor" / "codegen.py"
    assert not frame(str(packages), 1, "emit", "")["standard"]


@pytest.mark.once
@pytest.mark.parametrize("opened", ["unspeakable"], indirect=True)
def test_an_exception_whose_text_raises_is_reported_with_its_place(opened: Examiner) -> None:
    (finding, *_) = opened.examine(chain("exp")).findings
    assert "partition raised _Unspeakable: (the exception has no text: KeyError raised" in finding.message
    frame = vendor_frame(finding.details["exception"]["frames"])
    assert frame is not None and frame["function"] == "_raise_unspeakable"
