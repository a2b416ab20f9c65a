"""What a client reaches of its servers in a folder, by its own rules of precedence (SPEC GWY-13).

Clients have servers in several files, and use one entry for each name: which, says their row in the table of hosts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from attrs import frozen

from toolfold_adapters.gateway.config.clients import is_disabled
from toolfold_adapters.hosts import Host, Scope

from .client_files import Section

Server = tuple[str, str]
"""The file and section that a server was in, and its name there."""


@frozen
class Place:
    """Servers that a client reads in one place.

    Attributes:
        scope: Where they are in force.
        folder: The folder that they are in force in; `None` if that is everywhere.
        entries: What is reached by each entry: a server, those behind Toolfold, or none if it is switched off.
    """

    scope: Scope
    folder: Path | None
    entries: Mapping[str, frozenset[Server]]


def place_of(section: Section) -> Place:
    """Return the place of a section; raises `ConfigError` if what Toolfold serves can't be read."""
    file = section.file
    of = f"{file.path}, {'.'.join(section.keys)}"
    entries = {
        name: frozenset[Server]() if is_disabled(entry) else frozenset({(of, name)})
        for name, entry in section.others.items()
    }
    if section.ours is not None:
        entries[section.ours] = frozenset((of, name) for name in section.served)
    return Place(file.scope, file.folder, entries)


def with_toolfold(place: Place, section: Section, moving: Iterable[str], name: str) -> Place:
    """Return a place once its entry for Toolfold, called `name`, serves servers of its section too."""
    reached = frozenset(server for one in (*moving, section.ours or "") for server in place.entries.get(one, ()))
    left = {one: servers for one, servers in place.entries.items() if one not in {*moving, section.ours}}
    return Place(place.scope, place.folder, {**left, name: reached})


def reached(host: Host, places: Iterable[Place], folder: Path | None) -> frozenset[Server]:
    """Return the servers that a client reaches in a folder, or in one that has none of its own."""
    in_force = [place for place in places if place.folder is None or (folder and folder.is_relative_to(place.folder))]
    entries: dict[str, frozenset[Server]] = {}
    for place in sorted(in_force, key=lambda one: _rank(host, one)):
        entries = {**place.entries, **entries}
    return frozenset(server for servers in entries.values() for server in servers)


def _rank(host: Host, place: Place) -> tuple[int, int]:
    """Return what sorts places, first the one whose entries count: by scope, and by nearness."""
    return host.precedence.index(place.scope), -len(place.folder.parts) if place.folder else 0
