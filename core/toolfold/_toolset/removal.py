"""Removing a group of a tool set whose sessions may have it open (SPEC REG-5)."""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from contextlib import suppress
from typing import Any, Never

from .._catalog.components import Group
from .._session.upkeep import OpenSessions
from ..errors import SessionClosed
from .registration import Registration


def removed(registration: Registration, pool: OpenSessions, path: str) -> Coroutine[Any, Any, Group]:
    """Return what closes a group in every session and removes it, to be awaited for the group.

    While no session has it open, it is removed at once, and what is returned need not be awaited.

    Raises:
        GroupNotFound: There is no such group.
    """
    group = registration.group_at(path)
    if any(session.snapshot.is_active(path) for session in pool.live):
        return _closed_and_removed(registration, pool, path)
    registration.remove_group(path)
    return _Removed(group)


async def _closed_and_removed(registration: Registration, pool: OpenSessions, path: str) -> Group:
    while affected := [session for session in pool.live if session.snapshot.is_active(path)]:
        for session in affected:
            with suppress(SessionClosed):  # it ended meanwhile, hooks included
                await session.deactivate(path)
    return registration.remove_group(path)


class _Removed(Coroutine[Any, Any, Group]):
    """A group that is removed: a coroutine that need not be awaited, so it does not warn if it is not."""

    def __init__(self, group: Group) -> None:
        self._group = group

    def __await__(self) -> Generator[Any, Any, Group]:
        yield from ()
        return self._group

    def send(self, value: object, /) -> Never:
        raise StopIteration(self._group)

    def throw(self, *raised: Any) -> Never:
        raise raised[0]

    def close(self) -> None:
        pass
