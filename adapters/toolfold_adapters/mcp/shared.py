"""Sessions that many requests share: of a selection whose groups have hooks, or of an authenticated caller."""

from __future__ import annotations

import json

from toolfold import Session, StoredSessions, ToolSet
from toolfold.spi import Caller

from .delivery.selection import Selection


class SharedSessions:
    """The sessions that have run the hooks of the groups that requests select.

    Args:
        tools: The tool set.
        sessions: Where they are.
    """

    def __init__(self, tools: ToolSet, sessions: StoredSessions) -> None:
        self._tools = tools
        self._sessions = sessions

    async def session(self, selection: Selection, caller: Caller) -> Session | None:
        """Return the session that has run the hooks of the selected groups; `None` if they have none.

        All requests with the same selection share it. While it lasts, it counts as one of `caller`, who was the first.
        Raises as `StoredSessions.get_or_create` does.
        """
        start = selection.start(self._tools)
        if not any(start.catalog.group(path).has_hooks for path in start.active):
            return None
        name = json.dumps(["start", selection.profile.name if selection.profile else None, start.active])
        return await self._sessions.get_or_create(
            name,
            selection.profile,
            start.active,
            caller,
            lambda session: all(map(session.snapshot.is_active, start.active)),
        )

    async def opened(self, name: str, selection: Selection, caller: Caller) -> Session:
        """Return the session of a name, which the first request opens with the groups that it selects."""
        return await self._sessions.get_or_create(name, selection.profile, selection.start(self._tools).active, caller)
