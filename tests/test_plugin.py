"""Tests of the plugin in whole sessions: pytest runs inside pytest."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_byoc.operators import OPERATORS
from pytest_byoc.plugin import entry

from .conftest import FIXTURES, PYTHON, interruptible


def run(pytester: pytest.Pytester, *args: str) -> pytest.RunResult:
    """Runs pytest in a process of its own, with workers in the interpreter that has TVM."""
    return pytester.runpytest_subprocess(f"--byoc-python={PYTHON}", *args, timeout=300)


def test_inert_without_a_target(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_nothing_is_imported():
            loaded = [m for m in sys.modules if m.split(".")[0] in ("tvm", "hypothesis", "numpy", "onnx")]
            ours = {m for m in sys.modules if m.startswith("pytest_byoc")}
            own = {"pytest_byoc", "pytest_byoc.plugin", "pytest_byoc.plugin.entry"}
            own |= {"pytest_byoc.plugin.hookspecs", "pytest_byoc.config", "pytest_byoc.config.options"}
            assert ours == own, ours
            assert not [m for m in loaded if m.startswith(("tvm", "numpy", "onnx"))]
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:hypothesispytest", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*byoc ===*")


@pytest.mark.parametrize("columns", [80, 200])
def test_list_operators(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    result = pytester.runpytest_subprocess("--byoc-list-operators")
    assert result.ret == 0
    assert max(map(len, result.outlines)) <= columns
    bound = "correctly rounded, 1/2 ulp"
    if columns == 80:
        rows = ["  sqrt  *relay relax  float16/32/64 bfloat16", f"      bound: IEEE 754: {bound}"]
    else:
        rows = [f"  sqrt  *relay relax  float16/32/64 bfloat16  *IEEE 754: {bound}"]
    titles = ("Elementwise operators", "Convolutions in two dimensions*")
    result.stdout.fnmatch_lines([titles[0], *rows, titles[1], "  nn.conv2d *"])
    listed = [line.split()[0] for line in result.outlines if line.startswith("  ") and line[2:3] > " "]
    assert set(OPERATORS) == set(listed) and len(listed) == len(OPERATORS)


def test_list_selected_operators(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists the operators of one IR with their varied parameters; a target makes no difference."""
    monkeypatch.setenv("COLUMNS", "80")
    args = ("--byoc-list-operators", "--byoc-operators=abs,nn.leaky_relu,nn.gelu", "--byoc-ir=relay")
    for more in ((), ("--byoc-target=example_c",)):
        result = pytester.runpytest_subprocess(*args, *more)
        assert result.ret == 0
        # nn.gelu, which Relay lacks, and the dtype that Relay cannot run are left out.
        result.stdout.fnmatch_lines(["2 operators in relay"])
        assert "  abs            relay        float16/32/64 int8/16/32/64 uint8" in result.outlines
        assert "      varied: alpha" in result.outlines
        result.stdout.no_fnmatch_line("*nn.gelu*")
    both = pytester.runpytest_subprocess("--byoc-list-operators", "--byoc-operators=abs")
    both.stdout.fnmatch_lines(["  abs  relay  *float16/32/64 int8*", "  *relax  *float16/32/64 bfloat16*"])
    for wrong, message in (
        ("--byoc-operators=frob", "*unknown operator frob; known are: *"),
        ("--byoc-ir=frob", "*unknown IR 'frob'*"),
    ):
        result = pytester.runpytest_subprocess("--byoc-list-operators", wrong)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines([message])


