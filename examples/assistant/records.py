"""Groups that are collections of records, described in a file: each item is listed, read, made, changed, removed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from toolfold import ToolError, ToolSet

from .mail import DATA

Row = dict[str, Any]
_ID = {"id": {"type": "integer", "description": "Number of the record, as the list gives it"}}


class Records:
    """The records of one item."""

    def __init__(self, item: str, fields: Mapping[str, str], rows: list[Row]) -> None:
        self.item = item
        self.fields = {name: {"type": "string", "description": text} for name, text in fields.items()}
        self._rows = dict(enumerate((dict(row) for row in rows), start=1))

    def _row(self, id: int) -> Row:
        if id not in self._rows:
            raise ToolError(f"There is no {self.item} number {id}; list what there is.")
        return self._rows[id]

    def list(self, given: Row) -> list[Row]:
        """All records that contain some words."""
        words = given.get("words", "").lower()
        return [{"id": id, **row} for id, row in self._rows.items() if words in json.dumps(row).lower()]

    def get(self, given: Row) -> Row:
        """One record."""
        return {"id": given["id"], **self._row(given["id"])}

    def create(self, given: Row) -> Row:
        """Make a record."""
        id = max(self._rows, default=0) + 1
        self._rows[id] = dict(given)
        return {"id": id}

    def update(self, given: Row) -> Row:
        """Change the fields that are given."""
        self._row(given["id"]).update({name: value for name, value in given.items() if name != "id"})
        return self.get(given)

    def delete(self, given: Row) -> str:
        """Remove a record."""
        self._row(given["id"])
        del self._rows[given["id"]]
        return f"The {self.item} number {given['id']} is removed."

    def register(self, tools: ToolSet, group: str) -> None:
        """Register the five tools of the item."""
        words = {"words": {"type": "string", "description": f"Words that each {self.item} must contain; all if absent"}}
        first = [next(iter(self.fields))]
        verbs: list[tuple[Callable[[Row], Any], str, Row, list[str]]] = [
            (self.list, f"List each {self.item} with its number and fields.", words, []),
            (self.get, f"Read one {self.item}.", _ID, ["id"]),
            (self.create, f"Make a new {self.item} and return its number.", self.fields, first),
            (self.update, f"Change the given fields of one {self.item}.", {**_ID, **self.fields}, ["id"]),
            (self.delete, f"Remove one {self.item} for good.", _ID, ["id"]),
        ]
        for handler, description, properties, required in verbs:
            schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
            name = f"{self.item}_{handler.__name__}"
            tools.register(name, partial(handler), description=description, input_schema=schema, group=group, flat=True)


def register_collections(tools: ToolSet) -> None:
    """Register every group of the file with its items."""
    for entry in json.loads((DATA / "collections.json").read_text(encoding="utf-8")):
        tools.register_group(entry["group"], entry["description"], title=entry["title"])
        for item, fields in entry["items"].items():
            Records(item, fields, entry["rows"].get(item, [])).register(tools, entry["group"])
