"""The data of the assistant's tools: records of many kinds, in memory, and a few operations on all of them.

The `function` of a manifest's tool is one line: a verb, a kind of records, names of fields, and fixed values.
`list messages from subject` returns sender and subject of the messages that match; `update tasks done=true` changes
the task whose number is given.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from attrs import Factory, define

from toolfold import ToolError

Row = dict[str, Any]
Fields = tuple[str, ...]
DATA = Path(__file__).with_name("data") / "store.json"
MOST, LONGEST = 1000, 100_000
"""At most how many records of a kind there are, and how many characters of JSON each has."""


@define
class Records:
    """The records of one kind, by number."""

    kind: str
    rows: dict[int, Row] = Factory(dict[int, Row])

    def list(self, fields: Fields, given: Row) -> list[Row]:
        """Return the records that have each given value in the field of that name; `query` matches any field."""
        found = [id for id, row in self.rows.items() if all(_matches(row, *wanted) for wanted in given.items())]
        return [self.get(fields, {"id": id}) for id in found]

    def get(self, fields: Fields, given: Row) -> Row:
        """Return a record, or only the fields named."""
        row = self._row(given["id"])
        return {"id": given["id"], **{name: value for name, value in row.items() if not fields or name in fields}}

    def create(self, fields: Fields, given: Row) -> Row:
        """Create a record and return its number."""
        return {"id": self._store(max(self.rows, default=0) + 1, given)}

    def update(self, fields: Fields, given: Row) -> Row:
        """Change the given fields."""
        self._store(given["id"], {**self._row(given["id"]), **given})
        return self.get((), given)

    def set(self, fields: Fields, given: Row) -> Row:
        """Change the record of that name, or create it."""
        id = next((id for id, row in self.rows.items() if row["name"] == given["name"]), None)
        return self.create((), given) if id is None else self.update((), {**given, "id": id})

    def delete(self, fields: Fields, given: Row) -> str:
        """Remove a record."""
        self._row(given["id"])
        del self.rows[given["id"]]
        return f"Number {given['id']} of the {self._name} is removed."

    def copy(self, fields: Fields, given: Row) -> Row:
        """Create a copy of a record with the given fields changed."""
        return self.create((), {**self._row(given["id"]), **given})

    def put(self, fields: Fields, given: Row) -> Row:
        """Add items to a field that does not contain them yet."""
        row = self._row(given["id"])
        added = {name: [*row.get(name, []), *(one for one in items if one not in row.get(name, []))]
                 for name, items in given.items() if name != "id"}  # fmt: skip
        return self.update((), {**given, **added})

    def take(self, fields: Fields, given: Row) -> Row:
        """Remove items from a field."""
        row = self._row(given["id"])
        left = {name: [one for one in row.get(name, []) if one not in items]
                for name, items in given.items() if name != "id"}  # fmt: skip
        return self.update((), {**given, **left})

    def extend(self, fields: Fields, given: Row) -> Row:
        """Append text or items to a field."""
        row = self._row(given["id"])
        longer = {name: row.get(name, type(end)()) + end for name, end in given.items() if name != "id"}
        return self.update((), {**given, **longer})

    def prepend(self, fields: Fields, given: Row) -> Row:
        """Prepend text to a field."""
        row = self._row(given["id"])
        longer = {name: start + row.get(name, "") for name, start in given.items() if name != "id"}
        return self.update((), {**given, **longer})

    def replace(self, fields: Fields, given: Row) -> Row:
        """Replace words in fields."""
        row = self._row(given["id"])
        return self.update(
            (), {"id": given["id"]} | {name: row[name].replace(given["find"], given["replacement"]) for name in fields}
        )

    @property
    def _name(self) -> str:
        return self.kind.replace("_", " ")

    def _row(self, id: int) -> Row:
        if id not in self.rows:
            raise ToolError(f"There is no number {id} among the {self._name}; list them to see the numbers.")
        return self.rows[id]

    def _store(self, id: int, row: Row) -> int:
        """Store a record under a number; records are created and changed in no other way."""
        if len(self.rows) >= MOST and id not in self.rows:
            raise ToolError(f"There are {MOST:,} {self._name} already; remove some first.")
        if len(json.dumps(row)) > LONGEST:
            raise ToolError(f"That is too long; a record has at most {LONGEST:,} characters.")
        self.rows[id] = {name: value for name, value in row.items() if name != "id"}
        return id


VERBS: Mapping[str, Callable[[Records, Fields, Row], Any]] = {
    verb.__name__: verb
    for verb in (
        *(Records.list, Records.get, Records.create, Records.update, Records.set, Records.delete),
        *(Records.copy, Records.put, Records.take, Records.extend, Records.prepend, Records.replace),
    )
}


@define
class Store:
    """All records, by kind. All users of one tool set share them, and nothing is written back."""

    _kinds: dict[str, Records]

    @classmethod
    def read(cls) -> Store:
        """Return a store with the records of the file."""
        records: dict[str, list[Row]] = json.loads(DATA.read_text(encoding="utf-8"))
        return cls({kind: Records(kind, dict(enumerate(rows, start=1))) for kind, rows in records.items()})

    def handler(self, function: str) -> Callable[[Row], Any] | None:
        """Return the handler for a function of a manifest, or `None` if its verb is unknown."""
        verb, *rest = function.split()
        if verb not in VERBS:
            return None
        kind, *words = rest
        fields = tuple(word for word in words if "=" not in word)
        always = {name: json.loads(value) for name, _, value in (word.partition("=") for word in words if "=" in word)}
        return partial(self._run, VERBS[verb], self._kinds[kind], fields, always)

    def do(self, function: str, **given: Any) -> Any:
        """Run a function."""
        handler = self.handler(function)
        assert handler is not None
        return handler(given)

    def _run(
        self, verb: Callable[[Records, Fields, Row], Any], records: Records, fields: Fields, always: Row, given: Row
    ) -> Any:
        return verb(records, fields, {**given, **always})


def _matches(row: Row, name: str, value: object) -> bool:
    """Return whether a record contains a value in a field, or in any if that is `query`, ignoring case."""
    there = row if name == "query" else row.get(name, "")
    return _text(value).strip('"') in _text(there)


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False).lower()
