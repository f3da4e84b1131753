"""Tests of the workers: their start and end, the target that they resolve, and the state of their
process."""

from __future__ import annotations

import ctypes
import os
import platform
import random
import resource
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest

from pytest_byoc import report
from pytest_byoc.core.graph import Graph, TensorType
from pytest_byoc.examination.client import Worker, WorkerError
from pytest_byoc.examination.examiner import Examiner
from pytest_byoc.examination.outcome import Verdict
from pytest_byoc.generation.builder import Builder
from pytest_byoc.ir.shared import Tensors
from pytest_byoc.record.process_output import vendor_frame
from pytest_byoc.runs import fenv, surroundings

from .conftest import FIXTURES, PYTHON, declaration, make_settings

HOSTILE = FIXTURES / "targets" / "hostile.py"


class Copied:
    """Stands for a tensor of TVM with the members that `Tensors` uses."""

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.shape, self.dtype = array.copy(), array.shape, str(array.dtype)

    def copyfrom(self, other: Copied) -> None:
        self.array[...] = other.array


def chain(*operators: str) -> Graph:
    b = Builder(seed=1)
    y = b.input(TensorType((2, 3), "float32"), 0.5, 1.0)
    for op in operators:
        y = b.simple(op, y)
    return b.graph(y)


def examiner(tmp_path: Path, target: str, ir: str, timeout: float = 30.0) -> Examiner:
    return Examiner(make_settings(tmp_path, timeout), declaration(target, ir))


def test_every_second_run_reuses_the_tensors_of_the_previous_run() -> None:
    a, b = {"x": np.array([1.0, 2.0])}, {"x": np.array([3.0, 4.0])}
    tensors = Tensors(Copied)
    (first,) = tensors.of(a)
    (second,) = tensors.of(b)
    assert second is first and list(second.array) == [3.0, 4.0]
    (third,) = tensors.of(a)
    assert third is not first and list(third.array) == [1.0, 2.0]
    assert list(first.array) == [3.0, 4.0]


def test_tensors_of_another_shape_or_dtype_are_new() -> None:
    tensors = Tensors(Copied)
    tensors_ = [tensors.of({"x": x})[0] for x in (np.zeros(2), np.ones(3), np.ones(3, "float32"))]
    assert [(t.shape, t.dtype) for t in tensors_] == [((2,), "float64"), ((3,), "float64"), ((3,), "float32")]


def test_crashes_do_not_restart_the_worker(tmp_path: Path, ir: str) -> None:
    """The worker forks a child for each example: it is the same process after ten crashes."""
    e = examiner(tmp_path, f"{HOSTILE}:segfault", ir)
    e.open()
    try:
        process = e.workers.target._process
        assert process is not None
        for n in range(10):
            assert e.examine(chain(*["nn.relu"] * n, "exp")).outcome == "crash"
        assert e.workers.target._process is process
        assert process.poll() is None
    finally:
        e.close()


def test_a_killed_worker_is_restarted(tmp_path: Path, ir: str) -> None:
    e = examiner(tmp_path, "example_c", ir)
    e.open()
    try:
        for worker in (e.workers.target, e.workers.reference, e.workers.loader):
            assert worker._process is not None
            worker._process.kill()
            worker._process.wait()
        assert e.examine(chain("nn.relu")).outcome == "pass"
    finally:
        e.close()


def test_an_exception_of_the_host_leaves_no_messages_to_the_next_graph(
    tmp_path: Path, ir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    e = examiner(tmp_path, f"{HOSTILE}:segfault", ir)
    e.open()

    def failing(*args: object) -> NoReturn:
        raise LookupError

    try:
        with monkeypatch.context() as patch:
            patch.setattr("pytest_byoc.examination.companions.Companions.opened", failing)
            with pytest.raises(LookupError):
                e.examine(chain("nn.relu", "nn.relu"))
        assert e.examine(chain("nn.relu", "exp")).outcome == "crash"
        assert e.examine(chain("nn.relu")).outcome == "pass"
    finally:
        e.close()


def test_a_worker_that_has_grown_is_restarted(
    tmp_path: Path, ir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    e = examiner(tmp_path, "pytest_byoc.examples.example_c:target", ir)
    e.open()
    try:
        loader, target = e.workers.loader, e.workers.target
        before = loader._process, target._process
        assert e.examine(chain("nn.relu")).outcome == "pass"
        assert (loader._process, target._process) == before
        monkeypatch.setattr("pytest_byoc.examination.client.GROWTH", -1 << 40)
        assert e.examine(chain("tanh")).outcome == "pass"
        assert loader._process not in before and target._process not in before
        assert all(p is not None and p.poll() is not None for p in before)
    finally:
        e.close()


def test_host_does_not_import_tvm_or_the_target(pytester: pytest.Pytester, ir: str) -> None:
    pytester.makepyfile(
        """
        import sys
        from pytest_byoc.generation.systematic import default_case

        def test_modules(byoc_check):
            assert byoc_check(default_case("nn.relu", "float32").graph).outcome == "pass"
            assert "tvm" not in sys.modules
            assert "pytest_byoc.examples.example_c" not in sys.modules
        """
    )
    result = pytester.runpytest_subprocess(
        "--byoc-target=example_c", f"--byoc-ir={ir}", f"--byoc-python={PYTHON}", "."
    )
    result.assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("nobody", "there is no target called 'nobody'. Known are:\n  example_c"),
        ("no_such_module_here:target", "there is no module no_such_module_here"),
        ("no/such/file.py:target", "there is no file"),
        (f"{HOSTILE}:nope", "has no attribute nope; it has"),
        (f"{HOSTILE}:example_c.name", "is a str; expected a partition function"),
    ],
)
def test_bad_references(tmp_path: Path, ir: str, target: str, message: str) -> None:
    e = examiner(tmp_path, target, ir)
    with pytest.raises(WorkerError, match=message.replace("[", r"\[")):
        e.open()
    e.close()


