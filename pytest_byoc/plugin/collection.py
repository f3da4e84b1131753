"""Collects the installed suite: its tests for each target, in the order of their phases."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatch
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from ..config.levels import Level
from ..config.plan import ALL_CHECKS, structures, thorough
from ..config.settings import Settings
from ..gate.planned import MODEL, PARAMETERS, SPEED_FILE, Selection, case_of
from ..generation import without_llvm
from ..generation.structures import STRUCTURES
from ..generation.systematic import EARLY, FEW, REST, Case, cases
from ..report.time_estimate import OWN
from ..storage.corpus import Entry
from ..storage.scratch import Scratch
from ..storage.shared_answers import FOLDER
from ..suite.session import TargetSession

#: The folder of the suite's tests.
SUITE = Path(__file__).parents[1] / "conformance"
#: The phase of the simplest cases on which all checks are made.
_SIMPLEST = "simplest"
#: The phases of the suite in their order: fixed graphs come before random ones, and phases that
#: find most with few graphs come before phases with numerous graphs. The values give, for each
#: phase, the seconds of one test for which the target offloads something and the share of such
#: tests. They were measured with example_c at level standard, and serve as a session's first
#: estimate of its duration.
_COSTS = {
    "test_target.py": (0.0, 1.0),
    "test_corpus.py": (1.0, 1.0),
    EARLY: (0.06, 0.15),
    _SIMPLEST: (1.2, 0.25),
    FEW: (0.05, 0.2),
    "test_patterns.py": (2.0, 1.0),
    "test_regions.py": (0.12, 0.25),
    "test_structures.py": (0.18, 0.9),
    "test_followed.py": (0.4, 0.25),
    "test_forms.py": (0.2, 0.15),
    REST: (0.15, 0.25),
    "test_thorough.py": (1.4, 0.9),
    "test_onnx.py": (0.12, 0.3),
    "test_random.py": (0.6, 0.25),
    "test_speed.py": (1.5, 0.25),
    "test_model.py": (20.0, 1.0),
}
_PHASES = tuple(_COSTS)


def costs(level: Level) -> dict[str, tuple[float, float]]:
    """Returns the first estimate for a level: seconds and share by phase (see `Work`)."""
    if level.all_cases:
        return _COSTS
    return {**_COSTS, "test_patterns.py": (0.35, 1.0), "test_random.py": (0.25, 0.25)}


class Collection:
    """The plugin that collects the suite, registered together with `ActivePlugin`.

    selections: the cases of the suite that were collected for each session."""

    def __init__(
        self, settings: Settings, sessions: Sequence[TargetSession], entries: Sequence[Entry]
    ) -> None:
        self.settings = settings
        self.entries = entries
        self.sessions = sessions
        self.selections = [Selection() for _ in sessions]
        #: In the controller of pytest-xdist: the folder in which its processes share their answers.
        self._folder: Scratch | None = None

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Ignores files of the suite that the session does not run: with --byoc-replay all but the
        corpus, otherwise the files that the level leaves out. None leaves the decision to other
        plugins, for example to --ignore."""
        if collection_path.parent == SUITE and collection_path.suffix == ".py":
            if collection_path.name == "test_target.py":
                return None if any(t.unusable for t in self.sessions) else True
            if collection_path.name == "test_corpus.py" and not self.settings.models:
                return None if any(map(self._entries_for, self.sessions)) else True
            level, name = self.settings.level, collection_path.name
            if self.settings.models or name == "test_model.py":
                return None if self.settings.models and name == "test_model.py" else True
            if self.settings.replay or (name == "test_onnx.py" and not level.onnx):
                return True
            if name == f"{SPEED_FILE}.py" and not self.settings.measures:
                return True
            if name == "test_thorough.py" and not thorough(level.name):
                return True
            if name in ("test_followed.py", "test_forms.py") and not level.all_cases:
                return True
        return None

    def _entries_for(self, target: TargetSession) -> list[Entry]:
        if target.unusable:
            return []
        return [e for e in self.entries if e.is_for(target.record.target, target.ir)]

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        """Plans the corpus here, since its file is not collected if the corpus is empty."""
        for selection, target in zip(self.selections, self.sessions):
            if not target.unusable:
                selection.plan("byoc_entry", self._entries_for(target))

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Passes the corpus entries that the controller found to a process of pytest-xdist, so that
        all processes collect the same tests, and the folder in which they share their answers about
        a target."""
        entries = [(e.id, str(e.path), e.automatic) for e in self.entries]
        if self._folder is None:
            self._folder = Scratch("peers")
        node.workerinput.update({"byoc_entries": entries, FOLDER: str(self._folder.path)})

    def pytest_unconfigure(self) -> None:
        if self._folder is not None:
            self._folder.remove()

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> pytest.Module | None:
        """Collects the suite's files even if the project's own `python_files` would leave them
        out."""
        if file_path.parent == SUITE and file_path.name.startswith("test_"):
            patterns = parent.config.getini("python_files")
            if not any(fnmatch(file_path.name, p) for p in patterns):
                return pytest.Module.from_parent(parent, path=file_path)
        return None

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        names = metafunc.fixturenames
        ours = is_ours(metafunc.definition)
        if ours and "byoc_unusable" in names:
            unusable = [t for t in self.sessions if t.unusable]
            ids = [t.record.target for t in unusable]
            metafunc.parametrize("byoc_unusable", [t.unusable for t in unusable], ids=ids)
        if "byoc_target" not in names:
            return
        if ours and "structure" in names:
            file = metafunc.definition.path.stem
            level = self.settings.level.name
            found = structures(level) if file == "test_structures" else thorough(level)
            for selection, target in zip(self.selections, self.sessions):
                if target.unusable:
                    continue
                selection.plan("structure", STRUCTURES if file == "test_structures" else found, file)
            metafunc.parametrize("structure", found)
        own = {
            "byoc_case": lambda t: [*cases(t.operators, t.ir), *without_llvm.cases(t.operators, t.ir)],
            "byoc_operator": lambda t: list(t.operators),
            "byoc_pattern": lambda t: t.patterns.names(),
            "byoc_entry": self._entries_for,
            "byoc_onnx": lambda t: t.onnx.candidates(),
            "byoc_model": lambda t: list(t.settings.models),
        }
        several = len(self.sessions) > 1
        for name, values in own.items():
            if name in names:
                rows = []
                for i, t in enumerate(self.sessions):
                    if t.unusable:
                        continue
                    found = values(t)
                    rows += [
                        pytest.param(i, v, id=f"{t.record.target}-{_id(v)}" if several else _id(v))
                        for v in found
                        if self.settings.level.all_cases or not isinstance(v, Case) or v.smoke
                    ]
                    if ours:
                        self.selections[i].plan(name, found, metafunc.definition.path.stem)
                metafunc.parametrize(f"byoc_target,{name}", rows, indirect=["byoc_target"])
                return
        if several:
            # A vendor's own test is collected, and fails, for a target that cannot be used.
            tested = [i for i, t in enumerate(self.sessions) if not (ours and t.unusable)]
            metafunc.parametrize(
                "byoc_target", tested, indirect=True, scope="session",
                ids=[self.sessions[i].record.target for i in tested],
            )

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Sorts the suite's tests by phase, and plans each of the vendor's own tests as a case with
        the test's id. Deselects the tests that pytest makes of an empty list of parameters and
        would skip."""
        empty = [item for item in items if is_ours(item) and _is_empty(item)]
        if 0 < len(empty) < len(items):
            config.hook.pytest_deselected(items=empty)
            items[:] = [item for item in items if item not in empty]
        for item in items:
            if not is_ours(item) and "byoc_target" in getattr(item, "fixturenames", ()):
                self.selection_of(item).planned.add(item.nodeid)
        items.sort(key=self._position)

    def position_of(self, item: pytest.Item) -> int:
        """Returns the position, among all sessions, of the one that a test belongs to."""
        position = _params(item).get("byoc_target")
        return position if isinstance(position, int) else 0

    def _position(self, item: pytest.Item) -> int:
        """Returns the position of a test's phase; -1 for tests outside the suite. The systematic
        cases are in four phases: early cases first; then the simplest cases on which all checks are
        made, which take longer than all the early ones; then cases with each class of each
        attribute once; the rest after most other phases. ONNX's node tests that failed in earlier
        sessions come with the corpus, at the start."""
        if not is_ours(item):
            return -1
        case, onnx = (_params(item).get(name) for name in ("byoc_case", "byoc_onnx"))
        session = self.sessions[self.position_of(item)]
        if onnx is not None and onnx in session.onnx.failed():
            return 0
        if not isinstance(case, Case):
            # pytest makes a skipped test, without a case, of an empty list of cases.
            return _PHASES.index(EARLY if item.path.name == "test_operators.py" else item.path.name)
        expensive = case.simplest and not session.is_plain(case.graph, {*case.kinds, ALL_CHECKS})
        return _PHASES.index(_SIMPLEST if expensive else case.phase)

    def kind_of(self, item: pytest.Item) -> str:
        """Returns the phase of a test of the suite, which determines its cost; OWN for any other
        test."""
        return _PHASES[self._position(item)] if is_ours(item) else OWN

    def selection_of(self, item: pytest.Item) -> Selection:
        return self.selections[self.position_of(item)]


def cases_of(item: pytest.Item) -> set[str]:
    """Returns the ids of the cases that one of the suite's tests examines, or the ids'
    beginnings."""
    if _is_empty(item):
        return set()
    return {case_of(n, v, item.path.stem) for n, v in _params(item).items() if n in (*PARAMETERS, MODEL)}


def _is_empty(item: pytest.Item) -> bool:
    """True for the test that pytest makes of an empty list of parameters, which has no values."""
    return not isinstance(_params(item).get("byoc_target", 0), int)


def _params(item: pytest.Item) -> dict[str, Any]:
    return item.callspec.params if hasattr(item, "callspec") else {}


def is_ours(node: Any) -> bool:
    """Returns whether a test belongs to the installed suite."""
    return _is_in_suite(node.path)


@lru_cache(maxsize=1024)  # It is asked several times about each test.
def _is_in_suite(path: Path) -> bool:
    return path.parent == SUITE


def is_random(item: pytest.Item) -> bool:
    return is_ours(item) and item.path.name == "test_random.py"


def _id(value: Any) -> str:
    return value if isinstance(value, str) else str(getattr(value, "id", value))
