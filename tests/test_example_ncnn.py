"""Tests of ``example_ncnn``: conformance at smoke, artifacts with and without the function that they call,
an ncnn that is missing, too old or incomplete, and planted mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.faults import Patch

from .conftest import PYTHON
from .example_helpers import (
    ROOT,
    Mistake,
    assert_conforms,
    assert_found,
    assert_runtime_is_missed,
    assert_stub_is_refused,
    built,
    error_of,
    planted,
    python,
    result_of,
)

TARGET = "pytest_byoc.examples.example_ncnn:target"
RUNTIME = ROOT / "pytest_byoc" / "examples" / "example_ncnn" / "runtime.py"


@pytest.fixture(scope="module")
def ncnn(ir: str) -> None:
    """Skips the test where the tests' interpreter has no ncnn."""
    if python("import ncnn").returncode:
        pytest.skip("no ncnn for the tests' interpreter: pip install 'pytest-byoc[ncnn]'")


@pytest.fixture(scope="module")
def artifacts(ir: str, ncnn: None, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return built(ir, TARGET, tmp_path_factory.mktemp("artifacts"), rows=1, last="reshape")


def test_an_artifact_runs_with_its_runtime_alone(artifacts: list[Path]) -> None:
    results = {result_of(artifact, RUNTIME, rows=1) for artifact in artifacts}
    assert results == {"[[[0.0, 0.0], [13.0, 31.0]]]"}


def test_an_artifact_names_the_function_that_is_not_registered(artifacts: list[Path]) -> None:
    assert_runtime_is_missed(artifacts, "example_ncnn", rows=1)


def test_an_error_of_ncnn_becomes_one_of_tvm(artifacts: list[Path], tmp_path: Path) -> None:
    refusing = tmp_path / "refusing.py"
    refusing.write_text(
        "import ncnn\n"
        "class Refusing(ncnn.Net):\n"
        "    def load_model(self, *arguments):\n"
        "        return -1\n"
        "ncnn.Net = Refusing\n"
    )
    for artifact in artifacts:
        assert "ncnn does not load the net of a region" in error_of(artifact, refusing, RUNTIME, rows=1)


#: By name: a stub of ncnn, and words of the message.
STUBS = {
    "missing": ('raise ImportError("No module named ncnn")\n', "cannot be imported: No module named ncnn"),
    "old": ('__version__ = "1.0.20210525"\n', "this is ncnn 1.0.20210525; 1.0."),
    "incomplete": ('__version__ = "1.0.20991231"\nNet = Mat = object\n', "1.0.20991231 has no DataReader"),
}


@pytest.mark.once
@pytest.mark.parametrize("name", STUBS)
def test_an_ncnn_that_does_not_fit_is_refused(
    pytester: pytest.Pytester, ir: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_stub_is_refused(pytester, ir, monkeypatch, "ncnn", STUBS[name])


def test_it_conforms(pytester: pytest.Pytester, ir: str, ncnn: None) -> None:
    tests = "test_pattern or test_operator and float32 and (padding or groups or nan or infinities)"
    operators = "nn.conv2d,nn.max_pool2d,nn.softmax,reshape,add,nn.bias_add,nn.relu"
    assert_conforms(pytester, ir, "example_ncnn", operators, tests)


#: Two softmaxes in one region, of which the second reads rows that the runtime has set to NaN.
SOFTMAXES = """
import pytest_byoc as byoc

ROWS, OTHERS = (byoc.TensorType(shape, "float32") for shape in ((1, 4, 3), (1, 2, 6)))
DATA = [0.0, "nan", 1.0, "-inf", 0.0, 1.0, "inf", 0.0, 1.0, 2.0, 0.0, 1.0]

def test_softmaxes(byoc_check):
    calls = (("nn.softmax", {"axis": 2}, ROWS), ("reshape", {"newshape": OTHERS.shape}, OTHERS),
             ("nn.softmax", {"axis": 1}, OTHERS))
    nodes = tuple(
        byoc.Node(name, inputs=(f"v{i}",), attrs=attrs, outputs=(f"v{i + 1}",), types=(type_,))
        for i, (name, attrs, type_) in enumerate(calls)
    )
    graph = byoc.Graph((byoc.Source("v0", ROWS, data=DATA),), constants=(), nodes=nodes, outputs=("v3",))
    assert byoc_check(graph).offloaded == (True, True, True)
"""


def test_nan_set_in_a_softmax_reaches_the_layers_behind_it(
    pytester: pytest.Pytester, ir: str, ncnn: None
) -> None:
    pytester.makepyfile(test_softmaxes=SOFTMAXES)
    result = pytester.runpytest_subprocess(
        "--byoc-target=example_ncnn", f"--byoc-python={PYTHON}", f"--byoc-ir={ir}", "-p", "no:cacheprovider",
        "test_softmaxes.py", timeout=300,
    )  # fmt: skip
    result.assert_outcomes(passed=1)


MISTAKES = {
    "strides_of_the_other_layout": Mistake(
        [Patch("layers.py", "np.ascontiguousarray(weight.T)", "weight.reshape(weight.shape[::-1])")],
        "nn.dense", "test_pattern", {"numerics"}, irs=("relax",),
    ),
    "bias_lost": Mistake(
        [Patch("layers.py", "params = {**layer.params, _BIAS_TERM[layer.kind]: 1}", "params = layer.params")],
        "nn.conv2d,nn.bias_add,add", "test_pattern", {"numerics"},
    ),
    "channels_taken_for_aligned": Mistake(
        [Patch("runtime.py", "if pointer % 64 or (len(shape) > 2 and mat.cstep % 4):", "if False:")],
        "nn.conv2d", "test_operator and float32-groups", {"numerics"},
    ),
    "results_of_the_first_run_kept": Mistake(
        [Patch("runtime.py", "        extractor = self.net.create_extractor()\n",
               "        self.kept = getattr(self, 'kept', None) or self.net.create_extractor()\n"
               "        extractor = self.kept\n")],
        "reshape", "test_pattern", {"rerun"},
    ),
    "nan_of_a_softmax_not_set": Mistake(
        [Patch("runtime.py", "            if rows.any():\n", "            if False:\n")],
        "nn.softmax", "test_operator and float32-nan", {"numerics"},
    ),
    "address_of_the_weights_saved": Mistake(
        [Patch("c_source.py", "  {s}_weights, {len(weights)}\n",
               "  (const void*){_KEPT.append(np.frombuffer(bytes(weights), 'u1')) or "
               "_KEPT[-1].ctypes.data}, {len(weights)}\n"),
         Patch("c_source.py", "class Region:\n", "_KEPT: List[Any] = []\n\n\nclass Region:\n")],
        "nn.conv2d", "test_operator and float32-padding", {"roundtrip"},
    ),
}  # fmt: skip


@pytest.mark.once
def test_mistakes_can_be_planted(tmp_path: Path) -> None:
    for name, mistake in MISTAKES.items():
        planted("example_ncnn", name, mistake.patches, tmp_path)


@pytest.mark.of_examples
@pytest.mark.parametrize("name", MISTAKES)
def test_a_planted_mistake_is_found(name: str, pytester: pytest.Pytester, ir: str, ncnn: None) -> None:
    assert_found(pytester, ir, "example_ncnn", name, MISTAKES[name])