def test_import_errors_name_the_vendors_frame(tmp_path: Path, ir: str) -> None:
    e = examiner(tmp_path, f"{FIXTURES / 'targets' / 'broken_import.py'}:target", ir)
    with pytest.raises(WorkerError, match="the SDK is not installed") as caught:
        e.open()
    e.close()
    frame = vendor_frame(caught.value.frames)
    assert frame is not None
    assert frame["file"].endswith("broken_import.py") and frame["function"] == "_load"


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (f"{HOSTILE}:nonsense", r"returned int, expected a tvm\.IRModule"),
        (f"{HOSTILE}:not_there", "not_there"),
    ],
)
def test_a_refused_target_leaves_no_temporary_files(
    tmp_path: Path, ir: str, target: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    e = examiner(tmp_path, target, ir)
    with pytest.raises(WorkerError, match=words):
        e.open()
    e.close()
    assert not list(temporary.iterdir())


def test_missing_library_is_named(tmp_path: Path, ir: str) -> None:
    worker = Worker(PYTHON, {"role": "target", "ir": ir, "libraries": ["/nowhere/libmissing.so"]}, 5.0)
    worker.start()
    with pytest.raises(WorkerError, match=r"library /nowhere/libmissing.so does not load: .*No such file"):
        worker.ready()


def test_an_interpreter_without_tvm_reports_the_package_to_install(tmp_path: Path) -> None:
    import venv

    venv.create(tmp_path / "empty", with_pip=False)
    worker = Worker(str(tmp_path / "empty" / "bin" / "python"), {"role": "reference", "ir": "relay"}, 5.0)
    worker.start()
    # NumPy is missing there, too, and is imported first.
    with pytest.raises(WorkerError, match=r"NumPy|pytest-byoc\[relay\]"):
        worker.ready()


def test_stopping_leaves_no_process(tmp_path: Path, ir: str) -> None:
    e = examiner(tmp_path, "example_c", ir)
    e.open()
    processes = [w._process for w in (e.workers.target, e.workers.reference, e.workers.loader)]
    e.close()
    assert all(p is not None and p.poll() is not None for p in processes)


def examined(tmp_path: Path, ir: str, graph: Graph) -> tuple[Examiner, Verdict]:
    """Returns an examiner of example_c, closed, and its verdict on a graph."""
    e = examiner(tmp_path, "pytest_byoc.examples.example_c:target", ir)
    e.open()
    try:
        return e, e.examine(graph)
    finally:
        e.close()


def test_a_function_missing_in_tvms_runtime_is_no_failure(tmp_path: Path, ir: str) -> None:
    """TVM does the sorting, and some versions of its runtime library cannot sort."""
    t = TensorType((3, 5), "float32")
    b = Builder(seed=1)
    x = b.input(t)
    negated = b.node("negative", (x,), {})[0]
    graph = b.graph(b.simple("sort", negated))
    _, verdict = examined(tmp_path, ir, graph)
    assert verdict.outcome in ("pass", "reference-wrong") and any(verdict.offloaded), verdict.findings
    if verdict.outcome == "reference-wrong":
        assert "tvm.contrib.sort" in " ".join(verdict.notes)


def test_an_error_of_tvm_at_the_targets_opt_level_is_no_failure(
    tmp_path: Path, ir: str
) -> None:
    """At opt_level 3, but not below, TVM turns the operator into a convolution without a kernel
    size."""
    if ir != "relay":
        pytest.skip("Relax has no such operator")
    b = Builder(seed=1)
    image = b.simple("nn.relu", b.input(TensorType((1, 1, 2, 12), "float32")))
    gradient = b.input(TensorType((1, 1, 1, 10), "float32"))
    attrs = {
        "data_layout": "NCHW", "grad_layout": "NCHW", "kernel_layout": "OIHW", "kernel_size": (2, 3),
        "channels": 1, "groups": 1, "padding": (0, 0, 0, 0), "strides": (1, 1), "dilation": (1, 1),
    }
    graph = b.graph(b.node("nn.conv2d_backward_weight", (gradient, image), attrs)[0])
    e, verdict = examined(tmp_path, ir, graph)
    assert e.workers.built["opt_level"] == 3 and any(verdict.offloaded)
    assert verdict.outcome == "reference-wrong" and "must be set or inferred" in " ".join(verdict.notes)


@pytest.mark.parametrize(("mode", "words"), [(0x800, "upwards"), (0x400, "downwards")])
def test_a_changed_rounding_mode_is_reported(mode: int, words: str) -> None:
    """The modes are FE_UPWARD and FE_DOWNWARD of x86."""
    if platform.machine() != "x86_64":
        pytest.skip("the numbers are x86's")
    libm = ctypes.CDLL("libm.so.6")
    fenv.remember()
    try:
        assert fenv.changes() == []
        libm.fesetround(mode)
        assert any(words in change for change in fenv.changes())
    finally:
        libm.fesetround(0)
    assert fenv.changes() == []


def _change_limit() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (77, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def _change_handler() -> None:
    ctypes.CDLL(None).signal(signal.SIGFPE, ctypes.c_void_p(1))


# pytest-xdist's process has threads; the child needs none of them.
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda: os.chdir("/"), "the working directory ("),
        (lambda: os.umask(0o27), "the mask for new files ("),
        (lambda: os.dup2(os.open(os.devnull, os.O_WRONLY), 2), "standard error ("),
        (_change_limit, "the limit RLIMIT_NOFILE ("),
        (lambda: signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2}), "the signals that are block"),
        (_change_handler, "the handler of SIGFPE"),
        (lambda: random.seed(0), "the seed of Python's random numbers"),
        (lambda: np.random.seed(0), "the seed of NumPy's random numbers"),
    ],
)
def test_changes_of_process_state_are_reported(
    tmp_path: Path, change: Callable[[], object], words: str
) -> None:
    """The change is made in a forked child, which ends afterwards."""
    report_file = tmp_path / "told"
    child = os.fork()
    if not child:
        try:
            before = surroundings.state()
            # Drawing random numbers is no change.
            for _ in range(2000):
                random.random(), np.random.rand()
            assert surroundings.changes(before) == []
            change()
            report_file.write_text("\n".join(surroundings.changes(before)))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert report_file.read_text().startswith(words) and "\n" not in report_file.read_text()


