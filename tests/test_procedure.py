"""Tests of a target's procedure: pass configuration, a build function, a call before the first run,
checks that are switched off."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from fixtures.faults import FAULTS, Fault, Patch, apply
from pytest_byoc.worker.procedure import ProcedureError, preparation, reasons

from .conftest import FIXTURES, PYTHON
from .test_corpus import report as report_of

#: By IR, an option of TVM's passes that changes nothing in a graph of one operator.
OPTION = {"relay": "relay.FuseOps.max_depth", "relax": "relax.FuseOps.max_depth"}
#: A target whose partition function and codegen work only with the option.
CONFIGURED = """
import os
import tvm
from pytest_byoc.examples.example_c import target as example

def configured():
    config = tvm.transform.PassContext.current().config
    found = [int(v) for k, v in config.items() if k == os.environ["OPTION"]]
    if found != [7]:
        raise RuntimeError("not configured")

def partition(mod):
    configured()
    mod = example.partition(mod)
    for ir, codegen in ((ir, tvm.get_global_func(ir + ".ext.example_c", True)) for ir in ("relay", "relax")):
        if codegen is not None and not registered:
            registered.append(codegen)
            register(ir + ".ext.example_c", configured_codegen, override=True)
    return mod

def configured_codegen(*given):
    configured()
    return registered[0](*given)

registered = []
register = getattr(tvm, "register_global_func", None) or tvm.register_func
"""
BUILD = {
    "relay": """
import os, platform, tvm
from tvm import relay

def build(mod, executor):
    with open(os.path.join(os.path.dirname(__file__), "built.txt"), "a") as f:
        f.write("%s at %d\\n" % (executor, tvm.transform.PassContext.current().opt_level))
    host = "llvm -mtriple=%s-linux-gnu" % platform.machine()  # this TVM may be made for others
    return (relay.vm.compile if executor == "vm" else relay.build)(mod, host)
""",
    "relax": """
import os, tvm
from tvm import relax

def build(mod, executor):
    with open(os.path.join(os.path.dirname(__file__), "built.txt"), "a") as f:
        f.write("%s at %d\\n" % (executor, tvm.transform.PassContext.current().opt_level))
    return tvm.compile(relax.transform.RunCodegen()(mod), target="llvm")
