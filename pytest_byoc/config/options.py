"""The options of the plugin: one table for the parser, the settings and the reference page.

It imports nothing else of the package, since pytest loads it in every session, even without a
target.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Forms of an option: it needs a value, may be given several times, has no value, or may have one.
VALUE, REPEATED, FLAG, OPTIONAL = "value", "repeated", "flag", "optional"


@dataclass(frozen=True)
class Option:
    """An option of the plugin.

    name: the name without --byoc-. help: the text that --help and the reference page show. metavar:
    the name of its value in these. kind: the kind of its value, a key of `config/values.py`.
    default: the default as a user would write it; "" for none. default_help: the default in words,
    if it is not one value. form: VALUE, REPEATED, FLAG or OPTIONAL. ini: whether the ini file may
    set it, as byoc_name."""

    name: str
    help: str
    metavar: str = ""
    kind: str = "text"
    default: str = ""
    default_help: str = ""
    form: str = VALUE
    ini: bool = True

    @property
    def flag(self) -> str:
        """Returns the option's name on the command line."""
        return f"--byoc-{self.name}"

    @property
    def ini_name(self) -> str:
        """Returns the option's name in the ini file."""
        return "byoc_" + self.name.replace("-", "_")

    @property
    def help_with_default(self) -> str:
        """Returns the help text, with the default if there is one."""
        default = self.default_help or self.default
        return f"{self.help} (default: {default})" if default else self.help


OPTIONS: tuple[Option, ...] = (
    Option(
        "target", "target to test: a known name, module:attribute or path/to/file.py:attribute (repeatable)",
        "TARGET", form=REPEATED,
    ),
    Option("ir", "IR to test: relay or relax", "IR", "ir", default_help="the IR of the workers' TVM"),
    Option(
        "python", "Python interpreter that can import TVM and the vendor's code", "PATH", "interpreter",
        default_help="the interpreter that runs pytest",
    ),
    Option(
        "operators", "operators to test, separated by commas", "NAMES", "operators", default_help="all"
    ),
    Option(
        "level", "level of the suite, from fastest to most thorough: smoke, standard or full", "LEVEL",
        "level", "standard",
    ),
    Option(
        "stages", "stages to run: all or partition", "STAGES", "stages",
        default_help="all stages that can run here",
    ),
    Option(
        "time", "measure runs beside LLVM's on the same device", form=FLAG, default_help="at full only",
    ),
    Option(
        "max-examples", "number of random graphs per operator", "N", "count",
        default_help="1 at smoke, 8 at standard, 60 at full",
    ),
    Option("max-nodes", "largest number of operators in a random graph", "N", "count", "5"),
    Option(
        "timeout", "time limit for each stage of the examination of a graph, once for each 100 nodes",
        "SECONDS", "number", "30",
    ),
    Option(
        "memory", "limit of the address space for the examination of a graph; 0: no limit", "MIB",
        "mebibytes", "4096",
    ),
    Option(
        "threads", "threads that examine graphs at the same time, each with workers of its own", "N", "count",
        default_help="the machine's cores, at most 4; 1 in a process of pytest-xdist, and with a device",
    ),
    Option(
        "anew", "partition every graph, also where an earlier session has found out what is offloaded of it",
        form=FLAG,
    ),
    Option(
        "time-budget", "time after which no further test of the suite begins (90, 10m, 2h)", "TIME",
        "duration",
    ),
    Option(
        "max-causes", "number of causes of failures after which no further test of the suite begins", "N",
        "count", "20",
    ),
    Option(
        "shard", "run part K of N of the session; `python -m pytest_byoc merge` joins the parts", "K/N",
        "shard", ini=False,
    ),
    Option(
        "costs", "report.json of an earlier session, by whose durations the shards are made equally long",
        "FILE", "path", default_help="the baseline's durations",
    ),
    Option(
        "report", "write report.json and report.html into this folder (or to this .json file)", "PATH", "path"
    ),
    Option(
        "bundle", "write the report, the failures and the session's input files into one .zip, with hashes",
        "FILE", "path",
    ),
    Option(
        "waivers", "TOML file of known failures: they do not fail the session; entries without a failure do",
        "FILE", "path",
    ),
    Option(
        "fail-under",
        "fail the session if a smaller share of the offloaded cells (operator and dtype) passes", "PERCENT",
        "percent",
    ),
    Option(
        "baseline", "report.json of an earlier session: fail only if something got worse since", "FILE",
        "path",
    ),
    Option(
        "changed-since",
        "report.json of an earlier session: what passed there is taken over where the target still makes the "
        "same code of it, and nothing has changed that runs or judges this code", "REPORT", "path",
    ),
    Option(
        "slower",
        "measure runs, and fail the session where one takes more time than in the baseline, relative to "
        "LLVM's, by more than this and by more than both vary", "PERCENT", "growth",
    ),
    Option(
        "summary", "write a summary in Markdown (appended if the file is $GITHUB_STEP_SUMMARY)", "FILE",
        "path",
    ),
    Option(
        "replay", "check only this saved graph, or the saved graphs in this folder (repeatable)", "PATH",
        "paths", form=REPEATED, ini=False,
    ),
    Option(
        "model",
        "check only this model (ONNX, TVM's JSON, file.py:function), or those in this folder (repeatable)",
        "PATH", form=REPEATED, ini=False,
    ),
    Option(
        "corpus", "saved graph, or folder of saved graphs, to check in every session (repeatable)", "PATH",
        "paths", form=REPEATED,
    ),
    Option("strict-corpus", "fail the session if a file of the corpus cannot be used", form=FLAG),
    Option(
        "explore", "generate other random graphs than usual, from this seed", "SEED", "seed",
        default_help="a new seed, which is printed", form=OPTIONAL, ini=False,
    ),
    Option(
        "update-waivers", "rewrite the file of waivers with the entries that this session needs", form=FLAG,
        ini=False,
    ),
    Option("list-targets", "list the known targets and exit", form=FLAG, ini=False),
    Option("list-operators", "list the operators and exit", form=FLAG, ini=False),
)
BY_NAME = {option.name: option for option in OPTIONS}
#: The options that `python -m pytest_byoc merge` has too.
MERGE_OPTIONS = (
    "waivers", "update-waivers", "baseline", "slower", "fail-under", "strict-corpus", "summary", "bundle",
)
