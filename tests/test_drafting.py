"""Tests of `python -m pytest_byoc init`: the settings it finds out for a target, and how it writes
them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from fixtures.faults import FAULTS, apply
from pytest_byoc.__main__ import main

from .conftest import PYTHON

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: A half-precision target with regions built for one executor only, one of which returns its input.
PARTICULAR = """
import sys
sys.path.insert(0, {folder!r})
from {package} import ExampleC

class Particular(ExampleC):
    name = "a.particular one"
    patterns = {patterns!r}

    def build(self, mod, executor):
        import tvm, platform
        if executor == "vm" and hasattr(tvm, "relay"):
            raise ValueError("no virtual machine\\nof ours")
        if hasattr(tvm, "relay"):
            return tvm.relay.build(mod, "llvm -mtriple=%s-linux-gnu" % platform.machine())
        return tvm.compile(tvm.relax.transform.RunCodegen()(mod), target="llvm")
"""


def init(*arguments: str) -> int:
    return main(["init", f"--python={PYTHON}", *arguments])


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def tables(text: str) -> Any:
    return tomllib.loads(text)["tool"]["pytest-byoc"]["targets"]


def test_the_draft_is_appended_with_all_settings_the_target_needs(
    here: Path, ir: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The table is valid, each key has a reason, and unknown settings are listed."""
    path = apply(FAULTS["half_accumulator"], here)
    here.joinpath("mine.py").write_text(
        PARTICULAR.format(folder=str(path.parent), package=path.name, patterns=None)
    )
    here.joinpath("pyproject.toml").write_text('[project]\nname = "mine"')
    args = ("mine.py:Particular", f"--ir={ir}", "--operators=nn.dense,nn.relu,floor", "-o", "pyproject.toml")
    assert init(*args) == 0
    message = 'pyproject.toml: appended [tool.pytest-byoc.targets."a.particular one"]\n'
    assert capsys.readouterr().out == message
    text = here.joinpath("pyproject.toml").read_text()
    assert text.startswith('[project]\nname = "mine"\n\n# Drafted by')
    table = tables(text)["a.particular one"]
    wanted: dict[str, Any] = {
        "partition": "mine.py:Particular", "ir": ir, "python": PYTHON,
        "accumulate-dtype": {"float32": "float16"},
    }
    if ir == "relay":
        wanted["executors"] = ["graph"]
    assert table == wanted
    assert ("# None of 2 graphs runs under vm: build raised of ours" in text) == (ir == "relay")
    assert "# nn.dense of float32 sums 4096 or more ones to 2048: declare it only if" in text
    assert "#   in float32, float64: nn.dense\n" in text and "floor" not in text.partition("# Operators")[2]
    assert "#   libraries and runtime-libraries: " in text
    assert all(line.startswith("#") or len(line) < 110 for line in text.splitlines())
    # The table exists already: no worker is started.
    assert init(*args, "--name=a.particular one") == 2
    assert "pyproject.toml has a table" in capsys.readouterr().err
    assert here.joinpath("pyproject.toml").read_text() == text


@pytest.mark.once
def test_the_draft_of_an_exact_target_has_only_its_ir(
    here: Path, ir: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The target is given by name, which the table repeats. Every operator product is examined."""
    assert init("example_c", f"--ir={ir}", "--operators=nn.dense,nn.conv2d,add") == 0
    (name, table), = tables(capsys.readouterr().out).items()
    assert name == "example_c"
    assert table == {"partition": "pytest_byoc.examples.example_c:target", "ir": ir, "python": PYTHON}


#: By IR: a target whose patterns are registered under another name than that of its regions.
OTHERWISE = {
    "relay": """
from tvm import relay
from tvm.relay.dataflow_pattern import is_op, wildcard
from tvm.relay.op.contrib.register import register_pattern_table
import pytest_byoc.examples.example_c.relay

@register_pattern_table("otherwise")
def table():
    return [("otherwise.tanh", is_op("tanh")(wildcard()))]

def partition(mod):
    mod = relay.transform.MergeComposite(table())(mod)
    mod = relay.transform.AnnotateTarget("otherwise")(mod)
    mod = relay.transform.PartitionGraph()(mod)
    for var, function in list(mod.functions.items()):
        if function.attrs and "Compiler" in function.attrs.keys():
            mod[var] = function.with_attr("Compiler", "example_d")
    return mod
""",
    "relax": """
from tvm import relax
from tvm.relax.backend.pattern_registry import register_patterns
from tvm.relax.dpl.pattern import is_op, wildcard
import tvm

register_patterns([("otherwise.tanh", is_op("relax.tanh")(wildcard()))])

def partition(mod):
    patterns = relax.backend.get_patterns_with_prefix("otherwise")
    mod = relax.transform.FuseOpsByPattern(patterns, annotate_codegen=True)(mod)
    for var, function in list(mod.functions.items()):
        if function.attrs and "Codegen" in function.attrs:
            mod[var] = function.with_attr("Codegen", "example_d")
    return mod
""",
}


def test_patterns_registered_under_another_name_are_found(
    here: Path, ir: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The suite finds them, so the draft has no key for them. The codegen is missing, and the draft
    says that nothing is run."""
    here.joinpath("mine.py").write_text(OTHERWISE[ir])
    assert init("mine.py:partition", f"--ir={ir}", "--operators=tanh") == 0
    text = capsys.readouterr().out
    (name, table), = tables(text).items()
    assert name == "mine"
    wanted = {"partition": "mine.py:partition", "ir": ir, "python": PYTHON}
    # Without MergeCompilerRegions, PartitionGraph also makes regions of returned values.
    odd = {"trivial-regions": ["empty", "identity"]} if ir == "relay" else {}
    assert table == {**wanted, **odd}
    assert "patterns: TVM has none" not in text
    assert "#   executors and precision: nothing is run (TVM has no codegen for its regions here" in text


def test_a_target_that_offloads_nothing_is_reported(
    here: Path, ir: str, capsys: pytest.CaptureFixture[str]
) -> None:
    here.joinpath("mine.py").write_text("def partition(mod):\n    return mod\n")
    assert init("mine.py:partition", f"--ir={ir}", "--operators=nn.relu") == 1
    text = capsys.readouterr().out
    assert tables(text)["mine"]["ir"] == ir
    assert "#   offloaded operators: the target offloads the simplest case of no operator" in text


@pytest.mark.once
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "there is no target called 'nothing'"),
        (["absent.py:partition"], "there is no file "),
        (["example_c", "--operators=nn.reluu"], "unknown operator nn.reluu"),
        (["example_c", "-o", "broken.toml"], "the table cannot be appended to broken.toml: "),
        (["example_c", "-o", "folder"], "the table cannot be appended to folder: "),
    ],
)
def test_a_failed_draft_prints_one_message(
    here: Path, ir: str, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    here.joinpath("broken.toml").write_text("[")
    here.joinpath("folder").mkdir()
    assert init(*arguments) == 2
    captured = capsys.readouterr()
    assert message in captured.err and not captured.out


@pytest.mark.once
def test_a_missing_interpreter_is_named(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "example_c", "--python=./absent"]) == 2
    assert "absent is not an executable file" in capsys.readouterr().err


@pytest.mark.once
def test_without_a_name_the_available_targets_are_listed(
    here: Path, ir: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert init() == 0
    assert "example_c  (installed with pytest-byoc)" in capsys.readouterr().out