""",
}
_DEVICE = """
#ifdef __cplusplus
extern "C" {{
#endif
__attribute__((weak)) long long the_device = -1;
"""
#: Code that runs only on device 7.
DEVICE = Fault(
    "device", 38, "its code runs once a device is set", ("nn.relu",), "process",
    (
        Patch("relay.py", "  void* data[{count}];\n",
              '  void* data[{count}];\n'
              '  if (the_device != 7) {{ TVMAPISetLastError("no device is set"); return -1; }}\n'),
        Patch("relay.py", '#ifdef __cplusplus\nextern "C"\n#endif\nTVM_DLL int {graph.symbol}(',
              _DEVICE +
              "TVM_DLL __attribute__((weak)) int set_device(TVMValue* args, int* codes, int n,\n"
              "    TVMValue* ret, int* ret_code, void* resource) {{\n"
              "  the_device = args[0].v_int64; return 0; }}\n"
              '#ifdef __cplusplus\n}}\nextern "C"\n#endif\nTVM_DLL int {graph.symbol}('),
        Patch("relax.py", "  void* data[{count}];\n",
              "  void* data[{count}];\n  if (the_device != 7) {{\n"
              '    TVMFFIErrorSetRaisedFromCStr("RuntimeError", "no device is set"); return -1; }}\n'),
        Patch("relax.py", '#ifdef __cplusplus\nextern "C"\n#endif\nTVM_FFI_DLL_EXPORT int', _DEVICE +
              "TVM_FFI_DLL_EXPORT __attribute__((weak)) int __tvm_ffi_set_device(void* self,\n"
              "    const TVMFFIAny* args, int32_t count, TVMFFIAny* result) {{\n"
              "  the_device = args[0].v_int64; return 0; }}\n"
              '#ifdef __cplusplus\n}}\nextern "C"\n#endif\nTVM_FFI_DLL_EXPORT int'),
        Patch("relax_extents.py", '#ifdef __cplusplus\nextern "C"\n#endif\nTVM_FFI_DLL_EXPORT int', _DEVICE +
              "TVM_FFI_DLL_EXPORT __attribute__((weak)) int __tvm_ffi_set_device(void* self,\n"
              "    const TVMFFIAny* args, int32_t count, TVMFFIAny* result) {{\n"
              "  the_device = args[0].v_int64; return 0; }}\n"
              '#ifdef __cplusplus\n}}\nextern "C"\n#endif\nTVM_FFI_DLL_EXPORT int'),
    ),
)
SET_DEVICE = 'prepare = { function = "set_device", arguments = [7] }'
#: A runtime in Python that computes only once an executor has been passed to it.
SHOWN = """
import os
shown = set()

def show(executor):
    assert type(executor).__name__ in ("GraphModule", "VirtualMachine", "AotModule"), executor
    shown.add(type(executor).__name__)

@register("python_runtime.relu", override=True)
def checked(x, y):
    if not shown:
        raise RuntimeError("no executor was shown")
    y.copyfrom(np.maximum(x.numpy(), np.float32(0)))
"""
EXAMPLE = "pytest_byoc.examples.example_c:target"


def run(
    pytester: pytest.Pytester, ir: str, partition: str, *keys: str, select: str = "", more: str = ""
) -> tuple[pytest.RunResult, Any]:
    """Runs a session on nn.relu with a target that has these keys in its table; returns result and
    report."""
    lines = ["[tool.pytest-byoc.targets.mine]", f'partition = "{partition}"', *keys]
    pytester.makepyprojecttoml("\n".join(lines))
    result = pytester.runpytest_subprocess(
        "--byoc-target=mine", f"--byoc-ir={ir}", f"--byoc-python={PYTHON}", "--byoc-operators=nn.relu",
        "-p", "no:cacheprovider", "--byoc-report=out", *(more.split()),
        "-k", select or "test_operator and float32 and nan", timeout=600,
    )
    there = pytester.path.joinpath("out", "report.json").exists()
    return result, report_of(pytester) if there else None


def reproduced(pytester: pytest.Pytester) -> tuple[int, str]:
    """Returns the exit status of the only failure's script, and the last line of its output."""
    (script,) = pytester.path.glob("out/byoc-failures/*/reproduce.py")
    done = subprocess.run([PYTHON, str(script)], capture_output=True, text=True, timeout=300)
    return done.returncode, (done.stdout.splitlines() or [done.stderr])[-1]


# --- pass-config ---------------------------------------------------------------------------------


def test_pass_config_is_current_in_partition_and_build(
    pytester: pytest.Pytester, ir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the option this target fails; its script sets it, too. All checks run, whichever
    build they use."""
    monkeypatch.setenv("OPTION", OPTION[ir])
    pytester.path.joinpath("target.py").write_text(CONFIGURED)
    result, report = run(pytester, ir, "target.py:partition")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert report["failures"][0]["stage"] == "partition"
    key = f'pass-config = {{ "{OPTION[ir]}" = 7 }}'
    result, report = run(pytester, ir, "target.py:partition", key, select="test_thoroughly and host_between")
    assert (result.ret, report["failures"]) == (pytest.ExitCode.OK, [])


@pytest.mark.once
def test_the_script_of_a_failure_uses_pass_config_and_build_function(
    pytester: pytest.Pytester, ir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The script shows the failure of a wrong build; once the build is repaired, the script passes,
    which it could not do without the option."""
    monkeypatch.setenv("OPTION", OPTION[ir])
    pytester.path.joinpath("target.py").write_text(CONFIGURED)
    head = "def build(mod, executor):"
    build = BUILD[ir].replace(head, head + "\n    raise OSError('x')")
    pytester.path.joinpath("making.py").write_text(build)
    key = f'pass-config = {{ "{OPTION[ir]}" = 7 }}'
    result, report = run(pytester, ir, "target.py:partition", key, 'build = "making.py:build"')
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    (failure,) = report["failures"]
    assert (failure["check"], failure["outcome"], failure["stage"]) == ("process", "error", "build")
    result.stdout.fnmatch_lines(["*build raised OSError*: x"])
    status, last = reproduced(pytester)
    assert status == 1 and last.startswith("FAILED: the stage build") and last.endswith("raised OSError: x")
    pytester.path.joinpath("making.py").write_text(BUILD[ir])
    assert reproduced(pytester) == (0, "passed")
    assert pytester.path.joinpath("built.txt").exists()


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ('{ "OPTIO" = 7 }', "*target *: pass_config contains 'OPTIO', which is not an option * (*OPTION*)*"),
        ('{ "OPTION" = "a" }', "*target *: pass_config is refused by TVM: *OPTION*"),
        ("7", "*pass-config must be a table, found 7*"),
    ],
)
def test_an_unknown_or_invalid_pass_config_is_named(
    pytester: pytest.Pytester, ir: str, config: str, message: str
) -> None:
    option = OPTION[ir]
    config, message = (
        text.replace("OPTION", option).replace("OPTIO", option[:-1]) for text in (config, message)
    )
    result, _ = run(pytester, ir, EXAMPLE, f"pass-config = {config}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])


# --- build ---------------------------------------------------------------------------------------


def test_a_build_function_builds_all_artifacts(pytester: pytest.Pytester, ir: str) -> None:
    """It is called for each executor at the declared opt-level; checks with other builds are not
    made, with a reason."""
    pytester.path.joinpath("making.py").write_text(BUILD[ir])
    result, report = run(
        pytester, ir, EXAMPLE, 'build = "making.py:build"', "opt-level = 2",
        select="test_thoroughly and host_between",
    )
    assert (result.ret, report["failures"]) == (pytest.ExitCode.OK, [])
    executors = {"relay": {"graph at 2", "vm at 2"}, "relax": {"vm at 2"}}[ir]
    assert set(pytester.path.joinpath("built.txt").read_text().split("\n")) - {""} == executors
    assert "check opt-levels: the target builds by a function of its own, which decides the level" in (
        report["not_checked"]
    )
    assert any(s.startswith("check aot: the target builds") for s in report["not_checked"]) == (ir == "relay")


@pytest.mark.once
def test_a_file_with_several_functions_is_imported_once(pytester: pytest.Pytester, ir: str) -> None:
    """A function cannot be registered with TVM twice."""
    pytester.path.joinpath("making.py").write_text(
        BUILD[ir] + """
from pytest_byoc.examples.example_c import target
register = getattr(tvm, "register_global_func", None) or tvm.register_func
register("making.once", lambda: None)

def partition(mod):
    return target.partition(mod)
"""
    )
    result, report = run(pytester, ir, "making.py:partition", 'build = "making.py:build"')
    assert (result.ret, report["failures"]) == (pytest.ExitCode.OK, [])


@pytest.mark.once
def test_a_wrong_return_type_of_the_build_function_is_an_error(pytester: pytest.Pytester, ir: str) -> None:
    pytester.path.joinpath("making.py").write_text("def build(mod, executor):\n    return 3\n")
    result, report = run(pytester, ir, EXAMPLE, 'build = "making.py:build"')
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*the build function returned int*, expected what * returns*"])
    assert report["failures"][0]["stage"] == "build"


@pytest.mark.once
def test_a_method_can_be_the_build_function(pytester: pytest.Pytester, ir: str) -> None:
    """The method and the other keys are attributes of a class."""
    pytester.path.joinpath("making.py").write_text(
        BUILD[ir] + f"""
from pytest_byoc.examples.example_c import ExampleC

class Mine(ExampleC):
    pass_config = {{"{OPTION[ir]}": 7}}
    without_checks = {{"views": "its driver copies"}}

    def build(self, mod, executor):
        assert int(tvm.transform.PassContext.current().config["{OPTION[ir]}"]) == 7
        return build(mod, executor)
"""
    )
    result, report = run(pytester, ir, "making.py:Mine")
    assert (result.ret, report["failures"]) == (pytest.ExitCode.OK, [])
    assert pytester.path.joinpath("built.txt").exists()
    assert "check views: switched off by the target: its driver copies" in report["not_checked"]


@pytest.mark.once
def test_a_missing_build_function_is_named(pytester: pytest.Pytester, ir: str) -> None:
    result, _ = run(pytester, ir, EXAMPLE, 'build = "absent.py:build"')
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*there is no file *absent.py (given as build of target *:build)*"])


# --- prepare -------------------------------------------------------------------------------------


def test_prepare_calls_a_function_of_the_loaded_module_before_a_run(
    pytester: pytest.Pytester, ir: str
) -> None:
    """The call is made wherever an artifact is loaded, in all checks, but not for LLVM's
    artifacts."""
    target = f"{apply(DEVICE, pytester.path) / '__init__.py'}:target"
    result, _ = run(pytester, ir, target)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*no device is set*"])
    assert reproduced(pytester)[0] == 1
    result, report = run(pytester, ir, target, SET_DEVICE, select="test_thoroughly and host_between")
    assert (result.ret, report["failures"]) == (pytest.ExitCode.OK, [])


@pytest.mark.once
def test_the_script_of_a_failure_calls_prepare(pytester: pytest.Pytester, ir: str) -> None:
    """With an absent device the script fails; with the right one it passes, in its fresh process,
    too."""
    target = f"{apply(DEVICE, pytester.path) / '__init__.py'}:target"
    result, report = run(pytester, ir, target, SET_DEVICE.replace("7", "6"))
    assert result.ret == pytest.ExitCode.TESTS_FAILED and report["failures"][0]["stage"] == "run"
    status, last = reproduced(pytester)
    assert status == 1 and "no device is set" in last
    (script,) = pytester.path.glob("out/byoc-failures/*/reproduce.py")
    script.write_text(script.read_text().replace("'arguments': [6]", "'arguments': [7]"))
    assert reproduced(pytester) == (0, "passed")


@pytest.mark.once
def test_a_prepare_function_that_the_module_lacks_is_named(pytester: pytest.Pytester, ir: str) -> None:
    result, _ = run(pytester, ir, EXAMPLE, 'prepare = { function = "start" }')
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*load raised *start*"])


@pytest.mark.once
def test_a_python_prepare_function_is_called_with_each_executor(pytester: pytest.Pytester, ir: str) -> None:
    functions = FIXTURES / "targets" / "python_runtime_functions.py"
    pytester.path.joinpath("functions.py").write_text(functions.read_text() + SHOWN)
    target = f"{FIXTURES / 'targets' / 'python_runtime.py'}:WithoutRuntime"
    keys = ['libraries = "functions.py"', 'prepare = "functions.py:show"']
    result, report = run(pytester, ir, target, *keys[:1])
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert report["failures"][0]["stage"] == "run"
    result, report = run(pytester, ir, target, *keys, select="test_thoroughly and host_between")
    assert (result.ret, report["failures"]) == (pytest.ExitCode.OK, [])


@pytest.mark.once
def test_a_prepare_function_the_loader_cannot_import_is_named(pytester: pytest.Pytester, ir: str) -> None:
    """It imports a module that only the target's process has; a deployment would lack it."""
    pytester.path.joinpath("ready.py").write_text(
        "import sys\n\nif 'pytest_byoc.examples.example_c' not in sys.modules:\n"
        "    raise ImportError('no compiler')\n\ndef go(executor):\n    pass\n"
    )
    result, _ = run(pytester, ir, EXAMPLE, 'prepare = "ready.py:go"')
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*prepare (*ready.py:go) can't be imported where artifacts *no compiler*"])


@pytest.mark.once
@pytest.mark.parametrize(
    "given", ["go", 3, {"name": "go"}, {"function": "go", "arguments": [[1]]}, {"function": "go", "args": []}]
)
def test_an_invalid_form_of_prepare_is_refused(given: Any) -> None:
    with pytest.raises(ProcedureError, match=r"prepare must be \{ function = "):
        preparation(given)


@pytest.mark.once
def test_a_method_cannot_be_the_prepare_function() -> None:
    with pytest.raises(ProcedureError, match="a method cannot be used"):
        preparation(Path.exists)


# --- without-checks ------------------------------------------------------------------------------


@pytest.mark.once
def test_a_check_is_switched_off_with_a_reason(pytester: pytest.Pytester, ir: str) -> None:
    """One check runs in two processes, another only judges; the page repeats the reason."""
    target = f"{apply(UNREPEATED, pytester.path) / '__init__.py'}:target"
    result, report = run(pytester, ir, target)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert {f["check"] for f in report["failures"]} == {"inputs-unmodified"}
    off = 'without-checks = { inputs-unmodified = "inputs are\\nscratch" }'
    result, report = run(pytester, ir, target, off)
    assert "inputs-unmodified" not in {f["check"] for f in report["failures"]}
    note = "check inputs-unmodified: switched off by the target: inputs are scratch"
    assert note in report["not_checked"]
    result.stdout.fnmatch_lines([f"*{note}*"])
    assert note in pytester.path.joinpath("out", "report.html").read_text()


#: Each operand that is an input loses its first element after the result was computed.
UNREPEATED = Fault(
    "operand_spent", 38, "an input is overwritten behind the result", ("nn.relu",), "inputs-unmodified",
    (
        Patch("relay.py", "  if (error != NULL) {{",
              "  *(char*)data[0] = 1;\n  if (error != NULL) {{"),
        Patch("relax.py", "  if (error != NULL) {{",
              "  *(char*)data[0] = 1;\n  if (error != NULL) {{"),
    ),
)


@pytest.mark.once
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"view": "why"}, r"contains 'view', which is not a check \(views\?\)"),
        ({"xyzzy": "why"}, "contains 'xyzzy', which is not a check; known are offload, regions,"),
        ({"numerics": "why"}, "contains 'numerics', on which every verdict rests"),
        ({"process": "why"}, "contains 'process', on which every verdict rests"),
        ({"views": " "}, "must give a reason for 'views'"),
        ({"views": True}, "must give a reason for 'views', .*found True"),
        (["views"], "must give a reason for each check"),
    ],
)
def test_a_check_that_cannot_be_switched_off_is_named(given: Any, message: str) -> None:
    with pytest.raises(ProcedureError, match=message):
        reasons(given)