def test_list_targets(pytester: pytest.Pytester, ir: str) -> None:
    pytester.makepyprojecttoml('[tool.pytest-byoc.targets.mine]\npartition = "m:f"\n')
    result = run(pytester, "--byoc-list-targets")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["example_c *", "mine *pyproject.toml*"])
    if ir == "relay":
        # A wheel of Relax registers no relax.ext.NAME by itself.
        result.stdout.fnmatch_lines(["shl *known to this TVM, relay*"])


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            ["--byoc-target=example_c", "--byoc-operators=nn.relu,frob"],
            "*unknown operator frob; known are: abs, acos*",
        ),
        (
            ["--byoc-target=example_c", "--byoc-operators=relax.permute_dims,nn.rellu"],
            "*unknown operator relax.permute_dims (transpose?), nn.rellu (nn.relu?); known are: abs, acos*",
        ),
        (["--byoc-target=example_c", "--byoc-ir=tflite"], "*unknown IR 'tflite'; known are: relay, relax*"),
        (["--byoc-target=example_c", "--byoc-max-nodes=0"], "*--byoc-max-nodes must be a positive whole *"),
        (["--byoc-target=example_c", "--byoc-timeout=soon"], "*--byoc-timeout must be a positive number*"),
        (["--byoc-target=example_c", "--byoc-timeout=nan"], "*--byoc-timeout must be a positive number*"),
        (["--byoc-target=example_c", "--byoc-memory=4G"], "*--byoc-memory must be a number of MiB*"),
        (["--byoc-target=example_c", "--byoc-report=/proc/byoc"], "*--byoc-report: *cannot be written*"),
        (["--byoc-target=example_c", "--byoc-summary=/dev/stdout"], "*--byoc-summary: *not a regular file*"),
        (["--byoc-target=example_c", "--byoc-corpus="], "*--byoc-corpus is empty*"),
        (
            ["--byoc-target=example_c", "--byoc-summary=s", "--byoc-bundle=s"],
            "*--byoc-bundle and --byoc-summary name the same file*",
        ),
        (
            ["--byoc-target=example_c", "--byoc-summary=w.toml", "--byoc-waivers=w.toml"],
            "*--byoc-summary and --byoc-waivers name the same file*",
        ),
        (
            ["--byoc-target=example_c", "--byoc-report=out", "--byoc-bundle=out/report.html"],
            "*--byoc-bundle and the page of --byoc-report name the same file*",
        ),
        (["--byoc-replay=x.json"], "*--byoc-replay needs --byoc-target*"),
        (["--byoc-target=example_c", "--byoc-replay=x.json"], "*x.json: there is no such file*"),
    ],
)
def test_bad_options_exit_with_4(pytester: pytest.Pytester, args: list[str], message: str) -> None:
    result = pytester.runpytest_subprocess(*args)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])
    assert "Traceback" not in result.stderr.str() + result.stdout.str()


@pytest.mark.parametrize("content", ['{"format": "pytest-byoc/graph", "ver', "\x00\x01", "{}"])
def test_bad_replay_files_are_named(pytester: pytest.Pytester, content: str) -> None:
    pytester.path.joinpath("bad.json").write_text(content)
    result = pytester.runpytest_subprocess("--byoc-target=example_c", "--byoc-replay=bad.json")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*bad.json: expected*"])


@pytest.mark.parametrize(
    ("target", "messages"),
    [
        ("nobody", ["*there is no target called 'nobody'. Known are:", "*example_c (installed*"]),
        (
            f"{FIXTURES / 'targets' / 'broken_import.py'}:target",
            ["*cannot be imported: RuntimeError: the SDK is not installed", "*broken_import.py:*, in _load"],
        ),
        (f"{FIXTURES / 'targets' / 'hostile.py'}:nonsense", ["*returned int, expected a tvm.IRModule*"]),
    ],
)
def test_bad_targets_exit_with_4(
    pytester: pytest.Pytester, ir: str, target: str, messages: list[str]
) -> None:
    result = run(pytester, f"--byoc-target={target}", f"--byoc-ir={ir}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(messages)
    assert "Traceback" not in result.stderr.str()


def test_missing_compiler_is_named_once(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(pytester.path))
    result = run(pytester, "--byoc-target=example_c")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert result.stderr.str().count("there is no C++ compiler") == 1
    result = run(pytester, "--byoc-target=example_c", "-n", "2")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert result.stderr.str().count("there is no C++ compiler") == 1
    # Options in CXX would be read as part of the program's name.
    monkeypatch.setenv("CXX", "g++ -O1")
    result = run(pytester, "--byoc-target=example_c")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert result.stderr.str().count("CXX names 'g++ -O1', which is not a program") == 1


def test_a_missing_ir_is_reported_with_the_package_to_install(pytester: pytest.Pytester, ir: str) -> None:
    other = {"relay": "relax", "relax": "relay"}[ir]
    result = run(pytester, "--byoc-target=example_c", f"--byoc-ir={other}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*pytest-byoc[[]{other}]*"])


