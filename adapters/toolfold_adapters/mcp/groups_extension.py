"""The draft extension for groups: what a server and its clients say of it (SPEC DEL-5).

The revisions up to 2025-11-25 have no extensions: there both sides declare this one under `experimental`. A client that
declares it among its extensions in a handshake can't be told that the server has it, and is served without.
"""

from __future__ import annotations

from typing import Any

from mcp_types import ClientCapabilities, InitializeRequestParams

EXTENSION = "io.modelcontextprotocol/groups"
TOOLBOX = "com.google.cloud/toolbox.v1"
"""What servers of today have in place of the draft."""
SETTINGS = {"listChanged": True}
GROUPS_CHANGED = "notifications/groups/list_changed"
GROUPS_FILTER = "groupsListChanged"
"""What a subscription asks for that notification with."""


def declares(ctx: Any, *, modern: bool, extension: str = EXTENSION) -> bool:
    """Return whether the client declares the extension: in this request, or in its handshake."""
    if modern:
        return bool(ctx.session.check_client_capability(ClientCapabilities(extensions={extension: {}})))
    return declared_by(ctx.session.client_params)


def declared_by(handshake: InitializeRequestParams | None) -> bool:
    """Return whether a client declared the extension in its handshake."""
    return handshake is not None and EXTENSION in (handshake.capabilities.experimental or {})
