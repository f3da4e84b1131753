"""The pages of docs/reference/ that are made from tables of the code: options, keys, outcomes, levels,
checks."""

from __future__ import annotations

import argparse
import ast
import inspect
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import api_pages
import pytest
from markdown_pages import escaped, page, table

from pytest_byoc.__main__ import parser
from pytest_byoc.checks import CHECKS, inline_back
from pytest_byoc.checks.base import EVERY
from pytest_byoc.config import plan
from pytest_byoc.config.declarations import _KEYS
from pytest_byoc.config.levels import LEVELS, STANDARD
from pytest_byoc.config.options import FLAG, OPTIONAL, OPTIONS, REPEATED
from pytest_byoc.core import target as target_module
from pytest_byoc.core.target import EXECUTORS, ODDITIES
from pytest_byoc.examination.outcome import FAILURES, OUTCOMES
from pytest_byoc.examination.stages import EXIT_PARTITION_ONLY
from pytest_byoc.report.bundle import REPRODUCED
from pytest_byoc.report.check_table import MEANINGS

# --- options -------------------------------------------------------------------------------------

#: The pages that say more about an option.
_MORE = {
    "target": "../tutorial/first-target.md",
    "python": "../how-to/two-interpreters.md",
    "level": "levels.md",
    "stages": "../how-to/partition-only.md",
    "explore": "../how-to/explore.md",
    "time-budget": "../how-to/ci.md",
    "shard": "../how-to/shards.md",
    "costs": "../how-to/shards.md",
    "report": "report-json.md",
    "bundle": "../how-to/failures.md",
    "waivers": "../how-to/waivers.md",
    "update-waivers": "../how-to/waivers.md",
    "baseline": "../how-to/baseline.md",
    "changed-since": "../how-to/ci.md#what-has-changed-alone",
    "fail-under": "../how-to/baseline.md",
    "replay": "../how-to/failures.md",
    "corpus": "../how-to/corpus.md",
    "strict-corpus": "../how-to/corpus.md",
    "list-targets": "../how-to/table.md",
    "list-operators": "operators/index.md",
}


#: The environment variables that pytest-byoc reads.
_VARIABLES = {
    "CXX": "The C++ compiler, as a name or a path without options. Without it g++, clang++ or c++ is used, "
    "whichever is found first.",
    "TMPDIR": "The folder for artifacts and other temporary files. Each worker has a folder of its own "
    "in it.",
    "XDG_CACHE_HOME": "The folder of the cache (default: `~/.cache`). Its folder `pytest-byoc` keeps ONNX's "
    "node tests as each TVM imports them, and the compiled handler that prints native stacks.",
    "SOURCE_DATE_EPOCH": "The time with which expiry dates of waivers are compared, in seconds since 1970.",
    "GITHUB_STEP_SUMMARY": "If `--byoc-summary` names this file, the summary is appended to it.",
}


def options() -> str:
    unknown = _MORE.keys() - {option.name for option in OPTIONS}
    assert not unknown, f"no such option: {unknown}"
    rows = []
    for option in OPTIONS:
        value = f"[={option.metavar}]" if option.form == OPTIONAL else f"={option.metavar}"
        value = "" if option.form == FLAG else value
        kind = {REPEATED: " (one a line)", FLAG: " (true or false)"}.get(option.form, "")
        ini = f"`{option.ini_name}`{kind}" if option.ini else ""
        link = f"[more]({_MORE[option.name]})" if option.name in _MORE else ""
        rows.append((f"`{option.flag}{value}`", escaped(option.help_with_default), ini, link))
    return page(
        "Options",
        "An option on the command line wins over the value in pytest's ini file. An empty cell in the\n"
        "column *ini* means that the option exists on the command line only. Paths in the ini file start\n"
        "at its folder, paths on the command line at the folder where pytest was started.",
        table(("option", "meaning", "ini", ""), rows),
        "The installed suite runs when the command line names a target and no path. A target in the ini\n"
        "file (`byoc_target`) is there for tests of your own.",
        "## Environment variables",
        table(("variable", "effect"), ((f"`{name}`", text) for name, text in _VARIABLES.items())),
        "Workers get `TVM_NUM_THREADS=1` and `OMP_NUM_THREADS=1`, since a process with threads can't be\n"
        "forked safely. The target worker gets `PYTHONHASHSEED=0` too, for the same verdict every time.",
    )


