"""The example database of Hypothesis, for the suite's test of random graphs."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis.database import ExampleDatabase

#: Endings of keys under which Hypothesis keeps examples that did not fail.
_OTHERS = (b".secondary", b".pareto")


class SharedExamples(ExampleDatabase):
    """The failing examples of one test, in a database that several machines may share.

    Hypothesis's own key of a test holds the test's path, seen from pytest's root folder, which
    differs between machines. Examples that do not fail are not kept: their replay would make a
    session depend on what others have examined.

    key: the key of the test, the same on every machine."""

    def __init__(self, database: ExampleDatabase, key: bytes) -> None:
        super().__init__()
        self._database = database
        self._key = key

    def save(self, key: bytes, value: bytes) -> None:
        if not key.endswith(_OTHERS):
            self._database.save(self._key, value)

    def fetch(self, key: bytes) -> Iterable[bytes]:
        return () if key.endswith(_OTHERS) else self._database.fetch(self._key)

    def delete(self, key: bytes, value: bytes) -> None:
        if not key.endswith(_OTHERS):
            self._database.delete(self._key, value)
