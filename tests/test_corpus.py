"""Tests of saved graphs: failed graphs are replayed first, a vendor's own graphs every time."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_byoc.config.errors import SettingsError
from pytest_byoc.core.graph import Graph, GraphFormatError, Node
from pytest_byoc.core.names import folder_name
from pytest_byoc.examination.outcome import PASS, Verdict
from pytest_byoc.generation.systematic import default_case
from pytest_byoc.storage import corpus
from pytest_byoc.storage.corpus import Entry
from pytest_byoc.suite.session import TargetSession

from .conftest import FIXTURES, PYTHON, declaration, make_settings

#: One IR is enough: the tests examine the host.
pytestmark = pytest.mark.once

#: The target is example_c, but graphs with exp fail while the environment has CHANGING=raises.
CHANGING = f"{FIXTURES / 'targets' / 'changing.py'}:target"
#: The corpus alone, which needs no cases of other operators; with two cases of exp, whose graphs cannot be
#: shrunk, and two of nn.relu.
CORPUS = ("--byoc-operators=exp,nn.relu", "-k", "test_corpus")
FEW = ("--byoc-operators=exp,nn.relu", "-k", "test_corpus or (test_operator and (shape_1] or float32]))")


def common(ir: str) -> list[str]:
    return [f"--byoc-target={CHANGING}", f"--byoc-python={PYTHON}", f"--byoc-ir={ir}", "--byoc-level=smoke"]


def run(pytester: pytest.Pytester, ir: str, *args: str) -> pytest.RunResult:
    return pytester.runpytest_subprocess(*common(ir), *args, timeout=300)


def report(pytester: pytest.Pytester, folder: str = "out") -> Any:
    return json.loads(pytester.path.joinpath(folder, "report.json").read_text())


def names_of(result: pytest.RunResult) -> list[str]:
    """Returns the names of the tests in the order in which -v lists them."""
    return [line.split("::")[1].split(" ")[0] for line in result.outlines if ".py::" in line and "%]" in line]


def relu_then_exp() -> Graph:
    first, second = default_case("nn.relu", "float32").graph, default_case("exp", "float32").graph
    (source,), (node,), (other,) = first.inputs, first.nodes, second.nodes
    type_ = node.types[0]
    last = Node("exp", node.outputs, other.attrs, ("y",), (type_,))
    return Graph((source,), (), (node, last), ("y",))


# --- failures of earlier sessions ----------------------------------------------------------------


def test_failed_graphs_are_checked_first_until_they_pass(
    pytester: pytest.Pytester, ir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHANGING", "raises")
    saved = pytester.path / "byoc-failures"
    first = run(pytester, ir, *FEW)
    first.assert_outcomes(passed=2, failed=2)
    (folder,) = saved.iterdir()
    assert corpus.read(folder / "graph.json")[1] == "exp[float32]"
    # A session that died while shrinking has left this graph; it shows the same failure.
    unshrunk = corpus.save(saved / f"{folder.name}{corpus.UNSHRUNK}", relu_then_exp(), "random[exp]")
    # Failures of another target are ignored.
    other = corpus.save(saved / f"other-{ir}-0123456789", relu_then_exp(), "random[exp]")

    again = run(pytester, ir, *FEW, "-v")
    again.assert_outcomes(passed=2, failed=4)
    ids = [f"test_corpus[byoc-failures/{name}]" for name in (folder.name, unshrunk.parent.name)]
    assert names_of(again)[:2] == ids
    again.stdout.fnmatch_lines(
        [f"found in: corpus[[]byoc-failures/{folder.name}], at first in exp[[]float32]"]
    )
    assert set(saved.iterdir()) == {folder, other.parent}
    assert corpus.read(folder / "graph.json")[1] == "exp[float32]"

    # A waiver for the case in which the graph was found also covers the graph.
    pytester.path.joinpath("w.toml").write_text(
        '[[waiver]]\ncheck = "offload"\ncase = "exp[*"\nreason = "known"\n'
    )
    waived = run(pytester, ir, *FEW, "--byoc-waivers=w.toml")
    assert waived.ret == 0
    waived.assert_outcomes(passed=2, xfailed=3)
    # A list of waivers holds nothing that exists only on this machine.
    update = run(pytester, ir, *FEW, "--byoc-waivers=new.toml", "--byoc-update-waivers")
    assert update.ret == 0 and "corpus" not in pytester.path.joinpath("new.toml").read_text()

    monkeypatch.delenv("CHANGING")
    fixed = run(pytester, ir, *FEW, "--byoc-report=byoc-failures/../report.json")
    assert fixed.ret == 0
    fixed.assert_outcomes(passed=5)
    fixed.stdout.fnmatch_lines(["these failed before*removed:", f"  byoc-failures/{folder.name}"])
    fixed_report = json.loads(pytester.path.joinpath("report.json").read_text())
    assert fixed_report["corpus"] == {f"byoc-failures/{folder.name}": "pass: removed"}
    assert list(saved.iterdir()) == [other.parent]
    assert "test_corpus" not in run(pytester, ir, *FEW, "-v").stdout.str()


def test_onnx_node_tests_that_failed_come_first_until_they_pass(
    pytester: pytest.Pytester, ir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    args = (
        "--byoc-level=standard", "--byoc-operators=exp,nn.relu,abs",
        "-k", "test_onnx[test_exp] or test_onnx[test_relu]", "-v",
    )
    in_order = ["test_onnx[test_exp]", "test_onnx[test_relu]"]
    monkeypatch.setenv("CHANGING", "raises")
    assert names_of(run(pytester, ir, *args)) == in_order
    (folder,) = (pytester.path / "byoc-failures").iterdir()
    assert list(corpus.failed_onnx(folder.parent, "changing", ir)) == ["test_exp"]
    # Failures of another target and unreadable files change nothing.
    for name, test in ((f"other-{ir}-0123456789", "test_relu"), (f"changing-{ir}-0123456789", None)):
        path = folder.parent / f"{name}{corpus.ONNX}" / "graph.json"
        path.parent.mkdir()
        path.write_text(json.dumps({"nodes": [{"attrs": {"test": test}}]}) if test else "{")
    # Sorted by name, the other test would come first.
    content = json.loads((folder / "graph.json").read_text())
    assert content["nodes"][0]["attrs"] == {"test": "test_exp"}
    content["nodes"][0]["attrs"] = {"test": "test_relu"}
    (folder / "graph.json").write_text(json.dumps(content))
    again = run(pytester, ir, *args)
    assert names_of(again) == list(reversed(in_order))
    again.assert_outcomes(passed=1, failed=1)
    # The one that passed is no longer listed.
    left = corpus.failed_onnx(folder.parent, "changing", ir)
    assert list(left) == ["test_exp"] and left["test_exp"].parent.name == folder.name


def test_failures_are_not_replayed_without_a_cache(
    pytester: pytest.Pytester, ir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHANGING", "raises")
    for _ in range(2):
        run(pytester, ir, *FEW, "-p", "no:cacheprovider").assert_outcomes(passed=2, failed=2)


# --- a vendor's graphs ---------------------------------------------------------------------------


@pytest.fixture
def graphs(pytester: pytest.Pytester, ir: str) -> Path:
    """Returns a folder with a graph that passes, one that fails with CHANGING=raises, and unusable
    files."""
    folder = pytester.path / "regressions"
    relu = default_case("nn.relu", "float32").graph
    corpus.save(folder / "copied", relu, "random[nn.relu]")
    text = relu.to_json()
    absent = {"relay": "nn.gelu", "relax": "nn.lrn"}[ir]
    wrong_type = relu.to_dict()
    wrong_type["nodes"][0]["outputs"][0]["shape"] = [9]
    for name, content in {
        "deep/exp": default_case("exp", "float32").graph.to_json(),
        "truncated": text[:100],
        "version": text.replace('"version": 1', '"version": 2'),
        "operator": text.replace("nn.relu", "frobnicate"),
        "types": json.dumps(wrong_type),
        "other": "[]",
        "absent": default_case(absent, "float32").graph.to_json(),
    }.items():
        path = folder / f"{name}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
    pytester.path.joinpath("empty").mkdir()
    pytester.makeini("[pytest]\nbyoc_corpus =\n    regressions\n    empty\n")
    return folder


UNUSABLE = {
    "regressions/truncated": "expected JSON",
    "regressions/version": "expected version 1 of the graph format, found 2",
    "regressions/operator": "this version has no operator 'frobnicate'",
    "regressions/types": "nn.relu makes float32",
    "regressions/other": 'expected an object with "format"',
    "empty": "there is no graph (*.json) in this folder",
}


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_graphs_of_a_vendor_are_checked_every_time(
    pytester: pytest.Pytester, ir: str, graphs: Path, workers: tuple[str, ...]
) -> None:
    before = sorted(graphs.rglob("*"))
    args = ("--byoc-report=out", "--byoc-bundle=all.zip", *CORPUS)
    result = run(pytester, ir, *args, *workers)
    assert result.ret == 0
    result.assert_outcomes(passed=2, skipped=7, warnings=6)
    result.stdout.fnmatch_lines(["*CorpusWarning: not checked: *truncated.json: expected JSON*"])
    listed = report(pytester)
    assert listed["corpus"]["regressions/copied"] == listed["corpus"]["regressions/deep/exp"] == "pass"
    assert listed["corpus"]["regressions/absent"].startswith("left out: Rela")
    for name, words in UNUSABLE.items():
        assert listed["corpus"][name].startswith("unusable: ") and words in listed["corpus"][name]
        assert any(t.startswith(f"corpus[{name}]: ") and words in t for t in listed["not_checked"])
    result.stdout.fnmatch_lines(["corpus: 1 left out, 2 pass, 6 unusable"])
    verified = pytester.run(sys.executable, "-m", "pytest_byoc", "verify", "all.zip")
    assert verified.ret == 0
    assert sorted(graphs.rglob("*")) == before


def test_unusable_graphs_fail_the_session_on_demand(pytester: pytest.Pytester, ir: str, graphs: Path) -> None:
    result = run(pytester, ir, *CORPUS, "--byoc-strict-corpus", "-n", "2")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=2, skipped=7, warnings=6)
    result.stdout.fnmatch_lines(
        ["changing: 6 graphs of the corpus can't be used", "  regressions/other: unusable: *"]
    )
    result = run(pytester, ir, *CORPUS, "-W", "error::pytest_byoc.CorpusWarning")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=2, skipped=1, failed=6)


def test_a_failing_graph_of_a_vendor_is_waived_only_by_its_id(
    pytester: pytest.Pytester, ir: str, graphs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only its own id waives it, and its file is not moved."""
    monkeypatch.setenv("CHANGING", "raises")
    one = ("--byoc-corpus=regressions/deep", *CORPUS)
    result = run(pytester, ir, *one, "-v")
    result.assert_outcomes(failed=1)
    assert names_of(result) == ["test_corpus[regressions/deep/exp]"]
    pytester.path.joinpath("w.toml").write_text(
        '[[waiver]]\ncheck = "offload"\ncase = "corpus[regressions/deep/exp]"\nreason = "known"\n'
    )
    result = run(pytester, ir, *one, "--byoc-waivers=w.toml", "-p", "no:cacheprovider")
    result.assert_outcomes(xfailed=1)


