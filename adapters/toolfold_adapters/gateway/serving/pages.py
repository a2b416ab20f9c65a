"""The pages that an upstream has a user visit: elicitation by URL, in the eras of either side (SPEC GWY-18).

In the legacy era a server sends its client to a page by a request, or refuses a call with the pages that have to be
visited before it is made again; each has an id, under which it may say later that the user is done. In the modern era
there is neither the refusal nor an id: a call is answered with the page, and made again. Between sides of one era all
of that passes as it is, and what says that a page is done reaches the client that was sent there. Between others:

- A modern client at a legacy upstream: a refusal becomes a question for the page, and the call is made again once the
  server says that the user is done, or after a while, since it need not say so.
- A legacy client at a modern upstream: its question has an id, and is said to be done once the server asks no more.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import anyio
from attrs import define, field
from mcp_types import MISSING_REQUIRED_CLIENT_CAPABILITY, URL_ELICITATION_REQUIRED

from toolfold import ProtocolError, ToolError
from toolfold.spi import MAX_URI, array, quoted, table

from .downstream import URL_MODE, DownstreamClient, RequestInProgress, can_answer

COMPLETE = "notifications/elicitation/complete"
ELICIT = "elicitation/create"
NEEDED: Mapping[str, Any] = {"requiredCapabilities": {"elicitation": {URL_MODE: {}}}}
"""What a client is told that would have to visit a page, and can't be sent to any; a text says which page it is."""
MOST_PAGES = 256
"""How many pages of one connection are remembered with who was sent there."""
VISIT_SECONDS = 30.0
"""How long a server may take to say that a user is done, before the call is made again all the same."""


@define(eq=False)
class _Page:
    client: DownstreamClient
    done: anyio.Event = field(factory=anyio.Event)


class Pages:
    """The pages to which a connection sent clients, by the ids that the server gave them.

    `patience` is how long `visited` waits.
    """

    def __init__(self) -> None:
        self.patience = VISIT_SECONDS
        self._pages: OrderedDict[str, _Page] = OrderedDict()

    def note(self, asked: Mapping[str, Any], client: DownstreamClient) -> None:
        """Note that a client is sent to a page, if that is what is asked of it and the page has an id."""
        given = asked.get("elicitationId")
        if asked.get("mode") != URL_MODE or not isinstance(given, str):
            return
        self._pages[given] = _Page(client)
        if len(self._pages) > MOST_PAGES:
            self._pages.popitem(last=False)

    def complete(self, params: Mapping[str, Any]) -> DownstreamClient | None:
        """Take note that a page is done, and return the client that was sent there; `None` if that is not known."""
        page = self._pages.pop(str(params.get("elicitationId")), None)
        if page is None:
            return None
        page.done.set()
        return page.client

    async def visited(self, asked: Mapping[str, Any]) -> None:
        """Wait until the server says that a page is done, for so long as it may take."""
        page = self._pages.get(str(asked.get("elicitationId")))
        if page is not None:
            with anyio.move_on_after(self.patience):
                await page.done.wait()


def pages_of(error: ProtocolError) -> list[Mapping[str, Any]]:
    """Return the pages that a refused call needs visited first; none, if it is refused for another reason."""
    if error.code != URL_ELICITATION_REQUIRED:
        return []
    given = map(table, array((table(error.data) or {}).get("elicitations")) or ())
    return [page for page in given if page is not None and isinstance(page.get("url"), str)]


async def visit(error: ProtocolError, pages: Pages, client: DownstreamClient, call: RequestInProgress) -> None:
    """Send a client of the modern era to the pages that its refused call needs; return when that may be made again.

    Raises:
        ProtocolError: It can't be sent to pages, or the call was refused for another reason.
        ToolError: The user does not want to.
    """
    needed = pages_of(error)
    if not needed:
        raise error
    if call.asks is None or not can_answer(client.capabilities, ELICIT, needed[0]):
        urls = ", ".join(quoted(str(page["url"]), MAX_URI) for page in needed)
        message = f"{error.message.rstrip('.')}: visit {urls}, then ask again."
        raise ProtocolError(MISSING_REQUIRED_CLIENT_CAPABILITY, message, NEEDED) from error
    for page in needed:
        asked = {key: value for key, value in page.items() if key != "elicitationId"}
        answer = await call.ask(ELICIT, {**asked, "mode": URL_MODE})
        if answer.get("action") != "accept":
            raise ToolError(f"The page that the server needs visited first was not opened: {error.message}")
    for page in needed:
        await pages.visited(page)


def with_id(asked: Mapping[str, Any]) -> tuple[Mapping[str, Any], str | None]:
    """Return what a legacy client is asked in place of what a modern upstream asks, and the id of a page in it."""
    if asked.get("mode") != URL_MODE:
        return asked, None
    given = secrets.token_urlsafe(16)
    return {**asked, "elicitationId": given}, given
