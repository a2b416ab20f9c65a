"""`ttlMs` of lists that can't change within a time (SPEC NXT-2). Experimental, and off unless asked for.

Whoever runs a server says for how long the same tools are served. What a list is made of besides, this module knows: it
claims that time for those that are made of the catalog alone, and for no other. All pages of a list say the same, so
that a client may hold the list as one, whose cursors are no part of its key.
"""

from __future__ import annotations

from typing import Any

from attrs import define, field
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel import Server

from toolfold import Catalog, ConfigError, events

from ...names import LISTS
from ..answer.render import dumped
from ..handlers import RequestContext, RequestHandlers
from ..options import Extend
from ..principal import principal_of

METHODS = frozenset(listing.method for listing in LISTS.values())
DISCOVER = "server/discover"
LONGEST = 24 * 3600
"""How many seconds may be claimed: clients hold nothing for longer."""


def unchanging(seconds: str) -> Extend:
    """Return what has a server say for how long its lists stay as they are, to be given to `build_server` as `extend`.

    A list is claimed to stay so if everybody is given the same: none that depends on a handle, a header, a session, a
    right, or what a predicate or a mode reads. Once anything was registered or announced, nothing is claimed any more.

    Args:
        seconds: How long the same tools are served, whatever restarts there are: a number from 1 to 86,400.

    Raises:
        ConfigError: It is none; or, as a server is built, its tools are those of other servers.
    """
    if not seconds.isdecimal() or not 1 <= int(seconds) <= LONGEST:
        raise ConfigError(f"The draft 'ttl' needs a number of seconds from 1 to {LONGEST}, not {seconds!r}.")

    def extend(server: Server[Any], handlers: RequestHandlers) -> None:
        if handlers.of_upstreams:
            raise ConfigError("The draft 'ttl' is for tools of one's own: those of other servers change when they do.")
        server.middleware.insert(0, Unchanging(1000 * int(seconds), handlers))

    return extend


@define(eq=False)
class Unchanging:
    """Middleware of a server, which says how long its answers stay so.

    Args:
        milliseconds: How long the same tools are served.
        handlers: Those of the server, which know the catalog.
    """

    _milliseconds: int
    _handlers: RequestHandlers
    _catalog: Catalog | None = field(init=False, default=None)
    _changes: bool = field(init=False, default=False)

    def __attrs_post_init__(self) -> None:
        self._handlers.tools.observe(self._announced, (events.ListsAnnounced,))

    async def __call__(self, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        """Answer a request for a list, or for an introduction; of any other, let others."""
        if ctx.method not in (*METHODS, DISCOVER):
            return await call_next(ctx)
        answer = dumped(await call_next(ctx))
        if self._has_changed() or (ctx.method != DISCOVER and answer.get("cacheScope") != "public"):
            return answer
        return {**answer, "ttlMs": self._milliseconds, "cacheScope": self._scope(ctx)}

    def _scope(self, ctx: RequestContext) -> str:
        """Return who may be given the same answer to a request without what caches take no account of.

        With the extensions for groups a list depends on what its client declares, and otherwise on the headers that
        select groups: neither is part of a cache's key. What needs a token is for nobody without one.
        """
        varies = ctx.method == DISCOVER or self._handlers.disclosure or self._handlers.selections.by_request
        return "private" if varies or principal_of(ctx).authenticated else "public"

    def _has_changed(self) -> bool:
        """Return whether anything was registered, or announced to have changed, since the first answer."""
        present = self._handlers.tools.runtime.catalogs.present
        if self._catalog is None:
            self._catalog = present
        self._changes = self._changes or present is not self._catalog
        return self._changes

    def _announced(self, _: events.Event) -> None:
        self._changes = True