def test_conformance_of_some_operators(pytester: pytest.Pytester, ir: str) -> None:
    """The suite runs from any folder; the table agrees with report.json; a second run agrees with
    the first."""
    args = (
        "--byoc-target=example_c", f"--byoc-ir={ir}", "--byoc-operators=nn.relu,nn.dense,floor",
        "--byoc-max-examples=2", "--byoc-report=out", "--byoc-level=smoke", "--byoc-anew",
        "-k", "random or (test_operator and float32 and not dense)",
    )
    first = run(pytester, *args)
    assert first.ret == 0
    report = json.loads(pytester.path.joinpath("out", "report.json").read_text())
    assert report["schema"] == "pytest-byoc/report/1"
    assert report["target"] == "example_c" and report["ir"] == ir
    assert report["failures"] == []
    cells = {(c["operator"], c["dtype"]): c for c in report["cells"]}
    relu = cells["nn.relu", "float32"]
    assert relu["generated"] >= relu["offloaded"] >= relu["passed"] > 5
    assert cells["floor", "float32"]["passed"] == 0
    assert sum(report["outcomes"].values()) == report["graphs"]
    first.stdout.fnmatch_lines([f"nn.relu * float32 *{relu['generated']} *{relu['offloaded']} *"])
    run(pytester, *args)
    again = json.loads(pytester.path.joinpath("out", "report.json").read_text())
    assert again.pop("session")["sources"] == report.pop("session")["sources"]
    # What took long is told by the same names, in other seconds.
    assert again.pop("durations").keys() == report.pop("durations").keys()
    assert again == report


