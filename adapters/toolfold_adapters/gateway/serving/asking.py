"""How a caller learns that he has to log in at a server, in both eras (SPEC GWY-19).

A client that can show a page is given the link, and makes its call again: in the modern era by `input_required`, in the
legacy one by the error for that, and there it is told once its user has logged in. All others read what to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mcp_types import URL_ELICITATION_REQUIRED

from toolfold import InputRequired, ProtocolError, ToolError
from toolfold.spi import table

from ..upstream.life import LoginRequired
from .downstream import DownstreamClient, RequestInProgress
from .pages import Pages

if TYPE_CHECKING:
    from ..callers.logins import CallerLogins

OWN = "dev.toolfold/login:"
"""What begins the name of a question that is the gateway's own, before what the link is known by."""
WAIT_SECONDS = 60.0
"""How long a call that is made again waits for a login that its caller has agreed to make."""


def asking(required: LoginRequired, client: DownstreamClient, call: RequestInProgress, pages: Pages) -> InputRequired:
    """Return what a client is asked for before its call can be answered.

    Args:
        required: The login.
        client: Whom it is asked of.
        call: The call.
        pages: Takes note of a page that a client of the legacy era is sent to.

    Raises:
        ProtocolError: It asks its user, and calls again.
        LoginRequired: It can't show a page, so that what it reads has to do; or there is no page.
    """
    needed = required.needed
    elicitation = table(client.capabilities.get("elicitation")) or {}
    if needed.url is None or "url" not in elicitation:
        raise required
    message = f"Log in at {required.server} as yourself, for the tools that you use there."
    asked = {"mode": "url", "message": message, "url": needed.url}
    if call.modern:
        return InputRequired({f"{OWN}{needed.asked}": {"method": "elicitation/create", "params": asked}})
    asked["elicitationId"] = needed.asked
    pages.note(asked, client)
    raise ProtocolError(URL_ELICITATION_REQUIRED, str(required), {"elicitations": [asked]}) from required


async def made_meanwhile(callers: CallerLogins | None, call: RequestInProgress) -> None:
    """Wait for the logins that a call was asked for, if it has come back with that; raises `ToolError` if refused."""
    if callers is None or call.ctx is None:
        return
    responses = table((call.ctx.params or {}).get("inputResponses")) or {}
    for name, response in responses.items():
        if name.startswith(OWN):
            if (table(response) or {}).get("action") != "accept":
                raise ToolError("The login that this needs was declined, so nothing was done.")
            await callers.made_within(name.removeprefix(OWN), WAIT_SECONDS)


def without_own(again: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a call has that is made again, without what the gateway has asked for itself."""
    responses = table(again.get("inputResponses"))
    if responses is None or not any(name.startswith(OWN) for name in responses):
        return dict(again)
    left = {name: one for name, one in responses.items() if not name.startswith(OWN)}
    rest = {key: one for key, one in again.items() if key != "inputResponses"}
    return {**rest, **({"inputResponses": left} if left else {})}