@pytest.mark.once
def test_an_invalid_without_checks_is_a_usage_error_at_the_start(pytester: pytest.Pytester, ir: str) -> None:
    result, _ = run(pytester, ir, EXAMPLE, 'without-checks = { view = "x" }')
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*target *: without_checks contains 'view', which is not a check (views?)*"])


# --- views ---------------------------------------------------------------------------------------


def test_views_are_not_judged_where_llvm_ignores_the_byte_offset(pytester: pytest.Pytester, ir: str) -> None:
    """Under Relay's VM TVM's kernels ignore the byte offset, too: that is noted once, and is a
    failure only with strict-views. Relax's kernels refuse an offset, so ignoring it is a
    failure."""
    target = f"{apply(FAULTS['byte_offset_ignored'], pytester.path) / '__init__.py'}:target"
    select = "test_operator and float32 and (nan or subnormals)"
    _, report = run(pytester, ir, target, select=select)
    note = "check views: where TVM's own LLVM build fails it in the same way, it is not held against the "
    note += "target"
    assert (note in report["not_checked"]) == (ir == "relay")
    assert report["not_checked"].count(note) <= 1
    assert {f["check"] for f in report["failures"]} == (set() if ir == "relay" else {"views"})
    assert (report["outcomes"].get("pass", 0) > 1) == (ir == "relay")
    if ir == "relay":
        _, report = run(pytester, ir, target, "strict-views = true", select=select)
        assert {f["check"] for f in report["failures"]} == {"views"}
        assert note not in report["not_checked"]


@pytest.mark.once
def test_views_fail_where_llvm_uses_the_byte_offset(pytester: pytest.Pytester, ir: str) -> None:
    """TVM itself returns a reshaped input as a view, with its byte offset."""
    target = f"{apply(FAULTS['byte_offset_ignored'], pytester.path) / '__init__.py'}:target"
    more = "--byoc-level=smoke --byoc-operators=reshape"
    result, report = run(pytester, ir, target, select="test_operator and float32", more=more)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert {f["check"] for f in report["failures"]} == {"views"}
