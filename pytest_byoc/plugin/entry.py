"""The entry point of the plugin: options, fixtures and the hooks that load the rest.

Without --byoc-target only this module, the table of options and the hook specifications are
imported.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from ..config.options import FLAG, OPTIONAL, OPTIONS, REPEATED
from . import hookspecs

if TYPE_CHECKING:
    from ..examination.outcome import Verdict
    from ..suite.cases import Suite
    from ..suite.session import TargetSession


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.add_hookspecs(hookspecs)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("byoc", "conformance of TVM codegens (pytest-byoc)")
    for option in OPTIONS:
        text = option.help_with_default
        given: dict[str, Any] = {"help": text}
        if option.form == FLAG:
            given["action"] = "store_true"
        else:
            given["metavar"] = option.metavar
        if option.form == REPEATED:
            given["action"] = "append"
        if option.form == OPTIONAL:
            given.update(nargs="?", const="")
        group.addoption(option.flag, **given)
        if option.ini and option.form == FLAG:
            parser.addini(option.ini_name, text, "bool", default=False)
        elif option.ini and option.form == REPEATED:
            parser.addini(option.ini_name, text, "linelist")
        elif option.ini:
            parser.addini(option.ini_name, text, default=None)


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
    if config.option.byoc_model and not targets:
        raise pytest.UsageError("--byoc-model needs --byoc-target")
    if config.option.byoc_model and config.option.byoc_replay:
        raise pytest.UsageError("--byoc-model and --byoc-replay exclude each other: each runs alone")
    if config.option.byoc_shard and not targets:
        raise pytest.UsageError("--byoc-shard needs --byoc-target")
    if not targets:
        return
    with as_python_imports(config):
        from .collection import SUITE
        from .session_plugin import ActivePlugin
        from .sigterm import Terminated

    active = ActivePlugin(config, targets)
    config.pluginmanager.register(active, "pytest-byoc-active")
    config.pluginmanager.register(Terminated(), "pytest-byoc-terminated")
    # The installed suite runs if the command line names a target but no path, or graphs or models.
    alone = config.option.byoc_replay or config.option.byoc_model
    if alone or (given and config.args_source is not pytest.Config.ArgsSource.ARGS):
        config.args = [str(SUITE)]
        # Otherwise pytest's header would name the project's own `testpaths`, which do not run.
        config.args_source = pytest.Config.ArgsSource.ARGS


@contextmanager
def as_python_imports(config: pytest.Config) -> Iterator[None]:
    """Has the modules of this distribution imported as Python does it.

    pytest's import hook would rewrite the asserts of every module of a plugin's distribution, and read and
    hash all sources at each later start: half of the time that the import takes.
    """
    finders: list[Any] = sys.meta_path
    hook = config.pluginmanager.rewrite_hook
    if hook not in finders:  # --assert=plain
        yield
        return
    position = finders.index(hook)
    finders.remove(hook)
    try:
        yield
    finally:
        finders.insert(position, hook)


def _active(request: pytest.FixtureRequest) -> Any:
    return request.config.pluginmanager.get_plugin("pytest-byoc-active")


@pytest.fixture(scope="session")
def byoc_target(request: pytest.FixtureRequest) -> TargetSession:
    """Returns the session of a target (`TargetSession`). Tests are repeated for each target given.

    Skips the test without --byoc-target.
    """
    active = _active(request)
    if active is None:
        pytest.skip("needs --byoc-target")
    session: TargetSession = active.sessions[getattr(request, "param", 0)]
    if session.unusable:
        pytest.fail(session.unusable, pytrace=False)
    return session


@pytest.fixture
def byoc_suite(request: pytest.FixtureRequest, byoc_target: TargetSession) -> Suite:
    """Returns the suite of the session's target (`Suite`), which pytest-byoc's own tests use."""
    active = _active(request)
    suite: Suite = active.suites[active.sessions.index(byoc_target)]
    return suite


@pytest.fixture
def byoc_share_of_time(request: pytest.FixtureRequest) -> float:
    """Returns the seconds for which a test of random graphs may go on with more graphs than its
    minimum."""
    active = _active(request)
    return float(active.limits.share_of_time()) if active is not None else 0.0


@pytest.fixture(scope="session")
def byoc_check(byoc_target: TargetSession) -> Any:
    """Returns a function that checks a graph on the target. The function raises ConformanceFailure
    if the target fails, GraphError if the graph cannot be examined, and otherwise returns the
    verdict. A test whose graphs were all not offloaded or inconclusive is reported as skipped, not
    as passed."""
    from ..core.graph import GraphError
    from ..generation.validation import validated

    def check(graph: Any) -> Verdict:
        __tracebackhide__ = True
        try:
            graph = validated(graph)
        except GraphError as e:
            # The traceback within the validation is of no use to the author of the test.
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
