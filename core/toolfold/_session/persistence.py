"""A session's state as a small JSON value, and back (SPEC PER-1, PER-2, PER-4).

Groups are told by their paths, so that a state outlives the catalog that it was dumped from. What is stored where, and
when, is the caller's affair.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn, cast

from attrs import frozen

from .._catalog.catalog import Catalog
from .._plain import table
from .._snapshot import Snapshot
from ..errors import HandleInvalid
from ..machine import Plan, restore
from ..names import is_text

VERSION = 1
"""Of the form in which states are dumped."""


@frozen
class Saved:
    """A dumped state that was read, and is not yet any session's.

    `active` holds the paths of the groups, oldest first where the quota of the catalog it is from needs the order.
    """

    active: tuple[str, ...]
    facts: Mapping[str, Any]
    profile: str | None = None

    def plan(self, catalog: Catalog) -> Plan:
        """Return the step from no active group to what `catalog` allows of this state (SPEC PER-2).

        A group that is transient by now is left out like an unknown one (SPEC PER-4).
        """
        return restore(catalog.forest, _lasting(catalog, self.active))

    def discarded(self, catalog: Catalog) -> tuple[str, ...]:
        """Return the groups that are not active again in `catalog`, in the order given."""
        after = self.plan(catalog).after
        return tuple(path for path in dict.fromkeys(self.active) if not after.is_active(path))

    def snapshot(self, catalog: Catalog) -> Snapshot:
        """Return the restored state in `catalog`."""
        return Snapshot.of(catalog, self.plan(catalog).after, self.facts)


def dumped(tools: str, profile: str | None, snapshot: Snapshot) -> dict[str, Any]:
    """Return a state as a small JSON value (SPEC PER-1, PER-4).

    Args:
        tools: The name of the tool set.
        profile: The name of the session's profile, if it has one.
        snapshot: The state. Its transient groups are left out with what is in them.
    """
    catalog = snapshot.catalog
    return {
        "version": VERSION,
        "tools": tools,
        **({} if profile is None else {"profile": profile}),
        "active": _lasting(catalog, snapshot.configuration.oldest_first),
        "facts": {name: _plain(value) for name, value in snapshot.facts.items()},
    }


def read(tools: str, data: Any) -> Saved:
    """Return the state that `dumped` wrote, perhaps by way of JSON, for the tool set called `tools`.

    Raises:
        HandleInvalid: It is damaged, or was dumped by another tool set or a later version.
    """
    given = _object("the value", data)
    if type(given.get("version")) is not int or given["version"] != VERSION:
        _refuse(f"its version is {given.get('version')!r}, not {VERSION}")
    if given.get("tools") != tools:
        _refuse(f"it is of the tool set {given.get('tools')!r}, not {tools!r}")
    active, profile = given.get("active"), given.get("profile")
    if not isinstance(active, list | tuple) or not all(map(is_text, cast("list[object]", active))):
        _refuse("its active groups are no list of paths")
    if profile is not None and not is_text(profile):
        _refuse("its profile is no name")
    facts = {name: _frozen(value) for name, value in _object("its facts", given.get("facts")).items()}
    for name, value in facts.items():
        if not is_text(name) or not is_fact(value):
            _refuse(f"its fact {name!r} is not one that can be set")
    return Saved(tuple(cast("list[str]", active)), facts, profile)


def is_fact(value: Any) -> bool:
    """Return whether a value may be a fact: one of JSON's scalars, or a tuple of such (SPEC SES-5)."""
    if isinstance(value, tuple):
        return all(is_fact(item) for item in cast("tuple[object, ...]", value))
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, bool | int | str)


def _lasting(catalog: Catalog, paths: Iterable[str]) -> list[str]:
    """Return the paths without transient groups and what is in them; unknown ones stay."""
    transient = 0
    for number, group in enumerate(catalog.groups):
        if group.transient:
            transient |= catalog.forest.subtree[number]
    return [path for path in paths if path not in catalog.index or not transient >> catalog.index[path] & 1]


def _object(what: str, value: Any) -> dict[str, Any]:
    if (found := table(value)) is None:
        _refuse(f"{what} is no JSON object")
    return found


def _plain(value: Any) -> Any:
    return [_plain(item) for item in cast("tuple[object, ...]", value)] if isinstance(value, tuple) else value


def _frozen(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(_frozen(item) for item in cast("list[object]", value))
    return value


def _refuse(problem: str) -> NoReturn:
    raise HandleInvalid(f"The session can't be restored: {problem}. Open a new one.")
