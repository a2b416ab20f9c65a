"""The state of a session apart from any session and catalog: its facts, and its form as JSON and in a store.

`Saved` is the state. `dumped` gives it the form of a small JSON value, in which groups have their paths, so that it
outlives the catalog that it was dumped from. `Content` is what a store has of a session, and `decoded` reads it from an
engine's text.
The intent of a record names the hooks to undo if the process that runs them ends (SPEC PER-1, PER-2, PER-4, STO-3).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn, cast

from attrs import field

from .._catalog.catalog import Catalog
from .._catalog.components import Profile
from .._names import is_text
from .._plain import table
from .._snapshot import Snapshot
from .._values import frozen
from ..errors import HandleInvalid, InvalidDefinition, QuotaExceeded, RecordDamaged, StoreError
from ..machine import Plan
from ..machine.step import HookCall, Phase

VERSION = 1
"""The version of the form in which states are dumped."""
MAX_FACTS = 1_000
"""How many facts a session may have (SPEC STO-7)."""
MAX_FACT = 64 * 1024
"""How many characters a fact may have, with its name."""
MAX_DATA = 256 * 1024
"""How many characters a session may have in a store (SPEC STO-7)."""
_TOO_LONG, _SHORTER = "characters of a stored session", "set fewer or shorter facts"
MAX_PENDING = 16
"""Of how many transitions the client of a session may still have to be notified (SPEC STO-7)."""
DAMAGE = (ValueError, KeyError, TypeError, RecursionError)
"""What reading a text raises that is not a record (SPEC STO-8)."""


# -- facts ------------------------------------------------------------------------------------------------------------


def is_fact(value: Any) -> bool:
    """Return whether a value may be a fact: one of JSON's scalars, or a tuple of such (SPEC SES-5)."""
    if isinstance(value, tuple):
        return all(is_fact(item) for item in cast("tuple[object, ...]", value))
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, bool | int | str)


def with_fact(facts: Mapping[str, Any], name: str, value: Any) -> dict[str, Any]:
    """Return facts with one of them set; raises `InvalidDefinition` and `QuotaExceeded`."""
    if not is_text(name) or not is_fact(value):
        raise InvalidDefinition(str(name), "a fact is None, a bool, a finite number, a text, or a tuple of such")
    if _length((name, value)) > MAX_FACT:
        raise QuotaExceeded("characters of a fact", MAX_FACT, "set a shorter one")
    if len(changed := {**facts, name: value}) > MAX_FACTS:
        raise QuotaExceeded("facts of a session", MAX_FACTS, "set one that it has again instead")
    return changed


def _length(fact: tuple[str, Any]) -> int:
    name, value = fact
    return len(name) + len(repr(value))


# -- the state, and its JSON ------------------------------------------------------------------------------------------