# --- keys of a target's table --------------------------------------------------------------------

#: Keys that a table has and a class has not.
_TABLE_ALONE = {
    "partition": "`module:attribute` or `path/to/file.py:attribute`: the partition function, or an object "
    "with a method `partition`.",
    "python": "The interpreter that holds TVM and the target's code: a path, or the name of a command.",
    "loader": "The command that starts Python where artifacts run, if that is another machine.",
    "boards": "Names that replace `{board}` in `loader`, one for each process of pytest-xdist.",
    "mtriple": "The triple of the machine where artifacts run, if it is another one.",
    "mcpu": "The CPU there, as LLVM names it.",
    "mattr": "The features of the CPU there, as LLVM names them: `+neon`.",
    "cc": "The C++ compiler for the machine where artifacts run, with options.",
    "run-here": "Whether the target worker may run artifacts too, where they are for such a machine.",
    "reference-tuning": "A tuning log, beside whose build by LLVM the target is measured too: a file of "
    "AutoTVM or the auto-scheduler, or the folder of a database of meta-schedule.",
    "runner": "What runs artifacts where no Python can be started: `module:attribute` or "
    "`path/to/file.py:attribute`, `rpc://HOST:PORT/KEY`, or `{ command = \"…\" }`.",
}
#: Pages that say more about a key.
_KEY_MORE = {
    **dict.fromkeys(("pass-config", "build", "prepare", "without-checks"), "build-and-prepare.md"),
    **dict.fromkeys(("libraries", "runtime-libraries"), "libraries.md"),
    **dict.fromkeys(
        ("accumulate-dtype", "contraction-dtype", "flush-subnormals", "function-ulps", "function-errors"),
        "lower-precision.md",
    ),
    "python": "two-interpreters.md",
    "reference-tuning": "speed.md",
    "runner": "runners.md",
    **dict.fromkeys(("loader", "boards", "mtriple", "mcpu", "mattr", "cc", "run-here"), "boards.md"),
}


def attributes_of_target() -> dict[str, tuple[str, str]]:
    """Returns the attributes of `Target`: the comment above each, and the source of its default."""
    source = inspect.getsource(target_module)
    lines = source.splitlines()
    cls = next(n for n in ast.parse(source).body if isinstance(n, ast.ClassDef) and n.name == "Target")
    found = {}
    for node in cls.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            first = node.lineno - 1
            while lines[first - 1].strip().startswith("#:"):
                first -= 1
            comments = (line.strip().removeprefix("#:").strip() for line in lines[first : node.lineno - 1])
            comment = re.sub(r"docs/(\S+\.md)", _titled, " ".join(comments))
            found[node.target.id] = (comment, ast.unparse(node.value) if node.value else "")
    return found


def _titled(path: re.Match[str]) -> str:
    """Returns a link to a page of docs/, with the page's title."""
    text = (Path(__file__).parents[1] / "docs" / path[1]).read_text(encoding="utf-8")
    return f"[{text.partition(chr(10))[0].removeprefix('# ')}](../{path[1]})"


