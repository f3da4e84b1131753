"""What runs artifacts where no Python can be started: a simulator, a microcontroller, a lab's service."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Mapping, Sequence

if TYPE_CHECKING:
    from typing import Protocol

    import numpy as np
else:
    # Only type checkers need `typing.Protocol`; at run time an ordinary base class is enough.
    Protocol = object


class RunnerError(Exception):
    """Raised by a runner when a run has failed otherwise than by RunnerCrashed or RunnerHung.

    The target is charged with it.

    message: what has happened, in one line.
    printed: what the device has printed; reports show the end of it.
    """

    def __init__(self, message: str = "", printed: str = "") -> None:
        super().__init__(message)
        self.printed = printed


class RunnerCrashed(RunnerError):
    """Raised by a runner when the artifact has died on the device; the message says how.

    The target is charged with it. It takes the same arguments as RunnerError.
    """


class RunnerHung(RunnerError):
    """Raised by a runner when the artifact has not ended within its time limit.

    The target is charged with it. It takes the same arguments as RunnerError.
    """


class RunnerLost(Exception):
    """Raised by a runner when the device can't be reached, or is lost in a run.

    The target is not charged with it: the runner is opened again, and the run is repeated.
    """


class Runner(Protocol):
    """A runner of artifacts. `run` is required, everything else has a default.

    A session uses one runner in each of its processes, and calls it from one thread.
    """

    #: The executors that it can run ("graph", "vm", "aot"); empty means all.
    executors: Sequence[str] = ()

    def run(
        self, artifact: Path, executor: str, inputs: Sequence[Mapping[str, np.ndarray]], timeout: float
    ) -> Sequence[Sequence[np.ndarray]]:
        """Loads an artifact, and runs it with each set of inputs in turn.

        artifact: the shared library that TVM's `export_library` wrote.
        executor: the executor that it was built for.
        inputs: each set has the arrays of main's parameters by name, in their order.
        timeout: seconds for all of it. A call that takes 5 seconds longer is ended with its process.

        Returns a list of outputs for each set. Raises RunnerCrashed, RunnerHung or RunnerLost; another
        exception is reported as an error of the run.
        """
        raise NotImplementedError

    def seconds(
        self, artifact: Path, executor: str, inputs: Mapping[str, np.ndarray], timeout: float
    ) -> Sequence[float]:
        """Returns the seconds of runs of an artifact, without loading it: several, or one where all take
        equally long, as in a simulator that counts cycles. None are returned where they are unknown.

        It raises the same as `run`. A runner without the method measures nothing.
        """
        raise NotImplementedError

    def open(self) -> None:
        """Is called once before the first run. Raises RunnerLost where there is no device."""

    def close(self) -> None:
        """Is called at the end of the session."""

    def reset(self) -> None:
        """Is called after a run that has crashed or hung."""

    def describe(self) -> Mapping[str, str]:
        """Returns facts for reports, such as the names of board and firmware."""
        return {}


def optional(runner: Any, method: str) -> Any:
    """Returns the result of an optional method of a runner; None where it has no such method."""
    function = getattr(runner, method, None)
    return function() if callable(function) else None