def test_a_missing_corpus_is_a_usage_error(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess("--byoc-target=example_c", "--byoc-corpus=nowhere")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*nowhere: there is no such file or folder of graphs"])


def test_ids_of_graphs_are_their_paths(tmp_path: Path) -> None:
    for name in ("root/a/x", "root/a/b/graph", "root/a/pad-onnx/z", "away/c/x", "root/m-0123456789-onnx/y"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / f"{name}.json").write_text("{}")
    (tmp_path / "root" / "a" / "report.json").write_text('{"schema": "pytest-byoc/report/1"}')
    root = tmp_path / "root"
    entries = corpus.find([root / "a", tmp_path / "away" / "c", root / "a" / "x.json"], root)
    assert [e.id for e in entries] == ["a/b", "a/pad-onnx/z", "a/x", "c/x"]
    own = root / "m-0123456789-onnx"
    assert corpus.find([own], root)[0].path == own
    (tmp_path / "other" / "c").mkdir(parents=True)
    (tmp_path / "other" / "c" / "x.json").write_text("{}")
    with pytest.raises(SettingsError, match="have the same id c/x: rename one of them"):
        corpus.find([tmp_path / "away" / "c", tmp_path / "other" / "c"], root)
    # A folder that the vendor names is the vendor's, even where a session has saved it.
    failures = root / "byoc-failures"
    corpus.save(failures / "mine-relay-0123456789", default_case("exp", "float32").graph, "")
    assert [e.automatic for e in corpus.all_of(failures, [], root)] == [True]
    assert [e.automatic for e in corpus.all_of(failures, [failures], root)] == [False]


def test_links_keep_their_own_names(tmp_path: Path) -> None:
    """A link that leads outside works like a file; a dangling link cannot be used."""
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "outside.json").write_text("{}")
    (root / "linked.json").symlink_to("../outside.json")
    (root / "loop.json").symlink_to("loop.json")
    assert [e.id for e in corpus.find([root], tmp_path / "elsewhere")] == ["root/linked", "root/loop"]
    assert [e.id for e in corpus.find([root / "linked.json"], root)] == ["linked"]
    with pytest.raises(GraphFormatError, match=r"loop\.json: "):
        corpus.read(root / "loop.json")
    with pytest.raises(SettingsError, match="name too long"):
        corpus.find([root / ("x" * 5000)], root)


