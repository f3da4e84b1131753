"""Opens the targets of a session. If one of several cannot be used, the others are still tested."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..config.errors import SettingsError
from ..core.names import printable
from ..examination.client import WorkerError
from ..gate.baseline import Baseline
from ..record.process_output import vendor_frame
from ..suite.session import TargetSession


def open_all(
    sessions: Sequence[TargetSession],
    baseline: Baseline | None,
    announce: Callable[[TargetSession], None],
) -> str:
    """Opens each target's session, or sets its `unusable`. Returns "", or the reasons if no target
    can be used, in which case the pytest session cannot go on.

    announce: is called with each session before its workers start."""
    names: set[str] = set()
    for target in sessions:
        announce(target)
        try:
            target.open()
            _check_name(target, sessions, names)
            if baseline is not None:
                baseline.of(target.record.target, target.ir)
        except WorkerError as e:
            _give_up(target, _in_words(target.declaration.name, e), names)
        except SettingsError as e:
            _give_up(target, str(e), names)
        names.add(target.record.target)
    if all(target.unusable for target in sessions):
        return "\n".join(target.unusable for target in sessions)
    return ""


def _check_name(target: TargetSession, sessions: Sequence[TargetSession], names: set[str]) -> None:
    """Raises SettingsError if the name by which a target calls itself belongs to another target
    already."""
    name = target.record.target
    if name in names:
        other = next(s for s in sessions if s.record.target == name)
        raise SettingsError(
            f"the targets {other.declaration.given} and {target.declaration.given} are both called {name}: "
            "give one another name, by its attribute name or by a table [tool.pytest-byoc.targets.NAME] in "
            "pyproject.toml"
        )


def _give_up(target: TargetSession, message: str, names: set[str]) -> None:
    target.close()
    # References and exceptions of vendor code may contain any characters.
    target.unusable = message = printable(message, keep="\n\t")
    # The name by which the target calls itself is unknown until its worker is ready; the declared
    # name may belong to another target.
    name, number = target.declaration.name, 2
    while name in names:
        name, number = f"{target.declaration.name} ({number})", number + 1
    target.record.target = name
    target.record.not_checked = [f"anything: {message}"]


def _in_words(name: str, error: WorkerError) -> str:
    """Returns the message for a worker that cannot be started: the exception and its place in the
    vendor's code."""
    if error.kind is None:
        return str(error)
    frame = vendor_frame(error.frames)
    target = f"target {name}"
    what = f"a library of {target} cannot be loaded" if error.loads else f"{target} cannot be imported"
    text = f"{what}: {error.kind}: {error}"
    if frame is not None:
        text += f"\n  in {frame['file']}:{frame['line']}, in {frame['function']}"
        if frame["text"]:
            text += f"\n    {frame['text']}"
    return text