@frozen
class Saved:
    """A state that was read, and not yet restored in a session.

    Attributes:
        active: The paths of the groups, oldest first where the quota of the catalog it is from needs the order.
        facts: The facts.
        profile: The name of the profile, if it is known and there is one.
        with_transient: Whether transient groups are part of it: where it does not outlive its session (SPEC PER-4).
    """

    active: tuple[str, ...]
    facts: Mapping[str, Any]
    profile: str | None = None
    with_transient: bool = False

    @staticmethod
    def dumped(tools: str, profile: Profile | None, snapshot: Snapshot) -> dict[str, Any]:
        """Return a state as a small JSON value, without transient groups and the groups in them.

        SPEC PER-1, PER-4.

        Args:
            tools: The name of the tool set.
            profile: The profile of the session.
            snapshot: The state.
        """
        active = _persistent(snapshot.catalog, snapshot.configuration.oldest_first)
        return _as_json(tools, None if profile is None else profile.name or None, active, snapshot.facts)

    @classmethod
    def read(cls, tools: str, data: Any) -> Saved:
        """Return the state that `dumped` wrote, perhaps after a round trip through JSON, for the tool set `tools`.

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
        return cls(tuple(cast("list[str]", active)), read_facts(given.get("facts")), profile)

    def plan(self, catalog: Catalog) -> Plan:
        """Return the plan from no active group to what `catalog` allows of this state.

        A group that is transient by now is left out like an unknown one (SPEC PER-4).

        SPEC PER-2.
        """
        return catalog.restored(self.active if self.with_transient else _persistent(catalog, self.active))

    def restored(self, catalog: Catalog) -> tuple[Snapshot, tuple[str, ...]]:
        """Return the restored state in `catalog`, and the groups that are not active again, in the order given."""
        after = self.plan(catalog).after
        discarded = tuple(path for path in dict.fromkeys(self.active) if not after.is_active(path))
        return Snapshot.of(catalog, after, self.facts), discarded

    def snapshot(self, catalog: Catalog) -> Snapshot:
        """Return the restored state in `catalog`."""
        return self.restored(catalog)[0]


def _as_json(tools: str, profile: str | None, active: Iterable[str], facts: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "version": VERSION,
        "tools": tools,
        **({} if profile is None else {"profile": profile}),
        "active": list(active),
        "facts": {name: _plain(value) for name, value in facts.items()},
    }


# -- in a store -------------------------------------------------------------------------------------------------------


@frozen
class Content:
    """What a store has of a session: a value, whose `str` is the text that an engine may store for it.

    Attributes:
        tools: The name of its tool set.
        profile: The name of its profile, if there is one.
        active: The active groups, in the order in which they were opened, or in which they are evicted.
        facts: The facts.
        start: The groups to open before anything else; `None` once that was done.
        inherited: Those that another session has set up.
        owner: The key of that session.
        pending: The kinds of lists that changed at each transition of which the client is still to be notified.
        notifies: Whether such kinds are recorded.
        about: What an adapter stores with the session, as a JSON value.
    """

    tools: str
    profile: str | None
    active: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(factory=dict[str, Any])
    start: tuple[str, ...] | None = None
    inherited: tuple[str, ...] = ()
    owner: str | None = None
    pending: tuple[frozenset[str], ...] = ()
    notifies: bool = False
    about: Any = None

    def at(
        self,
        snapshot: Snapshot,
        start: tuple[str, ...] | None,
        inherited: tuple[str, ...],
        pending: tuple[frozenset[str], ...],
    ) -> Content:
        """Return this with another state; raises `QuotaExceeded` if the facts are too long together."""
        if snapshot.facts is not self.facts and sum(map(_length, snapshot.facts.items())) > MAX_DATA:
            raise QuotaExceeded(_TOO_LONG, MAX_DATA, _SHORTER)
        now = snapshot.configuration
        active = now.oldest_first if now.order else snapshot.in_order(self.active)
        facts, rest = snapshot.facts, (self.owner, pending, self.notifies, self.about)
        return Content(self.tools, self.profile, active, facts, start, inherited, *rest)

    def pending_with(self, kinds: frozenset[str]) -> tuple[frozenset[str], ...]:
        """Return what the client is to be notified of after a change of these lists; the last one covers the rest."""
        if not kinds:
            return self.pending
        rest = self.pending[MAX_PENDING - 1 :]
        return (*self.pending[: MAX_PENDING - 1], kinds.union(*rest))

    def restored(self, catalog: Catalog) -> tuple[Snapshot, tuple[str, ...]]:
        """Return the state in `catalog`, and the groups that it does not allow (SPEC PER-2)."""
        return Saved(self.active, self.facts, with_transient=True).restored(catalog)

    def __str__(self) -> str:
        """Return the text of a record; raises `QuotaExceeded` if that is too long."""
        text = json.dumps(
            {
                **_as_json(self.tools, self.profile, self.active, self.facts),
                "beside": {
                    "start": self.start,
                    "inherited": self.inherited,
                    "owner": self.owner,
                    "pending": [sorted(kinds) for kinds in self.pending],
                    "notifies": self.notifies,
                    "about": self.about,
                },
            },
            separators=(",", ":"),
        )
        if len(text) > MAX_DATA:
            raise QuotaExceeded(_TOO_LONG, MAX_DATA, _SHORTER)
        return text


def decoded(tools: str, key: str, data: object) -> Content:
    """Return the content of a record, of which a store has the value or the text.

    Raises `StoreError` if it is damaged, or of another tool set or version.
    """
    if isinstance(data, Content):
        return data
    try:
        given: Any = json.loads(cast("str", data))
        saved = Saved.read(tools, given)
        beside = cast("dict[str, Any]", table(given["beside"]))
        start = beside["start"]
        return Content(
            tools,
            saved.profile,
            saved.active,
            saved.facts,
            None if start is None else tuple(map(str, start)),
            tuple(map(str, beside["inherited"])),
            None if beside["owner"] is None else str(beside["owner"]),
            tuple(frozenset(map(str, kinds)) for kinds in beside["pending"]),
            beside["notifies"] is True,
            beside["about"],
        )
    except HandleInvalid as error:
        raise StoreError(str(error)) from error
    except DAMAGE as error:
        raise RecordDamaged(f"The stored session {key} is damaged, so it can't be used. Open a new one.") from error


def intent_of(hooks: Iterable[HookCall]) -> str:
    """Return the text for the hooks that are to be undone."""
    return json.dumps([[call.phase, call.group.path] for call in hooks], separators=(",", ":"))


def to_undo(intent: str) -> list[tuple[str, Phase]]:
    """Return the hooks that are to be undone, as group and phase; raises `StoreError` if the intent is damaged."""
    try:
        hooks: list[tuple[Phase, str]] = json.loads(intent)
        return [(str(path), phase) for phase, path in hooks if phase in ("on_activate", "on_deactivate")]
    except DAMAGE as error:
        raise StoreError("The intent of a stored session is damaged, so it can't be used. Open a new one.") from error


# -- internals --------------------------------------------------------------------------------------------------------


def _persistent(catalog: Catalog, paths: Iterable[str]) -> list[str]:
    """Return the paths without transient groups and what is in them; unknown ones stay."""
    transient = 0
    for number, group in enumerate(catalog.groups):
        if group.transient:
            transient |= catalog.forest.subtree[number]
    return [path for path in paths if path not in catalog.index or not transient >> catalog.index[path] & 1]


def read_facts(given: Any) -> dict[str, Any]:
    """Return the facts of a JSON value that may be anything; raises `HandleInvalid`."""
    try:
        facts = {name: _frozen(value) for name, value in _object("its facts", given).items()}
        wrong = [name for name, value in facts.items() if not is_text(name) or not is_fact(value)]
    except RecursionError:
        _refuse("a fact of it is nested too deeply")
    if wrong:
        _refuse(f"its fact {wrong[0]!r} is not one that can be set")
    return facts


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
