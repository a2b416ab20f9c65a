"""What upstreams say that was approved: the first time, and what a user approved since (SPEC GWY-11).

A server can change what it says to models after that was looked at. So each definition, and each text of the server's
own, is stored when the server is first seen; one that is another now, or that was not there, has changed, until
`toolfold approve`, which shows the difference.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from difflib import unified_diff
from pathlib import Path
from typing import Any

from attrs import evolve
from pydantic import TypeAdapter

from toolfold.spi import Kind, table

from ..definitions import LISTS, Definitions, Table, Usable
from ..files import Files, as_stored
from .settings import UpstreamConfig

CHANGED = "dev.toolfold/changed"
"""Marks a definition that changed since it was approved (SPEC GWY-11)."""
TEXT = "server text"
"""The kind of what a server says of itself."""
TEXTS = ("title", "instructions")

Item = tuple[str, str]
"""Something that a server says: its kind, and what the server calls it."""


class Approvals:
    """The approved definitions, one file for each server.

    Args:
        folder: Where the files are; see `approvals_folder`.
        serving: Whether a server that is seen first is approved: where somebody only looks, nothing is stored.
    """

    def __init__(self, folder: Path, *, serving: bool = True) -> None:
        self._files = Files(folder, "approved definitions", TypeAdapter(dict[str, Any]))
        self._serving = serving

    def changed(self, upstream: UpstreamConfig, definitions: Definitions) -> frozenset[Item]:
        """Return what changed since it was approved: nothing of a server that is seen first."""
        approved = self._read(upstream)
        if approved is None:
            if self._serving:
                self.approve(upstream, definitions)
            return frozenset()
        now = _said(definitions)
        if approved == now:
            return frozenset()  # as nearly always, without the time that the next line takes
        now = as_stored(now)
        items = ((kind, name) for kind, named in now.items() for name in named)
        return frozenset(item for item in items if _at(approved, item) != _at(now, item))

    def difference(self, upstream: UpstreamConfig, definitions: Definitions) -> dict[Item, list[str]]:
        """Return the lines of all that changed since it was approved.

        Those that it had begin with `-`, those that it has now with `+`, as in a unified diff.
        """
        approved, now = self._read(upstream) or {}, as_stored(_said(definitions))
        changed = sorted(self.changed(upstream, definitions))
        return {item: _difference(_at(approved, item), _at(now, item)) for item in changed}

    def approve(self, upstream: UpstreamConfig, definitions: Definitions) -> None:
        """Approve all that a server says as it is now; a file that can't be written is logged."""
        self._files.write(_key(upstream), as_stored(_said(definitions)))

    def _read(self, upstream: UpstreamConfig) -> Mapping[str, Any] | None:
        """Return the approved definitions, none of them if they can't be read, or `None` if there is no file."""
        return self._files.read(_key(upstream), damaged={})


def reviewed(offered: Usable, changed: frozenset[Item], *, quarantine: bool) -> Usable:
    """Return what of an upstream's definitions is served, with a sentence for each that changed since it was approved.

    Under quarantine what changed is left out, otherwise it is marked.
    """
    by_kind: dict[Kind, dict[str, Table]] = {
        kind: {
            name: _marked(definition) if (kind, name) in changed else definition
            for name, definition in offered.by_kind[kind].items()
            if not quarantine or (kind, name) not in changed
        }
        for kind in LISTS
    }
    texts: dict[str, Any] = {
        name: None if quarantine else f"(changed since it was approved) {getattr(offered.said, name)}"
        for name in TEXTS
        if (TEXT, name) in changed
    }
    served = [*((kind, name) for kind in LISTS for name in offered.by_kind[kind]), *((TEXT, name) for name in texts)]
    treated = "withheld" if quarantine else "marked"
    warnings = [
        f"The {words_for(item)} has not been approved as it is now, and is {treated} until `toolfold approve`."
        for item in served
        if item in changed
    ]
    return Usable(said=evolve(offered.said, **texts), by_kind=by_kind, warnings=(*offered.warnings, *warnings))


def words_for(item: Item) -> str:
    """Return what to call something that a server says: its kind and its name."""
    kind, name = item
    return f"{kind.replace('_', ' ')} {name!r}"


def _marked(definition: Table) -> Table:
    return {**definition, "_meta": {**(table(definition.get("_meta")) or {}), CHANGED: True}}


def _said(definitions: Definitions) -> dict[str, dict[str, Any]]:
    """Return all that a server says, by its kind and name."""
    texts = {name: text for name in TEXTS if (text := getattr(definitions, name))}
    said: dict[str, Any] = {TEXT: texts, **{kind: definitions.by_name(kind) for kind in LISTS}}
    for uri, resource in said["resource"].items():  # how many bytes it has, which is a number, says nothing to a model
        said["resource"][uri] = {key: value for key, value in resource.items() if key != "size"}
    return said


def _key(upstream: UpstreamConfig) -> str:
    """Return what a server's approvals are stored under: it stays while the command or the address does."""
    return json.dumps([upstream.command, upstream.url, upstream.cwd])


def _at(said: Mapping[str, Any], item: Item) -> Any:
    return (table(said.get(item[0])) or {}).get(item[1])


def _difference(before: Any, now: Any) -> list[str]:
    old, new = ([] if one is None else _visible(one).split("\n") for one in (before, now))
    return list(unified_diff(old, new, n=1, lineterm=""))[2:]


def _visible(definition: Any) -> str:
    """Return a definition or a text as lines, with escapes for characters that a reader would not see."""
    plain = isinstance(definition, str)
    text = definition if plain else json.dumps(definition, indent=2, sort_keys=True, ensure_ascii=False)
    return "".join(char if char.isprintable() or char == "\n" else json.dumps(char)[1:-1] for char in text)


def approvals_folder() -> Path:
    """Return where approvals are stored on this machine, by its conventions."""
    from platformdirs import user_data_path

    return user_data_path("toolfold") / "approved"
