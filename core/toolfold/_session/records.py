"""What the record of a stored session says, as text: its state, what belongs to it, and the hooks to be undone.

The intent of a record names the hooks to undo if the process that runs them ends (SPEC STO-3).
"""

from __future__ import annotations

import json
from typing import Any, cast

from attrs import asdict, evolve, frozen

from .._catalog.components import Profile
from .._plain import table
from .._snapshot import Snapshot
from ..errors import HandleInvalid, QuotaExceeded, StoreError
from ..machine.transaction import Phase, Transaction
from .persistence import Saved, dumped, read

MAX_DATA = 256 * 1024
"""How many characters a session may have in a store (SPEC STO-7)."""
MAX_OWED = 16
"""Of how many steps the client of a session may still have to be notified (SPEC STO-7)."""
DAMAGE = (ValueError, KeyError, TypeError, RecursionError)
"""What reading a text raises that is not a record (SPEC STO-8)."""


@frozen
class Content:
    """What a record says about a session beside its state.

    Attributes:
        start: The groups to open before anything else; `None` once that was done.
        opened: The active groups, in the order in which they were opened.
        inherited: Those that another session has set up.
        owner: The key of that session.
        owed: The kinds of lists that changed at each step of which the client is still to be notified.
        notifies: Whether such kinds are recorded.
        about: What an adapter stores with the session, as a JSON value.
    """

    start: tuple[str, ...] | None = None
    opened: tuple[str, ...] = ()
    inherited: tuple[str, ...] = ()
    owner: str | None = None
    owed: tuple[frozenset[str], ...] = ()
    notifies: bool = False
    about: Any = None

    def owing(self, kinds: frozenset[str]) -> tuple[frozenset[str], ...]:
        """Return what the client is to be notified of after a step that changes lists; the last one covers the rest."""
        if not kinds:
            return self.owed
        rest = self.owed[MAX_OWED - 1 :]
        return (*self.owed[: MAX_OWED - 1], kinds.union(*rest))


def encoded(tools: str, profile: Profile | None, snapshot: Snapshot, content: Content) -> str:
    """Return a session as the text of its record; raises `QuotaExceeded` if that is too long."""
    beside = asdict(content, recurse=False) | {"owed": [sorted(kinds) for kinds in content.owed]}
    state = dumped(tools, profile, snapshot, with_transient=True)
    text = json.dumps({**state, "beside": beside}, separators=(",", ":"))
    if len(text) > MAX_DATA:
        raise QuotaExceeded("characters of a stored session", MAX_DATA, "set fewer or shorter facts")
    return text


def decoded(tools: str, key: str, text: str) -> tuple[Saved, Content]:
    """Return the state and the rest of a record.

    Raises `StoreError` if it is damaged, or of another tool set or version.
    """
    try:
        data: Any = json.loads(text)
        saved = evolve(read(tools, data), with_transient=True)
        beside = cast("dict[str, Any]", table(data["beside"]))
        start = beside["start"]
        return saved, Content(
            None if start is None else tuple(map(str, start)),
            tuple(map(str, beside["opened"])),
            tuple(map(str, beside["inherited"])),
            None if beside["owner"] is None else str(beside["owner"]),
            tuple(frozenset(map(str, kinds)) for kinds in beside["owed"]),
            beside["notifies"] is True,
            beside["about"],
        )
    except HandleInvalid as error:
        raise StoreError(str(error)) from error
    except DAMAGE as error:
        raise StoreError(f"The stored session {key} is damaged, so it can't be used. Open a new one.") from error


def intent_of(transaction: Transaction) -> str:
    """Return the hooks that would have to be undone if the process ended during the next one."""
    return json.dumps([[call.phase, call.group.path] for call in transaction.to_undo], separators=(",", ":"))


def to_undo(intent: str) -> list[tuple[str, Phase]]:
    """Return the hooks that are to be undone, as group and phase; raises `StoreError` if the intent is damaged."""
    try:
        hooks: list[tuple[Phase, str]] = json.loads(intent)
        return [(str(path), phase) for phase, path in hooks if phase in ("on_activate", "on_deactivate")]
    except DAMAGE as error:
        raise StoreError("The intent of a stored session is damaged, so it can't be used. Open a new one.") from error
