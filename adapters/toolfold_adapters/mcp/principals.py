"""Who makes a request: the authenticated caller, as the SDK knows it."""

from __future__ import annotations

import json
from typing import Any

from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import principal_components


def principal_of(ctx: Any) -> str:
    """Return what identifies the caller of a request, or `""` where callers are not authenticated."""
    token = get_access_token()
    return "" if token is None else json.dumps(principal_components(token))
