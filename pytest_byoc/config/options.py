"""The options of the plugin: one table that makes the parser, the settings and the reference page.

It imports nothing, since pytest reads it in every session, with a target or without one.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Forms of an option: it takes a value, can be given several times, takes none, or may have a value.
VALUE, REPEATED, FLAG, OPTIONAL = "value", "repeated", "flag", "optional"


@dataclass(frozen=True)
class Option:
    """An option.

    name: without --byoc-. help: the sentence that --help and the reference page show. metavar: of its
    value. kind: of its value, a name in `config/values.py`. default: as it would be written; "" for none.
    default_help: the default in words, where it is not one value. form: VALUE, REPEATED, FLAG or OPTIONAL.
    ini: whether the ini file may hold it, as byoc_name."""

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
        """The option as the command line has it."""
        return f"--byoc-{self.name}"

    @property
    def ini_name(self) -> str:
        """The option as the ini file has it."""
        return "byoc_" + self.name.replace("-", "_")

    @property
    def help_with_default(self) -> str:
        """The help text, and the default where there is one."""
        default = self.default_help or self.default
        return f"{self.help} (default: {default})" if default else self.help


OPTIONS: tuple[Option, ...] = (
    Option(
        "target", "target to test: a known name, module:attribute or path/to/file.py:attribute (repeatable)",
        "TARGET", form=REPEATED,
    ),
    Option("ir", "IR to test: relay or relax", "IR", "ir", default_help="what the workers' TVM has"),
    Option(
        "python", "interpreter that holds TVM and the vendor's code", "PATH", "interpreter",
        default_help="this one",
    ),
    Option(
        "operators", "operators to generate, separated by commas", "NAMES", "operators", default_help="all"
    ),
    Option("level", "how much is examined: smoke, standard or full", "LEVEL", "level", "standard"),
    Option(
        "stages", "stages to run: all or partition", "STAGES", "stages",
        default_help="those that can be run here",
    ),
    Option(
        "max-examples", "random graphs per operator", "N", "count", default_help="the level's: 1, 8 or 60"
    ),
    Option("max-nodes", "operators per random graph", "N", "count", "5"),
    Option("timeout", "limit for each stage of an example", "SECONDS", "number", "30"),
    Option("memory", "address space an example may take; 0: any", "MIB", "mebibytes", "4096"),
    Option("time-budget", "no test of the suite begins after this time (90, 10m, 2h)", "TIME", "duration"),
    Option(
        "max-causes", "causes of failures after which no test of the suite begins", "N", "count", "20"
    ),
    Option(
        "report", "write report.json and report.html into this folder (or to this .json file)", "PATH", "path"
    ),
    Option("bundle", "write report, failures and their inputs into one .zip, with hashes", "FILE", "path"),
    Option(
        "waivers", "known failures, in TOML: they do not fail, what no longer fails does", "FILE", "path"
    ),
    Option(
        "fail-under", "least share of claimed cells (operator x dtype) that pass", "PERCENT", "percent"
    ),
    Option(
        "baseline", "report.json of an earlier session: fail for what got worse alone", "FILE", "path"
    ),
    Option(
        "summary", "write a summary in Markdown (appended where it is $GITHUB_STEP_SUMMARY)", "FILE", "path"
    ),
    Option(
        "replay", "check a saved graph, or those in a folder, and nothing else (repeatable)", "PATH",
        "paths", form=REPEATED, ini=False,
    ),
    Option(
        "corpus", "graphs that are checked in every session: a saved one, or a folder of them (repeatable)",
        "PATH", "paths", form=REPEATED,
    ),
    Option("strict-corpus", "fail the session for files of the corpus that can't be used", form=FLAG),
    Option(
        "explore", "other random graphs than always, made from a seed", "SEED", "seed",
        default_help="a new one, which is shown", form=OPTIONAL, ini=False,
    ),
    Option("update-waivers", "write the file of waivers this session needs", form=FLAG, ini=False),
    Option("list-targets", "list the known targets and exit", form=FLAG, ini=False),
    Option("list-operators", "list the operators and exit", form=FLAG, ini=False),
)
BY_NAME = {option.name: option for option in OPTIONS}