def target_keys() -> str:
    known = attributes_of_target()
    rows = []
    for key, (words, _) in _KEYS.items():
        comment, default = known.get(key.replace("-", "_"), (_TABLE_ALONE.get(key, ""), ""))
        more = f" [More](../how-to/{_KEY_MORE[key]})." if key in _KEY_MORE else ""
        rows.append((f"`{key}`", words, f"`{default}`" if default else "", escaped(comment) + more))
    unlisted = known.keys() - {key.replace("-", "_") for key in _KEYS}
    return page(
        "Keys of a target's table",
        "The table `[tool.pytest-byoc.targets.NAME]` in `pyproject.toml` describes a target. Each key with\n"
        "a default is an attribute of a class too, with underscores in place of hyphens (`opt_level`):\n"
        "the default is what `pytest_byoc.Target` has. A value in the table wins.\n"
        "[Write the table of a target](../how-to/table.md) shows how.",
        table(("key", "value", "default", "meaning"), rows),
        "A class alone has: "
        + "; ".join(f"`{name}`: {escaped(known[name][0])}" for name in sorted(unlisted))
        + f"\n\n`executors` names some of {_listed(EXECUTORS)}; "
        f"`trivial-regions` some of {_listed(ODDITIES)}.",
    )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


# --- outcomes and exit codes ---------------------------------------------------------------------

_OUTCOMES = {
    "pass": "Something was offloaded, and every check held.",
    "wrong-result": "A value is outside its bound, an output was not written, an input was overwritten, a "
    "run does not repeat, an artifact differs after loading, or another check found a violation.",
    "crash": "The process died. The message names the signal, the stage and the last frame in the target's "
    "Python code.",
    "hang": "A stage took longer than its limit (`--byoc-timeout`).",
    "error": "A stage raised an exception, or left a process running.",
    "not-offloaded": "The target offloads no operator of the graph. This is never counted as passed. If "
    "partitioning changed the graph all the same, LLVM builds it and its values are judged.",
    "inconclusive": "Most elements can't be judged: the bound says nothing, or a rounding decides.",
    "reference-wrong": "TVM's own LLVM build is wrong, or fails in the same way.",
    "oracle-suspect": "Target and LLVM agree and both contradict the oracle. That is an error of "
    "pytest-byoc's: please report it.",
}
_CODES = {
    int(pytest.ExitCode.OK): "Every check held, or what failed is excused, and at least one graph passed.",
    int(pytest.ExitCode.TESTS_FAILED): "The target failed, nothing passed at all, the gate found something "
    "(the section `byoc gate` at the end names it), or a report could not be written.",
    int(pytest.ExitCode.INTERRUPTED): "Interrupted by Ctrl-C or SIGTERM. The report so far is written; the "
    "gate does not judge, and waivers are not updated.",
    int(pytest.ExitCode.INTERNAL_ERROR): "An internal error of pytest or of a plugin.",
    int(pytest.ExitCode.USAGE_ERROR): "An option, a file, a target or an environment that can't be used, at "
    "the start or later. The message says what to do. One of several targets fails in `test_target` instead, "
    "with code 1, and the others are tested.",
    int(pytest.ExitCode.NO_TESTS_COLLECTED): "No test was collected or selected. The gate does not judge.",
    EXIT_PARTITION_ONLY: "Every check of the partition stage held, and no later stage could be run here. "
    "With `--byoc-stages=partition` this is 0.",
}


def outcomes() -> str:
    assert tuple(_OUTCOMES) == OUTCOMES, "an outcome has no description, or another place"
    return page(
        "Outcomes and exit codes",
        "Every graph that is examined ends in one outcome.\n"
        "[The verdict](../explanation/verdict.md) says how it is decided.",
        table(
            ("outcome", "meaning", "fails the target"),
            ((f"`{o}`", text, "yes" if o in FAILURES else "no") for o, text in _OUTCOMES.items()),
        ),
        "## In pytest's terms",
        "- A failing outcome is a failed test. A waived or known failure is an xfail.\n"
        "- A test for which the target offloads nothing is deselected while the session runs. It has no\n"
        "  letter and is in no JUnit XML; the table at the end and `report.json` count its graphs.\n"
        "- A test whose graphs could not be judged is skipped, with the outcomes as the reason.\n"
        "- A session in which nothing passed fails, even if no test did.",
        "## Exit codes",
        "They are the same under pytest-xdist: the workers report, the controller judges. A\n"
        "[shard](../how-to/shards.md) is judged by its own tests alone; what concerns the whole session,\n"
        "and every rule of the gate but `--byoc-strict-corpus`, is left to `python -m pytest_byoc merge`,\n"
        "whose exit codes these are too. A shard that no test falls to ends with 0.",
        table(("code", "meaning"), ((str(code), text) for code, text in sorted(_CODES.items()))),
    )


