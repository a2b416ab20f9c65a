"""In which era a server is spoken to: the newest that it answers in (SPEC GWY-18).

The first request asks for the newest era. A server of an older one refuses it, which costs the time of one answer;
others say nothing, or end. The one that says nothing may still be starting. So after a while it is sent the older
handshake, too, and the first answer decides: one that starts slowly is taken for no other. A server that ends is
started again at once, and one that answers neither in time when it is next used. Both are then spoken to in the older
era, as is from then on whatever has not answered (see `Probed`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal

import anyio
from attrs import define, field
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from toolfold import ProtocolError, ToolfoldError
from toolfold.spi import frozen

SILENT_SECONDS = 8.0
"""How long a server may say nothing, starting on a busy machine, before it is also asked as in the older era."""
GRACE_SECONDS = 0.5
"""How long the answer to the first question may come after that to the second one, so that it counts."""

ConnectMode = Literal["legacy", "auto", "older_first"]
"""How to agree on a version: as in the older era, by asking for the newest first, or as in the older era first."""
Outcome = Literal["silent", "ended"]
"""How a server took the question for the newest era that did not answer it."""


@frozen(kw_only=True)
class ServerFacts:
    """The introduction of a server in the handshake."""

    version: str
    info: Mapping[str, Any]
    capabilities: Mapping[str, Any]
    instructions: str | None

    @property
    def modern(self) -> bool:
        """Whether its era is that without sessions, 2026-07-28."""
        return self.version in MODERN_PROTOCOL_VERSIONS


@frozen(kw_only=True)
class Probed:
    """A server that did not answer when it was asked for the newest era: it is not asked again for a while.

    Attributes:
        outcome: What it did instead.
        server: What it called itself, and its version: another one is asked again. `None` if it did not start.
        at: When that was, in seconds of the Unix epoch.
    """

    outcome: Outcome
    server: tuple[str, str] | None
    at: float


@define(eq=False)
class Probe:
    """The question for the newest era over one connection: whether it was asked, and whether it was answered."""

    asked: bool = False
    answered: bool = False

    @property
    def failed(self) -> bool:
        """Whether it was asked, and not answered."""
        return self.asked and not self.answered


Discover = Callable[[], Awaitable[ServerFacts | None]]
Initialize = Callable[[], Awaitable[ServerFacts]]


async def handshake(mode: ConnectMode, probe: Probe, discover: Discover, initialize: Initialize) -> ServerFacts:
    """Return the introduction of a server once there is a version that both know.

    Args:
        mode: How to agree on one.
        probe: Takes note of how the server takes the question for the newest era.
        discover: Asks for it; returns `None` for a server that answers that it is of the older era.
        initialize: Begins in the older era.

    Raises:
        ToolfoldError: What these raise.
    """
    if mode == "auto":
        return await _Both(probe).agree(discover, initialize)
    try:
        return await initialize()
    except ProtocolError:
        if mode == "legacy":
            raise
        probe.asked = True
        found = await discover()
        probe.answered = True
        if found is None:
            raise
        return found


@define(eq=False)
class _Answer:
    """What came of a question, once it has."""

    facts: ServerFacts | None = None
    error: ToolfoldError | None = None
    came: bool = False


@define(eq=False)
class _Both:
    """Asks for the newest era, and after a while or a refusal for the older one."""

    _probe: Probe
    _newest: _Answer = field(factory=_Answer)
    _older: _Answer = field(factory=_Answer)
    _changed: anyio.Event = field(factory=anyio.Event)

    async def agree(self, discover: Discover, initialize: Initialize) -> ServerFacts:
        newest, older = self._newest, self._older
        self._probe.asked = True
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._take, newest, discover)
            with anyio.move_on_after(SILENT_SECONDS):
                await self._until(lambda: newest.came)
            if newest.facts is None and newest.error is None:
                tasks.start_soon(self._take, older, initialize)
                await self._until(self._decided)
                with anyio.move_on_after(GRACE_SECONDS):
                    await self._until(lambda: newest.came and older.came)
                if newest.facts is not None and older.facts is not None:
                    newest.facts = await _still(discover)
            tasks.cancel_scope.cancel()
        if (found := newest.facts or older.facts) is not None:
            return found
        raise newest.error or older.error or AssertionError("nothing was answered")

    async def _take(self, answer: _Answer, ask: Discover) -> None:
        try:
            answer.facts = await ask()
        except ToolfoldError as error:
            answer.error = error
        answer.came = True
        self._probe.answered |= answer is self._newest and answer.error is None
        self._changed.set()
        self._changed = anyio.Event()

    async def _until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            await self._changed.wait()

    def _decided(self) -> bool:
        """Return whether nothing more needs to be waited for: an error of one may be a sign of the other."""
        newest, older = self._newest, self._older
        found = newest.facts is not None or older.facts is not None
        return found or newest.error is not None or (older.came and newest.came)


async def _still(discover: Discover) -> ServerFacts | None:
    """Return the introduction of a server that has taken both handshakes, or `None` if only the last one counts."""
    with anyio.move_on_after(SILENT_SECONDS):
        return await discover()
    return None
