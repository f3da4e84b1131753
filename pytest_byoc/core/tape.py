"""The tape: the loads and runs that a target worker leaves to the device on which artifacts run.

Where an artifact is for another machine, the target worker can compile it but not run it. Its checks
go on all the same: each load and each run is recorded, and what a run would return is a placeholder.
The loader, which is on the device, plays the tape, and the host puts the results in the place of the
placeholders. So the checks and their judgement are the same for all machines.
"""

from __future__ import annotations

from typing import Any, Mapping

#: The name of the fact that holds one step of the tape, and of the fact that holds its results.
STEP, PLAYED = "step_on_device", "played_on_device"
_PLACEHOLDER = "$awaited"


def awaited(step: int, part: str) -> dict[str, Any]:
    """Returns the placeholder for a part of a step's results: "outputs" or "modified"."""
    return {_PLACEHOLDER: [step, part]}


class Missing(LookupError):
    """Raised for a placeholder whose step has no such result."""


def filled(value: Any, results: Mapping[int, Mapping[str, Any]]) -> Any:
    """Returns a value with the results of steps in the place of placeholders. Raises Missing."""
    if isinstance(value, dict):
        if set(value) == {_PLACEHOLDER}:
            step, part = value[_PLACEHOLDER]
            if part not in results.get(step, {}):
                raise Missing(step)
            return results[step][part]
        return {key: filled(v, results) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [filled(v, results) for v in value]
    return value
