"""What of a conversation a transition may change, by delivery (SPEC PFX-1).

A provider caches what a conversation begins with: its tools, then its instructions, then its messages. From the first
thing that changed on, all is billed again. Here a conversation is its serialised parts, and `TABLE` says of each
delivery what may change in each part when groups open and close; nothing else does, and nothing at all changes when a
transition is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from os.path import commonprefix
from typing import Any

from attrs import field, frozen

CHARACTERS_PER_TOKEN = 4


class MayChange(Enum):
    """How a part may differ after a transition."""

    NOTHING = "nothing"
    """It is the same, byte for byte."""
    END = "its end"
    """It begins as it was, and more may follow."""
    FROM_CLOSED = "what follows a tool that is gone"
    """It begins as it was up to the first item that is gone; without any, only more may follow."""
    OF_GROUPS = "the tools of groups that opened or closed"
    """Items are gone and there are new ones; all others are the same, byte for byte, and in the same order."""


@frozen
class Row:
    """What a transition may change of a conversation in one delivery."""

    delivery: str
    tools: MayChange
    why: str
    instructions: MayChange = MayChange.NOTHING
    messages: MayChange = MayChange.END


LEGACY, MODERN, CALL_TOOL, NATIVE, IN_PROCESS = (
    "legacy lists",
    "modern handles",
    "call-tool",
    "native loading",
    "in process",
)

TABLE: Mapping[str, Row] = {
    row.delivery: row
    for row in (
        Row(LEGACY, MayChange.OF_GROUPS, "the list is the session's, and hosts put it first"),
        Row(MODERN, MayChange.NOTHING, "an activation returns the definitions, and a handle to call them under"),
        Row(CALL_TOOL, MayChange.NOTHING, "a host that lists once calls what opens by `call_tool`"),
        Row(NATIVE, MayChange.NOTHING, "all tools are declared, most of them deferred; an answer announces them"),
        Row(IN_PROCESS, MayChange.FROM_CLOSED, "tools come in the order in which their groups opened"),
    )
}
"""What a transition may change, by delivery."""


def _texts(items: Iterable[Any]) -> tuple[str, ...]:
    return tuple(one if isinstance(one, str) else json.dumps(one, ensure_ascii=False) for one in items)


@frozen
class Prefix:
    """A conversation as its parts, each a sequence of items in the order and form in which they are sent."""

    tools: tuple[str, ...] = field(default=(), converter=_texts)
    instructions: tuple[str, ...] = field(default=(), converter=_texts)
    messages: tuple[str, ...] = field(default=(), converter=_texts)

    @property
    def text(self) -> str:
        """All of it, as a provider reads it."""
        return "\n".join((*self.tools, *self.instructions, *self.messages))

    @property
    def tokens(self) -> int:
        """About how many tokens it has."""
        return len(self.text) // CHARACTERS_PER_TOKEN


def allows(may: MayChange, before: Sequence[str], after: Sequence[str]) -> bool:
    """Return whether a part may have become another one."""
    if may is MayChange.NOTHING:
        return tuple(after) == tuple(before)
    if may is MayChange.OF_GROUPS:
        return [item for item in before if item in after] == [item for item in after if item in before] and not (
            _names(set(before) - set(after)) & _names(set(after) - set(before))
        )
    if may is MayChange.END:
        return tuple(after[: len(before)]) == tuple(before)
    left = next((place for place, item in enumerate(before) if item not in after), len(before))
    return tuple(after[:left]) == tuple(before[:left]) and allows(MayChange.OF_GROUPS, before, after)


def _names(items: Iterable[str]) -> set[str]:
    """Return the names of the tools among serialised items."""
    return {str(_name(json.loads(item))) for item in items if item.startswith("{")} - {"None"}


def _name(item: Any) -> Any:
    return item.get("name") or item.get("function", {}).get("name")


def wrong(row: Row, before: Prefix, after: Prefix) -> str:
    """Return what of a conversation changed although the table does not allow it; "" if nothing did."""
    parts = {
        "tools": (row.tools, before.tools, after.tools),
        "instructions": (row.instructions, before.instructions, after.instructions),
        "messages": (row.messages, before.messages, after.messages),
    }
    return ", ".join(name for name, (may, old, new) in parts.items() if not allows(may, old, new))


def billed_again(before: Prefix, after: Prefix) -> int:
    """Return about how many tokens of a conversation are read anew, because something before them changed."""
    old = before.text
    same = len(commonprefix([old, after.text]))  # noqa: RUF071 - of characters is what is meant
    return (len(old) - same) // CHARACTERS_PER_TOKEN
