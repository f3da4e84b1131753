"""The messages and the end of one job of a worker, and the facts read from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

#: The facts that say nothing of the check during which they are sent.
_OF_NO_CHECK = frozenset(("passed_on", "code", "known", "files"))


@dataclass
class JobReport:
    """The messages that one job sent. end: how its process ended (None: the job was not run)."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    end: dict[str, Any] | None = None

    def facts(self, key: str) -> Iterator[tuple[str, Any]]:
        """Yields (executor, value) of each fact recorded under `key`."""
        for m in self.messages:
            if m.get("fact") == key:
                yield m["executor"], m["value"]

    def not_checked(self) -> Iterator[tuple[str, str]]:
        """Yields (check, reason) for each check that could not be made."""
        for m in self.messages:
            if "not_checked" in m:
                yield m["not_checked"]["check"], m["not_checked"]["reason"]

    def withdraw(self, keys: Sequence[str | None], check: str, reason: str) -> None:
        """Removes facts; the check that recorded them then counts as not made."""
        self.messages = [m for m in self.messages if m.get("fact") not in keys]
        self.messages.append({"not_checked": {"check": check, "reason": reason}})

    def withdraw_end(self, check: str, reason: str) -> None:
        """Forgets how the process ended; the check that was running then counts as not made."""
        self.end = None
        self.withdraw((), check, reason)

    def passed_on(self) -> dict[str, dict[str, Any]]:
        """Returns the values that checks have left for the loader, by check and executor."""
        by_check: dict[str, dict[str, Any]] = {}
        for executor, value in self.facts("passed_on"):
            by_check.setdefault(value["check"], {})[executor] = value["value"]
        return by_check

    @property
    def last_check(self) -> str:
        """Returns the check that was running when the job ended; "" if none had begun."""
        return next((str(m["begins"]) for m in reversed(self.messages) if "begins" in m), "")

    def sent_by_checks(self) -> Iterator[tuple[str, str]]:
        """Yields (check, "fact" or "stage") for each fact and stage that a check sent."""
        check = ""
        for m in self.messages:
            check = m.get("begins", check)
            if "stage" in m and "cpu" in m:
                yield check, "stage"
            elif "fact" in m and m["fact"] not in _OF_NO_CHECK:
                yield check, "fact"

    @property
    def nothing_offloaded(self) -> bool:
        """True if the partitioned module is known and has no region."""
        return any(not value["regions"] for _, value in self.facts("regions"))

    @property
    def nothing_to_judge(self) -> bool:
        """True if nothing is offloaded and partitioning has left main unchanged."""
        return self.nothing_offloaded and not any(v["changed"] for _, v in self.facts("regions"))

    def raised(self) -> Iterator[dict[str, Any]]:
        return (m for m in self.messages if "raised" in m)

    @property
    def failed(self) -> bool:
        """Returns whether the process died, or something was raised in it."""
        return self.died is not None or any(self.raised())

    @property
    def left_running(self) -> list[dict[str, str]]:
        """Returns the programs that still ran after the job's process had ended well.

        Each is {"program": command line, "name", "stage": where it was started ("": unknown)}.
        """
        return list(self.end.get("left", ())) if self.end is not None else []

    @property
    def ended(self) -> str:
        """Returns the end of a process that died as a predicate, as in "the process hung"."""
        return "hung" if self.died == "hung" else f"died ({self.died})"

    @property
    def died(self) -> str | None:
        """Returns how the process died, in words; None if it did its job or was not run."""
        if self.end is None:
            return None
        if self.end["hung"]:
            return "hung"
        if self.end["signal"]:
            return str(self.end["signal"])
        exited = next((m["exited"] for m in self.messages if "exited" in m), None)
        if exited is not None:
            return "called exit(%s)" % exited
        if self.end["status"] or not any("done" in m for m in self.messages):
            return "exited with status %s" % self.end["status"]
        return None