def test_a_failure_is_shrunk_saved_and_replayed(pytester: pytest.Pytester, ir: str) -> None:
    target = f"{FIXTURES / 'targets' / 'hostile.py'}:segfault"
    common = (f"--byoc-target={target}", f"--byoc-ir={ir}")
    result = run(
        pytester, *common, "--byoc-operators=exp,nn.relu", "--byoc-max-examples=1", "--byoc-report=out",
        "--byoc-level=smoke", "-k", "random or shape_1]",
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    report = json.loads(pytester.path.joinpath("out", "report.json").read_text())
    (failure,) = report["failures"]
    assert (failure["outcome"], failure["stage"], failure["operators"]) == ("crash", "partition", ["exp"])
    bundle = Path(failure["graph"]).parent
    assert {"graph.json", "data.npz", "reproduce.py", "failure.txt"} <= {p.name for p in bundle.iterdir()}
    assert len(json.loads(Path(failure["graph"]).read_text())["nodes"]) == 1
    again = run(pytester, *common, f"--byoc-replay={failure['graph']}")
    assert again.ret == pytest.ExitCode.TESTS_FAILED
    again.assert_outcomes(failed=1)
    again.stdout.fnmatch_lines(["*SIGSEGV*"])


def test_tests_of_a_vendor_run_with_a_target_and_skip_without(pytester: pytest.Pytester, ir: str) -> None:
    pytester.makepyfile(
        """
        from hypothesis import given, settings
        import pytest_byoc as byoc

        @settings(max_examples=3, deadline=None, derandomize=True, database=None)
        @given(graph=byoc.graphs(operators=["nn.relu", "add"], max_nodes=3))
        def test_offloaded(byoc_check, graph):
            byoc_check(graph)

        @settings(max_examples=2, deadline=None, derandomize=True, database=None)
        @given(graph=byoc.graphs(operators=["floor"], max_nodes=2))
        def test_never_offloaded(byoc_check, graph):
            byoc_check(graph)

        def test_ordinary():
            pass
        """
    )
    result = run(pytester, "--byoc-target=example_c", f"--byoc-ir={ir}", ".")
    result.assert_outcomes(passed=2, skipped=1)
    without = pytester.runpytest_subprocess()
    without.assert_outcomes(passed=1, skipped=2)


def test_a_session_without_offloaded_nodes_fails(pytester: pytest.Pytester, ir: str) -> None:
    result = run(
        pytester, "--byoc-target=example_c", f"--byoc-ir={ir}", "--byoc-operators=floor", "-k",
        "test_operator", "--byoc-level=smoke",
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*no graph passed*"])


@pytest.mark.once
def test_folders_named_like_our_packages_do_not_shadow_them(pytester: pytest.Pytester, ir: str) -> None:
    """`python -m pytest` puts the current folder first on the path."""
    for name in ("conformance", "reference_kernels"):
        pytester.mkpydir(name)
    result = run(
        pytester, "--byoc-target=example_c", f"--byoc-ir={ir}", "--byoc-level=smoke",
        "--byoc-operators=nn.relu", "-k", "test_operator and float32",
    )
    assert result.ret == 0
    assert result.parseoutcomes()["passed"] > 3


def test_custom_python_files_pattern(pytester: pytest.Pytester, ir: str) -> None:
    pytester.makeini("[pytest]\npython_files = check_*.py\n")
    result = run(
        pytester, "--byoc-target=example_c", f"--byoc-ir={ir}", "--byoc-operators=nn.relu", "-k",
        "test_operator", "--byoc-level=smoke",
    )
    assert result.ret == 0
    assert result.parseoutcomes()["passed"] > 5


@pytest.mark.once
def test_under_xdist(pytester: pytest.Pytester, ir: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(pytester.mkdir("temporary")))
    pytester.makeconftest(
        "from pathlib import Path\n\n"
        "def pytest_sessionfinish(session):\n"
        "    if hasattr(session.config, 'workerinput'):\n"
        "        left = Path(session.config.workerinput['byoc_peers']).rglob('*')\n"
        "        Path('found').write_text(str(len(list(left))))\n"
    )
    result = run(
        pytester, "--byoc-target=example_c", f"--byoc-ir={ir}", "--byoc-operators=nn.relu", "-k",
        "test_operator", "-n", "2", "--byoc-report=out", "--byoc-level=smoke",
    )
    assert result.ret == 0
    report = json.loads(pytester.path.joinpath("out", "report.json").read_text())
    assert report["ir"] == ir
    assert report["outcomes"]["pass"] == result.parseoutcomes()["passed"]
    assert int(Path("found").read_text()) > 1, "what the target takes is told to the other process"
    assert not list(Path("temporary").iterdir()), "and not left behind"


@pytest.mark.once
def test_an_interrupted_session_reports_its_results(pytester: pytest.Pytester, ir: str) -> None:
    process = subprocess.Popen(
        [
            sys.executable, "-m", "pytest", "--byoc-target=example_c", f"--byoc-ir={ir}",
            f"--byoc-python={PYTHON}", "--byoc-operators=nn.relu,add,tanh", "--byoc-report=out", "-v",
            "-k", "test_operator", "--byoc-level=smoke", "-p", "no:cacheprovider",
        ],
        cwd=pytester.path, stdout=subprocess.PIPE, text=True,
        preexec_fn=interruptible,
    )
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if sum("PASSED" in seen for seen in lines) >= 3:
            process.send_signal(signal.SIGINT)
            break
    rest = process.communicate(timeout=120)[0]
    assert process.returncode == pytest.ExitCode.INTERRUPTED, "".join(lines) + rest
    report = json.loads(pytester.path.joinpath("out", "report.json").read_text())
    assert report["outcomes"]["pass"] >= 3
    assert "nn.relu" in rest and "KeyboardInterrupt" in rest


def test_modules_of_the_plugin_are_imported_without_pytests_hook(pytester: pytest.Pytester) -> None:
    """pytest's hook would read the source of each at every start. It is back for the tests."""
    config = pytester.parseconfig("-p", "no:cacheprovider")
    hook = config.pluginmanager.rewrite_hook
    before = list(sys.meta_path)
    assert hook in before
    with pytest.raises(KeyError), entry.as_python_imports(config):
        assert hook not in sys.meta_path
        raise KeyError
    assert sys.meta_path == before
    plain = pytester.parseconfig("--assert=plain")
    with entry.as_python_imports(plain):
        assert sys.meta_path == before
