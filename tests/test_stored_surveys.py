"""Tests of what is kept on disk of a target's answers, and when it is not taken over."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_byoc.examination import partitions as surveys
from pytest_byoc.examination.examiner import Examiner
from pytest_byoc.generation.systematic import default_case
from pytest_byoc.storage import stored_surveys
from pytest_byoc.storage.stored_surveys import StoredSurveys
from pytest_byoc.worker.loaded_files import LoadedFiles

from .conftest import declaration, make_settings

LONG_AGO = time.time() - 1000.0
QUESTION, ANSWER = ["a graph", "partitions", {}], {"fact": "regions", "value": {"number": 3, "regions": []}}
NAMES = ("exp", "tanh", "sigmoid", "subtract", "abs", "maximum", "sqrt", "multiply")


@pytest.fixture
def part(tmp_path: Path) -> Path:
    """A file that was last changed long ago."""
    path = tmp_path / "codegen.py"
    path.write_text("x = 1\n")
    os.utime(path, (LONG_AGO, LONG_AGO))
    return path


@pytest.fixture(autouse=True)
def nothing_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No answer is asked again, and the cache is the test's own."""
    monkeypatch.setattr(stored_surveys, "_ONE_AMONG", 1 << 60)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def of(path: Path, *files: Path, began: float | None = None) -> StoredSurveys:
    stored = StoredSurveys(path, time.time() if began is None else began)
    stored.depend_on([(str(f), f.stat().st_size, f.stat().st_mtime_ns) for f in files])
    return stored


def kept(path: Path, *files: Path, began: float | None = None) -> None:
    stored = of(path, *files, began=began)
    stored.tell(QUESTION, ANSWER)
    stored.keep()


def test_an_answer_is_taken_over(tmp_path: Path, part: Path) -> None:
    kept(tmp_path / "s", part)
    stored = of(tmp_path / "s")
    assert stored.answer(QUESTION) == stored.earlier(QUESTION) == ANSWER and stored.taken == 1
    assert stored.answer(["another"]) is None


@pytest.mark.parametrize("change", ["touched", "longer", "gone"])
def test_none_is_taken_over_once_a_file_has_changed(tmp_path: Path, part: Path, change: str) -> None:
    kept(tmp_path / "s", part)
    if change == "touched":
        os.utime(part, (LONG_AGO, LONG_AGO + 1))
    elif change == "longer":
        part.write_text("x = 10\n")
        os.utime(part, (LONG_AGO, LONG_AGO))
    else:
        part.unlink()
    stored = of(tmp_path / "s")
    assert stored.answer(QUESTION) is None
    stored.tell(QUESTION, {"fact": "new"})
    stored.keep()
    assert of(tmp_path / "s").answer(QUESTION) == {"fact": "new"}


def test_a_file_that_was_missing_and_exists_now_counts(tmp_path: Path, part: Path) -> None:
    stored = of(tmp_path / "s", part)
    stored.depend_on([(str(tmp_path / "settings.toml"), -1, 0)])
    stored.tell(QUESTION, ANSWER)
    stored.keep()
    assert of(tmp_path / "s").answer(QUESTION) == ANSWER
    (tmp_path / "settings.toml").write_text("")
    assert of(tmp_path / "s").answer(QUESTION) is None


def test_nothing_is_kept_of_a_session_during_which_a_file_changed(tmp_path: Path, part: Path) -> None:
    kept(tmp_path / "s", part, began=LONG_AGO - 1.0)
    assert of(tmp_path / "s").answer(QUESTION) is None


def test_a_share_is_asked_again_another_one_in_each_session(
    tmp_path: Path, part: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_surveys, "_ONE_AMONG", 4)
    questions = [["graph", n] for n in range(100)]
    again: list[set[int]] = []
    for session in range(5):
        stored = of(tmp_path / "s", part)
        again.append({n for n, question in enumerate(questions) if stored.answer(question) is None})
        for question in [*questions, ["graph", "of session", session]]:
            stored.tell(question, ANSWER)
        stored.keep()
    assert len(again[0]) == 100 and set.union(*again[1:]) == set(range(100))
    assert all(10 < len(asked) < 40 for asked in again[1:])


@pytest.mark.parametrize("content", [b"no database at all, but a text", b""])
def test_a_broken_file_is_no_obstacle(tmp_path: Path, part: Path, content: bytes) -> None:
    (tmp_path / "s").write_bytes(content)
    kept(tmp_path / "s", part)
    kept(tmp_path / "s", part)
    assert of(tmp_path / "s").answer(QUESTION) == ANSWER


def test_the_environment_and_the_configuration_tell_targets_apart(tmp_path: Path, part: Path) -> None:
    def stored(configuration: dict[str, str], environment: dict[str, str]) -> StoredSurveys:
        return StoredSurveys.of(configuration, environment, time.time())

    first = stored({"target": "a"}, {"MODE": "fast"})
    first.depend_on([(str(part), part.stat().st_size, part.stat().st_mtime_ns)])
    first.tell(QUESTION, ANSWER)
    first.keep()
    assert stored({"target": "a"}, {"MODE": "fast", "PYTEST_CURRENT_TEST": "x"}).answer(QUESTION) == ANSWER
    assert stored({"target": "b"}, {"MODE": "fast"}).answer(QUESTION) is None
    assert stored({"target": "a"}, {"MODE": "slow"}).answer(QUESTION) is None


