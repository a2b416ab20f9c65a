"""Sessions that many requests share: of a selection whose groups have hooks, or of an authenticated caller."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Protocol

from toolfold import Profile, Session, ToolSet
from toolfold.spi import Caller, SessionPool

from .delivery.selection import Selection


class Opener(Protocol):
    """Opens the session of a name, once, for all who ask for it; `StoredSessions.get_or_create` is one."""

    async def __call__(
        self,
        name: str,
        profile: Profile | None,
        start: tuple[str, ...],
        caller: Caller,
        is_usable: Callable[[Session], bool] = lambda session: True,
        *,
        reading: bool = False,
    ) -> Session:
        """Return the session, opened with groups to start with unless there is one that is usable.

        With `reading`, the state that is known will do while a store does not answer (SPEC STO-5).

        Raises:
            QuotaExceeded: There is no room for it (SPEC SAF-4).
            HookFailed: A hook failed; nothing is left open.
            ToolfoldError: The groups can't be active together, or the store of the session can't be used.
        """
        ...


def in_memory(tools: ToolSet, pool: SessionPool[Session], *, own: bool) -> Opener:
    """Return what opens sessions in the memory of this process, which are their caller's `own`, or everybody's."""

    async def opened(
        name: str,
        profile: Profile | None,
        start: tuple[str, ...],
        caller: Caller,
        is_usable: Callable[[Session], bool] = lambda session: True,
        *,
        reading: bool = False,
    ) -> Session:
        whose = caller if own else None
        return await pool.get_or_open(name, lambda: tools.open_session(profile, start, caller=whose), caller, is_usable)

    return opened


class SharedSessions:
    """The sessions that have run the hooks of the groups that requests select.

    Args:
        tools: The tool set.
        opened: Opens them.
    """

    def __init__(self, tools: ToolSet, opened: Opener) -> None:
        self._tools = tools
        self._opened = opened

    async def session(self, selection: Selection, caller: Caller) -> Session | None:
        """Return the session that has run the hooks of the selected groups; `None` if they have none.

        All requests with the same selection share it. While it lasts, it counts as one of `caller`, who was the first.
        Raises as `Opener` does.
        """
        start = selection.start(self._tools)
        if not any(start.catalog.group(path).has_hooks for path in start.active):
            return None
        name = json.dumps(["start", selection.profile.name if selection.profile else None, start.active])
        return await self._opened(
            name,
            selection.profile,
            start.active,
            caller,
            lambda session: all(map(session.snapshot.is_active, start.active)),
        )

    async def opened(self, name: str, selection: Selection, caller: Caller) -> Session:
        """Return the session of a name, which the first request opens with the groups that it selects."""
        return await self._opened(name, selection.profile, selection.start(self._tools).active, caller)