def printed_with_tvm(code: str) -> list[str]:
    """Returns the lines that a script prints in the workers' interpreter."""
    done = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_compiler_that_is_a_target_kind_with_hooks_is_built_for(ir: str) -> None:
    """TVM 0.16 registers example_target_hook as a target kind with hooks of its own; most vendors'
    names are no target kind, and `c` is a kind without hooks."""
    if ir != "relay":
        pytest.skip("targets of Relay")
    script = Path(report.__file__).parent / "templates" / "relay.py.txt"
    code = f"""if True:
        import platform
        import tvm
        from tvm import IRModule, relay
        from pytest_byoc.ir.machine import MACHINE
        from pytest_byoc.ir.relay_building import _targets
        # The script of a failure builds for the same.
        exec(open({str(script)!r}).read())
        for name in ("example_target_hook", "vendor", "c"):
            x = relay.var("x", shape=(2, 3))
            region = relay.Function([x], relay.nn.relu(x)).with_attr("Compiler", name)
            module = IRModule({{"main": relay.Function([x], x), "region": region}})
            found = _targets(module)
            assert str(found) == str(targets(module))
            print(name, "host" if found == MACHINE.llvm_text() else [target.kind.name for target in found])
    """
    assert printed_with_tvm(code) == [
        "example_target_hook ['llvm', 'example_target_hook']", "vendor host", "c host",
    ]


def test_only_calls_that_the_target_offloads_are_marked_by_hand(ir: str) -> None:
    """A target may offload one form of an operator and refuse another; marking the latter would be
    our fault."""
    if ir != "relay":
        pytest.skip("in Relax a pattern of the target's own marks")
    code = """if True:
        from tvm import IRModule, relay
        from pytest_byoc.ir.relay_modules import marked_by_hand
        def leaky(x, alpha):
            return relay.nn.leaky_relu(x, alpha)
        x = relay.var("x", shape=(2, 3))
        module = IRModule.from_expr(relay.Function([x], relay.Tuple([leaky(x, 0.1), leaky(x, 0.2)])))
        for alpha in (0.1, 0.2, 0.3):
            y = relay.var("y", shape=(2, 3))
            region = relay.Function([y], leaky(y, alpha)).with_attr("Compiler", "vendor")
            partitioned = IRModule({"main": relay.Function([x], x), "region": region})
            regions = [{"calls": ["nn.leaky_relu -> float32[2,3]"], "compiler": "vendor"}]
            marked = marked_by_hand(module, partitioned, regions, [])
            fields = [] if marked is None else marked["main"].body.fields
            print([f.op.name == "annotation.compiler_end" for f in fields])
    """
    assert printed_with_tvm(code) == ["[True, False]", "[False, True]", "[]"]