def test_only_the_last_targets_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_surveys, "_KEPT", 2)
    for name in "abc":
        StoredSurveys.of({"target": name}, {}, time.time())
    assert len(list((tmp_path / "cache").rglob("*.sqlite"))) <= 3


def test_what_python_opens_and_imports_is_told_once(tmp_path: Path, part: Path) -> None:
    loaded = LoadedFiles()
    loaded._own = str(tmp_path / "own") + os.sep
    (tmp_path / "own").mkdir()
    for path, mode in ((part, "r"), (tmp_path / "own" / "scratch", "w"), (tmp_path / "written", "w")):
        loaded._note("open", (str(path), mode, os.O_WRONLY if mode == "w" else os.O_RDONLY))
    loaded._note("open", (str(tmp_path / "absent"), "r", os.O_RDONLY))
    told = {path: (size, changed) for path, size, changed in loaded.untold()}
    state = part.stat()
    assert told[os.path.realpath(part)] == (state.st_size, state.st_mtime_ns)
    assert told[os.path.realpath(tmp_path / "absent")] == (-1, 0)
    assert os.path.realpath(pytest.__file__) in told, "modules"
    assert any(".so" in path for path in told), "shared libraries"
    assert not any(path.endswith(("scratch", "written")) for path in told)
    assert not {path for path, _, _ in loaded.untold()} & told.keys()


_TARGET = """\
import json, os
from pytest_byoc.examples.example_c.{ir} import partition_for_example_c as offload
CALLS = os.path.join(os.path.dirname(__file__), "calls")

def partition(mod):
    with open(os.path.join(os.path.dirname(__file__), "settings.json")) as f:
        offloads = json.load(f)["offloads"]
    with open(CALLS, "a") as f:
        f.write("x")
    return offload(mod) if offloads else mod
"""
Surveyed = Callable[[], tuple[list[bool], int]]


@pytest.fixture
def surveyed(ir: str, tmp_path: Path) -> Iterator[Surveyed]:
    """Returns for a new session whether each graph is offloaded, and how often it calls the target."""
    (tmp_path / "mine.py").write_text(_TARGET.format(ir=ir))
    (tmp_path / "settings.json").write_text('{"offloads": 1}')
    for name in ("mine.py", "settings.json"):
        os.utime(tmp_path / name, (LONG_AGO, LONG_AGO))
    graphs = [default_case(name, "float32").graph for name in NAMES]

    def survey() -> tuple[list[bool], int]:
        (tmp_path / "calls").write_text("")
        settings = make_settings(tmp_path, keeps_surveys=True)
        examiner = Examiner(settings, declaration(f"{tmp_path}/mine.py:partition", ir))
        try:
            examiner.open()
            before = len((tmp_path / "calls").read_text())
            found = [bool(p and p.regions) for p in examiner.partitions.survey(graphs)]
        finally:
            examiner.close()
        return found, len((tmp_path / "calls").read_text()) - before

    yield survey


@pytest.mark.once
def test_a_target_is_asked_again_when_a_file_that_it_reads_has_changed(
    surveyed: Surveyed, tmp_path: Path
) -> None:
    first, calls = surveyed()
    assert first == [True] * len(NAMES) and calls >= len(NAMES)
    assert surveyed() == (first, 0)
    (tmp_path / "settings.json").write_text('{"offloads": 0}')
    os.utime(tmp_path / "settings.json", (LONG_AGO, LONG_AGO + 10))
    assert surveyed()[0] == [False] * len(NAMES)


@pytest.mark.once
def test_nothing_is_asked_where_all_is_known(
    surveyed: Surveyed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where several threads would share the graphs."""
    monkeypatch.setattr(surveys, "_MANY", 4)
    first, _ = surveyed()
    assert surveyed() == (first, 0)


@pytest.mark.once
def test_one_contradiction_has_all_asked_again(
    surveyed: Surveyed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where native code reads a file, which no session sees."""
    first, _ = surveyed()
    (database,) = (tmp_path / "cache").rglob("*.sqlite")
    with sqlite3.connect(database) as changed:
        for question, answer in list(changed.execute("select question, answer from answers")):
            wrong = answer.replace('"regions": [{', '"regions": [], "lost": [{')
            changed.execute("update answers set answer = ? where question = ?", (wrong, question))
    changed.close()
    assert surveyed()[0] == [False] * len(NAMES), "all wrong answers are taken over"
    monkeypatch.setattr(stored_surveys, "_ONE_AMONG", 2)
    assert surveyed()[0] == first


@pytest.mark.parametrize(
    ("name", "same"), [("BUILD_ID", True), ("CI_JOB_ID", True), ("BUILD_MODE", False), ("NPU_ARCH", False)]
)
def test_variables_that_a_target_may_read_count(name: str, same: bool) -> None:
    def path(value: str) -> Path | None:
        return StoredSurveys.of({"target": "npu"}, {name: value}, time.time())._path

    assert (path("1") == path("2")) is same
