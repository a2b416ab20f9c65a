"""What the executor has recorded of a session's steps: nothing, unless the session is in a store; see `journal.py`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

import anyio

from .._snapshot import Snapshot
from .._view.visibility import RequestView
from ..machine.transaction import Transaction


class Recorder:
    """Records nothing; a session in a store has a `Journal` instead."""

    __slots__ = ()

    def step(self) -> AbstractAsyncContextManager[None]:
        """Return a context at whose end the lease is released, and the cancellation raised that arrived meanwhile."""
        return _NOTHING

    async def hold(self) -> bool:
        """Take the lease, and return whether the state differs from the one that was known."""
        return False

    async def intend(self, transaction: Transaction) -> None:
        """Record the hooks to undo if this process ends during the next one."""

    def hook_begins(self, scope: anyio.CancelScope) -> None:
        """Note the scope in which a hook runs, to be cancelled once the lease is lost."""

    async def save(self, after: Snapshot, before: RequestView | None) -> bool:
        """Store a state, and return whether that was done: not if another process has changed the record."""
        return True

    async def settle(self) -> None:
        """Record that nothing is to be undone, and release the lease."""

    def set_facts(self, facts: Mapping[str, Any]) -> None:
        """Note facts that are to be stored."""


_NOTHING = nullcontext()
NOT_RECORDED = Recorder()
