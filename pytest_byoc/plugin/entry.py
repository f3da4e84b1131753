"""pytest's hooks and options, and the fixtures; everything else is elsewhere.

Without --byoc-target this module and the specifications of hooks are all that is imported.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from . import hookspecs

if TYPE_CHECKING:
    from ..examination.outcome import Verdict
    from ..suite.cases import Suite
    from ..suite.session import TargetSession

_OPTIONS: tuple[tuple[str, str, str | None, str], ...] = (
    # name, metavar, default of the ini value, help
    ("ir", "IR", None, "IR to test: relay or relax (default: what the workers' TVM has)"),
    ("python", "PATH", None, "interpreter that holds TVM and the vendor's code (default: this one)"),
    ("operators", "NAMES", None, "operators to generate, separated by commas (default: all)"),
    ("level", "LEVEL", None, "how much is examined: smoke, standard or full (default: standard)"),
    ("stages", "STAGES", None, "stages to run: all or partition (default: those that can be run here)"),
    ("max-examples", "N", None, "random graphs per operator (default: the level's: 1, 8 or 60)"),
    ("max-nodes", "N", None, "operators per random graph (default: 5)"),
    ("timeout", "SECONDS", None, "limit for each stage of an example (default: 30)"),
    ("memory", "MIB", None, "address space an example may take; 0: any (default: 4096)"),
    ("time-budget", "TIME", None, "no test of the suite begins after this time (90, 10m, 2h)"),
    ("max-causes", "N", None, "causes of failures after which no test of the suite begins (default: 20)"),
    ("report", "PATH", None, "write report.json and report.html into this folder (or to this .json file)"),
    ("bundle", "FILE", None, "write report, failures and their inputs into one .zip, with hashes"),
    ("waivers", "FILE", None, "known failures, in TOML: they do not fail, what no longer fails does"),
    ("fail-under", "PERCENT", None, "least share of claimed cells (operator x dtype) that pass"),
    ("baseline", "FILE", None, "report.json of an earlier session: fail for what got worse alone"),
    ("summary", "FILE", None, "write a summary in Markdown (appended where it is $GITHUB_STEP_SUMMARY)"),
)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.add_hookspecs(hookspecs)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("byoc", "conformance of TVM codegens (pytest-byoc)")
    group.addoption(
        "--byoc-target",
        action="append",
        metavar="TARGET",
        help="target to test: a known name, module:attribute or path/to/file.py:attribute (repeatable)",
    )
    parser.addini("byoc_target", "targets available to tests, as --byoc-target", "linelist")
    for name, metavar, default, text in _OPTIONS:
        group.addoption(f"--byoc-{name}", metavar=metavar, help=text)
        parser.addini(f"byoc_{name.replace('-', '_')}", text, default=default)
    group.addoption(
        "--byoc-replay",
        action="append",
        type=Path,
        metavar="PATH",
        help="check a saved graph, or those in a folder, and nothing else (repeatable)",
    )
    text = "graphs that are checked in every session: a saved one, or a folder of them (repeatable)"
    group.addoption("--byoc-corpus", action="append", metavar="PATH", help=text)
    parser.addini("byoc_corpus", text, "linelist")
    text = "fail the session for files of the corpus that can't be used"
    group.addoption("--byoc-strict-corpus", action="store_true", help=text)
    parser.addini("byoc_strict_corpus", text, "bool", default=False)
    group.addoption(
        "--byoc-explore",
        nargs="?",
        const="",
        metavar="SEED",
        help="other random graphs than always, made from a seed (default: a new one, which is shown)",
    )
    group.addoption(
        "--byoc-update-waivers", action="store_true", help="write the file of waivers this session needs"
    )
    group.addoption("--byoc-list-targets", action="store_true", help="list the known targets and exit")
    group.addoption(
        "--byoc-list-operators", action="store_true", help="list the operators and exit"
    )


def pytest_cmdline_main(config: pytest.Config) -> int | None:
    if config.option.byoc_list_operators or config.option.byoc_list_targets:
        from ..report import listing

        return listing.run(config)
    return None


def pytest_configure(config: pytest.Config) -> None:
    given = config.option.byoc_target
    targets = given or config.getini("byoc_target")
    if config.option.byoc_replay and not targets:
        raise pytest.UsageError("--byoc-replay needs --byoc-target")
    if not targets:
        return
    from .collection import SUITE
    from .session_plugin import ActivePlugin
    from .sigterm import Terminated

    active = ActivePlugin(config, targets)
    config.pluginmanager.register(active, "pytest-byoc-active")
    config.pluginmanager.register(Terminated(), "pytest-byoc-terminated")
    # The installed suite runs where the command line names a target and no path, or graphs to be replayed.
    if config.option.byoc_replay or (given and config.args_source is not pytest.Config.ArgsSource.ARGS):
        config.args = [str(SUITE)]
        # What the project's own tests are is not what runs: pytest's header would name them.
        config.args_source = pytest.Config.ArgsSource.ARGS


def _active(request: pytest.FixtureRequest) -> Any:
    return request.config.pluginmanager.get_plugin("pytest-byoc-active")


@pytest.fixture(scope="session")
def byoc_target(request: pytest.FixtureRequest) -> TargetSession:
    """The target of the session (`TargetSession`); tests are repeated for each target given.

    Skips without --byoc-target.
    """
    active = _active(request)
    if active is None:
        pytest.skip("needs --byoc-target")
    session: TargetSession = active.sessions[getattr(request, "param", 0)]
    if session.unusable:
        pytest.fail(session.unusable, pytrace=False)
    return session


@pytest.fixture(scope="session")
def byoc_suite(request: pytest.FixtureRequest, byoc_target: TargetSession) -> Suite:
    """The suite of the target of the session (`Suite`): the graphs that pytest-byoc's own tests examine."""
    active = _active(request)
    suite: Suite = active.suites[active.sessions.index(byoc_target)]
    return suite


@pytest.fixture
def byoc_share_of_time(request: pytest.FixtureRequest) -> float:
    """Seconds that a test of random graphs may take beyond the number of graphs that it has at least."""
    active = _active(request)
    return float(active.share_of_time()) if active is not None else 0.0


@pytest.fixture(scope="session")
def byoc_check(byoc_target: TargetSession) -> Any:
    """A function that takes a graph and checks it on the target. It raises ConformanceFailure where the
    target fails, and GraphError where the graph can't be examined, and otherwise returns the verdict. A test
    all of whose graphs were not offloaded (or inconclusive) is reported as skipped, not as passed."""
    from ..core.graph import GraphError
    from ..generation.validation import validated

    def check(graph: Any) -> Verdict:
        __tracebackhide__ = True
        try:
            graph = validated(graph)
        except GraphError as e:
            # Where that was found out is no business of the test's.
            raise e.with_traceback(None) from None
        return byoc_target.check_example(graph)

    return check


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    active = item.config.pluginmanager.get_plugin("pytest-byoc-active")
    if active is not None and call.when == "call":
        active.finish_report(item, call, report)
    return report