def test_an_unreadable_folder_is_an_unusable_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is an entry that cannot be used; it is not left out silently."""
    (tmp_path / "a").mkdir()
    scandir = os.scandir

    def refuse(path: Any) -> Any:
        if Path(path).name == "a":
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    # Tests may run as root, which can read everything.
    monkeypatch.setattr(os, "scandir", refuse)
    monkeypatch.setattr(os, "listdir", refuse)
    assert [e.id for e in corpus.find([tmp_path], tmp_path)] == ["a"]
    with pytest.raises(GraphFormatError, match="a: Permission denied"):
        corpus.read(tmp_path / "a")


def test_a_pipe_among_the_graphs_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "p.json")
    with pytest.raises(GraphFormatError, match=r"p\.json: this is no regular file"):
        corpus.read(tmp_path / "p.json")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"inputs": [{"name": "x", "dtype": "float32", "shape": [10**10]}]}, "more than 268435456 elements"),
        ({"inputs": [{"name": "x", "dtype": "float32", "shape": [2], "seed": float("inf")}]}, "infinity"),
        ({"inputs": [{"name": "\ud800", "dtype": "float32", "shape": [2]}]}, "expected a name"),
        ({"inputs": [{"name": "x", "dtype": "float32", "shape": [True]}]}, "non-negative ints"),
        ({"version": True}, "expected version 1"),
        ({"outputs": None}, "malformed graph"),
    ],
)
def test_malformed_graphs_are_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    graph = default_case("exp", "float32").graph.to_dict()
    graph["inputs"][0]["name"] = graph["nodes"][0]["inputs"][0] = "x"
    (tmp_path / "g.json").write_text(json.dumps({**graph, **change}))
    with pytest.raises(GraphFormatError, match=message):
        corpus.read(tmp_path / "g.json")


def test_a_session_that_examines_no_graph_fails(pytester: pytest.Pytester, ir: str) -> None:
    pytester.mkdir("bad").joinpath("x.json").write_text("{")
    result = run(pytester, ir, "--byoc-corpus=bad", *CORPUS, "-p", "no:cacheprovider")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*no graph was examined: the session fails"])


def test_a_failure_that_cannot_be_saved_is_reported(
    pytester: pytest.Pytester, ir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHANGING", "raises")
    # The disk is full.
    pytester.makeconftest(
        "from pytest_byoc.report import bundle\n"
        "def write(*args, **options): raise OSError(28, 'No space left on device')\n"
        "bundle.write = write\n"
    )
    result = run(pytester, ir, *FEW, "--byoc-report=out", "-p", "no:cacheprovider")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        ["*The failure could NOT be saved (*No space left on device*", "1 likely cause of 2 failing tests:"]
    )
    (failure,) = report(pytester)["failures"]
    assert failure["graph"] == failure["bundle"] == "" and " -k " in failure["command"]
    # The unshrunk graph, which could be saved, is kept.
    (saved,) = pytester.path.glob("out/byoc-failures/*-unshrunk/graph.json")
    corpus.read(saved)


def test_an_unwritable_folder_of_failures_is_a_usage_error(pytester: pytest.Pytester) -> None:
    pytester.path.joinpath("byoc-failures").write_text("a file")
    result = pytester.runpytest_subprocess("--byoc-target=example_c")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*byoc-failures, where failures are saved, cannot be written: *"])


@pytest.mark.parametrize(
    ("name", "fits"),
    [
        (f"{folder_name('my:target', 'relay')}-0123456789", True),
        (f"{folder_name('my:target', 'relay')}-0123456789-unshrunk", True),
        (f"{folder_name('my:target', 'relay')}-0123456789-onnx", False),
        (f"{folder_name('my:target', 'relax')}-0123456789", False),
        (f"{folder_name('my:target', 'relay')}-x-relay-0123456789", False),
        # These targets differ only in characters that folder names cannot have.
        (f"{folder_name('my-target', 'relay')}-0123456789", False),
        (f"{folder_name('my.target', 'relay')}-0123456789", False),
    ],
)
def test_a_saved_failure_belongs_to_one_target_and_ir(name: str, fits: bool) -> None:
    entry = Entry(f"byoc-failures/{name}", Path("byoc-failures", name, "graph.json"), True)
    assert entry.is_for("my:target", "relay") == fits
    assert entry.unshrunk == name.endswith("-unshrunk")


@pytest.mark.parametrize(
    ("check", "not_checked", "kept"),
    [
        ("overrun", ("overrun: this C library has no libc_malloc_debug.so.0",), True),
        ("overrun", ("memory: this C library does not say",), False),
        ("views", ("views: the graph executor copies its inputs",), False),
    ],
)
def test_a_failure_whose_check_cannot_run_here_is_kept(
    tmp_path: Path, ir: str, check: str, not_checked: tuple[str, ...], kept: bool
) -> None:
    session = TargetSession(make_settings(tmp_path), declaration("example_c", ir))
    graph = default_case("exp", "float32").graph
    path = corpus.save(tmp_path / "failures" / f"example_c-{ir}-0123456789", graph, "exp", check)
    entry = Entry("e", path, True)
    session.examine = lambda *_, **__: Verdict(graph, PASS, not_checked=not_checked)  # type: ignore[method-assign]
    assert session.check_entry(entry, graph, "exp").outcome == PASS
    assert path.exists() == kept
    assert session.record.corpus["e"] == (f"pass: kept, {check} was not made" if kept else "pass: removed")


# --- options ---------------------------------------------------------------------------------------


def test_replay_runs_only_the_named_graphs(pytester: pytest.Pytester, ir: str) -> None:
    """It ignores other arguments and works from any folder; paths of the ini file are relative to
    its folder."""
    corpus.save(pytester.path / "saved", default_case("nn.relu", "float32").graph, "a case")
    target, python = CHANGING, os.path.relpath(PYTHON, pytester.path)
    pytester.makeini(
        f"[pytest]\nbyoc_target = {target}\nbyoc_python = {python}\nbyoc_ir = {ir}\nbyoc_report = out\n"
    )
    pytester.makepyfile(test_mine="def test_mine(): assert False")
    below = pytester.mkdir("below")
    os.chdir(below)
    command = (sys.executable, "-m", "pytest", "--byoc-replay=../saved")
    for args in ((), ("../test_mine.py",)):
        result = pytester.run(*command, *args)
        assert result.ret == 0
        result.assert_outcomes(passed=1)
        assert report(pytester)["graphs"] == 1
    # Nothing is examined, so the earlier report is kept.
    before = sorted((p, p.read_bytes()) for p in pytester.path.joinpath("out").iterdir())
    assert pytester.run(*command, "--collect-only").ret == 0
    assert before == sorted((p, p.read_bytes()) for p in pytester.path.joinpath("out").iterdir())


def test_paths_of_interpreters_are_relative_to_where_they_are_named(pytester: pytest.Pytester) -> None:
    pytester.makepyprojecttoml(
        '[tool.pytest.ini_options]\n[tool.pytest-byoc.targets.mine]\npython = "bin/none"\n'
    )
    below = pytester.mkdir("below")
    os.chdir(below)
    for args, name, path in (
        ((), "[tool.pytest-byoc.targets.mine] python", pytester.path / "bin/none"),
        (("--byoc-python=bin/none",), "--byoc-python", below / "bin/none"),
    ):
        result = pytester.run(sys.executable, "-m", "pytest", "--byoc-target=mine", *args)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        assert f"{name}: {path} is not an executable file" in result.stderr.str()