# --- commands ------------------------------------------------------------------------------------

_COMMANDS = {
    "report": ("report-json.md", "0; 1: the report is not as its schema says; 2: it can't be read"),
    "verify": ("../how-to/failures.md", "0; 1: the bundle has problems; 2: it can't be read"),
    "merge": (
        "../how-to/shards.md",
        "that of the whole session (0, 1, 5 or 6); 2: the reports are not those of one whole session, "
        "can't be read or written, or an option can't be used",
    ),
    "diff": (
        "../how-to/baseline.md",
        "0; 1: something got worse; 2: the reports can't be read, or have no target in common",
    ),
    "init": ("../how-to/table.md", "0; 1: the target offloads nothing; 2: it can't be started or written"),
}


def commands() -> str:
    (choices,) = (a.choices for a in parser()._actions if isinstance(a.choices, dict))
    assert choices.keys() == _COMMANDS.keys(), "a command has no exit codes"
    parts = []
    for name, (link, codes) in _COMMANDS.items():
        words = " ".join(_argument(a) for a in choices[name]._actions if not isinstance(a, _HELP))
        rows = [
            (f"`{', '.join(a.option_strings) or a.metavar}`", escaped(a.help or ""))
            for a in choices[name]._actions if not isinstance(a, _HELP)
        ]
        parts += [
            f"## `{name}`", f"```console\n$ python -m pytest_byoc {name} {words}\n```",
            table(("argument", "meaning"), rows), f"Exit code: {codes}. [More]({link}).",
        ]
    return page("Commands", "Each is `python -m pytest_byoc COMMAND`. None needs TVM but `init`.", *parts)


_HELP = argparse._HelpAction


def _argument(action: argparse.Action) -> str:
    if not action.option_strings:
        more = "…" if action.nargs == "+" else ""
        return f"[{action.metavar}]" if action.nargs == "?" else f"{action.metavar}{more}"
    flag = action.option_strings[0]
    value = action.metavar or ("|".join(action.choices) if action.choices else action.dest.upper())
    text = flag if action.nargs == 0 else f"{flag}={value}" if flag.startswith("--") else f"{flag} {value}"
    return text if action.required else f"[{text}]"


# --- levels --------------------------------------------------------------------------------------

_FIELDS = {
    "all_cases": "systematic cases",
    "ways": "ways of matching a pattern",
    "near_misses": "near misses of a pattern",
    "max_examples": "random graphs of an operator",
    "batches": "larger batches of a random graph",
    "openings": "openings of a graph with all checks (`dynamic`)",
    "onnx": "ONNX's node tests",
    "side_by_side": "small graphs share a module",
    "one_executor": "graphs that are built for one executor, and by LLVM only if they fail",
}
_WORDS = {
    ("all_cases", True): "all", ("all_cases", False): "each dtype, each class of each parameter, some pairs",
    ("onnx", True): "yes", ("onnx", False): "no", ("side_by_side", True): "yes",
    ("side_by_side", False): "no", ("ways", None): "all", ("one_executor", "all"): "all",
    ("one_executor", "numerous"): "random graphs, and structures at first", ("one_executor", "none"): "none",
}


