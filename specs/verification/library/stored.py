"""The driver of tool sets whose sessions are in a store that they share, as the processes of a server do (SPEC 25)."""

from __future__ import annotations

from toolfold import Limit, Session, StoredSessions, ToolSet
from toolfold.spi import SessionKind
from toolfold_adapters.stores import MemoryStore
from toolfold_specs.driver import AT_RUN_TIME, CAPABILITIES, IN_A_STORE, Answer, Setup

from .driver import CoreDriver

KIND = SessionKind("sessions", "sessions", Limit(None, None), 600)


class StoredDriver(CoreDriver):
    """Drives the tool set of one process; another goes on with its sessions after `fail_over`."""

    capabilities = frozenset({*CAPABILITIES, *IN_A_STORE}) - {*AT_RUN_TIME, "persistence", "ending", "facts"}

    def _reset(self, tools: ToolSet, setup: Setup) -> None:
        super()._reset(tools, setup)
        self._now = 0.0
        self._store = MemoryStore(lambda: self._now)
        self._stored = StoredSessions(tools, self._store, KIND)

    async def _session(self, name: str) -> Session:
        session = await self._stored.get_or_create(name, None, ())
        if self._sessions.get(name) is not session:
            await self._started(name, session)
        return session

    async def _fail_over(self, session: str) -> Answer:
        self._now += 2 * self._store.lease
        self._tools = self._made(self._setup)
        self._stored = StoredSessions(self._tools, self._store, KIND)
        return Answer()
