"""Runs NNSmith 0.1.0, and a suite in the style of TVM's own BYOC tests, on the same planted faults.

    python benchmarks/others.py --models 60 --budget 60 --json FILE [--kit FILE]

Needs an interpreter with Relay, NNSmith 0.1.0 and pytest-byoc (CPython 3.10: `torch==1.12.1 numpy<2
onnx==1.14.1 protobuf<4 onnxruntime==1.16.3 nnsmith==0.1.0 hhb-tvm==3.2.3 tqdm tflite`). NNSmith
generates models, exports them to ONNX and evaluates them with PyTorch. The models are imported,
partitioned for the faulty target, built, run by the graph executor and compared with NNSmith's
tolerance (`nnsmith/difftest.py`: rtol 1e-2, atol 1e-3, NaN equals NaN). A suite finds a fault if a
case raises, crashes, hangs or differs, and passes on the unmodified target. Each suite stops at its
first finding, or once --budget CPU seconds are spent.

The CPU seconds are those a user would spend on that fault alone: importing TVM, generating the
models or building and running the reference, partitioning, building, running. If the partitioned
module and the C text are identical to those of the unmodified target, the case is not run again but
counted with its CPU seconds there.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import importlib
import json
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

os.environ.update(TVM_NUM_THREADS="1", OMP_NUM_THREADS="1")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from pytest_byoc.core.protocol import Decoder, encode

faults = importlib.import_module("fixtures.faults")
_before_tvm = time.process_time()
tvm = importlib.import_module("tvm")
relay = importlib.import_module("tvm.relay")
contrib = importlib.import_module("tvm.contrib.graph_executor")
np = importlib.import_module("numpy")
TVM_CPU = time.process_time() - _before_tvm

HOST = tvm.target.Target(f"llvm -mtriple={os.uname().machine}-linux-gnu")
#: Address space in bytes of a process that generates or runs models; seconds for one case.
MEMORY = 8 << 30
CASE_LIMIT = 30


@dataclass
class Case:
    """A test case of a suite.

    inputs: arrays by name. expected: the outputs by position. cpu: CPU seconds of its generation.
    clean: the digest of its partitioned module and C text on the unmodified target. clean_cpu: the
    CPU seconds there."""

    name: str
    mod: Any
    inputs: dict[str, Any]
    expected: list[Any]
    rtol: float
    atol: float
    cpu: float
    clean: str = ""
    clean_cpu: float = 0.0


@dataclass
class Result:
    """The result of a suite on one fault: the case that found it, the cases tried, the CPU
    seconds."""

    suite: str
    fault: str
    found: str = ""
    cases: int = 0
    cpu: float = 0.0


@dataclass
class Suite:
    """A suite.

    cases: the cases that pass on the unmodified target. start: CPU seconds of the imports. alarms:
    the failures on the unmodified target."""

    name: str
    cases: list[Case]
    start: float
    alarms: list[str] = field(default_factory=list)


def used() -> float:
    """Returns the CPU seconds of this process and its children."""
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in both)


def in_child(work: Callable[[Callable[[Any], None]], None], limit: float) -> Iterator[Any]:
    """Yields the values that `work` sends from a forked process, and ("died", …) if the process
    crashed or was killed. limit: seconds without a value after which it is killed."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            silent = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silent, 1), os.dup2(silent, 2)

            def send(value: Any) -> None:
                data = memoryview(encode(value))
                while data:
                    data = data[os.write(writer, data) :]

            work(send)
            # A normal exit runs the handlers that are registered for it.
            ctypes.CDLL(None).exit(0)
        finally:
            os._exit(0)
    os.close(writer)
    decoder, how = Decoder(), ""
    while True:
        ready, _, _ = select.select([reader], [], [], limit)
        data = os.read(reader, 1 << 16) if ready else b""
        yield from decoder.feed(data)
        if not data:
            how = "" if ready else "hung"
            break
    os.close(reader)
    if how:
        os.killpg(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if how or os.WIFSIGNALED(status):
        yield "died", how or signal.Signals(os.WTERMSIG(status)).name


# --- cases -----------------------------------------------------------------------------------


def hand_written() -> Suite:
    from benchmarks.hand_written import CASES, TOLERANCE

    random, cases = np.random.RandomState(1), []
    for name, make in CASES.items():
        before = used()
        mod = relay.transform.InferType()(tvm.IRModule.from_expr(make()))
        types = {p.name_hint: p.checked_type for p in mod["main"].params}
        inputs = {
            name: random.uniform(-1, 1, [int(d) for d in t.shape]).astype(t.dtype)
            for name, t in types.items()
        }
        with tvm.transform.PassContext(opt_level=3):
            library = relay.build(mod, HOST)
        expected = run(contrib.GraphModule(library["default"](tvm.cpu())), inputs)
        cases.append(Case(name, mod, inputs, expected, TOLERANCE, TOLERANCE, used() - before))
    return Suite("hand-written", cases, TVM_CPU)


def generate(count: int, seed: int, send: Callable[[Any], None]) -> None:
    """Sends NNSmith's models, generated as by its own fuzzing loop: (seed, ONNX, inputs, outputs,
    CPU seconds), or (seed, error, CPU seconds) for a failed attempt."""
    import random

    import torch
    from nnsmith.graph_gen import model_gen
    from nnsmith.materialize import Model
    from nnsmith.narrow_spec import auto_opset

    torch.set_num_threads(1)
    kind = Model.init("onnx", backend_target="cpu")
    kind.add_seed_setter()
    opset = auto_opset(kind, None, vulops=False)
    send(("opset", used()))
    for number in range(seed, seed + count):
        before = used()
        random.seed(number), np.random.seed(number), torch.manual_seed(number)
        try:
            generator = model_gen(
                opset=opset, method="symbolic-cinit", seed=number, max_elem_per_tensor=65536, max_nodes=5,
                timeout_ms=10000, rank_choices=None, dtype_choices=None,
            )
            model = kind.from_gir(generator.make_concrete())
            model.refine_weights()
            oracle = model.make_oracle()
            text = np.frombuffer(model.native_model.SerializeToString(), np.uint8)
        except Exception as e:
            send((number, repr(e)[:200], used() - before))
            continue
        send((number, text, oracle.input, list(oracle.output.values()), used() - before))


def nnsmith(count: int, folder: Path) -> Suite:
    """Returns the suite of NNSmith's models, which are kept in the folder since their generation
    takes longest. The CPU seconds of failed attempts and imports count towards the next good
    model."""
    import onnx

    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / f"models-{count}.frames"
    if not kept.exists():
        sent = list(in_child(lambda send: generate(count, 1, send), 300))
        kept.write_bytes(b"".join(map(encode, sent)))
    start, cases, spent = TVM_CPU, [], 0.0
    for number, *rest in Decoder().feed(kept.read_bytes()):
        if number == "opset":
            start += rest[0]
            continue
        spent += rest[-1] if isinstance(rest[-1], float) else 0.0
        if len(rest) < 4:
            print(f"  nnsmith {number}: {rest[0]}")
            continue
        text, inputs, outputs, _ = rest
        before = used()
        try:
            shapes = {name: value.shape for name, value in inputs.items()}
            model = onnx.load_from_string(text.tobytes())
            mod, _ = relay.frontend.from_onnx(model, shapes, freeze_params=True)
            mod = relay.transform.InferType()(mod)
        except Exception as e:
            print(f"  nnsmith {number} is not imported: {str(e).strip().splitlines()[-1][:120]}")
            spent += used() - before
            continue
        cases.append(Case(f"seed {number}", mod, inputs, outputs, 1e-2, 1e-3, spent + used() - before))
        spent = 0.0
    return Suite("NNSmith", cases, start)


# --- running them ----------------------------------------------------------------------------


def run(executor: Any, inputs: dict[str, Any]) -> list[Any]:
    for name, value in inputs.items():
        executor.set_input(name, value)
    executor.run()
    return [executor.get_output(i).numpy() for i in range(executor.get_num_outputs())]


def to_the_letter(mod: Any) -> str:
    """Returns a digest of the partitioned module and the C text of its regions; "" if it has
    none."""
    codegen = tvm.get_global_func("relay.ext.example_c")
    try:
        texts = [tvm.ir.save_json(mod)]
    except (TypeError, tvm.TVMError):  # A module without a JSON form differs from the clean one.
        return ""
    for function in mod.functions.values():
        if function.attrs and "Compiler" in function.attrs:
            texts.append(codegen(function).get_source())
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


def attempt(case: Case, target: Any, folder: Path, number: int) -> tuple[str, str]:
    """Returns the error of a case ("" if it passes), and the digest of `to_the_letter`."""
    letter = ""
    try:
        with tvm.transform.PassContext(opt_level=3):
            mod = target.partition(case.mod)
            letter = to_the_letter(mod)
            if letter == case.clean:
                return "", letter
            library = relay.build(mod, HOST)
        path = folder / f"{number}.so"
        library.export_library(str(path))
        loaded = tvm.runtime.load_module(str(path))
        actual = run(contrib.GraphModule(loaded["default"](tvm.cpu())), case.inputs)
    except Exception as e:
        return f"raised {type(e).__name__}", letter
    for given, wanted in zip(actual, case.expected):
        try:
            np.testing.assert_allclose(given, wanted, case.rtol, case.atol, equal_nan=True)
        except AssertionError:
            return "differs", letter
    return "", letter


def load(path: Path) -> Any:
    sys.path.insert(0, str(path.parent))
    return importlib.import_module(path.name).target


def try_clean(suite: Suite, folder: Path) -> None:
    """Runs each case on the unmodified target, in a process of its own, and removes failing
    cases."""
    path = faults.apply(faults.Fault("none", 0, "", (), None, ()), folder)
    good = []
    for number, case in enumerate(suite.cases):

        def work(send: Callable[[Any], None], case: Case = case, number: int = number) -> None:
            target, before = load(path), used()
            wrong, letter = attempt(case, target, folder, number)
            send((wrong, letter, used() - before))

        wrong, letter, cpu = next((*said, 0.0, 0.0)[:3] for said in in_child(work, CASE_LIMIT))
        if wrong:
            suite.alarms.append(f"{case.name}: {wrong} {letter if wrong == 'died' else ''}")
            continue
        case.clean, case.clean_cpu = str(letter), float(cpu)
        good.append(case)
    suite.cases = good


def try_fault(suite: Suite, fault: Any, folder: Path, budget: float) -> Result:
    """Runs the suite on one fault, all cases in one process as under pytest."""
    path = faults.apply(fault, folder)
    result = Result(suite.name, fault.name, cpu=suite.start)
    where = folder / f"out-{fault.name}"
    where.mkdir(exist_ok=True)

    def work(send: Callable[[Any], None]) -> None:
        target, spent = load(path), suite.start
        for number, case in enumerate(suite.cases):
            before = used()
            wrong, letter = attempt(case, target, where, number)
            same = letter == case.clean and not wrong
            cpu = case.cpu + (case.clean_cpu if same else used() - before)
            spent += cpu
            send((wrong, cpu))
            if wrong or spent > budget:
                return

    for wrong, cpu in in_child(work, CASE_LIMIT):
        case = suite.cases[min(result.cases, len(suite.cases) - 1)]
        if wrong == "died":
            # After its last case, the process died at its exit.
            last = result.cases == len(suite.cases) or result.cpu > budget
            result.found = f"{'at exit' if last else case.name}: {cpu}"
            break
        result.cases, result.cpu = result.cases + 1, result.cpu + cpu
        if wrong:
            result.found = f"{case.name}: {wrong}"
            break
    shutil.rmtree(where, ignore_errors=True)
    return result


def table(results: list[Result], kit: Path | None, budget: float) -> str:
    """Returns the table of the faults found, with the CPU seconds for each of them."""
    rows = []
    for suite in dict.fromkeys(r.suite for r in results):
        some = [r for r in results if r.suite == suite]
        rows.append((suite, [bool(r.found) for r in some], [r.cpu for r in some]))
    if kit:
        names = {r.fault for r in results}
        some = [r for r in json.loads(kit.read_text()) if r["ir"] == "relay" and r["name"] in names]
        title = f"pytest-byoc, {some[0]['level']}"
        rows.append((title, [r["found"] for r in some], [r["cpu"] for r in some]))
    lines = [
        "| suite | found | CPU seconds for each found | CPU seconds, all faults |",
        "| --- | --- | --- | --- |",
    ]
    for name, found, cpu in rows:
        each = f"{sum(cpu) / max(1, sum(found)):.1f}"
        lines.append(f"| {name} | {sum(found)} of {len(found)} | {each} | {sum(cpu):.0f} |")
    return "\n".join([f"\nbudget of {budget:g} CPU seconds for each fault", *lines])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--models", type=int, default=60, help="NNSmith's, the same for every fault (60)")
    parser.add_argument("--budget", type=float, default=60, help="CPU seconds for each fault (60)")
    parser.add_argument("--suites", default="hand-written,nnsmith")
    parser.add_argument("--only", help="names of faults, separated by commas")
    parser.add_argument("--json", type=Path, help="write the results there as well")
    parser.add_argument("--kit", type=Path, help="results of benchmarks/faults.py --json, to set beside")
    parser.add_argument("--keep", type=Path, help="keep NNSmith's models in this folder")
    options = parser.parse_args()
    chosen = options.only.split(",") if options.only else list(faults.FAULTS)
    results: list[Result] = []
    with tempfile.TemporaryDirectory(prefix="others-") as temporary:
        folder = Path(temporary)
        suites = []
        for name in options.suites.split(","):
            suites.append(hand_written() if name == "hand-written" else
                          nnsmith(options.models, options.keep or folder / "models"))
            try_clean(suites[-1], folder)
            alarms, passing = suites[-1].alarms, len(suites[-1].cases)
            print(f"{name}: {passing} cases pass on the unmodified target, {len(alarms)} do not")
            print(*(f"  {alarm}" for alarm in alarms), sep="\n", flush=True)
        for fault in (faults.FAULTS[n] for n in chosen):
            if "relay" not in fault.irs:
                continue
            for suite in suites:
                results.append(try_fault(suite, fault, folder, options.budget))
                r = results[-1]
                found = r.found or "-"
                print(f"{r.fault:30} {r.suite:14} {found:40} {r.cases:3} cases {r.cpu:6.1f} s", flush=True)
            if options.json:
                options.json.write_text(json.dumps([asdict(r) for r in results], indent=1))
    print(table(results, options.kit, options.budget))
    return 0


if __name__ == "__main__":
    sys.exit(main())