def levels() -> str:
    rows = [
        (words, *(str(_WORDS.get((field, getattr(level, field)), getattr(level, field)))
                  for level in LEVELS.values()))
        for field, words in _FIELDS.items()
    ]
    rows.append(("structures", *(str(len(plan.structures(name))) for name in LEVELS)))
    simplest = {plan.ALL_CHECKS, plan.OPENED}
    rows += [
        (f"checks on {words}", *(_number(level, kinds, alone) for level in LEVELS.values()))
        for words, kinds, alone in (
            ("a graph of no particular kind", plan.PLAIN, False),
            ("the simplest case of an operator", simplest, True),
            ("the first match of a pattern", {plan.ALL_CHECKS}, False),
            ("a saved graph", {plan.ALL_CHECKS, plan.SAVED}, False),
        )
    ]
    at_smoke = [
        (f"`{name}`", _listed(c for c in _checks("smoke", {plan.ALL_CHECKS, name}) if c not in _every()))
        for name in plan.AT_SMOKE
    ]
    return page(
        "Levels",
        f"`--byoc-level` decides how much is examined. The default is `{STANDARD}`. Failures are\n"
        "judged alike at every level.",
        table(("", *(f"`{name}`" for name in LEVELS)), rows),
        "At `smoke` the checks that cost more are made on saved graphs, and on these structures:",
        table(("structure", "checks beside those of every graph"), at_smoke),
        "At `full` the [speed](../how-to/speed.md) of graphs with all checks, and of `test_speed`, is "
        "measured beside LLVM's.",
    )


def _every() -> set[str]:
    return {c.id for c in CHECKS if c.made_on == EVERY}


def _checks(level: str, kinds: Iterable[str], alone: bool = False) -> list[str]:
    effort = plan.effort(LEVELS[level], frozenset(kinds), alone)
    return [c for c in effort.checks if c != plan.SPEED]


def _number(level: Any, kinds: Iterable[str], alone: bool) -> str:
    return f"{len(_checks(level.name, kinds, alone))} of {len(CHECKS)}"


# --- checks --------------------------------------------------------------------------------------


def checks() -> str:
    rows = ((f"`{m['id']}`", m["rule"], m["why"], m["where"]) for m in MEANINGS)
    return page(
        "Checks",
        f"There are {len(CHECKS)} checks, and `process`, which stands for crashes, hangs, exceptions.\n"
        "Where one graph fails several checks, one of them names the failure: a crash or hang first, then\n"
        "what is wrong with the partitioned module, then exceptions, then the checks as they stand here.\n"
        "[How the checks are made](../explanation/checks.md) says what the rules leave open.",
        table(("id", "rule", "bugs it is for", "made on"), rows),
        "**Representative graphs** are the simplest case of each operator that the target offloads, the\n"
        "structures, the first match of each pattern, and saved graphs. **A few graphs** are the\n"
        "representative graphs of several operators, and saved graphs. [Levels](levels.md) says which\n"
        "checks are made where.",
        "**Where only partitioning can be run**, the graph is judged by these checks alone: "
        + _listed(("process", *(c.id for c in CHECKS if c.partition_stage)))
        + ". [Targets of which only partitioning can be run](../how-to/partition-only.md) says how.",
        "**`reproduce.py`** of a failure makes these checks: "
        + _listed(c for c in REPRODUCED if c != inline_back.CHECK.id)
        + ". It makes `inline-back` where that check failed, and where only partitioning can be run. After "
        "any other check it prints the pytest command that repeats the failure.",
    )


# --- all pages -----------------------------------------------------------------------------------


def pages() -> dict[Path, str]:
    """Returns the text of each page by its path within docs/."""
    made = {
        "options": options(), "target-table": target_keys(), "outcomes": outcomes(), "levels": levels(),
        "commands": commands(),
        "checks": checks(), "fixtures": api_pages.fixtures(), "api": api_pages.api(),
    }
    return {Path("reference") / f"{name}.md": text for name, text in made.items()}
